"""The plots of the report: micro-F1 by row, and the gain of more permutations at inference."""

from collections.abc import Sequence
from typing import Any

from matplotlib import ticker
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from janossy.cli.pages import key, label_ends, panels
from studies.paper.graphs.permutations import curves
from studies.paper.graphs.tables import MEASURES, comparison, grouped, label, paper_f1
from studies.runs.page import Plot
from studies.runs.results import Result

OURS, PAPER = "#2b83c6", "#d55e00"

# Okabe and Ito's palette, which colour-blind readers can tell apart, in shades that stand out on both themes.
ROW_COLOURS = ("#cc79a7", "#c98b00", "#009e73", "#2b83c6", "#d55e00", "#8f7ee0", "#8a8f98")

SURE = 4
"""The fewest runs for an interval. That of two runs reaches 12.7 standard errors to either side, that of four 3.2."""


def micro_f1(results: Sequence[Result], colours: dict[str, str]) -> Figure:
    """Draws per data set and row our score as a dot and the paper's as a bar, with standard deviations."""
    rows = [(row, entries) for row, entries in comparison(results) if any(entry.ours for entry in entries.values())]
    columns = list(grouped(results))
    figure, all_axes = panels(len(columns))
    styles: dict[str, dict[str, Any]] = {"ours": {"lw": 0, "marker": "o", "color": OURS}}
    for column, axes in zip(columns, all_axes, strict=True):
        bar: dict[str, Any] = {"color": PAPER, "lw": 1.8, "linestyle": ":" if column.dataset == "ppi-go" else "-"}
        styles[f"the {column.paper_title}"] = bar
        for y, (row, entries) in enumerate(rows):
            ours, paper = entries[column].ours, paper_f1(column.paper_dataset, row)
            if paper:
                axes.vlines(paper.mean, y - 0.3, y + 0.3, **bar)
                axes.barh(y, 2 * (paper.std or 0), 0.6, left=paper.mean - (paper.std or 0), color=PAPER, alpha=0.15)
            if ours:
                axes.errorbar(ours.mean, y, xerr=ours.std or None, fmt="o", elinewidth=1.2, zorder=3, color=OURS)
        axes.set_title(f"{column.title}, micro-F1")
        axes.xaxis.set_major_locator(ticker.MaxNLocator(5, steps=[1, 2, 5, 10]))
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        axes.use_sticky_edges = False  # otherwise a band would end at the edge
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_yticks(range(len(rows)), [label(row) for row, _ in rows])
        axes.tick_params(axis="y", length=0, labelleft=axes in all_axes[::3])
    key(figure, [Line2D([], [], **style) for style in styles.values()], list(styles))
    return figure


def inference_permutations(results: Sequence[Result], colours: dict[str, str]) -> Figure:
    """Draws per data set, measure and row the mean change from one permutation to m, with its interval."""
    found = curves(results)
    places = list(dict.fromkeys((of.column, of.key) for of in found))
    rows = list(dict.fromkeys(of.row for of in found))
    figure, all_axes = panels(len(places))
    for place, axes in zip(places, all_axes, strict=True):
        ends = []
        here = [of for of in found if (of.column, of.key) == place]
        for of in here:
            colour = ROW_COLOURS[rows.index(of.row) % len(ROW_COLOURS)]
            gains = of.gains()
            xs, means = range(1, len(gains) + 1), [gain.mean for gain in gains]
            axes.plot(xs, means, color=colour, linewidth=1.6)
            if len(of.values) >= SURE:
                low, high = ([gain.mean + side * gain.half for gain in gains] for side in (-1, 1))
                axes.fill_between(xs, low, high, color=colour, alpha=0.2, linewidth=0)
            ends.append((means[-1], label(of.row), colour))
        longest = max(of.values.shape[1] for of in here)
        axes.set_xlim(1, longest)
        axes.set_xticks([m for m in (1, 3, 7, 10, 15, 20) if m <= longest])
        axes.axhline(0, color=colours["ink"], linewidth=0.8)
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(_signed))
        axes.set_title(f"{place[0].title}\n{MEASURES[place[1]]}")
        label_ends(axes, ends)
    figure.supxlabel("permutations averaged at inference", fontsize=10)
    figure.supylabel("change from one", fontsize=10)
    return figure


def _signed(value: float, _: object) -> str:
    return f"{value:+g}".replace("-", "−") if value else "0"


PLOTS: dict[str, Plot] = {"micro-f1": micro_f1, "inference-permutations": inference_permutations}
"""The plots by file name. The second needs ``curves``."""
