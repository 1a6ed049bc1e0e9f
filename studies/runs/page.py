"""Reports of the studies: Markdown, plots, and one page with embedded plots."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from janossy.cli.pages import THEMES, Colours, data_uri, fill, render
from janossy.files.atomic import write_whole
from studies.runs.results import Result

Plot = Callable[[Sequence[Result], Colours], Figure]
"""A function that draws results in the colours of a theme."""


def write_pages(
    directory: Path,
    package: str,
    context: Mapping[str, Any],
    plots: Mapping[str, Plot],
    results: Sequence[Result],
) -> list[Path]:
    """Fills a package's report.md.j2 and report.html.j2, and writes them and the plots' PNGs. Returns the paths.

    Templates also receive ``plots``, the plots' names, and in HTML ``images``: data URIs by name and theme.

    Raises: OSError if a file cannot be written. The old file then stays.
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
