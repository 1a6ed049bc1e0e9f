# %% [markdown]
# # Replacing `LSTMAggregation` in torch_geometric
#
# PyG's LSTM aggregation pads neighbourhoods, and a vertex's output then changes with its batch. One line replaces it.

# %%
import torch
from matplotlib import pyplot as plt
from torch_geometric.nn import SAGEConv

from janossy import LSTM, Sampled
from janossy.graph import JanossyAggregation

torch.manual_seed(0)
x = torch.randn(30, 8)


def star(num_neighbours, centre, first):
    """Returns edges from that many vertices, beginning with the first, to a centre."""
    return torch.stack((torch.arange(first, first + num_neighbours), torch.full((num_neighbours,), centre)))


conv_before = SAGEConv(8, 4, aggr="lstm").eval()
janossy = JanossyAggregation(LSTM(8, 8), orderings=Sampled(20, seed=0))
conv_after = SAGEConv(8, 4, aggr=janossy).eval()  # was: aggr="lstm"

# %% [markdown]
# Vertex 0 has three neighbours. Vertex 1 joins the batch with more and more neighbours of its own. Nothing about vertex
# 0 changes.


# %%
@torch.no_grad()
def change(conv, num_neighbours):
    """Returns how far the output of vertex 0 moves when vertex 1 joins its batch."""
    alone = star(3, 0, 2)
    together = torch.cat((alone, star(num_neighbours, 1, 5)), 1)
    return (conv(x, together)[0] - conv(x, alone)[0]).abs().max().item()


numbers = range(1, 21)
before = [change(conv_before, n) for n in numbers]
after = [change(conv_after, n) for n in numbers]
print(f"largest change: aggr='lstm' {max(before):.1e}, Janossy pooling {max(after):.1e}")

# %% [markdown]
# PyG's layer also refuses edges that are not sorted by vertex. With a seed, Janossy pooling gives the same output for
# any order of the edges.

# %%
edges = torch.cat((star(3, 0, 2), star(12, 1, 5)), 1)
shuffled = edges[:, torch.randperm(edges.shape[1])]
try:
    conv_before(x, shuffled)
except ValueError as error:
    print("aggr='lstm':", error)
print("Janossy pooling: equal", torch.allclose(conv_after(x, shuffled), conv_after(x, edges), atol=1e-6))

# %%
figure, axes = plt.subplots(num="An output changes with batch-mates under aggr='lstm', and not under Janossy pooling.")
axes.semilogy(numbers, [max(value, 1e-9) for value in before], "o-", label='aggr="lstm"')
axes.semilogy(numbers, [max(value, 1e-9) for value in after], "s-", label="Janossy pooling")
axes.set(xlabel="neighbours of the vertex that joins the batch", ylabel="change of another vertex (1e-9: none)")
figure.legend(loc="outside upper right", ncols=2, frameon=False)
