"""The documentation's links lead somewhere, and its floor plan is drawn from the imports that there are."""

import re
import runpy
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PLAN = runpy.run_path(str(ROOT / "docs" / "plan.py"))


def test_the_plan_is_that_of_the_imports():
    assert PLAN["PICTURE"].read_text(encoding="utf-8") == PLAN["drawn"](), "make plan draws it anew"


def test_the_plan_says_what_each_room_holds():
    rooms = {room for layer in PLAN["rows"]() for room in layer}
    assert rooms == set(PLAN["SAYS"]) == set(PLAN["imports"]().nodes)


def test_the_house_stays_small():
    """Whoever adds a room or an arrow takes one away, or says here why the house grows."""
    num_rooms, num_arrows = PLAN["counts"]()
    assert num_rooms <= 24 and num_arrows <= 115, f"{num_rooms} rooms and {num_arrows} arrows"


def test_every_import_has_a_chain_of_arrows():
    found = PLAN["imports"]()
    shown = nx.transitive_reduction(found)
    assert all(nx.has_path(shown, room, other) for room, other in found.edges)
    without = nx.DiGraph(shown)
    without.remove_edge("nn", "evaluate")
    assert PLAN["svg"](PLAN["rows"](), shown) != PLAN["svg"](PLAN["rows"](), without)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_linked_files_exist(page):
    for link in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_page_is_in_the_navigation_of_the_site():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    assert [page.name for page in PAGES if f": {page.name}\n" not in navigation] == []
