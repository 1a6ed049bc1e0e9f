"""The paper's arithmetic results (Tables 3 to 8), beside ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isnan, nan
from statistics import fmean, stdev
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from studies.paper.arithmetic.tasks import TASKS
from studies.paper.printed import Score, paper_tables
from studies.runs.results import Result

PAPER_TASKS = ("sum", "range", "unique_sum", "unique_count", "variance")
"""The paper's tasks, in its order."""

REAL_TASKS = " and ".join(task.replace("_", " ") for task in TASKS if not TASKS[task].is_integer)
"""The tasks whose score is the RMSE, as text."""

WIDE = "-100"
"""The suffix of models whose embedding is wider than Table 3's."""

DIVERGED = 1e39
DIGITS = {"accuracy": 3, "rmse": 2, "mae": 3}
"""The decimals of our numbers, by metric. The paper's are shown as printed."""

_PRINTED = (  # key in tables.json, metric (None: metric_of), embedding dimension (None: floor(100/k)), decimals
    ("table_1_and_3_accuracy", None, None, 2),
    ("table_4_and_5_mean_absolute_error", "mae", None, 3),
    ("table_6_accuracy_embedding_100", None, 100, 2),
    ("table_7_mean_absolute_error_embedding_100", "mae", 100, 2),
)


@dataclass(frozen=True)
class Row:
    """One row of a table: a model, and for an LSTM or GRU the number of permutations at inference."""

    model: str
    num_permutations: int | None

    @property
    def is_sampled(self) -> bool:
        return not self.model.startswith("k")

    @property
    def base(self) -> str:
        """The model of Table 3 with another embedding."""
        return self.model.removesuffix(WIDE)

    @property
    def rho(self) -> str:
        return self.model.split("-")[1]

    @property
    def pooling(self) -> str:
        """The model without its ρ: k = 1, k = 2, k = 3, LSTM or GRU."""
        name = self.model.split("-")[0]
        return f"k = {name[1:]}" if name.startswith("k") else name.upper()

    @property
    def rho_name(self) -> str:
        return {"linear": "linear", "mlp": "MLP"}[self.rho]

    @property
    def label(self) -> str:
        permutations = {None: "", 1: ", 1 permutation"}.get(
            self.num_permutations, f", {self.num_permutations} permutations"
        )
        embedding = "" if self.base == self.model else ", embedding of 100"
        return f"{self.pooling}, {self.rho_name} ρ{embedding}{permutations}"


ROWS = (
    *(Row(f"k{k}-{rho}", None) for rho in ("linear", "mlp") for k in (1, 2, 3)),
    *(Row(f"{f}-{rho}", m) for rho in ("linear", "mlp") for f in ("lstm", "gru") for m in (1, 20)),
)
"""The fourteen rows of Table 3, in its order."""

WIDE_ROWS = tuple(Row(f"k{k}-{rho}{WIDE if k > 1 else ''}", None) for rho in ("linear", "mlp") for k in (1, 2, 3))
"""The k-ary rows of Tables 6 and 7, with an embedding of 100 for every k."""

ALL_ROWS = (*ROWS, *(row for row in WIDE_ROWS if row not in ROWS))

MODELS = tuple(dict.fromkeys(row.model for row in ROWS))
ALL_MODELS = tuple(dict.fromkeys(row.model for row in ALL_ROWS))


@dataclass(frozen=True)
class Pair:
    """Our score, or None without a result, beside the paper's, or None for a task that it does not have."""

    ours: Score | None
    paper: Score | None


Compared = list[tuple[Row, dict[str, Pair]]]
"""The rows of a table, each with its pairs by task."""


def metric_of(task: str) -> str:
    """Returns the metric of a task in Table 3: "accuracy", or "rmse" if its targets are not whole numbers."""
    return "accuracy" if TASKS[task].is_integer else "rmse"


def tasks_of(results: Sequence[Result]) -> list[str]:
    """Returns the tasks that were run, the paper's in its order, then others."""
    return [task for task in TASKS if any(result["task"] == task for result in results)]


def number(value: float | None) -> float:
    """Returns a score of a result file. It is NaN for a run that diverged: null, NaN, or too large for float32."""
    return nan if value is None or not value < DIVERGED else float(value)


def paper_score(
    task: str, model: str, num_permutations: int | None = None, metric: str | None = None, embedding: int | None = None
) -> Score:
    """Returns the paper's mean and standard deviation over 15 runs, from Tables 3 to 7.

    Args:
        num_permutations: at inference, 1 or 20 for an LSTM or GRU; None for k = 1, 2, 3.
        metric: "accuracy" ("rmse" for variance), the default, or "mae".
        embedding: 100 for Tables 6 and 7, whose embeddings are as wide for k = 2 and 3 as for k = 1.
    Raises: ValueError if the paper does not print it.
    """
    metric = metric or (metric_of(task) if task in TASKS else "score")
    try:
        return _paper_scores()[task, model, num_permutations, metric, embedding]
    except KeyError:
        at = "" if num_permutations is None else f" with {num_permutations} permutations"
        raise ValueError(f"The paper prints no {metric} of {model!r}{at} on {task!r}.") from None


