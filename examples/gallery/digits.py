# %% [markdown]
# # Digits as sets of points
#
# An image becomes a set: one point per dark pixel, with its place and its ink. Sizes differ, and no order is given.

# %%
import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from janossy.estimators import SetClassifier

images, digits = load_digits(return_X_y=True)


def points(image):
    """Returns the dark pixels of an image: x, y and ink, (n, 3)."""
    y, x = np.nonzero(image.reshape(8, 8))
    return np.column_stack((x, y, image.reshape(8, 8)[y, x])).astype(np.float32)


sets = [points(image) for image in images]
train, test, y_train, y_test = train_test_split(sets, digits, test_size=500, random_state=0, stratify=digits)
print(f"{len(train)} sets of {min(map(len, sets))} to {max(map(len, sets))} points")

# %%
model = SetClassifier("max", max_epochs=12, validation=0.1, random_state=0).fit(train, y_train)
print(f"accuracy on {len(test)} other images: {model.score(test, y_test):.3f}")

# %% [markdown]
# Points may be missing. The network has learned from whole images; here it reads a random part of the points.

# %%
random = np.random.default_rng(0)
shares = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
scores = []
for share in shares:
    kept = [x[random.permutation(len(x))[: max(1, round(share * len(x)))]] for x in test]
    scores.append(model.score(kept, y_test))

# %%
figure, (left, right) = plt.subplots(1, 2, num="Left: a digit as points. Right: accuracy falls as points are left out.")
left.scatter(test[0][:, 0], -test[0][:, 1], s=12 * test[0][:, 2], c=test[0][:, 2], cmap="viridis")
left.set_axis_off()
left.set(aspect="equal", title=f"a {y_test[0]}, read as {model.predict(test[:1])[0]}")
right.plot(shares, scores, "o-")
right.set(xlabel="share of points that are kept", ylabel="accuracy", ylim=(0, 1))
right.invert_xaxis()
