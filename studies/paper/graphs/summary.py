"""The summary of a results directory: Tables 9 and 10, settings, missing results, and commands to repeat them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote

from studies.paper.graphs.settings import NUM_RUNS, PAPER_ROWS
from studies.paper.graphs.tables import Column, grouped, label, setting
from studies.paper.printed import paper_tables
from studies.runs.results import Result

CHARACTERISTICS = ("vertices", "average_degree", "features", "classes", "training_vertices", "test_vertices")

CONTENTS: dict[str, tuple[float | None, ...]] = {
    "cora": (2708, 10556 / 2708, 1433, 7, 1208, 1000),
    "pubmed": (19717, 88648 / 19717, 500, 3, 18217, 1000),
    "ppi": (56944, 1587264 / 56944, 50, 121, 44906, 5524),
    "ppi-go": (56944, 1587264 / 56944, 50, 121, 44906, 5524),
}
"""The entries of Table 9 for the result of ``load``."""

FEW_NEIGHBOURS = 5
"""The number of sampled neighbours from which the paper says that Cora's and PubMed's neighbourhoods are often
whole."""

SMALL = {"cora": 2291 / 2708, "pubmed": 15591 / 19717, "ppi": 12540 / 56944, "ppi-go": 12540 / 56944}
"""The share of vertices with at most ``FEW_NEIGHBOURS`` neighbours."""

DEGREE_NOTE = (
    "PPI's average degree, which is PPI-GO's too, counts no loops. With its 25084 loops counted at both of their ends "
    "it is 28.755, the paper's number."
)


def table_9(datasets: Sequence[str]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Returns each characteristic, with our value and the paper's printed one per data set."""
    paper = paper_tables()["table_9_graph_datasets"]
    return [
        (
            name.replace("_", " "),
            [(_plain(CONTENTS[dataset][i]), _plain(paper[dataset.removesuffix("-go")][name])) for dataset in datasets],
        )
        for i, name in enumerate(CHARACTERISTICS)
    ]


def table_10(results: Sequence[Result]) -> list[tuple[Column, str, str, str]]:
    """Returns, per data set and aggregation that was run, our number of trainable parameters and the paper's."""
    ours: dict[tuple[Column, str], set[int]] = defaultdict(set)
    for column, rows in grouped(results).items():
        for row, runs in rows.items():
            ours[column, row.split("-")[0]] |= {run["num_trainable_parameters"] for run in runs}
    paper = paper_tables()["table_10_graph_trainable_parameters"]
    return [
        (column, label(name), _listed(nums), _plain(paper.get(name, {}).get(column.paper_dataset)))
        for (column, name), nums in ours.items()
    ]


def settings(results: Sequence[Result]) -> list[tuple[str, list[str]]]:
    """Returns each setting with its values by column, except k₁ and k₂, which name the row."""
    groups = grouped(results)
    names = dict.fromkeys(name for result in results for name in result["config"] if name not in ("k_1", "k_2"))
    return [
        (name, [_listed(setting(run, name) for runs in rows.values() for run in runs) for rows in groups.values()])
        for name in names
    ]


def versions(results: Sequence[Result]) -> list[tuple[str, str]]:
    """Returns the versions with which the results were made."""
    names = dict.fromkeys(name for result in results for name in result["versions"])
    return [(name, _listed(result["versions"].get(name) for result in results)) for name in names]


def missing(results: Sequence[Result]) -> list[str]:
    """Returns lines on the paper's rows that were not run, and on missing seeds."""
    lines = []
    for column, rows in grouped(results).items():
        absent = [label(row) for row in PAPER_ROWS if row not in rows]
        lines += [f"{column.title}: not run: {', '.join(absent)}."] * bool(absent)
        num = NUM_RUNS[column.dataset]
        for row, runs in rows.items():
            seeds = sorted(set(range(num)) - {run["seed"] for run in runs})
            if seeds:
                noun = "seed" if len(seeds) == 1 else "seeds"
                lines.append(f"{column.title}, {label(row)}: {noun} {_ranges(seeds)} of the paper's {num} runs.")
    return lines


def commands(results: Sequence[Result], directory: Path) -> list[str]:
    """Returns the commands of these results, one per data set and preset, and the command of this report."""
    lines = []
    for column, rows in grouped(results).items():
        seeds = 1 + max(run["seed"] for runs in rows.values() for run in runs)
        lines.append(
            f"python -m studies reproduce graphs --dataset {column.dataset} --rows {','.join(rows)} --seeds {seeds} "
            f"--preset {column.preset} --resume --out {quote(str(directory))}"
        )
    return [*dict.fromkeys(lines), f"python -m studies report {quote(str(directory))}"]


def _listed(values: Iterable[object]) -> str:
    return ", ".join(sorted({"–" if value is None else str(value) for value in values}))


def _ranges(numbers: Sequence[int]) -> str:
    """Returns ascending numbers as text: 0–8, 11."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}–{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def _plain(number: float | None) -> str:
    return "–" if number is None else str(number) if isinstance(number, int) else f"{number:.4g}"
