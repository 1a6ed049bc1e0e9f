"""The summary of a results directory: its runs and settings, missing results, and commands to repeat them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from shlex import quote
from typing import Any

from studies.paper.arithmetic import models
from studies.paper.arithmetic.settings import num_seeds
from studies.paper.arithmetic.tables import ALL_MODELS, ALL_ROWS, MODELS, Row, our_values, paper_parameters
from studies.paper.arithmetic.tasks import TASKS
from studies.runs.durations import duration
from studies.runs.results import Result


@dataclass(frozen=True)
class Summary:
    """The facts of a run, as text. ``settings`` and ``versions`` are (name, value) pairs."""

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


def summarise(results: Sequence[Result], directory: Path) -> Summary:
    """Returns the facts of one or more results. Facts that differ name their models, tasks or seeds."""
    return Summary(
        preset=_listed(result["config"]["preset"] for result in results),
        protocol=_listed(result["config"]["protocol"] for result in results),
        seeds=_seeds({result["seed"] for result in results}),
        time=duration(sum(result["seconds"] for result in results)),
        finished=max(str(result.get("finished", "")) for result in results),
        settings=_by_name(results, "config", skip=("preset", "protocol")),
        versions=_by_name(results, "versions"),
        parameters=_parameters(results),
        missing=_missing(results),
        commands=_commands(results, directory),
    )


def _seeds(seeds: set[int]) -> str:
    """Returns seeds as text: seed 0; seeds 0, 3; seeds 0 to 14."""
    low, high = min(seeds), max(seeds)
    if len(seeds) > 2 and high - low + 1 == len(seeds):
        return f"seeds {low} to {high}"
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {_listed(seeds)}"


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, sorted(set(values))))


def _by_name(results: Sequence[Result], part: str, skip: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Returns each entry of the configurations. If results differ, each value names its models or tasks."""
    flat = [dict(_flatten(result[part])) for result in results]
    names = [name for name in dict.fromkeys(name for entries in flat for name in entries) if name not in skip]
    pairs = []
    for name in names:
        values = [entries.get(name, "unset") for entries in flat]
        pairs.append((name, values[0] if len(set(values)) == 1 else _varying(results, values)))
    return pairs


def _varying(results: Sequence[Result], values: Sequence[str]) -> str:
    for key in ("model", "task", "seed"):
        owners: dict[str, list[str]] = defaultdict(list)
        for result, value in zip(results, values, strict=True):
            if str(result[key]) not in owners[value]:
                owners[value].append(str(result[key]))
        if sum(map(len, owners.values())) == len({result[key] for result in results}):
            return "; ".join(f"{value} ({', '.join(owned)})" for value, owned in owners.items())
    counts = {value: values.count(value) for value in values}
    return "; ".join(f"{value} ({count} cells)" for value, count in counts.items())


def _flatten(entries: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in entries.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _parameters(results: Sequence[Result]) -> list[tuple[str, str, int]]:
    """Returns the models that were run, with our number of trainable parameters and Table 8's."""
    ours = {model: [result for result in results if result["model"] == model] for model in ALL_MODELS}
    return [
        (
            Row(model, None).label,
            _listed(result["num_trainable_parameters"] for result in of),
            paper_parameters(model),
        )
        for model, of in ours.items()
        if of
    ]


def _missing(results: Sequence[Result]) -> list[str]:
    """Returns lines on tasks and models without results, missing single results, and scores that are absent or NaN."""
    full, all_seeds = _is_full(results), {result["seed"] for result in results}
    run = {key: {result[key] for result in results} for key in ("task", "model")}
    lines = []
    for key, known in (("task", tuple(TASKS)), ("model", ALL_MODELS if full else MODELS)):
        absent = [name for name in known if name not in run[key]]
        if absent:
            lines.append(f"Not run, {key}s: {', '.join(absent)}.")
    for task in TASKS:
        for model in ALL_MODELS:
            if task in run["task"] and model in run["model"]:
                here = {result["seed"] for result in results if (result["task"], result["model"]) == (task, model)}
                expected = range(num_seeds(models.MODELS[model], "full", "fast")) if full else all_seeds
                if absent_seeds := set(expected) - here:
                    lines.append(f"Missing: {task}, {model}, {_seeds(absent_seeds)}.")
    for result in results:
        for row in ALL_ROWS:
            if row.model == result["model"]:
                values = our_values([result], result["task"], row)
                name = f"{result['task']}, {row.label}, seed {result['seed']}"
                lines += [f"No score: {name}."] if not values else [f"NaN score: {name}."] if isnan(values[0]) else []
    return lines


def _is_full(results: Sequence[Result]) -> bool:
    """Returns True if the results are of the preset that fixes models and numbers of seeds."""
    return {(result["config"]["preset"], result["config"]["protocol"]) for result in results} == {("full", "fast")}


def _commands(results: Sequence[Result], directory: Path) -> list[str]:
    """Returns the commands of these results, one per preset and protocol, and the command of this report."""
    if _is_full(results):
        again = f"python -m studies reproduce arithmetic --preset full --resume --out {quote(str(directory))}"
        return [again, f"python -m studies report {quote(str(directory))}"]
    some = ""
    for option, key, known in (("--tasks", "task", tuple(TASKS)), ("--models", "model", MODELS)):
        run = [name for name in known if any(result[key] == name for result in results)]
        if len(run) < len(known):
            some += f" {option} {','.join(run)}"
    epochs = {result["config"]["epochs"] for result in results}
    if len(epochs) == 1:
        some += f" --epochs {epochs.pop()}"
    some += f" --seeds {max(result['seed'] for result in results) + 1} --resume --out {quote(str(directory))}"
    chosen = {(result["config"]["preset"], result["config"]["protocol"]): None for result in results}
    return [
        *(
            f"python -m studies reproduce arithmetic --preset {preset} --protocol {protocol}{some}"
            for preset, protocol in chosen
        ),
        f"python -m studies report {quote(str(directory))}",
    ]
