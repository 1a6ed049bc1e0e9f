"""Bounds on a training step of 128 sets of 10 integers, one thread: ``python -m benchmarks.limits``.

- *one set* is our step of a single set: everything that does not grow with the batch, in Python and torch.
- *arithmetic* is the time of the step's products, forward and backward, and of its activations, at measured rates. The
  rates are those of one product of the recurrence's shape, and of the fused kernel on a large batch.
- *limit* is the plain loop's time divided by *arithmetic*: the ratio of a step that is nothing but arithmetic.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.step import NAMES, NUM_STEPS, TASK, authors, on, our_steps, their_steps
from janossy import Combinations, JanossyPooling, Ragged, TupleMLP
from studies.experiments import markdown
from studies.experiments.record import about_here
from studies.paper.arithmetic.models import F_FEATURES, MODELS, Model

NUM_SETS, ROUNDS = 128, 25
RESULTS = Path(__file__).parent / "results"
COLUMNS = ("ours", "one_set", "theirs", "ratio", "arithmetic", "limit")


def main() -> None:
    """Measures every model, and writes results/limits.json and limits.md."""
    products, activations = product_rate(), activation_rate()
    data = {
        "about": __doc__,
        "command": "python -m benchmarks.limits",
        **about_here(),
        "flops_per_second": products,
        "activations_per_second": activations,
        "rows": [row(MODELS[name], products, activations) for name in NAMES],
    }
    (RESULTS / "limits.json").write_text(json.dumps(data, indent=1) + "\n")
    (RESULTS / "limits.md").write_text(table(data))
    print(table(data))


def row(model: Model, products: float, activations: float) -> dict[str, Any]:
    """Returns the milliseconds per step, as medians of rounds in turn."""
    network = model.build(TASK, "sum", "uniform")
    sides = {
        "ours": our_steps(network, NUM_SETS),
        "one_set": our_steps(model.build(TASK, "sum", "uniform"), 1),
        "theirs": their_steps(model, authors(model, network), NUM_SETS),
    }
    times = {name: each / NUM_STEPS for name, each in medians(sides).items()}
    flops, num_activations = arithmetic(model)
    times["arithmetic"] = 1e3 * (flops / products + num_activations / activations)
    return {
        "model": model.name.removesuffix("-linear"),
        **times,
        "ratio": times["theirs"] / times["ours"],
        "limit": times["theirs"] / times["arithmetic"],
    }


def arithmetic(model: Model) -> tuple[float, float]:
    """Returns the flops and activations of a step, forward and backward. Each distinct integer is projected once."""
    H, cells = F_FEATURES[model.f], NUM_SETS * TASK.num_integers
    if model.k is not None:
        return 2 * 2 * TASK.vocabulary * model.k * model.embedding * H, NUM_SETS * model.num_tuples(TASK) * H
    gates, activations = {"lstm": (4, 6), "gru": (3, 3)}[model.f]  # the LSTM's last tanh is computed again in backward
    projections = 2 * 2 * TASK.vocabulary * model.embedding * gates * H
    return projections + 3 * 2 * cells * gates * H * H, cells * activations * H


def product_rate() -> float:
    """Returns the flops per second of the states of 1,280 cells times a recurrence's weights."""
    a, b = torch.randn(1280, 80), torch.randn(80, 240)
    seconds = medians({"product": lambda: torch.mm(a, b)})["product"] / 1e3
    return 2 * 1280 * 80 * 240 / seconds


def activation_rate() -> float:
    """Returns the activations per second of the mean over increasing triples of large sets, with slopes."""
    pool, n = JanossyPooling(TupleMLP(3, 4, 32), Combinations(3), evaluate="fused"), 40
    sets = Ragged.from_padded(torch.randn(64, n, 4))
    seconds = medians({"pool": lambda: pool(sets)})["pool"] / 1e3
    return 64 * pool.orderings.num_rows(n) * 32 / seconds


def medians(sides: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Returns the median milliseconds of each side, called in turn."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for i in range(ROUNDS + 3):
        for name, call in sides.items():
            start = time.perf_counter()
            on(1, call)  # type: ignore[arg-type]
            if i >= 3:
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(each) for name, each in times.items()}


def table(data: dict[str, Any]) -> str:
    """Returns the record as Markdown."""
    versions, rates = data["versions"], (data["flops_per_second"] / 1e9, data["activations_per_second"] / 1e9)
    rows = [[each["model"], *(f"{each[name]:.2f}" for name in COLUMNS)] for each in data["rows"]]
    lines = [
        data["about"].strip(),
        "",
        f"`{data['command']}` on {data['machine']['cpu']}, Python {versions['python']}, torch {versions['torch']}, "
        f"{data['finished'][:10]}: {rates[0]:.0f} GFLOP/s, {rates[1]:.1f} activations/ns. Milliseconds a step.",
        "",
        markdown.table(["model", "ours", "one set", "the plain loop", "ratio", "arithmetic", "limit"], rows),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
