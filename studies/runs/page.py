"""The writing of the studies' reports: Markdown, plots, and one page with the plots inside."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from janossy.cli.pages import THEMES, Colours, data_uri, fill, render
from janossy.files.atomic import write_whole
from studies.runs.results import Result

Plot = Callable[[Sequence[Result], Colours], Figure]
"""A figure of results in the colours of a theme."""


def write_pages(
    directory: Path,
    package: str,
    context: Mapping[str, Any],
    plots: Mapping[str, Plot],
    results: Sequence[Result],
) -> list[Path]:
    """Fill a package's report.md.j2 and report.html.j2, the plots inside the latter; write them and the plots' PNGs.

    The templates are also given ``plots``, their names, and in HTML ``images``: by name and theme, data URIs.

    Raises: OSError if a file cannot be written, which leaves it as it was.
    """
    images = {name: {theme: render(partial(plot, results), theme) for theme in THEMES} for name, plot in plots.items()}
    uris = {name: {theme: data_uri(png) for theme, png in themes.items()} for name, themes in images.items()}
    contents = {
        "report.md": fill(package, "report.md.j2", {**context, "plots": list(plots)}),
        "report.html": fill(package, "report.html.j2", {**context, "plots": list(plots), "images": uris}),
        **{f"{name}.png": themes["light"] for name, themes in images.items()},
    }
    for name, content in contents.items():
        write_whole(directory / name, content)
    return [directory / name for name in contents]
