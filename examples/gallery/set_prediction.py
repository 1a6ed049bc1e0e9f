# %% [markdown]
# # A network that predicts a set
#
# An encoder reads the points of a digit as a set and gives one vector. A decoder makes the points from it again, in no
# order. The loss matches each predicted point with one true point, by the Hungarian method.

# %%
import numpy as np
import torch
from matplotlib import pyplot as plt
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from torch import nn

from janossy import JanossyNetwork, JanossyPooling, Ragged, TupleMLP, Tuples
from janossy.losses import assignment_distance
from janossy.nn import Residual, SelfAttention, SetEncoder

torch.manual_seed(0)
WIDTH, MOST = 64, 48

images = load_digits().images
pixels = [np.argwhere(image > 8)[:, ::-1] for image in images]
sets = Ragged.from_sets([torch.tensor(each / 3.5 - 1, dtype=torch.float32) for each in pixels])
train, test = sets[:1500], sets[1500:]
print(f"{len(train)} digits to learn from, {len(test)} to try; {min(sets.sizes)} to {max(sets.sizes)} points each")

# %% [markdown]
# The decoder starts from one learned vector per point, a slot, and adds the digit's vector to each. Slots of one digit
# look at each other by self-attention, so that two do not make the same point. How many points there are is given.


# %%
def block(width):
    """Returns attention between the elements of a set, and a network for each of them."""
    each = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
    return [Residual(SelfAttention(width), norm=nn.LayerNorm(width)), Residual(each)]


class Decoder(nn.Module):
    """Vectors (B, WIDTH) and sizes to sets of points in the plane."""

    def __init__(self):
        super().__init__()
        self.slots = nn.Parameter(torch.randn(MOST, WIDTH))
        self.layers = SetEncoder([*block(WIDTH), *block(WIDTH), nn.Linear(WIDTH, 2)])

    def forward(self, vectors, sizes):
        slots = torch.cat([self.slots[:n] + vector for n, vector in zip(sizes, vectors, strict=True)])
        return self.layers(Ragged.from_sizes(slots, sizes))


pooling = JanossyPooling(TupleMLP(1, WIDTH, 128, activation="relu"), Tuples(1), reduce=("mean", "max"))
encoder = JanossyNetwork(nn.Sequential(nn.Linear(2, WIDTH), nn.ReLU()), pooling, nn.Linear(256, WIDTH))
decoder = Decoder()
parameters = [*encoder.parameters(), *decoder.parameters()]
optimizer = torch.optim.AdamW(parameters, 2e-3)

# %%
EPOCHS, BATCH = 25, 50
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, EPOCHS * len(train) // BATCH)
losses = []
for _ in range(EPOCHS):
    for chosen in torch.randperm(len(train)).split(BATCH):
        batch = train[chosen.tolist()]
        loss = assignment_distance(decoder(encoder(batch), batch.sizes), batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())

# %%
with torch.no_grad():
    found = decoder(encoder(test), test.sizes)
    blind = decoder(encoder(test).roll(1, 0), test.sizes)  # each digit made from another digit's vector
    ours, others = (assignment_distance(each, test).mean().sqrt().item() for each in (found, blind))
pixel = 1 / 3.5
print(f"first loss {losses[0]:.3f}, last 30 steps {np.mean(losses[-30:]):.4f}")
print(f"distance of matched points, root mean square: {ours / pixel:.2f} pixels")
print(f"made from another digit's vector: {others / pixel:.2f} pixels")

# %%
title = "Left: the loss falls. Right: points of three digits, predicted and true, matched by lines."
figure, (left, *right) = plt.subplots(1, 4, num=title, figsize=(10, 2.8))
left.semilogy(np.convolve(losses, np.ones(30) / 30, "valid"))
left.set(xlabel="step", ylabel="assignment distance")
for axis, i in zip(right, (0, 3, 5), strict=True):
    true, made = test[i], found[i]
    rows, columns = linear_sum_assignment(torch.cdist(made, true).square())
    for a, b in zip(made[rows], true[columns], strict=True):
        axis.plot((a[0], b[0]), (-a[1], -b[1]), color="0.7", zorder=0)
    axis.scatter(*(true * torch.tensor([1, -1])).T, s=14, label="true")
    axis.scatter(*(made * torch.tensor([1, -1])).T, s=14, marker="x", label="predicted")
    axis.set_axis_off()
    axis.set(aspect="equal", title=f"a {load_digits().target[1500 + i]}")
right[0].legend(loc="lower left", fontsize=7)
