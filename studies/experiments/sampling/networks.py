"""The networks on which sampling schemes are measured: trained here with five seeds each, and kept on disk.

    python -m studies.experiments.sampling.networks [--data ../shared/data] [--seeds 5] [--networks results/sampling]

GRUs and LSTMs are trained by π-SGD on two arithmetic tasks (range of 5 integers, variance of 10; the quick preset). The
graph task is PPI-GO: a vertex's labels from the set of its neighbours, with one layer. PPI-GO has the graphs and
features of GraphSAGE's PPI, and other labels in place of the original ones.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from janossy import GRU, LSTM, JanossyNetwork, JanossyPooling, Ragged, Sampled
from studies.paper.arithmetic.models import MODELS
from studies.paper.arithmetic.settings import settings_for
from studies.paper.arithmetic.tasks import TASKS
from studies.paper.arithmetic.train import train_networks
from studies.paper.graphs.datasets import read_ppi_go

ARITHMETIC = ("range", "variance")
GRAPH = "ppi_go"
FUNCTIONS = {"gru": GRU, "lstm": LSTM}
WIDTH = 64
EPOCHS = 12
BATCH = 256


@dataclass(frozen=True)
class Trained:
    """A trained network with new sets, and the meaning of its outputs.

    ``link`` maps outputs to predictions. ``targets`` are those of the sets, in the units of predictions.
    """

    network: JanossyNetwork
    sets: Ragged
    targets: Tensor
    link: Callable[[Tensor], Tensor]


def load(task: str, function: str, seed: int, num_sets: int, out: Path, data: Path) -> Trained:
    """Returns a network that ``train`` saved, with ``num_sets`` of its test sets."""
    state = torch.load(_file(out, task, function, seed), weights_only=True)
    if task == GRAPH:
        network = _graph_network(function)
        network.load_state_dict(state["network"])
        graph = PPI(data)
        test = torch.randperm(len(graph.test), generator=torch.Generator().manual_seed(seed))[:num_sets]
        vertices = graph.test[test]
        return Trained(network, graph.neighbourhoods(vertices), graph.labels[vertices].float(), torch.sigmoid)
    settings = settings_for(TASKS[task], MODELS[f"{function}-linear"], "quick", "fast")
    network = MODELS[f"{function}-linear"].build(TASKS[task], settings.reduce, settings.embedding_init)
    network.load_state_dict(state["network"])
    x, y = TASKS[task].draw(num_sets, seed, 2)
    shift, scale = state["shift"], state["scale"]
    return Trained(network, Ragged.from_padded(x), y[:, None], lambda outputs: outputs * scale + shift)


def train(task: str, function: str, seed: int, out: Path, data: Path) -> None:
    """Trains one network, unless it exists."""
    file = _file(out, task, function, seed)
    if file.exists():
        return
    if task == GRAPH:
        state = {"network": _train_on_graph(function, seed, PPI(data)).state_dict()}
    else:
        model = MODELS[f"{function}-linear"]
        settings = settings_for(TASKS[task], model, "quick", "fast")
        (trained,) = train_networks(TASKS[task], model, [seed], settings, lambda epochs: None)
        scaled = trained.scaled
        print(
            task, function, seed, {key: round(trained.history[-1][key], 3) for key in ("accuracy", "rmse")}, flush=True
        )
        state = {"network": scaled.network.state_dict(), "shift": scaled.shift, "scale": scaled.scale}
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, file.with_suffix(".part"))
    file.with_suffix(".part").rename(file)


class PPI:
    """PPI-GO: each vertex as the set of its neighbours' features, with its own; 44,906 training vertices."""

    def __init__(self, data: Path) -> None:
        files = read_ppi_go(data / "ppi")
        self.labels = files.y
        self.train, _, self.test = torch.arange(len(files.x)).tensor_split(files.ends)
        mean, std = files.x[self.train].mean(0), files.x[self.train].std(0)
        self.features = (files.x - mean) / std.clamp_min(1e-6)
        sources, self.neighbours = files.edges
        self.offsets = torch.cat((torch.zeros(1, dtype=torch.long), sources.bincount(minlength=len(files.x)).cumsum(0)))

    def neighbourhoods(self, vertices: Tensor) -> Ragged:
        """Returns the sets of these vertices: a neighbour's features beside the vertex's own, 100 in all."""
        neighbours = Ragged.from_ptr(self.neighbours, self.offsets)[vertices]
        _, owners = neighbours.to_index()
        own = self.features[vertices][owners]
        return neighbours.with_values(torch.cat((self.features[neighbours.values], own), dim=1))


def _graph_network(function: str) -> JanossyNetwork:
    f = FUNCTIONS[function](WIDTH, WIDTH)
    h = nn.Sequential(nn.Linear(100, WIDTH), nn.ReLU())
    return JanossyNetwork(h, JanossyPooling(f, Sampled(1)), nn.Linear(WIDTH, 121))


def _train_on_graph(function: str, seed: int, graph: PPI) -> JanossyNetwork:
    torch.manual_seed(seed)
    network = _graph_network(function)
    steps = -(-len(graph.train) // BATCH)
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, epochs=EPOCHS, steps_per_epoch=steps)
    for _ in range(EPOCHS):
        losses = 0.0
        for batch in torch.randperm(len(graph.train)).split(BATCH):
            vertices = graph.train[batch]
            logits = network(graph.neighbourhoods(vertices))
            loss = nn.functional.binary_cross_entropy_with_logits(logits, graph.labels[vertices].float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses += loss.item() / steps
    print(GRAPH, function, seed, f"last loss {losses:.4f}", flush=True)
    return network


def _file(out: Path, task: str, function: str, seed: int) -> Path:
    return out / "networks" / f"{task}-{function}-{seed}.pt"


def parser(about: str | None) -> argparse.ArgumentParser:
    """Returns a parser of the arguments that all experiments on these networks share."""
    made = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    made.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that holds ppi/ppi.npz")
    made.add_argument("--networks", type=Path, default=Path("results/sampling"), help="where the networks are kept")
    made.add_argument("--out", type=Path, default=Path("docs/results/sampling"))
    made.add_argument("--seeds", type=int, default=5)
    return made


def main() -> None:
    """Trains the missing networks."""
    arguments = parser(__doc__)
    arguments.add_argument("--tasks", default=",".join((*ARITHMETIC, GRAPH)))
    options = arguments.parse_args()
    for seed in range(options.seeds):
        for task in options.tasks.split(","):
            for function in FUNCTIONS:
                train(task, function, seed, options.networks, options.data)


if __name__ == "__main__":
    main()
