"""The plots of the report: scores by k and ρ, error by number of permutations, learning curves."""

from collections.abc import Sequence
from math import isfinite
from statistics import fmean
from typing import Any

from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from janossy.cli.pages import End, key, label_ends, panels
from studies.paper.arithmetic.patterns import DEFAULT_NUM_TEST
from studies.paper.arithmetic.tables import (
    MODELS,
    PAPER_TASKS,
    ROWS,
    Row,
    metric_of,
    number,
    our_score,
    paper_score,
    tasks_of,
)
from studies.runs.page import Plot
from studies.runs.results import Result

# Okabe and Ito's palette, which colour-blind readers can tell apart, in shades that stand out on both themes.
RHO_COLOURS = {"linear": "#d55e00", "mlp": "#2b83c6"}
POOLING_COLOURS = {"k = 1": "#cc79a7", "k = 2": "#c98b00", "k = 3": "#009e73", "LSTM": "#2b83c6", "GRU": "ink"}
"""The colours by pooling; "ink" is the theme's own colour."""


def scores_by_k(results: Sequence[Result], colours: dict[str, str]) -> Figure:
    """Draws per task our score of every model as a dot and the paper's as a bar, by pooling and coloured by ρ."""
    tasks = tasks_of(results)
    figure, all_axes = panels(len(tasks))
    rows = [row for row in ROWS if row.num_permutations != 1]
    places = {name: place for place, name in enumerate(POOLING_COLOURS)}
    for task, axes in zip(tasks, all_axes, strict=True):
        for rho, shift in (("linear", -0.16), ("mlp", 0.16)):
            these = [row for row in rows if row.rho == rho]
            xs = [places[row.pooling] + shift for row in these]
            if task in PAPER_TASKS:
                papers = [paper_score(task, row.model, row.num_permutations).mean for row in these]
                axes.hlines(papers, [x - 0.14 for x in xs], [x + 0.14 for x in xs], RHO_COLOURS[rho], linewidth=1.6)
            for x, row in zip(xs, these, strict=True):
                score = our_score(results, task, row)
                if score and isfinite(score.mean):
                    dot: dict[str, Any] = {
                        "fmt": "o",
                        "markersize": 6.5,
                        "elinewidth": 1.2,
                        "clip_on": False,
                        "zorder": 3,
                    }
                    axes.errorbar(x, score.mean, score.std or None, color=RHO_COLOURS[rho], **dot)
        axes.set_xticks(list(places.values()), [name.replace("k = ", "k=") for name in places])
        axes.set_xlim(-0.5, len(places) - 0.5)
        axes.tick_params(axis="x", length=0)
        _score_axis(axes, task)
    keys = [Line2D([], [], color=colour, lw=0, marker="o", markersize=6.5) for colour in RHO_COLOURS.values()]
    keys.append(Line2D([], [], color=colours["ink"], lw=1.6))
    key(figure, keys, ["ours, linear ρ", "ours, MLP ρ", "the paper"])
    return figure


def error_by_permutations(results: Sequence[Result], colours: dict[str, str]) -> Figure:
    """Draws per task the test error of every LSTM and GRU against the permutations averaged at inference."""
    results = [result for result in results if result["curve"]]
    tasks = tasks_of(results)
    figure, all_axes = panels(len(tasks))
    for task, axes in zip(tasks, all_axes, strict=True):
        of_task = [result for result in results if result["task"] == task]
        num_test = max(result["config"].get("num_test", DEFAULT_NUM_TEST) for result in of_task)
        none_wrong = 0.5 / num_test if metric_of(task) == "accuracy" else 0.0
        ends = []
        for row in (Row(model, None) for model in MODELS):
            lines = [
                [(entry["num_permutations"], _error(entry, task, none_wrong)) for entry in result["curve"]]
                for result in of_task
                if result["model"] == row.model
            ]
            ends += _draw(axes, lines, row, f"{row.pooling} {row.rho_name}", colours, dashed=row.rho == "linear")
        longest = max(entry["num_permutations"] for result in of_task for entry in result["curve"])
        axes.set_xlim(1, max(longest, 2))
        axes.set_xticks([m for m in (1, 5, 10, 15, 20) if m <= longest])
        axes.set_title(f"{_name(task)}, {'wrong answers' if none_wrong else 'RMSE'}")
        _log_axis(axes)
        if any(y <= none_wrong for y, *_ in ends):
            axes.set_ylim(bottom=none_wrong / 1.6)
            axes.axhline(none_wrong, color=colours["ink"], linewidth=0.8, linestyle=":")
            axes.text(1.3, none_wrong * 1.08, f"none of {num_test:,}", fontsize=8, va="bottom")
        label_ends(axes, ends)
    figure.supxlabel("permutations averaged at inference", fontsize=10)
    return figure


