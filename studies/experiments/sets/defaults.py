"""The choice of defaults: every strategy on two tasks of pairs, and the settings around them, one at a time.

    python -m studies.experiments.sets.defaults   about an hour on one core

Writes docs/results/sets/defaults.json and defaults.md.

It needs the extra ``dev``. Each run is one process with one thread. An interrupted study resumes.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from studies.experiments.record import Record
from studies.experiments.sets.generators import TASKS
from studies.experiments.sets.training import Data, data_of, fit
from studies.experiments.sets.trees import fit_trees, pair_histogram, statistics

COMMAND = "python -m studies.experiments.sets.defaults"
SIZES = {"orders": (10_000, 5_000), "jets": (2_000, 2_000)}
TRAINING = {"orders": {"epochs": 10, "batch": 64}, "jets": {"epochs": 8, "batch": 32}}
LEARNING_RATE = 3e-3
NUM_INTEGRATED = 300
"""The number of jets whose Bayes probability is integrated."""

PAIRS = ("k2", "k2+features", "k2 told")
STRATEGIES = ("k1", *PAIRS, "max", "attention", "gru")
"""Strategies with their defaults. "k2 told" is "k2+features" with ``Task.features``, an expert's choice."""

VARIATIONS: dict[str, dict[str, Any]] = {
    "the defaults": {},
    "learning rate 0.001": {"learning_rate": 1e-3},
    "learning rate 0.01": {"learning_rate": 1e-2},
    "width 32": {"width": 32},
    "width 128": {"width": 128},
    "depth 1": {"depth": 1},
    "depth 3": {"depth": 3},
    "tanh": {"activation": "tanh"},
    "GELU": {"activation": "gelu"},
    "dropout 0.1": {"dropout": 0.1},
    "pooled vectors as they are": {"norm": False},
    "100 pairs of a set in training": {"num_tuples": 100},
    "all pairs in training": {"num_tuples": None},
}
"""The variations of "k2 told"."""


def runs() -> Iterator[dict[str, Any]]:
    """Yields every cell: a task, the kind of row, its name, and a seed."""
    for task in reversed(TASKS):
        for name in (
            "bayes",
            "trees on statistics",
            *(["trees on statistics and ΔR of pairs"] if task == "jets" else []),
        ):
            yield {"task": task, "kind": "reference", "name": name, "seed": 0}
        for strategy in STRATEGIES:
            for seed in range(3 if task == "orders" or strategy in PAIRS else 1):
                yield {"task": task, "kind": "strategy", "name": strategy, "seed": seed}
    for task in TASKS:
        for variation in VARIATIONS:
            for seed in range(2 if task == "jets" else 1):
                yield {"task": task, "kind": "variation", "name": variation, "seed": seed}


def run(cell: dict[str, Any], data: Data) -> dict[str, Any]:
    """Measures a cell."""
    task = TASKS[cell["task"]]
    if cell["kind"] == "reference":
        return {"auc": _reference(cell["task"], cell["name"])}
    features = dict(task.features)
    if "periods" in features:
        features["units"] = data.units
    changes = VARIATIONS[cell["name"]] if cell["kind"] == "variation" else {}
    strategy = cell["name"] if cell["kind"] == "strategy" else "k2 told"
    settings: dict[str, Any] = {"learning_rate": LEARNING_RATE, **TRAINING[cell["task"]], **changes}
    if strategy == "k2 told":
        strategy, settings["features"] = "k2+features", features
    return vars(fit(task, data, strategy, cell["seed"], **settings))


def _reference(name: str, which: str) -> float:
    task, (num_train, num_test) = TASKS[name], SIZES[name]
    (train, train_y), (test, test_y) = task.draw(num_train, 0), task.draw(num_test, 2)
    if which == "bayes":
        some = test if name == "orders" else test[:NUM_INTEGRATED]
        return float(roc_auc_score(test_y[: len(some)], task.bayes(some)))
    if which == "trees on statistics":
        probabilities = fit_trees(statistics(train, task), train_y, statistics(test, task))
    else:
        both = [np.hstack((statistics(sets, task), pair_histogram(sets))) for sets in (train, test)]
        probabilities = fit_trees(both[0], train_y, both[1])
    return float(roc_auc_score(test_y, probabilities))


