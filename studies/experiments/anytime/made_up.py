"""Tables that are made up, so that the truth is known."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx
import numpy as np
from scipy.spatial import ConvexHull
from scipy.stats import entropy

from studies.experiments.anytime.tables import Sets

GENERATED_SETS = 2_000

Columns = dict[str, np.ndarray]
"""The columns of a set's elements."""


def _distinct(_: Path) -> Sets:
    """Returns the number of distinct letters: some sets are of few letters, others of many."""
    generator, letters, found = np.random.default_rng(1), list("abcdefghijklmnopqrstuvwxyz"), []
    for _i in range(GENERATED_SETS):
        chances = generator.dirichlet(np.full(26, 10 ** generator.uniform(-1.5, 1)))
        drawn = generator.choice(letters, generator.integers(3, 30), p=chances)
        found.append(([{"letter": str(letter)} for letter in drawn], float(len(set(drawn)))))
    return found


def _closest(generator: np.random.Generator, size: int) -> tuple[Columns, float]:
    """Returns the logarithm of the least distance between two points of a square."""
    points = generator.random((size, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=-1)[np.triu_indices(size, 1)]
    return {"x": points[:, 0], "y": points[:, 1]}, float(np.log(distances.min()))


def _laws(_: Path) -> Sets:
    """Returns the law that numbers are drawn by: normal, Laplace's or uniform, of one mean and variance."""
    generator, found = np.random.default_rng(3), []
    draw = {
        "normal": lambda num: generator.normal(size=num),
        "laplace": lambda num: generator.laplace(scale=0.5**0.5, size=num),
        "uniform": lambda num: generator.uniform(-(3**0.5), 3**0.5, num),
    }
    for _i in range(GENERATED_SETS):
        law = str(generator.choice(list(draw)))
        numbers = draw[law](generator.integers(20, 60)) * 3 + 5
        found.append(([{"number": float(number)} for number in numbers], law))
    return found


def _hull(generator: np.random.Generator, size: int) -> tuple[Columns, float]:
    """Returns the area of the convex hull of points."""
    points = generator.normal(size=(size, 2))
    return {"x": points[:, 0], "y": points[:, 1]}, float(ConvexHull(points).volume)


def _mode(generator: np.random.Generator, size: int) -> tuple[Columns, float]:
    """Returns how often the most frequent colour occurs; the weights mean nothing."""
    colours = generator.choice(8, size, p=generator.dirichlet(np.ones(8)))
    columns = {"colour": np.char.add("colour ", colours.astype(str)), "weight": generator.normal(size=size)}
    return columns, float(np.bincount(colours).max())


def _connected(generator: np.random.Generator, size: int) -> tuple[Columns, str]:
    """Returns whether the edges between eight vertices make one graph of those that they touch."""
    edges = np.array([generator.choice(8, 2, replace=False) for _ in range(size)])
    columns = {"from": np.char.add("v", edges.min(1).astype(str)), "to": np.char.add("v", edges.max(1).astype(str))}
    return columns, "one" if networkx.is_connected(networkx.Graph(edges.tolist())) else "several"


def _weighted_mean(generator: np.random.Generator, size: int) -> tuple[Columns, float]:
    columns = {"weight": generator.gamma(0.7, 2, size) + 0.01, "value": generator.normal(3, 2, size)}
    return columns, float(np.average(columns["value"], weights=columns["weight"]))


def _numbers(generator: np.random.Generator, size: int) -> Columns:
    return {"a": generator.normal(size=size), "b": generator.normal(size=size)}


def _share_above(generator: np.random.Generator, size: int) -> tuple[Columns, float]:
    """Returns the share of numbers above their mean; the other column means nothing."""
    columns = _numbers(generator, size)
    return columns, float((columns["a"] > columns["a"].mean()).mean())


def _largest_product(generator: np.random.Generator, size: int) -> tuple[Columns, float]:
    columns = _numbers(generator, size)
    return columns, float((columns["a"] * columns["b"]).max())


def _things(generator: np.random.Generator, size: int) -> Columns:
    return {"kind": generator.choice(list("ABCDEFGH"), size), "value": generator.gamma(2, 3, size)}


def _contest(generator: np.random.Generator, size: int) -> tuple[Columns, str]:
    """Returns whether the largest value of A and B is above that of C and D."""
    columns = _things(generator, size)
    first, second = (
        columns["value"][np.isin(columns["kind"], kinds)].max(initial=0) for kinds in (["A", "B"], ["C", "D"])
    )
    return columns, "yes" if first > second else "no"


def _entropy(generator: np.random.Generator, size: int) -> tuple[Columns, float]:
    """Returns the entropy of the kinds; the values mean nothing."""
    columns = _things(generator, size)
    return columns, float(entropy(np.unique(columns["kind"], return_counts=True)[1]))


def _contrast(generator: np.random.Generator, size: int) -> tuple[Columns, float]:
    """Returns the mean value of A minus that of the others, 0 if one of these has no element."""
    columns = _things(generator, size)
    is_a = columns["kind"] == "A"
    values = columns["value"]
    return columns, float(values[is_a].mean() - values[~is_a].mean()) if 0 < is_a.sum() < size else 0.0


def _straight(generator: np.random.Generator, size: int) -> tuple[Columns, str]:
    """Returns the longest run of ranks that follow one another, up to 5."""
    columns = {"rank": generator.integers(1, 31, size)}
    longest = run = 1
    for one, following in pairwise(np.unique(columns["rank"])):
        run = run + 1 if following == one + 1 else 1
        longest = max(longest, run)
    return columns, f"run of {min(longest, 5)}"


def _correlation(generator: np.random.Generator, size: int) -> tuple[Columns, float]:
    """Returns the correlation of two columns, which are drawn with another one per set."""
    drawn = generator.uniform(-1, 1)
    a, noise = generator.normal(size=(2, size))
    b = drawn * a + (1 - drawn**2) ** 0.5 * noise
    return {"a": a, "b": b}, float(np.corrcoef(a, b)[0, 1])


def _repeat(generator: np.random.Generator, size: int) -> tuple[Columns, str]:
    """Returns whether one of 40 codes occurs twice."""
    columns = {"code": generator.choice([f"c{i}" for i in range(40)], size), "amount": generator.integers(1, 4, size)}
    return columns, "repeated" if len(set(columns["code"])) < size else "distinct"


def _pause(generator: np.random.Generator, size: int) -> tuple[Columns, float]:
    """Returns the longest time between one event and the next."""
    times = generator.uniform(0, 100, size)
    return {"time": times}, float(np.diff(np.sort(times)).max())


def _near_pair(generator: np.random.Generator, size: int) -> tuple[Columns, float]:
    """Returns the least distance between points of two kinds, 1 if there is one kind only."""
    kinds, points = generator.choice(["A", "B"], size), generator.random((size, 2))
    apart = np.linalg.norm(points[kinds == "A", None] - points[kinds == "B"], axis=-1)
    return {"kind": kinds, "x": points[:, 0], "y": points[:, 1]}, float(apart.min(initial=1))


def _clusters(generator: np.random.Generator, size: int) -> tuple[Columns, str]:
    """Returns how many clusters points are drawn from, one to three."""
    num = int(generator.integers(1, 4))
    points = generator.normal(0, 3, (num, 2))[generator.integers(0, num, size)] + generator.normal(0, 0.5, (size, 2))
    return {"x": points[:, 0], "y": points[:, 1]}, f"{num} clusters"


def _price(generator: np.random.Generator, size: int) -> tuple[Columns, float]:
    """Returns the price of a basket of 60 items in several copies, with noise of five per cent."""
    prices = np.random.default_rng(0).gamma(2, 10, 60)
    items, amounts = generator.integers(0, 60, size), generator.integers(1, 6, size)
    price = float((prices[items] * amounts).sum() * generator.lognormal(0, 0.05))
    return {"item": np.char.add("item ", items.astype(str)), "amount": amounts}, price


def _made(
    seed: int,
    least: int,
    most: int,
    one: Callable[[np.random.Generator, int], tuple[Columns, Any]],
) -> Callable[[Path], Sets]:
    """Returns a maker of sets of ``least`` to ``most`` elements, each made by ``one``."""

    def make(_: Path) -> Sets:
        generator, found = np.random.default_rng(seed), []
        for _i in range(GENERATED_SETS):
            columns, target = one(generator, int(generator.integers(least, most + 1)))
            values = zip(*(column.tolist() for column in columns.values()), strict=True)
            found.append(([dict(zip(columns, row, strict=True)) for row in values], target))
        return found

    return make


MAKERS: dict[str, Callable[[Path], Sets]] = {
    "distinct": _distinct,
    "closest": _made(2, 5, 15, _closest),
    "laws": _laws,
    "hulls": _made(4, 4, 20, _hull),
    "modes": _made(5, 5, 25, _mode),
    "connected": _made(6, 4, 8, _connected),
    "weighted-means": _made(11, 2, 20, _weighted_mean),
    "shares-above": _made(12, 2, 20, _share_above),
    "products": _made(13, 2, 20, _largest_product),
    "contests": _made(14, 2, 20, _contest),
    "entropies": _made(15, 2, 20, _entropy),
    "contrasts": _made(16, 2, 20, _contrast),
    "straights": _made(17, 4, 14, _straight),
    "correlations": _made(18, 5, 30, _correlation),
    "repeats": _made(19, 3, 12, _repeat),
    "pauses": _made(20, 3, 15, _pause),
    "near-pairs": _made(21, 3, 12, _near_pair),
    "clusters": _made(22, 15, 40, _clusters),
    "prices": _made(23, 1, 12, _price),
}
"""Makers of the tables; the folder RAW is not read."""