def learning_curves(results: Sequence[Result], colours: dict[str, str]) -> Figure:
    """Draws per task and ρ the validation score of every model after each epoch."""
    results = [result for result in results if result["history"]]
    tasks = tasks_of(results)
    figure = Figure(figsize=(10, 0.5 + 2.3 * len(tasks)), layout="constrained")
    for task, pair in zip(tasks, figure.subplots(len(tasks), 2, squeeze=False, sharey="row"), strict=True):
        ends: dict[Axes, list[End]] = {}
        for rho, axes in zip(RHO_COLOURS, pair, strict=True):
            ends[axes] = []
            for row in (Row(model, None) for model in MODELS if model.endswith(f"-{rho}")):
                lines = [
                    [(entry["epoch"], number(entry[metric_of(task)])) for entry in result["history"]]
                    for result in results
                    if (result["task"], result["model"]) == (task, row.model)
                ]
                ends[axes] += _draw(axes, lines, row, row.pooling, colours)
            _score_axis(axes, task, f", {Row(f'k1-{rho}', None).rho_name} ρ")
            axes.margins(x=0)
            axes.xaxis.set_major_locator(ticker.MaxNLocator(6, integer=True))
        for axes in pair:  # after both panels have fixed their shared scale
            label_ends(axes, ends[axes])
    figure.supxlabel("epoch", fontsize=10)
    return figure


PLOTS: dict[str, Plot] = {
    "scores-by-k": scores_by_k,
    "error-by-permutations": error_by_permutations,
    "learning-curves": learning_curves,
}
"""The plots by file name. Each needs a result; the second needs a curve, the third a history."""


def _name(task: str) -> str:
    return task.replace("_", " ")


def _error(entry: dict[str, float | None], task: str, none_wrong: float) -> float:
    """Returns the share of wrong answers, at least ``none_wrong`` for a log axis, or the RMSE for variance."""
    value = number(entry[metric_of(task)])
    return value if metric_of(task) == "rmse" else max(1 - value, none_wrong)


def _score_axis(axes: Axes, task: str, title: str = "") -> None:
    """Formats the score axis: accuracy from 0 to 1, or RMSE on a log scale."""
    if metric_of(task) == "accuracy":
        axes.set_ylim(0, 1.02)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
        axes.set_title(f"{_name(task)}, accuracy{title}")
    else:
        axes.set_title(f"{_name(task)}, RMSE{title}")
        _log_axis(axes)


def _log_axis(axes: Axes) -> None:
    """Sets a log scale with ticks in plain numbers, as dense as its span allows."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    span = high / low
    subs = (1, 2, 5) if span < 300 else (1,)
    axes.yaxis.set_major_locator(ticker.MaxNLocator(4) if span < 6 else ticker.LogLocator(subs=subs))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.tick_params(axis="y", which="minor", length=0)


def _draw(
    axes: Axes,
    lines: Sequence[Sequence[tuple[float, float]]],
    row: Row,
    label: str,
    colours: dict[str, str],
    dashed: bool = False,
) -> list[End]:
    """Draws the mean over seeds, with faint single seeds. Returns the place of the label, if anything was drawn."""
    style: dict[str, Any] = {"color": colours.get(POOLING_COLOURS[row.pooling], POOLING_COLOURS[row.pooling])}
    style["linestyle"] = "--" if dashed else "-"
    by_x: dict[float, list[float]] = {}
    for line in lines:
        if len(lines) > 1:
            axes.plot(*zip(*line, strict=True), linewidth=0.8, alpha=0.35, **style)
        for x, y in line:
            by_x.setdefault(x, []).extend([y] if isfinite(y) else [])
    mean = [(x, fmean(ys)) for x, ys in sorted(by_x.items()) if ys]
    if not mean:
        return []
    axes.plot(*zip(*mean, strict=True), linewidth=1.6, **style)
    return [(mean[-1][1], label, style["color"])]
