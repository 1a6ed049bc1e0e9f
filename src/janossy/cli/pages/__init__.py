"""Self-contained pages: HTML from templates, with embedded plots (needs jinja2 and matplotlib, in the extra
``cli``)."""

from janossy.cli.pages.page import fill
from janossy.cli.pages.plots import THEMES, Colours, End, Plot, data_uri, data_uris, key, label_ends, panels, render

__all__ = [
    "THEMES",
    "Colours",
    "End",
    "Plot",
    "data_uri",
    "data_uris",
    "fill",
    "key",
    "label_ends",
    "panels",
    "render",
]
