"""``make plan``: draws docs/architecture.svg, the rooms of src/janossy, from their imports.

Rooms stand in the rows of the import rule ``house`` in pyproject.toml, each above all that it imports. An import that
a chain of arrows shows already has no arrow of its own. Prints how many rooms the package and studies/ have, and how
many pairs of them import one another.
"""

import tomllib
from html import escape
from pathlib import Path

import grimp
import networkx as nx

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"

SAYS = {
    "cli": "the commands and their pages",
    "batch": "a model inside Ray, Spark, Dask, Daft",
    "estimators": "strategies, search, training",
    "density": "densities of sets",
    "graph": "vertices and neighbours",
    "inference": "predict, error bars, audits",
    "export": "padded, ONNX",
    "losses": "over permutations, orders",
    "saving": "networks as files",
    "stack": "many networks as one",
    "tables": "a user's data as sets",
    "testing": "assert_invariant",
    "nn": "pooling, networks, readouts",
    "evaluate": "HOW the average is computed",
    "orderings": "WHICH sequences are averaged",
    "functions": "WHAT reads a sequence",
    "kernels": "compiled loops",
    "sets": "Ragged",
    "checks": "checks of arguments",
    "files": "whole files, JSON within limits",
}
"""What each room holds, in a few words."""

DOOR = "janossy.__main__"
"""``python -m janossy``, which only calls the room of commands. It is no room itself."""

WIDTH, ROW, BOX = 1180, 104, 52
"""Of the picture, of a row of rooms, of a room's height."""


def rows() -> list[list[str]]:
    """The rooms of each layer of the import rule, from the top."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (house,) = (rule for rule in rules if rule["id"] == "house")
    return [layer.split(" | ") for layer in house["layers"]]


def imports() -> nx.DiGraph:
    """The rooms, each with an edge to every room that it imports."""
    modules = grimp.build_graph("janossy", cache_dir=None)
    graph = nx.DiGraph()
    for module in modules.modules - {"janossy", DOOR}:
        room = module.split(".")[1]
        graph.add_node(room)
        for other in modules.find_modules_directly_imported_by(module):
            if other != "janossy" and other.split(".")[1] != room:
                graph.add_edge(room, other.split(".")[1])
    return graph


def house() -> nx.DiGraph:
    """The rooms of the package and of studies/, each with an edge to every room that it imports.

    The names of ``janossy`` itself count as one room that others import, and the program of studies/ as one that
    imports others: ``counts`` leaves both out of the rooms, and their arrows in.
    """
    modules = grimp.build_graph("janossy", "studies", cache_dir=None)
    graph = nx.DiGraph()
    for module in modules.modules - {"janossy", "studies", DOOR}:
        for other in modules.find_modules_directly_imported_by(module):
            if _room(other) != _room(module):
                graph.add_edge(_room(module), _room(other))
    return graph


def _room(module: str) -> str:
    return "studies" if module in ("studies.app", "studies.__main__") else ".".join(module.split(".")[:2])


def counts() -> tuple[int, int]:
    """The rooms of the whole house, and the arrows among them."""
    graph = house()
    return len(set(graph) - {"janossy", "studies"}), graph.number_of_edges()


def in_order(layers: list[list[str]], graph: nx.DiGraph) -> list[list[str]]:
    """The same layers, in which each room stands below the middle of those that it is imported by."""
    layers = [list(layer) for layer in layers]
    place: dict[str, float] = {}
    for layer in layers:
        above = {room: [place[other] for other in graph.predecessors(room) if other in place] for room in layer}
        layer.sort(key=lambda room: sum(above[room]) / len(above[room]) if above[room] else 0.5)
        place |= {room: (i + 0.5) / len(layer) for i, room in enumerate(layer)}
    return layers


def svg(layers: list[list[str]], graph: nx.DiGraph) -> str:
    """The picture."""
    boxes = {}
    for i, layer in enumerate(layers):
        width = min(236, (WIDTH - 24) / len(layer) - 18)
        for j, room in enumerate(layer):
            boxes[room] = (WIDTH * (j + 0.5) / len(layer), 16 + i * ROW, width)
    height = 16 + len(layers) * ROW - (ROW - BOX) + 16
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t" '
        'font-family="system-ui, sans-serif" font-size="15">',
        '<title id="t">The rooms of src/janossy, each above all that it imports</title>',
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#ffffff"/>',
    ]
    for room, other in sorted(graph.edges):
        (x, y, width), (to_x, to_y, to_width) = boxes[room], boxes[other]
        x += max(-0.4, min(0.4, (to_x - x) / WIDTH)) * width  # arrows leave and arrive on the side that they go to
        to_x += max(-0.4, min(0.4, (x - to_x) / WIDTH)) * to_width
        bend = (to_y - y - BOX) / 2
        lines.append(
            f'<path d="M{x:.0f} {y + BOX} C{x:.0f} {y + BOX + bend:.0f} {to_x:.0f} {to_y - bend:.0f} {to_x:.0f} '
            f'{to_y - 2}" fill="none" stroke="#777" stroke-width="1.3" marker-end="url(#a)"/>'
        )
    for room, (x, y, width) in boxes.items():
        size = min(12.5, 1.85 * width / max(1, len(SAYS[room])))
        lines.append(
            f'<g><rect x="{x - width / 2:.1f}" y="{y}" width="{width:.1f}" height="{BOX}" rx="7" fill="#e8eef7" '
            f'stroke="#0072B2"/><text x="{x:.1f}" y="{y + 22}" text-anchor="middle" fill="#222" font-weight="600">'
            f'{room}</text><text x="{x:.1f}" y="{y + 40}" text-anchor="middle" fill="#444" font-size="{size:.1f}">'
            f"{escape(SAYS[room])}</text></g>"
        )
    return "\n".join([*lines, "</svg>", ""])


def drawn() -> str:
    """The picture of the imports as they are."""
    shown = nx.transitive_reduction(imports())
    return svg(in_order(rows(), shown), shown)


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}; with studies/, {counts()[0]} rooms and {counts()[1]} arrows")
