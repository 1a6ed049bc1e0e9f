# %% [markdown]
# # Densities: completing a set
#
# A density of sets says what may be missing from one. The points of each set here lie around a centre of its own, and
# so do those that the density adds.

# %%
import torch
from matplotlib import pyplot as plt

from janossy import GRU, Ragged
from janossy.density import Autoregressive, Bounded, CategoricalSizes, ExchangeableDensity, complete

torch.manual_seed(0)
generator = torch.Generator().manual_seed(0)


def draw(n):
    """Returns n points of the unit square, around a centre that no other set shares."""
    centre = 0.2 + 0.6 * torch.rand(2, generator=generator)
    return (centre + 0.07 * torch.randn(n, 2, generator=generator)).clamp(0.01, 0.99)


sets = Ragged.from_sets([draw(n) for n in torch.randint(2, 6, (1000,), generator=generator).tolist()])

# %% [markdown]
# `Autoregressive` is a density of sequences. `ExchangeableDensity` averages it over orders. A training step reads one
# random order per set, which gives a lower bound on the log-density.

# %%
q = Autoregressive(GRU(2, 32, per_position=True), Bounded([0.0, 0.0], [1.0, 1.0], num_components=6))
density = ExchangeableDensity(q, sizes=CategoricalSizes.fitted(sets.sizes))
optimizer = torch.optim.Adam(density.parameters(), lr=5e-3)
for step in range(300):
    batch = sets[torch.randint(len(sets), (64,), generator=generator)]
    loss = -density(batch, generator=generator).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        print(f"step {step + 1}: {loss.item():.2f} nats per set")

# %% [markdown]
# `complete` draws the missing elements, given those that are there. Here are 300 draws of a third point, beside two
# known ones.

# %%
known = torch.tensor([[0.30, 0.65], [0.38, 0.60]])
completion = complete(density, Ragged.from_sets([known] * 300), num_missing=1, generator=generator)
new = torch.stack([x[-1] for x in completion.sets.to_sets()])
near = ((new - known.mean(0)).norm(dim=1) < 0.2).float().mean()
print(f"{near:.0%} of the draws are within 0.2 of the known points' middle, where 13% of the square is")

# %%
figure, axes = plt.subplots(num="Draws of a third point lie around the two known ones.")
axes.plot(*new.T, ".", markersize=4, alpha=0.5, label="drawn")
axes.plot(*known.T, "o", label="known")
axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
figure.legend(loc="outside right upper", frameon=False)
