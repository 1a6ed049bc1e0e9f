"""The plots of the page: scores per data set, ranks over all data sets, and scores against set sizes."""

import re
from collections.abc import Collection, Sequence
from math import isfinite
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from janossy.cli.pages import End, key, label_ends, panels
from studies.bench.names import OURS
from studies.bench.ranks import groups, ranks
from studies.bench.scores import SMALLER
from studies.bench.tables import Mean, rows
from studies.runs.page import Plot
from studies.runs.results import Result

OF_OURS, OF_PEERS = "#2b83c6", "#d55e00"
"""Okabe and Ito's blue and vermilion, which colour-blind readers can tell apart."""

SHADES = ("#2b83c6", "#d55e00", "#009e73", "#cc79a7", "#c98b00", "#7a68c8", "#8c6d4f", "#6b7785")
"""The colours of single models, in turn. Peers have dashed lines."""


def scores(summaries: Sequence[Result], colours: dict[str, str]) -> Figure:
    """Draws per data set the score of every model, with its standard error over folds."""
    figure, all_axes = panels(len(summaries))
    for summary, axes in zip(summaries, all_axes, strict=True):
        score = summary["data_set"]["scores"][0]
        found = [row for row in rows(summary) if isfinite(row.scores[score].mean)]
        for place, row in enumerate(found):
            mean = row.scores[score]
            dot: dict[str, Any] = {"fmt": "o", "markersize": 5, "elinewidth": 1.2}
            axes.errorbar(mean.mean, -place, xerr=mean.error, color=OF_OURS if row.ours else OF_PEERS, **dot)
        axes.set_yticks([-place for place in range(len(found))], [row.model for row in found], fontsize=7.5)
        axes.grid(axis="x")
        axes.set_title(f"{summary['name']}, {score}")
    dots = [Line2D([], [], color=colour, lw=0, marker="o", markersize=5) for colour in (OF_OURS, OF_PEERS)]
    key(figure, dots, ["ours", "peers"])
    return figure


def rank_line(summaries: Sequence[Result], colours: dict[str, str]) -> Figure:
    """Draws the diagram of mean ranks of the models of these summaries."""
    found = ranks(summaries)
    assert found is not None
    return rank_diagram(found.mean_ranks, found.critical_difference, OURS, colours["ink"])


def rank_diagram(mean_ranks: dict[str, float], difference: float, ours: Collection[str], ink: str) -> Figure:
    """Draws Demšar's diagram: models on the line of mean ranks, with bars over those that do not differ.

    Args:
        mean_ranks: by model, in the order of the ranks.
        difference: the critical difference of two ranks.
        ours: the models that are drawn in our colour.
        ink: the colour of lines.
    """
    names, places = [*mean_ranks], [*mean_ranks.values()]
    alike = groups(places, difference)
    half = -(-len(names) // 2)
    figure = Figure(figsize=(10, 1.6 + 0.25 * half + 0.14 * len(alike)), layout="constrained")
    axes = figure.subplots()
    axes.grid(False)
    top = 0.7 + 0.35 * len(alike)
    for i, (name, rank) in enumerate(zip(names, places, strict=True)):
        left = i < half
        depth = -0.8 - 0.6 * (i if left else len(names) - 1 - i)
        end = 1 - 0.4 if left else len(names) + 0.4
        colour = OF_OURS if name in ours else OF_PEERS
        axes.plot([rank, rank, end], [0, depth, depth], color=colour, lw=1)
        axes.text(end, depth, f"{name} {rank:.1f} " if left else f" {name} {rank:.1f}", ha="right" if left else "left",
                  va="center", color=colour, fontsize=9)  # fmt: skip
    for i, (first, last) in enumerate(alike):
        axes.plot([places[first] - 0.05, places[last] + 0.05], [0.45 + 0.35 * (i + 1)] * 2, color=ink, lw=3)
    axes.plot([1, 1 + difference], [top + 0.5] * 2, color=ink, lw=1.2, marker="|")
    axes.text(1, top + 0.75, f"critical difference {difference:.2f}", fontsize=9)
    axes.set_xlim(-1.2, len(names) + 2.2)
    axes.set_ylim(-0.8 - 0.6 * half, top + 1.4)
    axes.hlines(0, 1, len(names), color=ink, lw=1)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    for rank in range(1, len(names) + 1):
        axes.plot([rank, rank], [0, 0.12], color=ink, lw=1)
        axes.text(rank, 0.16, str(rank), ha="center", fontsize=8)
    return figure


def by_size(summaries: Sequence[Result], colours: dict[str, str]) -> Figure:
    """Draws scores against set sizes, per data set whose tests have one size each."""
    summaries = [summary for summary in summaries if sizes(summary)]
    figure, all_axes = panels(len(summaries))
    ends = []
    for summary, axes in zip(summaries, all_axes, strict=True):
        ends.append(_lines(summary, axes))
        axes.set_title(f"{summary['name']}, {summary['data_set']['scores'][0]}")
        axes.set_xlabel("elements of a set")
    figure.draw_without_rendering()
    for axes, of_axes in zip(all_axes, ends, strict=True):
        label_ends(axes, of_axes)
    return figure


def sizes(summary: Result) -> dict[str, int]:
    """Returns the set size of each test, from the number in its name; empty if there is only one test."""
    names = {test for of_model in summary["models"].values() for test in of_model["scores"]}
    found = {test: int(number[0]) for test in names if (number := re.search(r"\d+", test))}
    return dict(sorted(found.items(), key=lambda pair: pair[1])) if len(found) == len(names) > 1 else {}


def _lines(summary: Result, axes: Axes) -> list[End]:
    """Draws the lines of a panel, and returns their ends."""
    score, of_tests = summary["data_set"]["scores"][0], sizes(summary)
    ends: list[End] = []
    if score in SMALLER:
        axes.set_yscale("log")
    for i, (model, of_model) in enumerate(summary["models"].items()):
        if not of_model["folds"]:
            continue
        shade = SHADES[i % len(SHADES)]
        means = [Mean.of([x for x in of_model["scores"][test][score] if x is not None]).mean for test in of_tests]
        axes.plot([*of_tests.values()], means, color=shade, lw=1.3, ls="-" if model in OURS else "--")
        if isfinite(means[-1]):
            ends.append((means[-1], model, shade))
    return ends


PLOTS: dict[str, Plot] = {"scores": scores, "ranks": rank_line, "by-size": by_size}


def plots_of(summaries: Sequence[Result]) -> dict[str, Plot]:
    """Returns the plots for which these summaries have data."""
    needs = {"scores": bool(summaries), "ranks": ranks(summaries) is not None, "by-size": any(map(sizes, summaries))}
    return {name: plot for name, plot in PLOTS.items() if needs[name]}
