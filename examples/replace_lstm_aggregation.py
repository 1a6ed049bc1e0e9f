"""GraphSAGE on Cora: ``aggr="lstm"`` replaced by Janossy pooling.

    pip install ".[graph]"
    python examples/replace_lstm_aggregation.py

The replacement is the last line of ``convolution``. Its effects are:

- A vertex's embedding no longer depends on the other vertices in its batch, because nothing is padded.
- It no longer depends on the order in which its edges are stored, except by chance. Training samples a new order of
  every neighbourhood at every step (π-SGD), and prediction averages several passes.
- An epoch is faster by the share of padding.
"""

import argparse
import time
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.datasets import Planetoid
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import degree, k_hop_subgraph

from janossy import LSTM, Sampled
from janossy.graph import JanossyAggregation

WIDTH = 32


def convolution(kind: str, out_channels: int) -> SAGEConv:
    if kind == "lstm":
        return SAGEConv(WIDTH, out_channels, aggr="lstm")
    return SAGEConv(WIDTH, out_channels, aggr=JanossyAggregation(LSTM(WIDTH, WIDTH), num_permutations=1))


class GraphSAGE(nn.Module):
    def __init__(self, kind: str, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.embed = nn.Linear(num_features, WIDTH)
        self.convs = nn.ModuleList([convolution(kind, WIDTH), convolution(kind, num_classes)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.embed(x).relu()
        x = nn.functional.dropout(x, 0.5, self.training)
        x = self.convs[0](x, edge_index).relu()
        x = nn.functional.dropout(x, 0.5, self.training)
        return self.convs[1](x, edge_index)


def train(model: GraphSAGE, data: Data, num_epochs: int) -> float:
    """Trains the model and returns the seconds per epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    model.train()
    start = time.perf_counter()
    for _ in range(num_epochs):
        logits = model(data.x, data.edge_index)
        loss = nn.functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (time.perf_counter() - start) / num_epochs


@torch.no_grad()
def test_accuracy(model: GraphSAGE, data: Data, num_passes: int) -> float:
    """Returns the accuracy of the mean probabilities over passes, each with its own orders (Remark 2.2)."""
    model.eval()
    passes = [model(data.x, data.edge_index).softmax(-1) for _ in range(num_passes)]
    predicted = torch.stack(passes).mean(0).argmax(-1)
    return (predicted == data.y)[data.test_mask].double().mean().item()


@torch.no_grad()
def change_by_batch_mates(model: GraphSAGE, data: Data) -> float:
    """Returns how much the output of a vertex changes when the vertex with the most neighbours joins its batch.

    Both batches hold all that the two layers see of the vertex, in the same order.
    """
    model.eval()
    degrees = degree(data.edge_index[1], data.num_nodes)
    vertex, hub = int((degrees == 3).nonzero()[0]), int(degrees.argmax())

    def output(batch: list[int]) -> Tensor:
        vertices = k_hop_subgraph(batch, 2, data.edge_index, num_nodes=data.num_nodes)[0]
        part = data.subgraph(vertices)
        return model(part.x, part.edge_index)[int((vertices == vertex).nonzero())]

    return (output([vertex]) - output([vertex, hub])).abs().max().item()


def fix_orders(model: GraphSAGE) -> None:
    """Makes permutations of a neighbourhood a function of its elements from now on: the model is deterministic."""
    for conv in model.convs:
        if isinstance(conv.aggr_module, JanossyAggregation):
            conv.aggr_module.pooling.orderings = Sampled(1, seed=0)


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    parser = argparse.ArgumentParser(description="GraphSAGE on Cora, with aggr='lstm' and with Janossy pooling.")
    parser.add_argument("--data", default="data/planetoid", help="the folder of the Planetoid data, else downloaded")
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args(arguments)

    data = Planetoid(options.data, "Cora")[0]
    data = data.sort(sort_by_row=False)  # for aggr="lstm", which refuses other orders of the edges
    num_classes = int(data.y.max()) + 1

    results = {}
    print(f"{'aggr':8} {'test accuracy':>13} {'s / epoch':>10} {'change of an output by batch-mates':>35}")
    for kind, num_passes in (("lstm", 1), ("janossy", 20)):
        torch.manual_seed(0)
        model = GraphSAGE(kind, data.num_features, num_classes)
        seconds = train(model, data, options.epochs)
        accuracy = test_accuracy(model, data, num_passes)
        fix_orders(model)
        change = change_by_batch_mates(model, data)
        print(f"{kind:8} {accuracy:13.3f} {seconds:10.3f} {change:35.1e}")
        results[kind] = {"accuracy": accuracy, "seconds": seconds, "change": change}
    return results


if __name__ == "__main__":
    main()
