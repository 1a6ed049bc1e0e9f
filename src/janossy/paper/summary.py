"""What a results directory holds: which cells were run, how, what is missing, and how to run them again."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from shlex import quote
from typing import Any

from janossy.paper.tables import MODELS, ROWS, SHOWN, Cell, Row, our_values, paper_parameters


@dataclass(frozen=True)
class Summary:
    """The facts of a run, as text for a reader. settings and versions are (name, value) pairs."""

    preset: str
    protocol: str
    seeds: str
    time: str
    finished: str
    settings: list[tuple[str, str]]
    versions: list[tuple[str, str]]
    parameters: list[tuple[str, str, int]]
    missing: list[str]
    commands: list[str]


def summarise(cells: Sequence[Cell], directory: Path) -> Summary:
    """Gather the facts of one or more cells. What differs between cells is given with the cells it belongs to."""
    return Summary(
        preset=_listed(cell["config"].get("preset", "unknown") for cell in cells),
        protocol=_listed(cell["config"].get("protocol", "unknown") for cell in cells),
        seeds=_seeds({cell["seed"] for cell in cells}),
        time=duration(sum(cell["seconds"] for cell in cells)),
        finished=max(str(cell.get("finished", "")) for cell in cells),
        settings=_by_name(cells, "config", skip=("preset", "protocol")),
        versions=_by_name(cells, "versions"),
        parameters=_parameters(cells),
        missing=_missing(cells),
        commands=_commands(cells, directory),
    )


def duration(seconds: float) -> str:
    """45 s; 12 min 05 s; 3 h 20 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _seeds(seeds: set[int]) -> str:
    """seed 0; seeds 0, 3; seeds 0 to 14."""
    low, high = min(seeds), max(seeds)
    if len(seeds) > 2 and high - low + 1 == len(seeds):
        return f"seeds {low} to {high}"
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {_listed(seeds)}"


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, sorted(set(values))))


def _by_name(cells: Sequence[Cell], part: str, skip: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Each entry of the cells' configurations; if cells differ, each value with the models or tasks that have it."""
    flat = [dict(_flatten(cell[part])) for cell in cells]
    names = [name for name in dict.fromkeys(name for entries in flat for name in entries) if name not in skip]
    pairs = []
    for name in names:
        values = [entries.get(name, "unset") for entries in flat]
        pairs.append((name, values[0] if len(set(values)) == 1 else _varying(cells, values)))
    return pairs


def _varying(cells: Sequence[Cell], values: Sequence[str]) -> str:
    for key in ("model", "task", "seed"):
        owners: dict[str, list[str]] = defaultdict(list)
        for cell, value in zip(cells, values, strict=True):
            if str(cell[key]) not in owners[value]:
                owners[value].append(str(cell[key]))
        if sum(map(len, owners.values())) == len({cell[key] for cell in cells}):
            return "; ".join(f"{value} ({', '.join(owned)})" for value, owned in owners.items())
    counts = {value: values.count(value) for value in values}
    return "; ".join(f"{value} ({count} cells)" for value, count in counts.items())


def _flatten(entries: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in entries.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _parameters(cells: Sequence[Cell]) -> list[tuple[str, str, int]]:
    """Model, our number of trainable parameters, and Table 8's, of the models that were run."""
    ours = {model: [cell for cell in cells if cell["model"] == model] for model in MODELS}
    return [
        (
            Row(model, None).label,
            _listed(cell.get("num_trainable_parameters", "–") for cell in of),
            paper_parameters(model),
        )
        for model, of in ours.items()
        if of
    ]


def _missing(cells: Sequence[Cell]) -> list[str]:
    """Tasks and models without any cell, single cells that the others lead one to expect, scores absent or NaN."""
    tasks, models, seeds = ({cell[key] for cell in cells} for key in ("task", "model", "seed"))
    present = {(cell["task"], cell["model"], cell["seed"]) for cell in cells}
    lines = []
    for kind, known, run in (("tasks", SHOWN, tasks), ("models", MODELS, models)):
        absent = [name for name in known if name not in run]
        if absent:
            lines.append(f"Not run, {kind}: {', '.join(absent)}.")
    lines += [
        f"Missing: {task}, {model}, seed {seed}."
        for task in SHOWN
        if task in tasks
        for model in MODELS
        if model in models
        for seed in sorted(seeds)
        if (task, model, seed) not in present
    ]
    for cell in cells:
        for row in ROWS:
            if row.model == cell["model"] and cell["task"] in SHOWN:
                values = our_values([cell], cell["task"], row)
                name = f"{cell['task']}, {row.label}, seed {cell['seed']}"
                lines += [f"No score: {name}."] if not values else [f"NaN score: {name}."] if isnan(values[0]) else []
    return lines


def _commands(cells: Sequence[Cell], directory: Path) -> list[str]:
    """The commands that run these cells, one for each preset and protocol, and the one that writes this report."""
    some = ""
    for option, key, known in (("--tasks", "task", tuple(SHOWN)), ("--models", "model", MODELS)):
        run = [name for name in known if any(cell[key] == name for cell in cells)]
        if len(run) < len(known):
            some += f" {option} {','.join(run)}"
    epochs = {cell["config"].get("epochs") for cell in cells} - {None}
    if len(epochs) == 1:
        some += f" --epochs {epochs.pop()}"
    some += f" --seeds {max(cell['seed'] for cell in cells) + 1} --resume --out {quote(str(directory))}"
    chosen = {(cell["config"].get("preset", "quick"), cell["config"].get("protocol", "fast")): None for cell in cells}
    return [
        *(f"janossy reproduce arithmetic --preset {preset} --protocol {protocol}{some}" for preset, protocol in chosen),
        f"janossy report {quote(str(directory))}",
    ]
