# %% [markdown]
# # A graph: error bars per vertex
#
# A vertex reads its neighbours in a random order at every pass. Several passes give each prediction an error bar.

# %%
import numpy as np
import torch
from matplotlib import pyplot as plt
from torch import nn
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import degree

from janossy import LSTM
from janossy.graph import JanossyAggregation
from janossy.inference import predict_passes

torch.manual_seed(0)
cora = np.load("data/cora.npz")
x = torch.tensor(np.unpackbits(cora["words"], axis=1)[:, : int(cora["num_words"])]).float()
edges, classes = torch.tensor(cora["edges"]).long(), torch.tensor(cora["classes"]).long()
train, test = torch.tensor(cora["train"]), torch.tensor(cora["test"])
print(f"{len(x)} papers, {edges.shape[1]} citations, {int(classes.max()) + 1} subjects, {int(train.sum())} with labels")


# %% [markdown]
# `JanossyAggregation` is an aggregation for any `MessagePassing` layer of torch_geometric.


# %%
class GraphSAGE(nn.Module):
    def __init__(self, num_features, num_classes, width=32):
        super().__init__()
        self.embed = nn.Linear(num_features, width)
        self.convs = nn.ModuleList(
            SAGEConv(width, out, aggr=JanossyAggregation(LSTM(width, width), num_permutations=1))
            for out in (width, num_classes)
        )

    def forward(self, x, edges):
        x = nn.functional.dropout(self.embed(x).relu(), 0.5, self.training)
        x = nn.functional.dropout(self.convs[0](x, edges).relu(), 0.5, self.training)
        return self.convs[1](x, edges)


model = GraphSAGE(x.shape[1], int(classes.max()) + 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
for _ in range(20):  # π-SGD: new orders at every step
    loss = nn.functional.cross_entropy(model(x, edges)[train], classes[train])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% [markdown]
# `predict_passes` averages the probabilities of 20 passes. `change_probability` says how likely it is that the average
# over all orders would give another class.

# %%
model.eval()
passes = predict_passes(lambda: model(x, edges), num_passes=20, link="softmax")
right = passes.mean.argmax(1) == classes
unsettled = passes.change_probability > 0.05
print(f"test accuracy {right[test].float().mean():.3f}; {int(unsettled.sum())} of {len(x)} vertices are unsettled")
print(f"correct: {right[test & unsettled].float().mean():.0%} of unsettled test vertices, ", end="")
print(f"{right[test & ~unsettled].float().mean():.0%} of the others")

# %%
figure, axes = plt.subplots(num="Standard error of each vertex's probability, by its number of neighbours.")
neighbours = degree(edges[1], len(x))
errors = passes.standard_error.amax(1)
axes.loglog(neighbours, errors.clamp(min=1e-7), ".", markersize=3, alpha=0.3, label="settled")
axes.loglog(neighbours[unsettled], errors[unsettled], ".", markersize=5, label="unsettled")
axes.set(xlabel="neighbours", ylabel="standard error", ylim=(1e-5, 0.3))
figure.legend(loc="outside upper right", ncols=2, frameon=False)
