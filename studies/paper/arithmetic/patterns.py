"""The patterns of the paper's results, as sentences that our results confirm or refute."""

from collections.abc import Sequence
from math import isnan, sqrt
from statistics import fmean

from rich.console import Console
from rich.table import Table
from rich.text import Text

from studies.paper.arithmetic.tables import PAPER_TASKS, ROWS, Row, metric_of, our_score, our_values
from studies.paper.checks import Check
from studies.runs.results import Result

DEFAULT_NUM_TEST = 10_000
NEAR = 0.01
"""The largest difference from the best accuracy that counts as the top. The paper's sums of LSTM and GRU differ by it.
"""


def pattern_checks(results: Sequence[Result]) -> list[Check]:
    """Returns the four patterns of Section 4.1, each on the tasks it concerns. All hold in the paper's own tables."""
    return [
        *(_rises_with_k(results, task) for task in ("range", "unique_sum", "unique_count")),
        _mlp_lifts_deep_sets(results),
        *(_recurrent_at_the_top(results, task) for task in PAPER_TASKS),
        *(_more_permutations_no_worse(results, task) for task in PAPER_TASKS),
    ]


def print_patterns(console: Console, results: Sequence[Result]) -> None:
    """Prints each pattern with its verdict, and our numbers if it does not hold."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    for check in pattern_checks(results):
        style = {True: "green", False: "bold yellow", None: "dim"}[check.holds]
        table.add_row(Text(check.verdict, style), check.sentence, style="dim" if check.holds is None else "")
        if check.holds is False:
            table.add_row("", Text(check.numbers, "dim"))
    console.print(table, highlight=False)


def _rises_with_k(results: Sequence[Result], task: str) -> Check:
    scores = [our_score(results, task, Row(f"k{k}-linear", None)) for k in (1, 2, 3)]
    present = [score.mean for score in scores if score is not None]
    holds = None if len(present) < 3 else present[0] < present[1] < present[2]
    numbers = "; ".join(f"k = {k}: {score or '–'}" for k, score in enumerate(scores, 1))
    return Check(f"With linear ρ, accuracy on {_name(task)} rises with k.", holds, numbers)


def _mlp_lifts_deep_sets(results: Sequence[Result]) -> Check:
    linear, mlp = (our_score(results, "range", Row(f"k1-{rho}", None)) for rho in ("linear", "mlp"))
    holds = None if mlp is None else mlp.mean >= 0.9
    mlps = [result for result in results if (result["task"], result["model"]) == ("range", "k1-mlp")]
    epochs = {result["config"].get("epochs") for result in mlps}
    after = f", after {epochs.pop()} epochs" if len(epochs) == 1 and None not in epochs else ""
    numbers = f"linear: {linear or '–'}; MLP: {mlp or '–'}{after}"
    return Check("An MLP as ρ lifts k = 1 to an accuracy of 0.9 or more on range.", holds, numbers)


def _recurrent_at_the_top(results: Sequence[Result], task: str) -> Check:
    lower_is_better = metric_of(task) == "rmse"
    best = min if lower_is_better else max
    rows = {row: our_score(results, task, row) for row in ROWS if row.num_permutations != 1}
    groups = [
        [(score.mean, row) for row, score in rows.items() if score and not isnan(score.mean) and row.is_sampled is side]
        for side in (True, False)
    ]
    tops = [best(group, key=lambda entry: entry[0]) for group in groups if group]
    holds = None
    if all(rows.values()):
        finite = len(tops) == 2
        holds = finite and (tops[0][0] <= tops[1][0] if lower_is_better else tops[0][0] >= tops[1][0] - NEAR - 1e-9)
    numbers = "; ".join(f"{row.label}: {rows[row]}" for _, row in tops) or "–"
    at_most = "RMSE no higher than" if lower_is_better else f"accuracy within {NEAR} of, or above,"
    return Check(f"LSTM and GRU are at the top on {_name(task)}: {at_most} the best k-ary model's.", holds, numbers)


def _more_permutations_no_worse(results: Sequence[Result], task: str) -> Check:
    verdicts, numbers = [], []
    for model in dict.fromkeys(row.model for row in ROWS if row.is_sampled):
        one, twenty = (our_values(results, task, Row(model, m)) for m in (1, 20))
        if one and twenty:
            noise = _sampling_noise(results, task, model, fmean(one), fmean(twenty))
            gain = (fmean(one) - fmean(twenty)) * (1 if metric_of(task) == "rmse" else -1)
            verdicts.append(gain >= -noise)
            name = Row(model, None)
            before, after = (our_score(results, task, Row(model, m)) for m in (1, 20))
            numbers.append(f"{name.label}: {before} → {after}")
    num_test = {result["config"].get("num_test", DEFAULT_NUM_TEST) for result in results if result["task"] == task}
    examples = f"{min(num_test, default=DEFAULT_NUM_TEST):,} test examples a seed"
    sentence = f"20 permutations do no worse than 1 on {_name(task)}, within two standard errors ({examples})."
    return Check(sentence, all(verdicts) if verdicts else None, "; ".join(numbers) or "–")


def _sampling_noise(results: Sequence[Result], task: str, model: str, one: float, twenty: float) -> float:
    """Returns two standard errors of the difference of two scores, as if on independent test sets.

    An accuracy p has variance p(1 - p)/N; an RMSE r of normal errors has r²/2N. N counts the test examples of all
    seeds.
    """
    num = sum(
        result["config"].get("num_test", DEFAULT_NUM_TEST)
        for result in results
        if (result["task"], result["model"]) == (task, model)
    )
    if metric_of(task) == "rmse":
        return 2 * sqrt((one**2 + twenty**2) / (2 * num))
    p = min(max((one + twenty) / 2, 1 / num), 1 - 1 / num)
    return 2 * sqrt(2 * p * (1 - p) / num)


def _name(task: str) -> str:
    return task.replace("_", " ")
