# %% [markdown]
# # Learned orders
#
# Pairs (a, b): the target reads the a's in the order of the b's. A scorer finds that order from the targets alone.

# %%
import torch
from matplotlib import pyplot as plt
from torch import nn

from janossy import GRU, JanossyNetwork, JanossyPooling, Ragged, predict
from janossy.losses import OrderLoss
from janossy.orderings import Learned

torch.manual_seed(0)


def draw(num):
    """Returns sets of four pairs, and how much the a's rise from each b to the next higher one."""
    x = torch.randn(num, 4, 2)
    a = x[..., 0].gather(1, x[..., 1].argsort(1))
    return Ragged.from_padded(x), (a * torch.tensor([1.0, -0.5, 0.25, -0.125])).sum(1, keepdim=True)


# %% [markdown]
# `Learned` draws orders in training, by the scores of the elements. `OrderLoss` gives the scorer a gradient: here the
# score function, which compares four orders of each set.

# %%
scorer = nn.Linear(2, 1)
network = JanossyNetwork(None, JanossyPooling(GRU(2, 32), Learned(scorer)), nn.Linear(32, 1))
objective = OrderLoss(nn.MSELoss(reduction="none"), estimator="score", num_permutations=4)
others = [p for name, p in network.named_parameters() if "of_orderings" not in name]
optimizer = torch.optim.Adam([{"params": others}, {"params": scorer.parameters(), "lr": 0.05}], lr=0.01)
weights, losses = [], []
for _ in range(500):
    loss = objective(network, *draw(64))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    weights.append(scorer.weight.detach()[0].clone())
    losses.append(loss.item())

# %% [markdown]
# Elements with a higher score come first. A score that depends on b alone is the order of the b's, or its reverse.

# %%
sets, target = draw(2000)
error = (predict(network, sets).mean - target).square().mean() / target.var()
a, b = weights[-1].tolist()
print(f"score = {a:.1f} · a + {b:.1f} · b; share of the variance that is not explained: {error:.3f}")

# %%
figure, (left, right) = plt.subplots(
    1, 2, num="Left: the weight of b in the score grows, that of a does not. Right: the training loss falls."
)
left.plot(torch.stack(weights), label=["a", "b"])
left.set(xlabel="step", ylabel="weight in the score")
left.legend(frameon=False)
right.semilogy(losses)
right.set(xlabel="step", ylabel="loss")
