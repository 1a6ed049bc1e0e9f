"""The documentation's links lead somewhere, and its floor plan shows the imports that there are."""

import re
from pathlib import Path
from xml.etree import ElementTree

import grimp
import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PLAN = ElementTree.parse(ROOT / "docs" / "architecture.svg")
GRAPH = grimp.build_graph("janossy")
ROOM = "janossy.evaluate"
"""The one room that is drawn with others inside."""


def full(names: str) -> tuple[str, ...]:
    return tuple("janossy" if name == "janossy" else f"janossy.{name}" for name in names.split())


BOXES = [full(box.attrib["data-modules"]) for box in PLAN.iter() if "data-modules" in box.attrib]
ARROWS = [(full(e.attrib["data-from"]), full(e.attrib["data-to"])) for e in PLAN.iter() if "data-from" in e.attrib]


def box_of(module: str, boxes=None) -> tuple[str, ...]:
    """The box that a module is drawn in: that of the longest name which it begins with."""
    named = {name: box for box in boxes or BOXES for name in box}
    while module not in named:
        module = module.rpartition(".")[0]
    return named[module]


def imports() -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The pairs of boxes of which one imports the other, in any of their modules."""
    pairs = {(box_of(a), box_of(b)) for a in GRAPH.modules for b in GRAPH.find_modules_directly_imported_by(a)}
    return {(a, b) for a, b in pairs if a != b}


def inside(box: tuple[str, ...]) -> bool:
    return box[0].startswith(f"{ROOM}.")


def law_arrows_are_imports(arrows, found) -> None:
    for a, b in arrows:
        starts = [box for box in BOXES if box == a or (a == (ROOM,) and inside(box))]
        ends = [box for box in BOXES if box == b or (b == (ROOM,) and inside(box))]
        assert any((start, end) in found for start in starts for end in ends), f"{a} imports nothing of {b}"


def law_imports_are_drawn(arrows, found) -> None:
    """Every import follows an arrow, or several; an arrow at the room's border is one of, or to, any box inside."""
    steps = {box: {b for a, b in arrows if a == box} for box in BOXES}
    for box in filter(inside, BOXES):
        steps[box] |= {b for a, b in arrows if a == (ROOM,)}
    steps[(ROOM,)] |= set(filter(inside, BOXES))
    for a, b in found:
        reached, new = set(), {a}
        while new:
            reached |= new
            new = set().union(*(steps[box] for box in new)) - reached
        assert b in reached, f"no arrow leads from {a} to {b}"


def test_the_plan_shows_every_room_once():
    names = [name for box in BOXES for name in box]
    assert len(names) == len(set(names)) and set(names) <= GRAPH.modules
    assert {ROOM, "janossy"} | GRAPH.find_children("janossy") == {".".join(name.split(".")[:2]) for name in names}


def test_arrows_are_imports_and_imports_are_drawn():
    law_arrows_are_imports(ARROWS, imports())
    law_imports_are_drawn(ARROWS, imports())


def test_a_wrong_plan_is_found():
    with pytest.raises(AssertionError, match="imports nothing"):
        law_arrows_are_imports([*ARROWS, (full("pooling"), full("network"))], imports())
    for missing in ARROWS:
        with pytest.raises(AssertionError, match="no arrow"):
            law_imports_are_drawn([arrow for arrow in ARROWS if arrow != missing], imports())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_linked_files_exist(page):
    for link in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), f"{page.name}: {link}"