def table(cells: Sequence[dict[str, Any]]) -> str:
    """Returns the page, in the order of ``runs``."""
    order = {tuple(cell.values()): place for place, cell in enumerate(runs())}
    cells = sorted(cells, key=lambda cell: order[cell["task"], cell["kind"], cell["name"], cell["seed"]])
    lines = [
        "# Settings on sets of pairs",
        "",
        f"`{COMMAND}`; what orders and jets are: `studies/experiments/sets/generators.py`.",
        "",
    ]
    lines += [
        "AUC on test sets, at the epoch that is best on validation sets (an eighth as many as for training). AdamW,",
        f"one cycle of {LEARNING_RATE:g}, weight decay 0.01, gradients cut to norm 1. A mean is of so many seeds,",
        "beside the worst of them. Seconds are those of one thread's processor in training.",
        "",
    ]
    for task in TASKS:
        of_task = [cell for cell in cells if cell["task"] == task]
        done, asked = len(of_task), sum(cell["task"] == task for cell in runs())
        num_train, num_test = SIZES[task]
        epochs, batch = TRAINING[task]["epochs"], TRAINING[task]["batch"]
        lines += [f"## {task.capitalize()}: {num_train:,} for training, {num_test:,} for the test", ""]
        lines += [f"{TASKS[task].about.capitalize()}. {epochs} epochs in batches of {batch}.", ""]
        if done < asked:
            lines += [f"Of {asked} runs {done} have been made; the same command goes on.", ""]
        lines += ["| | AUC | worst | seeds | seconds | parameters |", "|---|---|---|---|---|---|"]
        for cell in of_task:
            if cell["kind"] == "reference":
                label = "the rule itself (Bayes)" if cell["name"] == "bayes" else cell["name"]
                lines.append(f"| {label} | {cell['auc']:.3f} | | | | |")
        lines += _rows(of_task, "strategy")
        lines += ["", 'One setting of "k2 told" changed at a time:', ""]
        lines += ["| | AUC | worst | seeds | seconds | parameters |", "|---|---|---|---|---|---|"]
        lines += [*_rows(of_task, "variation"), ""]
    return "\n".join(lines).rstrip() + "\n"


def _rows(cells: Sequence[dict[str, Any]], kind: str) -> list[str]:
    lines = []
    for name in dict.fromkeys(cell["name"] for cell in cells if cell["kind"] == kind):
        same = [cell for cell in cells if cell["kind"] == kind and cell["name"] == name]
        scores = [cell["auc"] for cell in same]
        seconds, parameters = mean(cell["seconds"] for cell in same), same[0]["parameters"]
        label = f"`{name}`" if kind == "strategy" else name
        lines.append(
            f"| {label} | {mean(scores):.3f} | {min(scores):.3f} | {len(same)} | {seconds:.0f} | {parameters:,} |"
        )
    return lines


def main() -> None:
    """Runs the missing cells, and writes the page."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--out", type=Path, default=Path("docs/results/sets"))
    out = arguments.parse_args().out
    torch.set_num_threads(1)
    record = Record(out / "defaults.json", COMMAND)
    data: dict[str, Data] = {}
    for cell in runs():
        if record.holds(cell):
            continue
        if cell["task"] not in data:
            data[cell["task"]] = data_of(TASKS[cell["task"]], *SIZES[cell["task"]], seed=0)
        found = run(cell, data[cell["task"]])
        print(json.dumps(cell | found, ensure_ascii=False), flush=True)
        record.add(cell | found)
        (out / "defaults.md").write_text(table(record.cells), encoding="utf-8")


if __name__ == "__main__":
    main()
