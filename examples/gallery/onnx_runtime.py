# %% [markdown]
# # Exporting to ONNX
#
# A trained network becomes one file that onnxruntime runs without torch. It takes padded sets of any sizes.

# %%
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from matplotlib import pyplot as plt
from torch import nn

from janossy import Combinations, JanossyNetwork, JanossyPooling, Ragged, TupleMLP, export_onnx

torch.manual_seed(0)
network = JanossyNetwork(None, JanossyPooling(TupleMLP(2, 2, 32), Combinations(2)), nn.Linear(32, 1))
optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
for _ in range(200):  # learns the mean distance of points
    x = torch.rand(64, 5, 2)
    target = torch.stack([torch.pdist(each).mean() for each in x])[:, None]
    loss = (network(Ragged.from_padded(x)) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.1e}")

# %%
path = Path(tempfile.mkdtemp()) / "network.onnx"
sets = Ragged.from_sets([torch.rand(n, 2) for n in (4, 7, 2, 5)])
export_onnx(network, path, example=sets)
session = onnxruntime.InferenceSession(str(path))
for value in (*session.get_inputs(), *session.get_outputs()):
    print(f"{value.name:5} {value.type:15} {value.shape}")

# %% [markdown]
# The inputs are x (B, n, 2) and a mask (B, n). Both sizes are free: the file was made from four sets, and reads 200.

# %%
others = Ragged.from_sets([torch.rand(n, 2) for n in torch.randint(2, 13, (200,)).tolist()])
x, mask = others.to_padded()
(exported,) = session.run(None, {"x": x.numpy(), "mask": mask.numpy()})
with torch.no_grad():
    original = network(others).numpy()
print(f"largest difference: {np.abs(exported - original).max():.1e}")

# %%
figure, axes = plt.subplots(num="Outputs of onnxruntime against those of torch: all on the diagonal.")
axes.axline((0.5, 0.5), slope=1, color="0.7", linewidth=1)
points = axes.scatter(original, exported, s=12, c=others.sizes)
figure.colorbar(points, label="elements in the set")
axes.set(xlabel="torch", ylabel="onnxruntime")
