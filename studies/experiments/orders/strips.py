"""Strip plots of runs: a line of dots per order, with a bar at the middle."""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes

GIVEN, LEARNED = "#C77E00", "#0072B2"


def strips(
    axes: Axes,
    rows: Mapping[str, Sequence[float]],
    colours: Sequence[str],
    middle: Callable[[Sequence[float]], float],
    label: str,
) -> None:
    """Draws the values of each row by its name, the first on top. ``label`` names the values."""
    places = range(len(rows))
    for y, values, colour in zip(places, rows.values(), colours, strict=True):
        axes.plot(values, [y] * len(values), "o", color=colour, alpha=0.6)
        if values:
            axes.plot([middle(values)] * 2, [y - 0.3, y + 0.3], color="#222", linewidth=1.5)
    axes.set_yticks(places, list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(label)
    axes.grid(axis="x", alpha=0.3)
