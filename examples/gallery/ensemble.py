# %% [markdown]
# # A stack as a deep ensemble
#
# Eight networks are trained at once. Where they disagree, the data have said little.

# %%
import torch
from matplotlib import pyplot as plt
from torch import nn

from janossy import Combinations, JanossyNetwork, JanossyPooling, Ragged, Stack, TupleMLP, predict

generator = torch.Generator().manual_seed(0)


def build(seed):
    torch.manual_seed(seed)
    return JanossyNetwork(None, JanossyPooling(TupleMLP(2, 1, 32), Combinations(2)), nn.Linear(32, 1))


def draw(num, scale=1.0):
    """Returns sets of six numbers and their ranges."""
    x = scale * torch.rand(num, 6, 1, generator=generator)
    return Ragged.from_padded(x), x.amax(1) - x.amin(1)


# %% [markdown]
# `Stack` holds the weights of all networks with a leading axis. Every network reads the same sets here; each could have
# its own. The sum of the losses trains each as if it were alone.

# %%
stack = Stack([build(seed) for seed in range(8)])
optimizer = torch.optim.Adam(stack.parameters(), lr=5e-3)
for _ in range(300):
    sets, target = draw(64)
    losses = (stack(sets) - target).square().mean((1, 2))  # (8,)
    optimizer.zero_grad()
    losses.sum().backward()
    optimizer.step()
print("losses of the last step:", [f"{loss:.1e}" for loss in losses.tolist()])

# %% [markdown]
# `predict` gives the mean of the networks, and their standard deviation as `spread`. The networks have seen numbers up
# to 1. Beyond that they disagree more and more, and a little for very small ones.

# %%
scales = torch.linspace(0.2, 3.0, 15)
spreads, errors = [], []
for scale in scales.tolist():
    sets, target = draw(300, scale)
    prediction = predict(stack, sets)
    spreads.append(prediction.spread.mean().item())
    errors.append((prediction.mean - target).abs().mean().item())

# %%
figure, axes = plt.subplots(num="Spread over networks and error of their mean both grow beyond the training range.")
axes.semilogy(scales, spreads, "o-", label="spread over networks")
axes.semilogy(scales, errors, "s-", label="error of their mean")
axes.axvspan(0, 1, color="0.92")
axes.set(xlabel="largest possible number; the shaded range was seen in training", ylabel="in units of the target")
figure.legend(loc="outside upper right", ncols=2, frameon=False)
