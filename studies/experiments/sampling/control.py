"""The savings of control variates: minutes on one core.

    python -m studies.experiments.sampling.control [--out docs/results/sampling]

1. ``ControlVariate``: a surrogate of the last k elements, fitted on the training side and measured on test sets.
2. ``CachedMean``: the mean over a few neighbours on PPI-GO, with and without a history.

Writes control.json and control.md.
"""

import argparse
import json
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from torch import Tensor, nn

from janossy import JanossyNetwork, Ragged, Sampled, TupleMLP
from janossy.inference.control import fit_control_variate
from janossy.nn.cached_mean import CachedMean
from janossy.orderings import Bucket, Rows
from janossy.orderings.drawn import Drawn
from studies.experiments.sampling.networks import ARITHMETIC, FUNCTIONS, GRAPH, PPI, Trained, load
from studies.paper.arithmetic.tasks import TASKS

# Part 1
KS = (1, 2, 3)
SEEDS = 3
NUM_SETS, NUM_PERMUTATIONS = 200, 100
NUM_FITTED = 4000
STEPS = {**dict.fromkeys(ARITHMETIC, 400), GRAPH: 150}
TIMED_PERMUTATIONS, TIMED_RUNS = 20, 5

# Part 2
NUMS = (2, 5, 10)
ALL = 10**6
EPOCHS = 3
BATCH = 256
WIDTH = 64
RATE = 5e-3


# 1. Surrogates


def surrogates(networks: Path, data: Path, graph: PPI) -> list[dict[str, Any]]:
    """Returns the variance left by surrogates, per task, function and k: means over the seeds, and their range."""
    found = []
    for task in (*ARITHMETIC, GRAPH):
        for function in FUNCTIONS:
            trained = [load(task, function, seed, NUM_SETS, networks, data) for seed in range(SEEDS)]
            untrained = [replace(trained[0], network=_untrained(trained[0].network))]
            for weights, those in (("trained", trained), ("drawn anew", untrained)):
                parts = [_measured(task, some, seed, graph) for seed, some in enumerate(those)]
                for i, k in enumerate(KS):
                    each = [part[i] for part in parts]
                    row = {name: mean(one[name] for one in each) for name in each[0]}
                    ratios = [one["ratio"] for one in each]
                    found.append(
                        {"task": task, "function": function, "weights": weights, "k": k, **row, "each": ratios}
                    )
                    print(found[-1], flush=True)
    return found


def _untrained(network: JanossyNetwork) -> JanossyNetwork:
    """Returns a copy with other weights in f, whose order-dependence no training has reduced."""
    torch.manual_seed(0)
    network = deepcopy(network)
    network.pooling.f.reset_parameters()
    return network


def _measured(task: str, trained: Trained, seed: int, graph: PPI) -> list[dict[str, float]]:
    """Returns, per k, the within-set variance that a surrogate leaves, the least possible one, and the time."""
    network, sets, generator = trained.network.eval(), trained.sets, torch.Generator().manual_seed(seed)
    if task == GRAPH:
        chosen = torch.randperm(len(graph.train), generator=generator)[:NUM_FITTED]
        fitted = graph.neighbourhoods(graph.train[chosen])
    else:
        fitted = Ragged.from_padded(TASKS[task].draw(NUM_FITTED, seed, 0)[0])
    rows = Sampled(NUM_PERMUTATIONS, scheme="independent").enumerate(sets, generator)
    few = Sampled(TIMED_PERMUTATIONS, scheme="independent").enumerate(sets, generator)

    def outputs(rows: Rows) -> Tensor:
        return trained.link(network.rows(sets, orderings=Drawn(rows, sets.sizes)).values)  # type: ignore[operator]

    found = []
    with torch.no_grad():
        y = _centred(outputs(rows), len(sets))
        for k in KS:
            shared = _centred(
                outputs(Rows(tuple(_reshuffled(b, k, generator) for b in rows.buckets), len(sets))), len(sets)
            )
            arguments = {"link": trained.link, "num_steps": STEPS[task], "generator": generator}
            begun = time.perf_counter()
            control = fit_control_variate(network, fitted, k, **arguments)
            fit_seconds = time.perf_counter() - begun
            left = y - _centred(control.rows(sets, rows), len(sets))
            plain, extra = _seconds(
                lambda: outputs(few), lambda control=control: (control.rows(sets, few), control.mean(sets))
            )
            found.append(
                {
                    "ratio": (left.square().sum() / y.square().sum()).item(),
                    "least_ratio": 1 - ((y * shared).sum() / y.square().sum()).item(),
                    "extra_time": extra / plain,
                    "fit_seconds": fit_seconds,
                }
            )
    return found


