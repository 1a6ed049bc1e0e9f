"""The orders of interaction, 1, 2, 3 or more, in the information of a vertex's neighbours on its label.

    python -m studies.experiments.graphs.interactions [--data ../shared/data] [--out docs/results/graphs]

Trains networks of order 0, 1, 2 and 3 in the neighbours, and two of any order. Labels are real, or planted ones of a
known order. ``interaction_order`` measures the orders of what the last two networks have learnt. Writes
interactions.json, run by run, and interactions.md.
"""

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from janossy import Ragged
from janossy.inference import interaction_order
from studies.experiments.graphs.interaction_tables import table
from studies.experiments.graphs.neighbour_tasks import SHARPNESS, Task, mean_product, planted, planted_log_odds, real
from studies.experiments.graphs.readers import FLEXIBLE, MODELS, Reader, Schedule, fit, mean_logits
from studies.experiments.record import Record
from studies.paper.graphs.datasets import load
from studies.paper.graphs.train import loss_of, micro_f1

NUM_PASSES = 10
NUM_ELEMENTS = 4
"""The size of the sets in ``interaction_order``: orders 1, 2, 3, and the remainder, 4."""
NUM_VERTICES = 40
NUM_CUBES = 100
TRUTH = "truth"


@dataclass(frozen=True)
class Setup:
    """Planted labels of order ``planted``, or real ones. ``hidden``: the signs of vertices are hidden in their
    words."""

    dataset: str
    schedule: Schedule
    num_seeds: int
    planted: int | None = None
    hidden: bool = False

    def task(self, folder: Path, seed: int) -> Task:
        data = load(self.dataset, folder, seed)
        return real(data) if self.planted is None else planted(data, self.planted, seed, self.hidden)

    @property
    def models(self) -> tuple[str, ...]:
        return MODELS if self.planted is None else (*MODELS, TRUTH)


CORA = Schedule(64, 0.7, 0.001, 5e-3, batch=256, num_steps=120, look_every=5)
SIGNS = Schedule(64, 0.2, 0.01, 0.0, batch=256, num_steps=300, look_every=5)
PUBMED = Schedule(64, 0.5, 0.005, 5e-4, batch=512, num_steps=500, look_every=20)
PPI_GO = Schedule(64, 0.0, 0.01, 0.0, batch=1024, num_steps=1000, look_every=100)

SETUPS = {
    "Cora": Setup("cora", CORA, 10),
    "PubMed": Setup("pubmed", PUBMED, 3),
    "planted, order 2, hidden in PubMed's words": Setup("pubmed", PUBMED, 3, 2, hidden=True),
    "planted, order 2, on Cora's edges": Setup("cora", SIGNS, 3, 2),
    "planted, order 3, on Cora's edges": Setup("cora", SIGNS, 3, 3),
    "planted, order 2, hidden in Cora's words": Setup("cora", CORA, 3, 2, hidden=True),
    "PPI-GO": Setup("ppi-go", PPI_GO, 3),
}


def cell(task: Task, model: str, seed: int, schedule: Schedule) -> dict:
    """Trains one network and scores it. For a network of any order, also measures the orders that it has learnt."""
    torch.manual_seed(np.random.SeedSequence((seed, *model.encode())).generate_state(1)[0].item())
    test = task.data.test
    if model == TRUTH:
        log_odds = planted_log_odds(task.signs, task.data, test, task.planted)
        return _scores(torch.stack((-log_odds, log_odds), 1) / 2, task) | _orders(truth_of(task), task, seed)
    network = Reader(model, task.own.shape[1], task.neighbour.shape[1], task.num_classes, schedule)
    found = fit(network, task, schedule)
    found |= _scores(mean_logits(network, task, test, NUM_PASSES), task)
    found["num_trainable_parameters"] = sum(p.numel() for p in network.parameters())
    return found | (_orders(target_of(network, task), task, seed) if model in FLEXIBLE else {})


def _scores(logits: Tensor, task: Task) -> dict:
    y = task.data.y[task.data.test]
    probabilities = logits.sigmoid() if task.data.multilabel else logits.softmax(1)
    return {"test": round(micro_f1(probabilities, y), 6), "cross_entropy": round(loss_of(logits, y).item(), 6)}


Target = tuple[Callable[[int, Ragged], Tensor], Tensor]
"""A function of a vertex and sets of elements, and every vertex as an element (V, d)."""


@torch.no_grad()
def target_of(network: Reader, task: Task) -> Target:
    """Returns a network's logits minus their mean over classes, which the softmax ignores."""

    def target(vertex: int, sets: Ragged) -> Tensor:
        logits = network.read(task.own[vertex].expand(len(sets), -1), sets, exact=True).double()
        return logits if task.data.multilabel else logits - logits.mean(1, keepdim=True)

    return target, network.eval().neighbour(task.neighbour)


def truth_of(task: Task) -> Target:
    """Returns the log-odds of planted labels."""

    def target(_: int, sets: Ragged) -> Tensor:
        return SHARPNESS * mean_product(sets.with_values(sets.values[:, 0]), task.planted)

    return target, task.signs[:, None]


def _orders(target: Target, task: Task, seed: int) -> dict:
    return {"own": orders(target, task, seed, near=True), "any": orders(target, task, seed, near=False)}


def orders(target: Target, task: Task, seed: int, near: bool) -> list[float]:
    """Returns the shares of orders 1, 2, 3 in the variance over sets of NUM_ELEMENTS neighbours.

    ``near``: True for the vertex's own neighbours, False for any vertices. The shares are of NUM_VERTICES test vertices
    with enough neighbours, all outputs together: Σ V_j / Σ Var.
    """
    function, elements = target
    graph, test = task.data.graph, task.data.test
    several = test[graph.degrees[test] >= NUM_ELEMENTS]
    powers, variance = torch.zeros(3, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for i in torch.randperm(len(several), generator=torch.Generator().manual_seed(seed))[:NUM_VERTICES].tolist():
        drawn_from = elements[graph.whole(several[i : i + 1]).values] if near else elements
        if (drawn_from == drawn_from[0]).all():
            continue  # a constant has no variance to add
        vertex = several[i].item()
        found = interaction_order(
            lambda sets, v=vertex: function(v, sets), drawn_from, NUM_ELEMENTS, num_samples=NUM_CUBES, seed=vertex
        )
        powers += (found.shares * found.variance).reshape(3, -1).sum(1)
        variance += found.variance.sum()
    return [round(share, 5) for share in (powers / variance).tolist()]


def main() -> None:
    """Runs the missing cells, and writes the page after every run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--out", type=Path, default=Path("docs/results/graphs"))
    parser.add_argument("--tasks", nargs="+", choices=SETUPS, default=list(SETUPS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = Record(options.out / "interactions.json", "python -m studies.experiments.graphs.interactions")
    for name in options.tasks:
        setup = SETUPS[name]
        for seed in range(setup.num_seeds):
            missing = list(record.missing({"task": name, "model": model, "seed": seed} for model in setup.models))
            task = setup.task(options.data, seed) if missing else None
            for key in missing:
                schedule = {} if key["model"] == TRUTH else {"schedule": asdict(setup.schedule)}
                record.add(key | schedule | cell(task, key["model"], seed, setup.schedule))
                print({name: value for name, value in record.cells[-1].items() if name != "schedule"}, flush=True)
                (options.out / "interactions.md").write_text(table(record.cells), encoding="utf-8")
    (options.out / "interactions.md").write_text(table(record.cells), encoding="utf-8")


if __name__ == "__main__":
    main()
