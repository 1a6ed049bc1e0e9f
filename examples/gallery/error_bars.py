# %% [markdown]
# # Error bars, and when to stop
#
# A recurrence depends a little on the order that it reads. `predict` averages over permutations, and says how far the
# average may still be from that over all n! orders.

# %%
import torch
from matplotlib import pyplot as plt
from torch import nn

from janossy import GRU, JanossyNetwork, JanossyPooling, Ragged, Sampled, predict

torch.manual_seed(0)


def draw(num, n=8):
    x = torch.randn(num, n, 2)
    return Ragged.from_padded(x), x.norm(dim=2).amax(1, keepdim=True)  # how far out the farthest point is


network = JanossyNetwork(None, JanossyPooling(GRU(2, 32), Sampled(1)), nn.Linear(32, 1))
optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
for _ in range(300):  # π-SGD
    sets, target = draw(128)
    loss = (network(sets) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% [markdown]
# More permutations make the standard error smaller. An average over 4,000 stands for all 40,320 orders.

# %%
sets, target = draw(200)
nearly_all = predict(network, sets, 4000, seed=1).mean
numbers = (5, 10, 20, 40, 80, 160)
stated, actual = [], []
for number in numbers:
    prediction = predict(network, sets, number, seed=0)
    stated.append(prediction.standard_error.square().mean().sqrt().item())
    actual.append((prediction.mean - nearly_all).square().mean().sqrt().item())
    print(f"{number:4} permutations: standard error {stated[-1]:.4f}, actual error {actual[-1]:.4f}")

# %% [markdown]
# With a tolerance, each set gets as many permutations as it needs.

# %%
prediction = predict(network, sets, 2000, tolerance=0.01, seed=0)
print(f"permutations used: {int(prediction.num_permutations.min())} to {int(prediction.num_permutations.max())}")

# %%
figure, axes = plt.subplots(num="Stated and actual errors fall together with the number of permutations.")
axes.loglog(numbers, stated, "o-", label="standard error, as stated")
axes.loglog(numbers, actual, "s-", label="actual error")
axes.set(xlabel="permutations", ylabel="error of the mean")
figure.legend(loc="outside upper right", ncols=2, frameon=False)
