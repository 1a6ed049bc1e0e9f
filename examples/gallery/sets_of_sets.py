# %% [markdown]
# # Sets of sets
#
# A patient has slides, and a slide has patches. A document has sentences, and a sentence has words. Only the outer set
# has a label, so the network has two levels. Error bars must count the random orders of both.

# %%
import numpy as np
import torch
from matplotlib import pyplot as plt
from torch import nn

from janossy import GRU, JanossyNetwork, JanossyPooling, Ragged, Sampled, predict
from janossy.inference import predict_passes

torch.manual_seed(0)
random = np.random.default_rng(0)


def patients(num):
    """Returns the patches of all slides (N, 2), the number of slides of each patient, and the patients' targets."""
    num_slides = random.integers(2, 6, num)
    sizes = random.integers(3, 9, num_slides.sum())
    patches = Ragged.from_sizes(torch.randn(int(sizes.sum()), 2), sizes)
    farthest = torch.stack([slide.norm(dim=1).max() for slide in patches])
    slides = Ragged.from_sizes(farthest, num_slides)
    return patches, num_slides, torch.stack([each.min() for each in slides])[:, None]


patches, num_slides, target = patients(3)
print(f"{len(num_slides)} patients of {num_slides} slides, which have {patches.sizes} patches")

# %% [markdown]
# The target is a minimum over slides of a maximum over patches: how far out the farthest patch of a slide is, for the
# slide where that is least. The patches of a patient without their slides do not tell it.
#
# The slides of all patients are one `Ragged`. The inner network makes one vector per slide. `Ragged.from_sizes` makes
# the outer sets from these vectors and the numbers of slides. Each level is a GRU that reads one random order.


# %%
class TwoLevels(nn.Module):
    """Patches of slides, and the number of slides of each patient, to one number per patient."""

    def __init__(self, width=32):
        super().__init__()
        self.inner = JanossyNetwork(None, JanossyPooling(GRU(2, width), Sampled(1)), nn.Linear(width, width))
        self.outer = JanossyNetwork(None, JanossyPooling(GRU(width, width), Sampled(1)), nn.Linear(width, 1))

    def forward(self, patches, num_slides):
        return self.outer(Ragged.from_sizes(self.inner(patches), num_slides))


model = TwoLevels()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(600):
    *sets, target = patients(128)
    loss = (model(*sets) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        print(f"step {step + 1}: loss {loss.item():.4f}")

# %% [markdown]
# `predict_passes` calls the model several times. Each pass draws the orders of slides and of patches anew, so the
# standard error counts both.

# %%
model.eval()
*sets, target = patients(300)
prediction = predict_passes(lambda: model(*sets), 20)
error = (prediction.mean - target).square().mean().sqrt()
print(f"root mean square error {error:.3f}; the targets' standard deviation is {target.std():.3f}")
for value, margin in zip(prediction.mean[:3, 0], prediction.margin()[:3, 0], strict=True):
    print(f"{value:.3f} ± {margin:.3f}")

# %% [markdown]
# Is the standard error right? The standard deviation of repeated predictions agrees with it. `predict` of the outer
# network alone takes the slides' vectors for given. Its standard error misses the draws of the inner network.


# %%
def of_both():
    return predict_passes(lambda: model(*sets), 20)


@torch.no_grad()
def of_outer():
    patches, num_slides = sets
    return predict(model.outer, Ragged.from_sizes(model.inner(patches), num_slides), 20)


figure, axes = plt.subplots(num="The standard error of both levels agrees with repeated predictions, unlike the other.")
for place, (name, way) in enumerate({"of both levels": of_both, "of the outer level": of_outer}.items()):
    predictions = [way() for _ in range(30)]
    stated = predictions[0].standard_error.square().mean().sqrt()
    actual = torch.stack([each.mean for each in predictions]).var(0).mean().sqrt()
    print(f"{name}: standard error {stated:.4f}, standard deviation of 30 predictions {actual:.4f}")
    axes.bar([place - 0.2, place + 0.2], [stated, actual], 0.38, color=["C0", "C1"])
axes.set_xticks([-0.2, 0.2, 0.8, 1.2], ["stated", "actual"] * 2)
axes.set(xlabel="of both levels, and of the outer level alone", ylabel="standard error")