def paper_parameters(model: str, embedding: int | None = None) -> int:
    """Returns the number of trainable parameters in Table 8; ``embedding`` as in ``paper_score``."""
    for row in paper_tables()["table_8_trainable_parameters"]:
        narrow = 100 if row["k"] == "all" else 100 // row["k"]
        wanted = 100 if model.endswith(WIDE) else embedding or narrow
        if _model(row) == model.removesuffix(WIDE) and row["embedding_dim"] == wanted:
            return int(row["trainable_parameters"])
    raise ValueError(f"The paper prints no number of parameters of {model!r}.")


@cache
def _paper_scores() -> dict[tuple[str, str, int | None, str, int | None], Score]:
    return {
        (task, _model(row), row.get("inference_permutations"), metric or metric_of(task), embedding): Score(
            row[task]["mean"], row[task]["std"], digits
        )
        for table, metric, embedding, digits in _PRINTED
        for row in paper_tables()[table]
        for task in PAPER_TASKS
    }


def _model(row: Mapping[str, Any]) -> str:
    """Returns our name of the model in a row of tables.json: mlp30, 2, mlp100 -> k2-mlp; gru80, all -> gru-linear."""
    f, rho = (row[part].rstrip("0123456789") for part in ("f", "rho"))
    return f"{f if row['k'] == 'all' else 'k' + str(row['k'])}-{rho}"


def our_values(results: Sequence[Result], task: str, row: Row, metric: str | None = None) -> list[float]:
    """Returns our test scores for a result of Table 3, one per seed; NaN for a run that diverged."""
    metric = metric or metric_of(task)
    return [
        number(score[metric])
        for result in results
        if (result["task"], result["model"]) == (task, row.model)
        for score in result["scores"]
        if score["num_permutations"] == row.num_permutations
    ]


def our_score(results: Sequence[Result], task: str, row: Row, metric: str | None = None) -> Score | None:
    """Returns the mean and standard deviation of our scores; None without results."""
    values = our_values(results, task, row, metric)
    if not values:
        return None
    spread = None if len(values) == 1 or any(map(isnan, values)) else stdev(values)
    return Score(fmean(values), spread, DIGITS[metric or metric_of(task)])


def comparison(results: Sequence[Result], metric: str | None = None, *, wide: bool = False) -> Compared:
    """Returns Table 3 (with metric "mae", Tables 4 and 5): per row and task, our score beside the paper's.

    ``wide``: True for Table 6 (and 7).
    """
    return [
        (
            row,
            {
                task: Pair(
                    our_score(results, task, row, metric),
                    paper_score(task, row.base, row.num_permutations, metric, 100 if wide else None)
                    if task in PAPER_TASKS
                    else None,
                )
                for task in TASKS
            },
        )
        for row in (WIDE_ROWS if wide else ROWS)
    ]


def print_comparison(console: Console, results: Sequence[Result]) -> None:
    """Prints Table 3 for the tasks that were run, ours in bold beside the paper's, with deviations if they fit."""
    tasks = tasks_of(results)
    if not tasks:
        return
    rows = comparison(results)
    whole = _table(rows, tasks, with_spread=True)
    with_spread = _fits(console, whole)
    for table in [whole] if with_spread else _fitting(console, rows, tasks):
        console.print(table)
    spread = ", with the standard deviation over runs" if with_spread else ""
    notes = f"Test accuracy, for {REAL_TASKS} RMSE{spread}. ×1, ×20: permutations at inference."
    console.print(notes, style="dim", highlight=False)


def _fits(console: Console, table: Table) -> bool:
    return table.__rich_measure__(console, console.options.update(max_width=1000)).maximum <= console.width


def _fitting(console: Console, rows: Compared, tasks: Sequence[str]) -> list[Table]:
    """Returns one table of means, or on a narrow console several, each with fewer tasks."""
    table = _table(rows, tasks, with_spread=False)
    if len(tasks) == 1 or _fits(console, table):
        return [table]
    half = (len(tasks) + 1) // 2
    return _fitting(console, rows, tasks[:half]) + _fitting(console, rows, tasks[half:])


def _table(rows: Compared, tasks: Sequence[str], with_spread: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("ρ", vertical="bottom", no_wrap=True)
    columns = []
    for task in tasks:
        pairs = [pairs[task] for _, pairs in rows]
        ours, paper = (
            [heading, *(absent if score is None else str(score) if with_spread else score.short for score in scores)]
            for heading, absent, scores in (
                ("ours", "–", [pair.ours for pair in pairs]),
                ("paper", "", [pair.paper for pair in pairs]),
            )
        )
        wide, narrow = (max(map(len, texts)) for texts in (ours, paper))
        head, *texts = [
            Text.assemble((f"{mine:>{wide}}", "bold"), " ", (f"{theirs:>{narrow}}", "dim"))
            for mine, theirs in zip(ours, paper, strict=True)
        ]
        table.add_column(Text(f"{task.replace('_', ' ')}\n").append_text(head), justify="right", no_wrap=True)
        columns.append(texts)
    for place, (row, _) in enumerate(rows):
        times = "" if row.num_permutations is None else f" ×{row.num_permutations}"
        ends = place + 1 < len(rows) and (rows[place + 1][0].rho, rows[place + 1][0].is_sampled) != (
            row.rho,
            row.is_sampled,
        )
        table.add_row(row.pooling + times, row.rho_name, *(texts[place] for texts in columns), end_section=ends)
    return table
