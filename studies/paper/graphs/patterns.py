"""What the paper says of its results on graphs, in sentences that ours can confirm or refute."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from studies.paper.checks import Check
from studies.paper.graphs.permutations import FEW, MANY, curves, p_text
from studies.paper.graphs.settings import PAPER_ROWS, STOPPED
from studies.paper.graphs.tables import MEASURES, Column, grouped, label, our_score, paper_f1
from studies.runs.results import Result

CLOSE = 0.01
"""What the paper's dashes differ by at most."""

SIGNIFICANT = 0.001
"""Wilcoxon's test of n runs gives no less than 2^(1 - n): it takes eleven."""

Runs = Mapping[str, Sequence[Result]]
"""The results of a column, by row."""


def pattern_checks(results: Sequence[Result]) -> list[Check]:
    """Table 2 and the tests of Figure 2's text, for each data set on the rows that were run.

    Our means are held against the paper's where both are of the same labels: it prints none of PPI-GO.
    """
    checks: list[Check] = []
    for column, rows in grouped(results).items():
        checks += _as_the_paper(column, rows)
        if column.is_ppi:
            checks += _rises_with_k(column, rows)
        else:
            checks.append(_close(column, rows))
    return [*checks, *_more_permutations_better(results)]


def _as_the_paper(column: Column, rows: Runs) -> Iterator[Check]:
    for row, runs in rows.items():
        if paper := paper_f1(column.dataset, row.removesuffix(STOPPED)):
            holds = our_score(runs).mean >= paper.mean - (paper.std or 0) - 1e-9
            sentence = f"{column.title}, {label(row)}: within one standard deviation of the paper's mean, or better."
            yield Check(sentence, holds, f"ours: {_counted(runs)}; paper: {paper}")


def _rises_with_k(column: Column, rows: Runs) -> Iterator[Check]:
    for key in ("curve", "tuned_curve"):
        run = [row for row in PAPER_ROWS if row in rows and all(key in run for run in rows[row])]
        if key == "curve" or run:
            means = [our_score(rows[row], key).mean for row in run]
            holds = None if len(run) < 2 else all(a < b for a, b in pairwise(means))
            of = f", over the {len(run)} of its {len(PAPER_ROWS)} rows that were run" * (len(run) < len(PAPER_ROWS))
            sentence = f"{column.title}: {MEASURES[key]} rises from row to row of Table 2{of}."
            yield Check(sentence, holds, _numbers(rows, run, key))


def _close(column: Column, rows: Runs) -> Check:
    lstm = PAPER_ROWS[:-1]
    run = [row for row in lstm if row in rows]
    apart = [abs(our_score(rows[row]).mean - our_score(rows[run[0]]).mean) for row in run[1:]] if lstm[0] in run else []
    of = f", over the {len(run)} of {len(lstm)} that were run" * (len(run) < len(lstm))
    sentence = f"{column.title}: the other LSTM rows differ from {label(lstm[0])} by less than {CLOSE}{of}."
    return Check(sentence, max(apart) < CLOSE if apart else None, _numbers(rows, run))


def _more_permutations_better(results: Sequence[Result]) -> Iterator[Check]:
    for of in curves(results):
        tests = of.tests()
        if of.column.is_ppi and tests:
            p_values = {"t": tests.t, "Wilcoxon": tests.wilcoxon}
            gain = tests.difference.mean * (-1 if of.key == "loss_curve" else 1)
            holds = gain > 0 and all(p is not None and p < SIGNIFICANT for p in p_values.values())
            possible = 2.0 ** (1 - tests.num_runs) < SIGNIFICANT
            yield Check(
                f"{of.column.title}, {label(of.row)}: {MEASURES[of.key]} is better with {MANY} permutations at "
                f"inference than with {FEW}, p < {SIGNIFICANT} by both paired tests.",
                holds if possible else None,
                f"{tests.difference:+}, {tests.num_runs} runs; p: "
                + ", ".join(f"{p_text(p)} ({test})" for test, p in p_values.items()),
            )


def _numbers(rows: Runs, run: Sequence[str], key: str = "curve") -> str:
    return "; ".join(f"{label(row)}: {_counted(rows[row], key)}" for row in run) or "–"


def _counted(runs: Sequence[Result], key: str = "curve") -> str:
    return f"{our_score(runs, key)}, {len(runs)} run{'s' if len(runs) > 1 else ''}"
