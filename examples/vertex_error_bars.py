"""GraphSAGE on Cora with an LSTM over neighbours: how sure is each vertex's class, as far as the order matters?

    pip install ".[fast,graph]"
    python examples/vertex_error_bars.py

A model trained by π-SGD reads its neighbours in a new order at every pass. ``predict_passes`` averages the
probabilities of 20 passes (Remark 2.2), and gives the error of that average relative to all orders. The example shows:

- 20 passes leave the classes of few vertices unsettled. Another 200 passes change about as many classes as the sum of
  ``change_probability`` over all vertices. Nearly all of these are unsettled.
- The mean of 20 passes is hardly more accurate than one pass, because few classes depend on the order.
- Errors are two to three times as frequent among the unsettled vertices. They are about as frequent among equally many
  vertices whose two likeliest classes are closest. An error bar measures the effect of the order, and not how sure the
  model should be.
"""

import argparse
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.datasets import Planetoid
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import degree, scatter

from janossy import LSTM
from janossy.graph import JanossyAggregation
from janossy.inference import Prediction, predict_passes

WIDTH = 32
UNSETTLED = 0.05
"""The probability above which a vertex is unsettled: that all orders together would give another class."""


def convolution(out_channels: int) -> SAGEConv:
    return SAGEConv(WIDTH, out_channels, aggr=JanossyAggregation(LSTM(WIDTH, WIDTH), num_permutations=1))


class GraphSAGE(nn.Module):
    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.embed = nn.Linear(num_features, WIDTH)
        self.convs = nn.ModuleList([convolution(WIDTH), convolution(num_classes)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.embed(x).relu()
        x = nn.functional.dropout(x, 0.5, self.training)
        x = self.convs[0](x, edge_index).relu()
        x = nn.functional.dropout(x, 0.5, self.training)
        return self.convs[1](x, edge_index)


def train(model: GraphSAGE, data: Data, num_epochs: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    model.train()
    for _ in range(num_epochs):
        logits = model(data.x, data.edge_index)
        loss = nn.functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def predict(model: GraphSAGE, data: Data, num_passes: int, *, keep_outputs: bool = False) -> Prediction:
    model.eval()
    return predict_passes(lambda: model(data.x, data.edge_index), num_passes, link="softmax", keep_outputs=keep_outputs)


def has_orders(data: Data) -> Tensor:
    """Returns True for vertices with two neighbours, or a neighbour with two: their order is then read."""
    sources, targets = data.edge_index
    degrees = degree(targets, data.num_nodes)
    most = scatter(degrees[sources], targets, dim_size=data.num_nodes, reduce="max")
    return (degrees >= 2) | (most >= 2)


def share(of: Tensor) -> float:
    return of.double().mean().item()


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description="Error bars of GraphSAGE's predictions for the vertices of Cora.")
    parser.add_argument("--data", default="data/planetoid", help="the folder of the Planetoid data, else downloaded")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--check", type=int, default=200, help="further passes, in the place of all orders")
    options = parser.parse_args(arguments)

    data = Planetoid(options.data, "Cora")[0]
    torch.manual_seed(0)
    model = GraphSAGE(data.num_features, int(data.y.max()) + 1)
    train(model, data, options.epochs)
    prediction = predict(model, data, options.passes, keep_outputs=True)
    classes = prediction.mean.argmax(1)
    unsettled = prediction.change_probability > UNSETTLED
    changed = predict(model, data, options.check).mean.argmax(1) != classes

    test, wrong, ordered = data.test_mask, classes != data.y, has_orders(data)
    right_once = (prediction.outputs.argmax(2) == data.y[:, None])[test].double().mean(0)
    errors = prediction.standard_error.amax(1)
    first, second = prediction.mean.topk(2).values.unbind(1)
    closest = (first - second)[test].argsort()[: int((test & unsettled).sum())]
    r = {
        "accuracy_of_one": right_once.mean().item(),
        "spread_of_one": right_once.std().item(),
        "accuracy": share(~wrong[test]),
        "error": errors[ordered].median().item(),
        "error_without_orders": errors[~ordered].max().item(),
        "share_with_error": share(errors[ordered] > 1e-6),
        "unsettled": int(unsettled.sum()),
        "expected_changes": prediction.change_probability.sum().item(),
        "changed_unsettled": int(changed[unsettled].sum()),
        "changed_settled": int(changed[~unsettled].sum()),
        "wrong_unsettled": share(wrong[test & unsettled]),
        "wrong_settled": share(wrong[test & ~unsettled]),
        "wrong_closest": share(wrong[test][closest]),
    }
    print(
        f"test accuracy: {r['accuracy_of_one']:.3f} ± {r['spread_of_one']:.3f} of one pass, "
        f"{r['accuracy']:.3f} of the mean of {options.passes}"
    )
    print(
        f"standard error, the largest of a vertex: median {r['error']:.0e}; at most "
        f"{r['error_without_orders']:.0e} of the {int((~ordered).sum())} vertices with nothing to order"
    )
    print(
        f"unsettled: {r['unsettled']} of {data.num_nodes} vertices; {options.check} further passes change "
        f"{r['changed_unsettled']} of them and {r['changed_settled']} others, of {r['expected_changes']:.0f} expected"
    )
    print(
        f"wrong: {r['wrong_unsettled']:.0%} of the {len(closest)} unsettled test vertices, {r['wrong_settled']:.0%} of "
        f"the others, {r['wrong_closest']:.0%} of the {len(closest)} whose two likeliest classes are closest"
    )
    return r


if __name__ == "__main__":
    main()