def _reshuffled(bucket: Bucket, k: int, generator: torch.Generator) -> Bucket:
    """Returns other permutations with the same last k elements. The covariance of outputs is what those k explain."""
    split = max(0, bucket.length - k)
    first, last = bucket.local[..., :split], bucket.local[..., split:]
    order = torch.rand(first.shape, generator=generator).argsort(-1)
    return replace(bucket, local=torch.cat((first.gather(-1, order), last), -1))


def _centred(outputs: Tensor, num_sets: int) -> Tensor:
    outputs = outputs.unflatten(0, (num_sets, -1))
    return outputs - outputs.mean(1, keepdim=True)


def _seconds(*runs: Callable[[], object]) -> list[float]:
    """Returns the median seconds of each run, interleaved."""
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(1 + TIMED_RUNS):
        for run, times in zip(runs, taken, strict=True):
            begun = time.perf_counter()
            run()
            times.append(time.perf_counter() - begun)
    return [median(times[1:]) for times in taken]


# 2. History


class Neighbours(nn.Module):
    """A network of a vertex's labels from its own features and the mean of f over its neighbours'."""

    def __init__(self, graph: PPI, num: int) -> None:
        super().__init__()
        num_vertices, width = graph.features.shape
        self.pooling = CachedMean(
            TupleMLP(1, width, WIDTH), num_elements=num_vertices, out_features=WIDTH, num_samples=num
        )
        self.output = nn.Linear(WIDTH + width, graph.labels.shape[1])

    def forward(self, graph: PPI, vertices: Tensor, generator: torch.Generator | None = None) -> Tensor:
        ids = neighbour_ids(graph, vertices)
        pooled = self.pooling(ids.with_values(graph.features[ids.values]), ids, generator=generator)
        return self.output(torch.cat((pooled, graph.features[vertices]), 1))


def neighbour_ids(graph: PPI, vertices: Tensor) -> Ragged:
    """Returns the neighbours of these vertices."""
    return Ragged.from_ptr(graph.neighbours, graph.offsets)[vertices]


def histories(graph: PPI) -> list[dict[str, Any]]:
    """Returns the results with a history, without one, and with all neighbours."""
    found = []
    for num, remembers in (*product(NUMS, (True, False)), (ALL, False)):
        found.append(_trained_with(graph, num, remembers))
        print(found[-1], flush=True)
    return found


