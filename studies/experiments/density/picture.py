"""The figure: the gap of each model to the truth, and the pair correlations of its samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from janossy.cli.pages.plots import Colours
from studies.experiments.density.models import MODELS
from studies.experiments.density.processes import PROCESSES

COLOURS = ("#8C8C8C", "#56B4E9", "#C77E00", "#B8557F", "#0072B2", "#00795A", "#B03A2E")
LINES = ("k = 1, 32 kinds", "k = 2", "k = n", "BRUNO-like", "DeepSets energy")


def plot(cells: Sequence[dict[str, Any]], colours: Colours) -> Figure:
    of_models = dict(zip(MODELS, COLOURS, strict=True))
    figure = Figure(figsize=(11, 6.6), layout="constrained")
    axes = figure.subplots(2, 3)
    for column, process in enumerate(PROCESSES):
        some = [cell for cell in cells if cell["process"] == process]
        truth = next(cell for cell in some if "sizes" in cell)
        above, below = axes[:, column]
        above.set_title(process.capitalize())
        for place, model in enumerate(MODELS):
            lacks = [cell["below_truth"] for cell in some if cell["model"] == model]
            if lacks:
                above.barh(place, np.mean(lacks), color=of_models[model], height=0.7)
                above.plot(lacks, [place] * len(lacks), ".", color=colours["ink"], markersize=4)
        above.set_yticks(range(len(MODELS)), list(MODELS) if column == 0 else [""] * len(MODELS))
        above.invert_yaxis()
        above.grid(axis="x", visible=True)
        above.grid(axis="y", visible=False)
        above.set_xlabel("nats a set below the truth")
        if process == "urn":
            ratios = [
                np.mean([cell["pairs"]["ratio"] for cell in some if cell["model"] == model] or [np.nan])
                for model in MODELS
            ]
            below.barh(range(len(MODELS)), ratios, color=COLOURS, height=0.7)
            below.axvline(truth["pairs"]["ratio"], color=colours["ink"], linewidth=3)
            below.text(truth["pairs"]["ratio"] + 0.02, -0.75, "the truth", fontsize=8)
            below.set_yticks(range(len(MODELS)), list(MODELS), fontsize=8)
            below.set_ylim(len(MODELS) - 0.5, -1.1)
            below.grid(axis="y", visible=False)
            below.set_xlabel("pairs of one colour (independent: 1)")
            continue
        below.plot(truth["pairs"]["r"], truth["pairs"]["ratio"], color=colours["ink"], linewidth=3, label="the truth")
        for model in LINES:
            ratios = [cell["pairs"]["ratio"] for cell in some if cell["model"] == model]
            if ratios:
                below.plot(truth["pairs"]["r"], np.mean(ratios, 0), color=of_models[model], linewidth=1.6, label=model)
        below.axhline(1, color=colours["ink"], linewidth=0.8, linestyle=":")
        below.set_xlabel("distance r (dotted: independent points)")
        below.set_ylabel("pair correlation g(r) of samples")
        below.set_yscale("log" if process == "clusters" else "linear")
        if column == 0:
            below.legend(frameon=False, fontsize=8)
    return figure
