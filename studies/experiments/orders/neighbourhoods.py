"""Neighbourhoods in canonical orders on Cora: the comparison of Moore & Neville (2017) and PATCHY-SAN, on a small
scale.

    python -m studies.experiments.orders.neighbourhoods [--data ../shared/data]

Networks have two layers, each [A x_v, GRU of the first K neighbours]. Neighbours are ordered in one of three ways:

- by degree, PageRank, PageRank from the centre or betweenness, the most central first
- in the mean over these four orders, with equal or learned weights
- at random (π-SGD, with 20 passes averaged)

Writes neighbourhoods.json, .md and .png.
"""

import argparse
import time
from pathlib import Path
from statistics import mean, stdev

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from janossy import GRU, Canonical, JanossyPooling, Ragged, Sampled
from janossy.graph import neighbour_keys
from janossy.orderings import Orderings, OrderWeights
from studies.experiments.orders import strips
from studies.experiments.record import Record
from studies.paper.graphs.datasets import VertexData, load

COMMAND = "python -m studies.experiments.orders.neighbourhoods"
CENTRALITIES = ("degree", "pagerank", "personalised_pagerank", "betweenness")
FOUR = tuple(range(len(CENTRALITIES)))
K, HIDDEN, EPOCHS, RATE, DECAY, DROPOUT, NUM_PASSES = 8, 32, 40, 1e-2, 5e-4, 0.5, 20
SEEDS = range(3)
NAMES = {
    "random": "random: π-SGD, 20 passes",
    **{name: name.replace("_", " ").replace("pagerank", "PageRank") for name in CENTRALITIES},
    "reversed": "degree, the least central first",
    "four": "mean over the four",
    "weighed": "mean over the four, learned weights",
}


def orders(row: str) -> Orderings:
    """Returns the orderings of a row. Keys are four centralities, and then a tie-breaker."""
    if row == "random":
        return Sampled(1, k=K)
    if row == "reversed":
        return Canonical(key=rising_degree, k=K)
    if row in CENTRALITIES:
        return Canonical(key=CENTRALITIES.index(row), k=K)
    return Canonical(key=FOUR, k=K, order_weights=OrderWeights(len(FOUR)) if row == "weighed" else None)


def rising_degree(keys: Tensor) -> Tensor:
    return -keys[:, CENTRALITIES.index("degree")]


class Layer(nn.Module):
    """The layer [A x_v, f̄(neighbours)], with equally many units of both."""

    def __init__(self, in_features: int, row: str) -> None:
        super().__init__()
        self.own = nn.Linear(in_features, HIDDEN)
        self.project = nn.Linear(in_features, HIDDEN)
        self.pool = JanossyPooling(GRU(HIDDEN, HIDDEN), orders(row))

    def forward(self, x: Tensor, neighbours: Ragged, keys: Ragged) -> Tensor:
        sets = neighbours.with_values(self.project(x)[neighbours.values])
        return torch.cat((self.own(x), self.pool(sets, keys=keys)), 1)


class Network(nn.Module):
    """Two layers, and a linear map to the classes."""

    def __init__(self, in_features: int, num_classes: int, row: str) -> None:
        super().__init__()
        self.first, self.second = Layer(in_features, row), Layer(2 * HIDDEN, row)
        self.rho, self.dropout = nn.Linear(2 * HIDDEN, num_classes), nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, neighbours: Ragged, keys: Ragged) -> Tensor:
        hidden = self.dropout(self.first(x, neighbours, keys).relu())
        return self.rho(self.second(hidden, neighbours, keys).relu())


