"""Pages of one file: HTML from templates, with plots inside (needs jinja2 and matplotlib, of the extra ``cli``)."""

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