def _trained_with(graph: PPI, num: int, remembers: bool) -> dict[str, Any]:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    network = Neighbours(graph, num)
    steps = -(-len(graph.train) // BATCH)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, EPOCHS * steps)
    ratios = []
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(graph.train), generator=generator).split(BATCH):
            if not remembers:
                network.pooling.reset_history()
            vertices = graph.train[batch]
            loss = _loss(network(graph, vertices, generator), graph.labels[vertices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if remembers:
            ratios.append(_variance_ratio(network, graph, num, generator))
    with torch.no_grad():
        network.eval()
        losses = {
            name: mean(_loss(network(graph, some), graph.labels[some]).item() for some in vertices.split(1000))
            for name, vertices in (("train", graph.train[:5000]), ("test", graph.test[:5000]))
        }
    name = {"num": num if num in NUMS else None, "history": remembers}
    return {**name, "variance_ratio": ratios, "loss": losses}


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(logits, labels.float())


@torch.no_grad()
def _variance_ratio(network: Neighbours, graph: PPI, num: int, generator: torch.Generator) -> float:
    """Returns the variance ratio of the pooled vectors of 2000 sets, with history over without.

    Neighbours are sampled without replacement.
    """
    ids = neighbour_ids(graph, graph.train[torch.randperm(len(graph.train), generator=generator)[:2000]])
    y = network.pooling.f(graph.features[ids.values][:, None])
    totals = [0.0, 0.0]
    for i, values in enumerate((y - network.pooling.history[ids.values], y)):
        for x in ids.with_values(values):
            if len(x) > num:
                totals[i] += (1 / num - 1 / len(x)) * x.var(0).sum().item()
    return totals[0] / totals[1]


# Tables


def tables(found: dict[str, Any]) -> str:
    """Returns the tables as Markdown."""
    lines = [
        "# What control variates save\n",
        f"By `python -m studies.experiments.sampling.control`, in {found['seconds']:.0f} s on one core.\n",
        "**`ControlVariate`**: the variance within sets of one permutation's output less g, over that of the output.",
        f"g is a perceptron of the last k elements, fitted on {NUM_FITTED} sets of the training side; {NUM_SETS} test",
        f"sets, {NUM_PERMUTATIONS} permutations each, {SEEDS} networks (smallest–largest); and one with the weights of",
        "f drawn anew. *Least*: what any function of the last k elements and of the set would leave, from pairs of",
        "permutations that share those k. *Extra time*: of g's rows and ḡ, relative to the network's forward pass of",
        f"{TIMED_PERMUTATIONS} permutations.\n",
        "| task | f | weights of f | k | variance ratio | least | extra time |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for row in found["surrogates"]:
        low, high = min(row["each"]), max(row["each"])
        spread = f" ({low:.3f}–{high:.3f})" if len(row["each"]) > 1 else ""
        lines.append(
            f"| {row['task'].replace('_', ' ')} | {row['function']} | {row['weights']} | {row['k']} | "
            f"{row['ratio']:.3f}{spread} | {row['least_ratio']:.2f} | {100 * row['extra_time']:.0f} % |"
        )
    lines += [
        "\n**`CachedMean`**: PPI-GO, the labels of a vertex from its features and the mean of f over its",
        f"neighbours, of which num are drawn; {EPOCHS} epochs of Adam with a rate that falls to 0. *Variance*: of the",
        "pooled vectors with the history over that without, same weights, after the first and the last epoch. Losses",
        "are those of the exact means over all neighbours.\n",
        "| num | history | variance, first epoch | last | training loss | test loss |",
        "|---:|---|---:|---:|---:|---:|",
    ]
    for row in found["histories"]:
        ratios = row["variance_ratio"]
        first, last = (f"{ratios[0]:.4f}", f"{ratios[-1]:.5f}") if ratios else ("1", "1")
        first, last = ("–", "–") if row["num"] is None else (first, last)
        lines.append(
            f"| {row['num'] or 'all'} | {'yes' if row['history'] else 'no'} | {first} | {last} | "
            f"{row['loss']['train']:.4f} | {row['loss']['test']:.4f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/results/sampling"))
    parser.add_argument("--networks", type=Path, default=Path("results/sampling"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    graph = PPI(options.data)
    found: dict[str, Any] = {"histories": histories(graph)}
    found["surrogates"] = surrogates(options.networks, options.data, graph)
    found["seconds"] = time.perf_counter() - begun
    (options.out / "control.json").write_text(json.dumps(found, indent=1) + "\n")
    (options.out / "control.md").write_text(tables(found))


if __name__ == "__main__":
    main()