def keys_of(data: VertexData, file: Path) -> Tensor:
    """Returns the centralities of every edge's neighbour, with its number as tie-breaker; computed once and cached."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save(neighbour_keys(data.graph, CENTRALITIES), file)
    # Equal centralities differ by rounding. The vertex's own features would also break ties, with 1,433 columns.
    centralities = torch.load(file, weights_only=True).round(decimals=9)
    return torch.cat((centralities, data.graph.neighbours[:, None]), 1)


def cell(data: VertexData, keys: Tensor, row: str, seed: int) -> dict:
    """Trains one network on the whole graph and scores the test vertices."""
    torch.manual_seed(seed)
    network = Network(data.x.shape[1], data.num_classes, row)
    edges = data.graph.edges(torch.arange(len(data.graph)))
    neighbours, by = edges.with_values(data.graph.neighbours[edges.values]), edges.with_values(keys[edges.values])
    x = data.x.to_dense()
    optimizer = torch.optim.Adam(network.parameters(), RATE, weight_decay=DECAY)
    begin = time.process_time()
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x, neighbours, by)[data.train], data.y[data.train]).backward()
        optimizer.step()
    seconds, network = round(time.process_time() - begin, 1), network.eval()
    with torch.no_grad():
        passes = [network(x, neighbours, by).softmax(1) for _ in range(NUM_PASSES if row == "random" else 1)]
    right = torch.stack(passes).mean(0).argmax(1) == data.y
    found = {"test": _share(right[data.test]), "validation": _share(right[data.validation]), "seconds": seconds}
    if row == "weighed":
        layers = (network.first, network.second)
        found["weights"] = [[round(w, 3) for w in layer.pool.orderings.order_weights().tolist()] for layer in layers]
    return found


def _share(right: Tensor) -> float:
    return round(float(right.float().mean()), 4)


def table(cells: list[dict]) -> str:
    """Returns the page, in the order of ``NAMES``."""
    lines = ["# Neighbourhoods of Cora in canonical orders", "", f"`{COMMAND}`", ""]
    lines += [
        f"Two layers of GRUs of {HIDDEN} units over the first {K} neighbours, dropout {DROPOUT:g}, {EPOCHS}",
        "epochs on the whole graph; splits as in the paper (1208 vertices for training, 1000 for the test), drawn",
        "anew for each seed. Accuracy on test vertices, mean and standard deviation; the difference to random by seed.",
        "",
        "| order of the neighbours | seeds | accuracy | less that of random orders | seconds |",
        "|---|---|---|---|---|",
    ]
    random = {c["seed"]: c["test"] for c in cells if c["row"] == "random"}
    for row, title in NAMES.items():
        of_row = [c for c in cells if c["row"] == row]
        if not of_row:
            continue
        gains = [c["test"] - random[c["seed"]] for c in of_row if c["seed"] in random]
        gain = "" if row == "random" else _spread(gains, "+")
        seconds = f"{mean(c['seconds'] for c in of_row):.0f}"
        lines.append(f"| {title} | {len(of_row)} | {_spread([c['test'] for c in of_row])} | {gain} | {seconds} |")
    weights = [c["weights"] for c in cells if c["row"] == "weighed"]
    if weights:
        means = [[mean(w[layer][j] for w in weights) for j in FOUR] for layer in (0, 1)]
        said = [", ".join(f"{name} {w:.2f}" for name, w in zip(CENTRALITIES, each, strict=True)) for each in means]
        lines += ["", f"Learned weights, mean: layer one {said[0]}; layer two {said[1]}."]
    if len(cells) < len(NAMES) * len(SEEDS):
        lines += ["", f"Of {len(NAMES) * len(SEEDS)} runs {len(cells)} have been made; the same command goes on."]
    return "\n".join(lines).replace("_", " ") + "\n"


def _spread(values: list[float], sign: str = "") -> str:
    return f"{mean(values):{sign}.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


def draw_figure(cells: list[dict], path: Path) -> None:
    """Draws the accuracy of every run."""
    figure = Figure(figsize=(6.5, 2.8), layout="constrained")
    rows = {title: [c["test"] for c in cells if c["row"] == row] for row, title in NAMES.items()}
    colours = [strips.LEARNED if row == "weighed" else strips.GIVEN for row in NAMES]
    strips.strips(figure.subplots(), rows, colours, mean, "accuracy on test vertices (each seed, and the mean)")
    figure.savefig(path, dpi=130, metadata={"Software": None})


def main() -> None:
    """Runs the missing cells, and writes page and figure."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--out", type=Path, default=Path("docs/results/orders"))
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of planetoid/Cora")
    arguments.add_argument("--keys", type=Path, default=Path("cora-keys.pt"), help="where centralities are kept")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    record = Record(options.out / "neighbourhoods.json", COMMAND)
    for seed in SEEDS:
        missing = list(record.missing({"row": row, "seed": seed} for row in NAMES))
        if not missing:
            continue
        data = load("cora", options.data, seed)
        keys = keys_of(data, options.keys)
        for key in missing:
            record.add(key | cell(data, keys, **key))
            print(record.cells[-1], flush=True)
    (options.out / "neighbourhoods.md").write_text(table(record.cells), encoding="utf-8")
    draw_figure(record.cells, options.out / "neighbourhoods.png")


if __name__ == "__main__":
    main()
