"""The plots of a fit's report, from plain arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import ticker
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from janossy.cli.pages import Colours, End, key, label_ends

# Okabe and Ito's palette, which colour-blind readers can tell apart, in shades that stand out on both themes.
LINES = ("#2b83c6", "#d55e00", "#009e73", "#cc79a7", "#c98b00", "#8f7ee0", "#8a8f98")
OURS = LINES[0]

MAX_NAMED = 12
"""The most classes whose counts are written in a confusion matrix. With more classes, only shades are shown."""

BINS = 10

WIDTH = 8.4
"""The width of all figures, which a page shows at one width."""


@dataclass(frozen=True)
class Curve:
    """The losses of one network by epoch, in training and in validation. ``label`` names its candidate."""

    label: str
    training: Sequence[float]
    validation: Sequence[float]


def learning_curves(curves: Sequence[Curve], colours: Colours) -> Figure:
    """Draws the losses by epoch: training dashed, validation solid. Networks of one candidate share a colour."""
    figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    axes = figure.subplots()
    labels = list(dict.fromkeys(curve.label for curve in curves))
    ends: dict[str, list[float]] = {label: [] for label in labels}
    for curve in curves:
        colour = LINES[labels.index(curve.label) % len(LINES)]
        epochs = range(1, len(curve.validation) + 1)
        axes.plot(epochs, curve.training, color=colour, linewidth=1, linestyle="--", alpha=0.6)
        axes.plot(epochs, curve.validation, color=colour, linewidth=1.5)
        ends[curve.label].append(curve.validation[-1])
    axes.set_title("loss")
    axes.set_xlabel("epoch")
    axes.set_xlim(1, max(2, *(len(curve.validation) for curve in curves)))
    axes.xaxis.set_major_locator(ticker.MaxNLocator(8, integer=True))
    if all(min(curve.training) > 0 and min(curve.validation) > 0 for curve in curves):
        axes.set_yscale("log")
    places: list[End] = [(float(np.mean(ends[label])), label, LINES[i % len(LINES)]) for i, label in enumerate(labels)]
    label_ends(axes, places)
    styles = [Line2D([], [], color=colours["ink"], linestyle=style, linewidth=1.2) for style in ("--", "-")]
    key(figure, styles, ["training", "validation"])
    return figure


def confusion(counts: np.ndarray, names: Sequence[str], colours: Colours) -> Figure:
    """Draws a confusion matrix: per true class (rows), the shares and counts predicted as each class (columns).

    Shapes: counts (C, C), ints, true by predicted.
    """
    num = len(names)
    figure = Figure(figsize=(WIDTH, min(7.5, 1.6 + 0.5 * num)), layout="constrained")
    axes = figure.subplots()
    axes.set_anchor("W")
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    shades = LinearSegmentedColormap.from_list("shares", [colours["paper"], OURS])
    axes.imshow(shares**0.5, cmap=shades, vmin=0, vmax=1)  # the square root shows small shares
    if num <= MAX_NAMED:
        for (i, j), count in np.ndenumerate(counts):
            if count:
                ink = "#ffffff" if shares[i, j] > 0.4 else colours["ink"]
                axes.text(j, i, f"{count:,}", ha="center", va="center", fontsize=8, color=ink)
    if num <= 4 * MAX_NAMED:
        axes.set_xticks(range(num), names, rotation=45 if num > 3 else 0, ha="right" if num > 3 else "center")
        axes.set_yticks(range(num), names)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    return figure


def residuals(predictions: np.ndarray, targets: np.ndarray, colours: Colours) -> Figure:
    """Draws target minus prediction against prediction, (B,) each; for many sets, their number per hexagon."""
    figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    axes = figure.subplots()
    left = targets - predictions
    if len(left) > 3000:
        shades = LinearSegmentedColormap.from_list("counts", [colours["faint"], OURS])
        drawn = axes.hexbin(predictions, left, gridsize=60, cmap=shades, mincnt=1, bins="log", linewidths=0)
        figure.colorbar(drawn, label="sets")
    else:
        axes.scatter(predictions, left, s=9, color=OURS, alpha=0.5, linewidths=0)
    axes.axhline(0, color=colours["ink"], linewidth=0.8)
    axes.set_title("target less prediction")
    axes.set_xlabel("prediction")
    return figure


def confidence(probabilities: np.ndarray, right: np.ndarray, colours: Colours) -> Figure:
    """Draws the share of right predictions by probability of the predicted class, in bins of equally many sets.

    Shapes: probabilities (B,) of the predicted class, right (B,) bools.
    """
    figure, (axes, below) = _calibration_axes()
    said, is_so, counts = binned(probabilities, right)
    low, high = wilson(is_so, counts)
    axes.plot([0, 1], [0, 1], color=colours["ink"], linewidth=0.8, linestyle=":")
    errors = (is_so - low).tolist(), (high - is_so).tolist()  # matplotlib takes an array of one number for a number
    axes.errorbar(said, is_so, errors, fmt="o-", color=OURS, linewidth=1.4, markersize=4.5)
    least = min(said.min(), low.min(), probabilities.min(), 0.99)
    ends = max(0.0, least - 0.05 * (1 - least)), 1 + 0.02 * (1 - least)
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.set_title("share that is right")
    below.hist(probabilities, bins=40, range=(ends[0], 1), color=OURS)
    below.set_xlabel("probability of the predicted class")
    return figure


def means(predictions: np.ndarray, targets: np.ndarray, colours: Colours) -> Figure:
    """Draws the mean target against the mean prediction, in bins of equally many sets, with its standard error."""
    figure, (axes, below) = _calibration_axes()
    order = np.array_split(np.argsort(predictions, kind="stable"), min(BINS, len(predictions)))
    said = np.array([predictions[members].mean() for members in order])
    is_so = np.array([targets[members].mean() for members in order])
    error = np.array(
        [targets[members].std(ddof=1) / len(members) ** 0.5 if len(members) > 1 else 0.0 for members in order]
    )
    ends = [min(said.min(), is_so.min()), max(said.max(), is_so.max())]
    axes.plot(ends, ends, color=colours["ink"], linewidth=0.8, linestyle=":")
    axes.errorbar(said, is_so, error, fmt="o-", color=OURS, linewidth=1.4, markersize=4.5)
    axes.set_title("mean target")
    below.hist(predictions, bins=40, color=OURS)
    below.set_xlabel("prediction")
    return figure


def by_permutations(nums: Sequence[int], scores: Sequence[float], name: str, colours: Colours) -> Figure:
    """Draws the score against the number of permutations that a prediction averages."""
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(nums, scores, "o-", color=OURS, linewidth=1.5, markersize=4.5)
    axes.set_title(name)
    axes.set_xlabel("permutations averaged")
    axes.set_xscale("log")
    axes.set_xticks(list(nums), [str(num) for num in nums])
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    return figure


def binned(probabilities: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns per bin of equally many sets: the mean probability, the share that is right, and the number of sets."""
    order = np.array_split(np.argsort(probabilities, kind="stable"), min(BINS, len(probabilities)))
    said = np.array([probabilities[members].mean() for members in order])
    is_so = np.array([right[members].mean() for members in order])
    return said, is_so, np.array([len(members) for members in order])


def wilson(shares: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns Wilson's 95 % intervals for shares of so many sets (Wilson, 1927)."""
    z = 1.96
    centre = (shares + z**2 / (2 * counts)) / (1 + z**2 / counts)
    half = z / (1 + z**2 / counts) * np.sqrt(shares * (1 - shares) / counts + z**2 / (4 * counts**2))
    # Without this, rounding could put a share of 0 or 1 outside of its interval.
    return np.minimum(centre - half, shares).clip(0), np.maximum(centre + half, shares).clip(max=1)


def _calibration_axes() -> tuple[Figure, list[Any]]:
    figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    lower.grid(visible=False)
    lower.set_yticks([])
    lower.set_ylabel("sets")
    return figure, [upper, lower]
