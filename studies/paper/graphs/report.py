"""The report of a directory of results on graphs: report.md, report.html and the plots."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies.paper.checks import tally
from studies.paper.graphs import summary
from studies.paper.graphs.patterns import Patterns, patterns
from studies.paper.graphs.permutations import FEW, MANY, Curves, curves, p_text
from studies.paper.graphs.plots import PLOTS
from studies.paper.graphs.settings import NAMES
from studies.paper.graphs.tables import MEASURES, comparison, grouped, label, notes, other_measures
from studies.runs.durations import duration
from studies.runs.page import write_pages
from studies.runs.results import Result

SHOWN_PERMUTATIONS = (1, 3, 7, 20)

CAPTIONS = {
    "micro-f1": "Micro-F1 on the test vertices by row of Table 2. Dots are ours, with the standard deviation over runs "
    "if there are several; bars in a band as wide are the paper's. The scales differ.",
    "inference-permutations": "What averaging over several permutations changes in a run's score with one: the mean "
    "over runs, and of four runs or more its 95 % interval (Student's t). Runs also differ in level, which cancels "
    "here, as it does in the paired tests. The scales differ.",
}
ALTS = {
    "micro-f1": "One panel a data set: dots for our micro-F1 of every row, bars for the paper's. The same numbers are "
    "in the first table.",
    "inference-permutations": "One panel a data set and measure: lines of the mean change of every row, by number of "
    "permutations.",
}
TESTS_NOTE = (
    f"{MANY} against {FEW}: the mean difference over runs with its 95 % interval, and p, two-sided, of the paired "
    "t-test and of Wilcoxon's signed-rank test. The paper has p < 0.001 by both over 12 runs on PPI; of fewer than 11 "
    "runs Wilcoxon's test cannot give that. A dash is no answer: all differences are equal, or for Wilcoxon's zero."
)

OURS_NOTE = (
    "The paper has no PPI-GO and no other rows or measures. It tests permutations at inference on PPI only, and says "
    "that the degrees of Cora and PubMed are too small for this test."
)

MEASURES_NOTE = (
    "Measures that the paper has not. Tuned: a label is predicted above the probability that is best on the validation "
    "vertices, instead of above ½. The cross entropy is the mean over vertices and labels: lower is better."
)


def write_report(directory: Path, results: Sequence[Result], skipped: Sequence[str]) -> list[Path]:
    """Writes report.md, report.html and the plots into the directory of the results. Returns their paths.

    ``skipped`` are lines on files there that do not count. Raises: OSError.
    """
    plots = {name: plot for name, plot in PLOTS.items() if name != "inference-permutations" or curves(results)}
    return write_pages(directory, __package__, _context(results, skipped, directory), plots, results)


def _context(results: Sequence[Result], skipped: Sequence[str], directory: Path) -> dict[str, Any]:
    """Returns the values that both templates use."""
    groups = grouped(results)
    datasets = [name for name in NAMES if any(column.dataset == name for column in groups)]
    found_patterns = patterns(results)
    found = curves(results)
    return {
        "num_runs": len(results),
        "datasets": [(NAMES[name], "paper, PPI" if name == "ppi-go" else "paper") for name in datasets],
        "presets": ", ".join(sorted({column.preset for column in groups})),
        "time": duration(sum(result["seconds"] for result in results)),
        "finished": max(str(result.get("finished", "–")) for result in results),
        "columns": list(groups),
        "table_2": [(label(row), entries) for row, entries in comparison(results)],
        "measures": list(MEASURES.values()),
        "other_measures": [(column.title, label(row), scores) for column, row, scores in other_measures(results)],
        "measures_note": MEASURES_NOTE,
        "table_9": summary.table_9(datasets),
        "table_10": summary.table_10(results),
        "degree_note": summary.DEGREE_NOTE if {"ppi", "ppi-go"} & set(datasets) else "",
        "notes": notes(results),
        "patterns": found_patterns,
        "tally": _tally(found_patterns),
        "ours_note": OURS_NOTE,
        "shown_permutations": SHOWN_PERMUTATIONS,
        "curves": [_curve_line(of) for of in found],
        "tests_note": TESTS_NOTE,
        "settings": summary.settings(results),
        "versions": summary.versions(results),
        "missing": [*skipped, *summary.missing(results)],
        "runs": [
            _run_line(column.title, run) for column, rows in groups.items() for runs in rows.values() for run in runs
        ],
        "commands": summary.commands(results, directory),
        "captions": CAPTIONS,
        "alts": ALTS,
    }


def _tally(found: Patterns) -> str:
    """Returns the counts of verdicts on the paper. Patterns of our own do not count."""
    means = ""
    if found.means:
        reached = sum(bool(check.holds) for check in found.means)
        means = (
            f"Ours reach {reached} of the {len(found.means)} means of Table 2 that are compared, within one printed "
            "standard deviation."
        )
    return " ".join(filter(None, (tally(found.sentences, "sentences"), means)))


def _curve_line(of: Curves) -> dict[str, Any]:
    """Returns a row of the table of permutations."""
    tests = of.tests()
    return {
        "title": of.column.title,
        "label": label(of.row),
        "measure": MEASURES[of.key],
        "num_runs": len(of.values),
        "levels": [f"{of.at(num) or '–'}" for num in SHOWN_PERMUTATIONS],
        "difference": f"{tests.difference:+}" if tests else "–",
        "p_values": [p_text(p) for p in ((tests.t, tests.wilcoxon) if tests else (None, None))],
    }


def _run_line(title: str, run: Result) -> dict[str, str]:
    """Returns a row of the list of runs."""
    return {
        "title": title,
        "row": run["row"],
        "seed": str(run["seed"]),
        "f1": f"{run['scores']['test']:.4f}",
        "time": duration(run["seconds"]),
        "speed": f"{run['vertices_per_second']:.0f}" if "vertices_per_second" in run else "–",
        "finished": str(run.get("finished", "–")),
    }
