"""The style of plots: light and dark themes, several panels in a figure, and labels at the ends of lines."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

THEMES = {
    "light": {"paper": "#ffffff", "ink": "#1c1e21", "faint": "#dfe1e5"},
    "dark": {"paper": "#16181c", "ink": "#e6e7ea", "faint": "#3a3d44"},
}

End = tuple[float, str, str]
"""The end of a line, its label and its colour."""

Colours = dict[str, str]
"""The colours of a theme, by the names in ``THEMES``."""

Plot = Callable[[Colours], Figure]
"""A function that draws a figure in the colours of a theme."""


def render(plot: Plot, theme: str) -> bytes:
    """Returns a plot as a PNG in the colours of a theme.

    Its palette has 256 colours: no difference is visible, and the file is a quarter as large.
    """
    colours = THEMES[theme]
    style: dict[str, Any] = {
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": colours["faint"],
        "grid.linewidth": 0.8,
        "figure.constrained_layout.h_pad": 0.07,
        "text.parse_math": False,  # users' labels may contain $
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), colours["paper"]),
        **dict.fromkeys(
            ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), colours["ink"]
        ),
    }
    with mpl.rc_context(cast(Any, style)):
        drawn, png = BytesIO(), BytesIO()
        plot(colours).savefig(drawn, format="png", dpi=130)
    image = Image.open(drawn).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    image.save(png, format="png", optimize=True)
    return png.getvalue()


def panels(num: int) -> tuple[Figure, list[Axes]]:
    """Returns a figure with ``num`` panels, three in a line."""
    columns = min(3, num)
    lines = -(-num // columns)
    figure = Figure(figsize=(0.4 + 3.4 * columns, 0.5 + 2.9 * lines), layout="constrained")
    axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    for unused in axes[num:]:
        unused.remove()
    return figure, axes[:num]


def label_ends(axes: Axes, ends: Sequence[End]) -> None:
    """Writes labels to the right of the axes at the heights of their lines, pushed apart where they would overlap."""
    gap = 10.5 / 72 / axes.get_window_extent().height * axes.figure.dpi
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [to_axes.transform((1, y))[1] for y, *_ in ends]
    order = sorted(range(len(ends)), key=lambda i: heights[i])
    settled: list[float] = []
    for i in order:
        settled.append(max(heights[i], settled[-1] + gap) if settled else heights[i])
    excess = max(0.0, settled[-1] - 1.0) if settled else 0.0
    for position in range(len(settled) - 1, -1, -1):
        ceiling = settled[position + 1] - gap if position + 1 < len(settled) else settled[-1] - excess
        settled[position] = min(settled[position], ceiling)
    for i, place in zip(order, settled, strict=True):
        _, label, colour = ends[i]
        axes.text(1.03, place, label, color=colour, transform=axes.transAxes, va="center", fontsize=8.5)


def key(figure: Figure, handles: Sequence[Line2D], labels: Sequence[str]) -> None:
    """Adds a legend in one line above the panels."""
    figure.legend(
        handles, labels, loc="outside upper left", ncols=len(labels), frameon=False, handlelength=1.3, columnspacing=1.2
    )


def data_uris(plot: Plot) -> dict[str, str]:
    """Returns the plot in each theme as a URI that a page can embed."""
    return {theme: data_uri(render(plot, theme)) for theme in THEMES}


def data_uri(png: bytes) -> str:
    """Returns a PNG as a URI that a page can embed."""
    return f"data:image/png;base64,{b64encode(png).decode()}"
