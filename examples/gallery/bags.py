# %% [markdown]
# # Bags: which element decides?
#
# A molecule smells of musk if one of its shapes does. Only the molecule has a label: this is multiple-instance
# learning.

# %%
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.model_selection import cross_val_score

from janossy.estimators import SetClassifier
from janossy.tables import as_sets

shapes = pd.read_parquet("data/musk1.parquet")
bags, musk = as_sets(shapes, "musk", set_id="molecule")
print(f"{len(bags)} molecules of {bags.sizes.min()} to {bags.sizes.max()} shapes, {musk.sum()} of them musk")

# %% [markdown]
# `attention` pools by a weighted mean whose weights are learned. The folds of scikit-learn are folds of bags.

# %%
model = SetClassifier("attention", max_epochs=20, validation=0.2, random_state=0)
scores = cross_val_score(model, bags, musk, cv=5)
print(f"accuracy {scores.mean():.2f}, standard error over five folds {scores.std(ddof=1) / 5**0.5:.2f}")

# %% [markdown]
# `element_importance` leaves out one shape at a time. It shows how far each moves the probability of its molecule.

# %%
model.fit(bags, musk)
chosen = [b for b in range(len(bags)) if musk[b] and 5 <= bags.sizes[b] <= 12][:1]
found = model.element_importance(bags[chosen])
figure, axes = plt.subplots(num="Importance of each shape of one musk molecule.")
axes.bar(range(len(found[0])), found[0])
axes.axhline(0, color="0.7", linewidth=1)
axes.set(xlabel="shape", ylabel="share of the probability of musk")
