"""Table 2 with our results beside the paper's."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev
from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from studies.paper.graphs.datasets import OTHER_LABELS
from studies.paper.graphs.settings import NAMES, PAPER_ROWS, RECURRENT, STOPPED, Settings
from studies.paper.printed import Score, paper_tables
from studies.runs.results import Result, defaults

MEASURES = {
    "curve": "micro-F1",
    "tuned_curve": "tuned micro-F1",
    "loss_curve": "cross entropy",
}
"""The measures by their keys in result files; the last two are for several labels per vertex.

A label is predicted above ½, or if tuned above the probability that is best on the validation vertices."""

DEFAULTS = defaults(Settings)


@dataclass(frozen=True)
class Column:
    """A data set as it was run. The title adds the preset and other settings if columns differ in them."""

    dataset: str
    preset: str
    title: str

    @property
    def is_ppi(self) -> bool:
        return self.dataset.startswith("ppi")

    @property
    def paper_dataset(self) -> str:
        """The paper's data set whose numbers are compared."""
        return "ppi" if self.is_ppi else self.dataset

    @property
    def paper_title(self) -> str:
        return "paper, PPI (other labels)" if self.dataset == "ppi-go" else "paper"


@dataclass(frozen=True)
class Entry:
    """Our score over several runs, or None; and the paper's as printed: a dash, or nothing for other rows."""

    ours: Score | None
    num_runs: int
    paper: str


Compared = list[tuple[str, dict[Column, Entry]]]
"""The rows of Table 2, each with its entries by column."""


