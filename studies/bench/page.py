"""The bench's page: Markdown, plots and one HTML page, from nothing but the summaries in a directory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from studies.bench.models import BUILT
from studies.bench.plots import plots_of, sizes
from studies.bench.ranks import ranks
from studies.bench.summary import read_summaries, summarise, write_summary
from studies.bench.tables import Mean, comparison, rows
from studies.runs.page import write_pages
from studies.runs.results import Result

CAPTIONS = {
    "scores": "The score that decides, with its standard error over folds: ours in blue, peers in vermilion.",
    "ranks": "Mean ranks over data sets, 1 the best. Bars join models that Nemenyi's test does not tell apart.",
    "by-size": "The score that decides, by the size of the sets; peers are dashed.",
}
ALTS = {
    "scores": "One panel a data set: a dot with an error bar for every model. The same numbers are in the tables.",
    "ranks": "A line of mean ranks, with the models at their places. The same numbers are in the table of ranks.",
    "by-size": "One panel a data set: a line a model, against the number of elements. The numbers are in the tables.",
}
SETTINGS = {
    "auto_seconds": "time budget of auto, in CPU seconds",
    "max_epochs": "most epochs of networks (none: by the number of sets)",
    "pairs_a_set": "pairs of a training set, on average, up to which predictions average over all, and else over draws",
    "triples_a_set": "triples, likewise",
    "most_copied": "most columns with which k3 and k2+features are run",
    "most_attended": "most elements of a set, each of which set-transformer lets attend to each",
}
"""The names of the fields of ``Settings`` on the page."""


def show(console: Console, results: Sequence[Result]) -> None:
    """Prints the models of each data set with scores and seconds."""
    for summary in summarise(results):
        scores = summary["data_set"]["scores"]
        table = Table(title=f"{summary['name']}: mean over folds (standard error)", title_justify="left")
        table.add_column("model")
        for heading in (*scores, "parameters", "CPU s to fit", "ms to predict a set", "folds"):
            table.add_column(heading, justify="right")
        for row in rows(summary):
            costs = (row.num_parameters, row.fit_seconds, row.predict_milliseconds, str(row.num_folds))
            table.add_row(row.model, *(str(row.scores[score]) for score in scores), *costs)
        console.print(table)


def write_report(directory: Path, results: Sequence[Result], skipped: Sequence[str]) -> list[Path]:
    """Writes NAME.json per data set with results, and the page of all summaries there. Returns the paths.

    ``skipped``: lines on files that do not count. The page does not mention them.
    """
    return [*(write_summary(directory, summary) for summary in summarise(results)), *write_page(directory)]


def write_page(directory: Path) -> list[Path]:
    """Writes report.md, report.html and the plots from the summaries. Raises: ValueError for a damaged summary."""
    summaries = read_summaries(directory)
    if not summaries:
        raise ValueError(f"{directory} holds no summary of a data set; give the --out of bench sets.")
    return write_pages(directory, __package__, _context(summaries), plots_of(summaries), summaries)


def _context(summaries: Sequence[Result]) -> dict[str, Any]:
    """Returns the values that both templates use."""
    return {
        "summaries": [_described(summary) for summary in summaries],
        "models": [(name, model.about) for name, model in BUILT.items() if _any_has(summaries, name)],
        "comparisons": [found for summary in summaries if (found := comparison(summary)) is not None],
        "ranks": ranks(summaries),
        "settings": [
            (text, _shared([summary["config"].get(name) for summary in summaries])) for name, text in SETTINGS.items()
        ],
        "versions": [
            (name, _shared([summary["versions"].get(name) for summary in summaries]))
            for name in summaries[0]["versions"]
        ],
        "num_cells": sum(len(of["folds"]) for summary in summaries for of in summary["models"].values()),
        "captions": CAPTIONS,
        "alts": ALTS,
    }


def _described(summary: Result) -> dict[str, Any]:
    data_set, tests = summary["data_set"], sizes(summary)
    score = data_set["scores"][0]
    return {
        "name": summary["name"],
        "about": data_set["about"].rstrip(".") + ".",
        **{key: data_set[key] for key in ("scores", "num_folds", "published")},
        "settings": ", ".join(f"{name}={value}" for name, value in data_set["settings"].items()),
        "num_train": f"{summary['num_train']:,}",
        "rows": rows(summary),
        "not_run": [(name, of["does_not_apply"]) for name, of in summary["models"].items() if of["does_not_apply"]],
        "chosen": [
            f"{name} {weight:.2f}"
            for name, weight in sorted(summary["models"].get("auto", {}).get("chosen", {}).items(), key=_by_weight)
        ],
        "auto_seconds": summary["config"].get("auto_seconds"),
        "sizes": [*tests.values()],
        "by_size": [
            (model, [Mean.of([x for x in of["scores"][test][score] if x is not None]) for test in tests])
            for model, of in summary["models"].items()
            if of["folds"] and tests
        ],
    }


def _by_weight(pair: tuple[str, float]) -> tuple[float, str]:
    return -pair[1], pair[0]


def _any_has(summaries: Sequence[Result], model: str) -> bool:
    return any(summary["models"].get(model, {}).get("folds") for summary in summaries)


def _shared(values: Sequence[Any]) -> str:
    """Returns the distinct values as text."""
    return ", ".join(dict.fromkeys("none" if value is None else str(value) for value in values))
