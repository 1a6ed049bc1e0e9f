"""The promises to a new ordering and a new cell: written outside the package, they obey the laws."""

from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import pytest
import torch

from janossy import AllPermutations, JanossyPooling, TupleMLP
from janossy.orderings import Orderings
from janossy.orderings.rows import build_rows
from janossy.orderings.sorting import sort_positions
from tests.cells import CELLS
from tests.examples import FUNCTIONS, D, distinct_sets, tied_sets
from tests.laws import (
    law_batch_mates,
    law_count,
    law_definition,
    law_gradients,
    law_invariant,
    law_parity,
    law_rows_are_orderings,
)

pytestmark = pytest.mark.usefixtures("float64")


@dataclass(frozen=True)
class Rotations(Orderings):
    """Every rotation of the sorted set."""

    draws: ClassVar[bool] = False

    def num_rows(self, n):
        return max(1, n)

    def row_length(self, n):
        return n

    def enumerate(self, keys, generator=None):
        def turns(n, num_sets):
            return (torch.arange(n) + torch.arange(max(1, n))[:, None])[None] % max(1, n)

        return build_rows(keys, turns, sort_positions(keys))


@dataclass(frozen=True)
class Ends(Orderings):
    """The smallest and the largest element of the sorted set, in both orders: rows of two."""

    draws: ClassVar[bool] = False
    k: ClassVar[int] = 2

    def num_rows(self, n):
        return 2 if n >= 2 else 1

    def row_length(self, n):
        return 2

    def enumerate(self, keys, generator=None):
        local = {0: [[-1, -1]], 1: [[0, -1]]}
        return build_rows(
            keys, lambda n, _: torch.tensor([local.get(n, [[0, n - 1], [n - 1, 0]])]), sort_positions(keys), self.k
        )


def by_definition(orderings, x):
    """Returns the sequences of one set x (n, d), in plain Python."""
    elements = sorted(x.tolist())
    match orderings:
        case Rotations():
            rows = [elements[i:] + elements[:i] for i in range(len(elements))] or [[]]
        case Ends():
            zero = [0.0] * x.shape[1]
            both = [elements[0], elements[-1]] if len(elements) >= 2 else ([*elements, zero, zero])[:2]
            rows = [both, both[::-1]] if len(elements) >= 2 else [both]
        case _:  # every other ordering here is of whole sets
            rows = [list(row) for row in permutations(elements)]
    return [torch.tensor(row).reshape(len(row), x.shape[1]) for row in rows]


ORDERINGS = {"rotations": Rotations(), "ends": Ends()}
OURS = {"gru": FUNCTIONS["gru"].build, "lstm_deep_bidirectional": FUNCTIONS["lstm_deep_bidirectional"].build}
RECURRENCES = {**OURS, **{name: lambda k, cell=cell: cell(D, 3) for name, cell in CELLS.items()}}
TUPLES = {"tuple_mlp": lambda k: TupleMLP(k, D, 4), "tuple_mlp_deep": lambda k: TupleMLP(k, D, (4, 3), out_features=2)}

LAYERS = [
    *(("rotations", f, e) for f in RECURRENCES for e in ("gather", "packed", "auto")),
    *(("rotations", f, e) for f in ("transformer", "min_gru") for e in ("gather", "auto")),
    *(("ends", f, e) for f in RECURRENCES for e in ("gather", "packed", "auto")),
    *(("ends", f, e) for f in TUPLES for e in ("gather", "projected", "auto")),
]


def layer(ordering, function, evaluator, reduce="mean"):
    torch.manual_seed(1)
    makes = {**{name: FUNCTIONS[name].build for name in ("transformer", "min_gru")}, **RECURRENCES, **TUPLES}
    return JanossyPooling(makes[function](2), ORDERINGS[ordering], evaluate=evaluator, reduce=reduce)


SIZES, TIED_SIZES = (3, 0, 5, 1, 2, 3), (3, 0, 4, 1, 2)


def batches():
    return distinct_sets(SIZES), tied_sets(TIED_SIZES)


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_count_and_rows(ordering):
    for sets in (*batches(), distinct_sets(()), distinct_sets((0, 0))):
        law_count(ORDERINGS[ordering], sets)
        law_rows_are_orderings(ORDERINGS[ordering], sets)


@pytest.mark.parametrize("reduce", ["mean", "sum", "max", "logmeanexp"])
@pytest.mark.parametrize(("ordering", "function", "evaluator"), LAYERS)
def test_definition(ordering, function, evaluator, reduce):
    with torch.no_grad():
        for sets in batches():
            law_definition(layer(ordering, function, evaluator, reduce), sets, by_definition)


@pytest.mark.parametrize(("ordering", "function", "evaluator"), LAYERS)
def test_invariance_and_batch_mates(ordering, function, evaluator):
    for sets in batches():
        law_invariant(layer(ordering, function, evaluator), sets)
        law_batch_mates(layer(ordering, function, evaluator), sets)


@pytest.mark.parametrize(
    ("ordering", "function", "evaluator"), [(o, f, e) for o, f, e in LAYERS if e != "gather" and f != "transformer"]
)
def test_parity_and_gradients(ordering, function, evaluator):
    law_parity(layer(ordering, function, evaluator), layer(ordering, function, "gather"), distinct_sets(SIZES))
    law_gradients(layer(ordering, function, evaluator), distinct_sets((3, 0, 1)), twice=True)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("evaluator", ["gather", "packed", "shared_prefixes", "auto"])
def test_a_cell_over_all_permutations(cell, evaluator):
    sets = distinct_sets((3, 0, 4, 1))
    with torch.no_grad():
        law_definition(JanossyPooling(CELLS[cell](D, 3), AllPermutations(), evaluate=evaluator), sets, by_definition)


def test_a_wrong_ordering_is_found():
    class Misses(Rotations):
        def num_rows(self, n):
            return n

    class Descends(Rotations):
        def enumerate(self, keys, generator=None):
            return super().enumerate(keys.with_values(-keys.values))

    with pytest.raises(AssertionError):
        law_count(Misses(), distinct_sets(SIZES))
    with pytest.raises(AssertionError):
        law_definition(JanossyPooling(RECURRENCES["gru"](None), Descends()), distinct_sets(SIZES), by_definition)
