"""The sentences of Section 4.2 and the means of Table 2, which ours confirm or refute, and patterns of our own."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from studies.paper.checks import Check
from studies.paper.graphs.permutations import FEW, MANY, Curves, curves, p_text
from studies.paper.graphs.settings import PAPER_ROWS
from studies.paper.graphs.summary import CONTENTS, FEW_NEIGHBOURS, SMALL
from studies.paper.graphs.tables import MEASURES, Column, grouped, label, our_score, paper_f1
from studies.runs.results import Result

CLOSE = 0.01
"""The largest difference between the scores that the paper prints as dashes."""

SIGNIFICANT = 0.001
"""The level of the tests. Wilcoxon's test of n runs gives at least 2^(1 - n), so it needs eleven."""

PAPER_DATA = ("cora", "pubmed", "ppi")
"""The data sets of the paper, by our names."""

LSTM_ROWS = PAPER_ROWS[:-1]

FIGURE_2 = "curve"
"""The measure of Figure 2, by its key in result files."""

MOST = 20
"""The number of permutations of Table 2."""

Runs = Mapping[str, Sequence[Result]]
"""The results of a column, by row."""


@dataclass(frozen=True)
class Patterns:
    """Checks by their source.

    - ``sentences``: what Section 4.2 says of Cora, PubMed and PPI. It tests permutations at inference on PPI only.
    - ``means``: Table 2's, each with ours.
    - ``ours``: the same for data sets, rows, measures and tests that the paper does not have.
    """

    sentences: list[Check] = field(default_factory=list)
    means: list[Check] = field(default_factory=list)
    ours: list[Check] = field(default_factory=list)


def patterns(results: Sequence[Result]) -> Patterns:
    """Returns the checks of these results: on Table 2, then on Figure 2, per data set that was run."""
    found = Patterns()
    for column, rows in grouped(results).items():
        found.means.extend(_as_the_paper(column, rows))
        checks = found.sentences if column.dataset in PAPER_DATA else found.ours
        if column.is_ppi:
            checks += [_rises_with_k(column, rows, FIGURE_2), _mean_is_best(column, rows)]
            if any("tuned_curve" in run for row in LSTM_ROWS for run in rows.get(row, ())):
                found.ours.append(_rises_with_k(column, rows, "tuned_curve"))
        else:
            checks += [_close(column, rows), _whole(column)]
        checks += _as_many_parameters(column, rows)
    drawn: dict[tuple[Column, str, bool], list[Curves]] = defaultdict(list)
    for of in curves(results):
        drawn[of.column, of.key, of.row in LSTM_ROWS].append(of)
    for (column, key, is_papers), each in drawn.items():
        name = column.title if is_papers else f"{column.title}, other rows"
        checks = found.sentences if (column.dataset, key, is_papers) == ("ppi", FIGURE_2, True) else found.ours
        if column.is_ppi and key == FIGURE_2:
            checks += [_three_are_better(name, each), _diminishing(name, each)]
        if is_papers or _tested(each):
            checks.append(_seven_are_better(name, key, each))
    return found


def _as_the_paper(column: Column, rows: Runs) -> Iterator[Check]:
    for row, runs in rows.items():
        if paper := paper_f1(column.dataset, row):
            holds = our_score(runs).mean >= paper.mean - (paper.std or 0) - 1e-9
            sentence = f"{column.title}, {label(row)}: within one standard deviation of the paper's mean, or better."
            yield Check(sentence, holds, f"ours: {_counted(runs)}; paper: {paper}")


def _rises_with_k(column: Column, rows: Runs, key: str) -> Check:
    run = [row for row in LSTM_ROWS if row in rows and all(key in run for run in rows[row])]
    means = [our_score(rows[row], key).mean for row in run]
    holds = None if len(run) < 2 else all(a < b for a, b in pairwise(means))
    some = _some(run, LSTM_ROWS)
    sentence = f"{column.title}: increasing k improves {MEASURES[key]}, from LSTM row to LSTM row{some}."
    return Check(sentence, holds, _numbers(rows, run, key))


def _mean_is_best(column: Column, rows: Runs) -> Check:
    """Checks that the mean is best, the paper's "strong performance of mean-pooling" by the numbers of its table."""
    run = [row for row in PAPER_ROWS if row in rows]
    means = {row: our_score(rows[row]).mean for row in run}
    holds = max(means, key=means.__getitem__) == "mean" if "mean" in run and len(run) > 1 else None
    sentence = (
        f"{column.title}: mean-pooling of whole neighbourhoods is better than every LSTM row{_some(run, PAPER_ROWS)}."
    )
    return Check(sentence, holds, _numbers(rows, run))


