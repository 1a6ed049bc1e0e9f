"""Reports and the site have one look: each report holds the style sheet that the site links to."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from janossy.cli.pages import THEMES

LOOK = (files("janossy.cli.pages") / "look.css").read_text(encoding="utf-8")
ROOT = Path(__file__).parents[2]
REPORTS = sorted((ROOT / "docs" / "results").rglob("report.html"))


@pytest.mark.parametrize("report", REPORTS, ids=lambda path: path.parent.name)
def test_reports_hold_the_style_sheet(report):
    page = report.read_text(encoding="utf-8")
    assert LOOK in page, "python -m studies report writes it again"
    assert not re.search(r'(?:src|href)\s*=\s*"(?!data:|#)', page)


def test_plots_have_the_colours_of_the_style_sheet():
    colours = {name: pair for name, *pair in re.findall(r"--(\w+): light-dark\((#\w+), (#\w+)\)", LOOK)}
    assert {name: list(pair) for name, pair in colours.items() if name in THEMES["light"]} == {
        name: [THEMES["light"][name], THEMES["dark"][name]] for name in ("paper", "ink", "faint")
    }


def test_the_site_links_to_the_style_sheet():
    assert "extra_css:\n  - site/look.css\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