def grouped(results: Sequence[Result]) -> dict[Column, dict[str, list[Result]]]:
    """Returns the results by data set and settings, then by row. The results of a list differ only in their seeds.

    Columns are in the order of ``NAMES``, rows in that of the paper, then by name.
    """
    groups: dict[Column, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for column, result in sorted(zip(_columns(results), results, strict=True), key=_place):
        groups[column][result["row"]].append(result)
    return {column: dict(rows) for column, rows in groups.items()}


def comparison(results: Sequence[Result]) -> Compared:
    """Returns Table 2: the paper's seven rows, then the other rows of the results."""
    groups = grouped(results)
    rows = dict.fromkeys((*PAPER_ROWS, *sorted({result["row"] for result in results})))
    return [(row, {column: _entry(column, row, of.get(row, [])) for column, of in groups.items()}) for row in rows]


def other_measures(results: Sequence[Result]) -> list[tuple[Column, str, list[Score]]]:
    """Returns all of ``MEASURES`` for each row that has them."""
    return [
        (column, row, [our_score(runs, key) for key in MEASURES])
        for column, rows in grouped(results).items()
        for row, runs in rows.items()
        if all(key in run for run in runs for key in MEASURES)
    ]


def setting(result: Result, name: str) -> Any:
    """Returns a setting of a result. A result older than the setting has its default."""
    return result["config"].get(name, DEFAULTS.get(name))


def our_score(runs: Sequence[Result], key: str = "curve") -> Score:
    """Returns the mean and standard deviation over runs of a measure on the test vertices, with all permutations."""
    values = [float(run[key][-1]) for run in runs]
    return Score(fmean(values), stdev(values) if len(values) > 1 else None, 3)


def paper_f1(dataset: str, row: str) -> Score | None:
    """Returns the paper's mean and standard deviation over 30 runs (PPI: 4); None if it prints no number."""
    printed = _paper_rows().get(row, {}).get(dataset)
    return Score(printed["mean"], printed["std"], 3) if printed else None


def label(row: str) -> str:
    """Returns a row as text with k₁ and k₂ in parentheses: LSTM (3, 3); mean, stopped early; k = 2."""
    if row.endswith(STOPPED):
        return f"{label(row.removesuffix(STOPPED))}, stopped early"
    aggregation, *numbers = row.split("-")
    name = aggregation.upper() if aggregation in RECURRENT else aggregation
    name = f"k = {name[1:]}" if name.startswith("k") else name
    return f"{name} ({', '.join(numbers)})" if numbers else name


def notes(results: Sequence[Result]) -> list[str]:
    """Returns the notes below the table."""
    datasets = {result["dataset"] for result in results}
    lines = ["Mean micro-F1 on the test vertices, with its standard deviation over runs. Rows are named with (k₁, k₂)."]
    if datasets & {"cora", "pubmed"}:
        lines.append("–: the paper prints a dash, as it differs by less than 0.01 from the row LSTM (3, 3).")
    if datasets & {"ppi", "ppi-go"}:
        name = " and ".join(NAMES[dataset] for dataset in ("ppi", "ppi-go") if dataset in datasets)
        lines.append(f"LSTM (all, all) reads at most 100 neighbours on {name}, as in the paper.")
    for column, rows in grouped(results).items():
        halved = [label(row) for row, runs in rows.items() if setting(runs[0], "precision") == "bfloat16"]
        lines += [f"{column.title} by {', '.join(halved)}: in bfloat16."] * bool(halved)
    return lines + [OTHER_LABELS] * ("ppi-go" in datasets)


def print_table(console: Console, results: Sequence[Result]) -> None:
    """Prints Table 2 as one table, or on a narrow console as several, each with fewer data sets."""
    rows = comparison(results)
    for table in _fitting(console, rows, list(grouped(results))):
        console.print(table)
    for line in notes(results) if results else ():
        console.print(line, style="dim", highlight=False)


def _columns(results: Sequence[Result]) -> list[Column]:
    """Returns the column of each result. If results of a row and preset differ in other settings, titles name them."""
    places = [(result["dataset"], str(result["config"].get("preset")), result["row"]) for result in results]
    keys = sorted({key for result in results for key in result["config"]})
    values: dict[tuple[str, str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for place, result in zip(places, results, strict=True):
        for key in keys:
            values[place][key].add(str(setting(result, key)))
    others = [
        ", ".join(f"{key} {setting(result, key)}" for key in keys if len(values[place][key]) > 1)
        for place, result in zip(places, results, strict=True)
    ]
    several = len({(preset, other) for (_, preset, _), other in zip(places, others, strict=True)}) > 1
    columns = []
    for (dataset, preset, _), other in zip(places, others, strict=True):
        parts = [NAMES[dataset], preset, other] if several else [NAMES[dataset]]
        columns.append(Column(dataset, preset, ", ".join(filter(None, parts))))
    return columns


def _place(pair: tuple[Column, Result]) -> tuple[int, str, int, str, int]:
    column, result = pair
    row = result["row"]
    order = PAPER_ROWS.index(row) if row in PAPER_ROWS else len(PAPER_ROWS)
    return list(NAMES).index(column.dataset), column.title, order, row, result["seed"]


def _entry(column: Column, row: str, runs: Sequence[Result]) -> Entry:
    printed = paper_f1(column.paper_dataset, row)
    paper = str(printed) if printed else "–" if row in _paper_rows() else ""
    return Entry(our_score(runs) if runs else None, len(runs), paper)


@cache
def _paper_rows() -> dict[str, Mapping[str, Any]]:
    """Returns Table 2 by our names of its rows."""
    return {
        "mean" if row["f"] == "mean" else f"{row['f']}-{row['k1']}-{row['k2']}": row
        for row in paper_tables()["table_2_micro_f1"]
    }


def _fitting(console: Console, rows: Compared, columns: Sequence[Column]) -> list[Table]:
    """Returns a table of these columns, or several tables of fewer columns if the console is too narrow."""
    table = _table(rows, columns)
    wide = console.options.update(max_width=1000)
    if len(columns) < 2 or Measurement.get(console, wide, table).maximum <= console.width:
        return [table] * bool(columns)
    half = (len(columns) + 1) // 2
    return _fitting(console, rows, columns[:half]) + _fitting(console, rows, columns[half:])


def _table(rows: Compared, columns: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(Text(f"{column.title}\nours"), justify="right", no_wrap=True)
        table.add_column(Text("\nruns"), justify="right", no_wrap=True, style="dim")
        head = column.paper_title.replace(" (", "\n(")
        table.add_column(Text(head if "\n" in head else f"\n{head}"), justify="right", no_wrap=True, style="dim")
    for row, entries in rows:
        texts = []
        for column in columns:
            entry = entries[column]
            texts += [str(entry.ours or ""), str(entry.num_runs or ""), entry.paper]
        table.add_row(label(row), *texts)
    return table