def _close(column: Column, rows: Runs) -> Check:
    run = [row for row in LSTM_ROWS if row in rows]
    first = LSTM_ROWS[0]
    apart = [abs(our_score(rows[row]).mean - our_score(rows[first]).mean) for row in run[1:]] if first in run else []
    sentence = (
        f"{column.title}: the other LSTM rows differ from {label(first)} by less than {CLOSE}{_some(run, LSTM_ROWS)}."
    )
    return Check(sentence, max(apart) < CLOSE if apart else None, _numbers(rows, run))


def _whole(column: Column) -> Check:
    num, share = CONTENTS[column.dataset][0], SMALL[column.dataset]
    sentence = f"{column.title}: sampling {FEW_NEIGHBOURS} neighbours often amounts to the entire neighbourhood."
    return Check(sentence, share > 0.5, f"{share:.0%} of {num} vertices have at most {FEW_NEIGHBOURS} neighbours")


def _as_many_parameters(column: Column, rows: Runs) -> Iterator[Check]:
    run = [row for row in LSTM_ROWS if row in rows]
    nums = sorted({run["num_trainable_parameters"] for row in run for run in rows[row]})
    if len(run) > 1:
        sentence = f"{column.title}: the LSTM has as many parameters whatever k is{_some(run, LSTM_ROWS)}."
        yield Check(sentence, len(nums) == 1, ", ".join(map(str, nums)))


def _three_are_better(name: str, rows: Sequence[Curves]) -> Check:
    changes = {of: change for of in rows if (change := of.change(FEW, 3))}
    sentence = f"{name}: micro-F1 rises from one permutation at inference to three, in every row."
    holds = all(change.mean > 0 for change in changes.values()) if changes else None
    return Check(sentence, holds, "; ".join(f"{_named(of)}: {change:+}" for of, change in changes.items()) or "–")


def _diminishing(name: str, rows: Sequence[Curves]) -> Check:
    pairs = {of: (of.change(MANY, MOST), of.change(FEW, 3)) for of in rows if of.change(FEW, MOST)}
    sentence = (
        f"{name}: diminishing returns set in by permutation {MANY}: in every row, {MOST} add less to {MANY} "
        f"than three to {FEW}."
    )
    holds = all(last.mean < first.mean for last, first in pairs.values() if last and first) if pairs else None
    texts = (f"{_named(of)}: {last:+} after {first:+}" for of, (last, first) in pairs.items())
    return Check(sentence, holds, "; ".join(texts) or "–")


def _seven_are_better(name: str, key: str, rows: Sequence[Curves]) -> Check:
    found = _tested(rows)
    sentence = (
        f"{name}: {MEASURES[key]} is better with {MANY} permutations at inference than with {FEW}, "
        f"p < {SIGNIFICANT} by both paired tests."
    )
    return Check(sentence, all(better for better, _ in found) if found else None, _texts(found))


def _tested(rows: Sequence[Curves]) -> list[tuple[bool, str]]:
    """Returns, per row with enough runs, whether both tests find seven better than one, and their numbers."""
    found = []
    for of in rows:
        tests = of.tests()
        if tests is None or 2.0 ** (1 - tests.num_runs) >= SIGNIFICANT:
            continue
        p_values = {"t": tests.t, "Wilcoxon": tests.wilcoxon}
        gain = tests.difference.mean * (-1 if of.key == "loss_curve" else 1)
        better = gain > 0 and all(p is not None and p < SIGNIFICANT for p in p_values.values())
        texts = ", ".join(f"{p_text(p)} ({test})" for test, p in p_values.items())
        found.append((better, f"{_named(of)}: {tests.difference:+}; p: {texts}"))
    return found


def _texts(found: Sequence[tuple[bool, str]]) -> str:
    return "; ".join(text for _, text in found) or "no row has eleven runs"


def _named(of: Curves) -> str:
    return f"{label(of.row)}, {len(of.values)} runs"


def _some(run: Sequence[str], rows: Sequence[str]) -> str:
    return f", over the {len(run)} of {len(rows)} rows that were run" * (len(run) < len(rows))


def _numbers(rows: Runs, run: Sequence[str], key: str = "curve") -> str:
    return "; ".join(f"{label(row)}: {_counted(rows[row], key)}" for row in run) or "–"


def _counted(runs: Sequence[Result], key: str = "curve") -> str:
    return f"{our_score(runs, key)}, {len(runs)} run{'s' if len(runs) > 1 else ''}"
