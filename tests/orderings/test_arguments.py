"""Every argument of every ordering, wrong in type or range, is one clear error; declaring too little is no ordering."""

from dataclasses import MISSING, dataclass, fields
from typing import ClassVar

import numpy as np
import pytest
import torch

from janossy import (
    AllPermutations,
    Canonical,
    Combinations,
    Distinct,
    ImportanceSampled,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
)
from janossy.orderings import AsGiven, Learned, Orderings, OrderWeights, RandomOrderings, check_orderings
from janossy.orderings.contract import MAX_ROWS
from janossy.orderings.drawn import Drawn
from tests.examples import ORDERINGS, distinct_sets, generator, tying_key

KINDS = (AllPermutations, AsGiven, Canonical, Combinations, Distinct, ImportanceSampled, Learned, Sampled, Tuples)
LEGAL = {"num_permutations": 2, "k": 2, "scorer": tying_key}

NO_INTEGERS = (2.5, 2.0, True, "3", np.float64(2), [2], torch.tensor(2))
WRONG = {
    "num_permutations": (*NO_INTEGERS, None),
    "k": NO_INTEGERS,
    "seed": (1.5, True, "x"),
    "block": NO_INTEGERS,
    "exact_last": (*NO_INTEGERS, None),
    "exhaust": NO_INTEGERS,
    "max_rows": ("x", 2.5, True, None),
    "key": (2.5, True, "x", torch.zeros(3)),
    "scorer": (0, None, "x", torch.zeros(3), torch.nn.Linear),
    "sample": (0, None, "x"),
    "order_weights": (0, torch.ones(2), torch.nn.Linear(2, 2)),
    "weights": (0, None, torch.ones(3)),
    "uniform": ("0.1", None, True, [0.1]),
}
"""Arguments of another type, by the name of the argument."""

OUT_OF_RANGE = {
    "num_permutations": (0, -1),
    "k": (0, -3),
    "seed": (-1,),
    "block": (0,),
    "exact_last": (-1,),
    "exhaust": (-1,),
    "max_rows": (0,),
    "key": (-1,),
    "order_weights": (OrderWeights(2),),
    "weights": ("degree",),
    "uniform": (-0.1, 1.5),
    "scheme": ("cyclic", "distinct", 3),
}


def cases(values):
    return [
        pytest.param(kind, field.name, value, id=f"{kind.__name__}-{field.name}-{value!r}")
        for kind in KINDS
        for field in fields(kind)
        for value in values.get(field.name, ())
        if not (value is None and field.default is None)
    ]


def make(kind, **arguments):
    needed = {f.name: LEGAL[f.name] for f in fields(kind) if f.default is MISSING}
    return kind(**{**needed, **arguments})


@pytest.mark.parametrize(("kind", "name", "value"), cases(WRONG))
def test_another_type_is_a_type_error_that_names_the_argument(kind, name, value):
    with pytest.raises(TypeError, match=rf"^{kind.__name__} expects .*{name}.*; got .*"):
        make(kind, **{name: value})


@pytest.mark.parametrize(("kind", "name", "value"), cases(OUT_OF_RANGE))
def test_out_of_range_is_a_value_error_that_names_the_argument(kind, name, value):
    with pytest.raises(ValueError, match=rf"^{kind.__name__} .*; got "):
        make(kind, **{name: value})


def test_every_argument_is_looked_at():
    assert {field.name for kind in KINDS for field in fields(kind)} == set(WRONG) | set(OUT_OF_RANGE)


@pytest.mark.parametrize("kind", KINDS)
def test_integers_of_numpy_will_do(kind):
    numbers = {"num_permutations": 3, "k": 2, "seed": 1, "block": 2, "max_rows": 99}
    given = {field.name: numbers[field.name] for field in fields(kind) if field.name in numbers}
    same = make(kind, **{name: np.int64(number) for name, number in given.items()})
    assert same == make(kind, **given)
    assert torch.equal(
        *(o.enumerate(distinct_sets((2, 3)), **repeatable(o)).flatten()[0].values for o in (same, make(kind, **given)))
    )


def repeatable(orderings):
    return {"generator": generator()} if orderings.draws and orderings.seed is None else {}


@pytest.mark.parametrize("name", [name for name, orderings in ORDERINGS.items() if orderings.draws])
def test_a_generator_of_another_kind(name):
    with pytest.raises(TypeError, match=r"expects a torch.Generator as generator; got 3, of type int. Write torch.Gen"):
        ORDERINGS[name].enumerate(distinct_sets((2,)), 3)


def test_a_generator_of_another_device():
    if not torch.cuda.is_available():
        pytest.skip("needs a second device")
    with pytest.raises(ValueError, match="expects a generator on the sets' device, cpu; got one on cuda"):
        Sampled().enumerate(distinct_sets((2,)), torch.Generator("cuda"))


# What is asked of orderings, of a user's own too.


@dataclass(frozen=True)
class Bare(Orderings):
    """Has one method of three."""

    draws: ClassVar[bool] = False

    def row_length(self, n):
        return n


@dataclass(frozen=True)
class Silent(Bare):
    """Draws, and does not say so."""

    draws: ClassVar[None] = None

    def num_rows(self, n):
        return 1

    def enumerate(self, keys, generator=None):
        return Sampled(1).enumerate(keys, generator)


@dataclass(frozen=True)
class Alone(Silent):
    """Says so, and derives from ``Orderings`` alone."""

    draws: ClassVar[bool] = True


@dataclass(frozen=True)
class Half(RandomOrderings):
    """Says no more than what every ordering says."""

    num_rows, row_length, enumerate = Silent.num_rows, Silent.row_length, Silent.enumerate


class Unrelated:
    """Has every method, and derives from nothing."""

    num_rows, row_length, enumerate, draws = Silent.num_rows, Silent.row_length, Silent.enumerate, False


@dataclass(frozen=True)
class Needy(Orderings):
    """Has a field of the name of a default, which it requires."""

    k: int
    draws: ClassVar[bool] = False


@pytest.mark.parametrize("name", ORDERINGS)
def test_ours_are_orderings(name):
    orderings = ORDERINGS[name]
    check_orderings(orderings, "JanossyPooling")
    rows = orderings.enumerate(distinct_sets((2, 0)), **repeatable(orderings))
    check_orderings(Drawn(rows, (2, 0)), "JanossyPooling")


@pytest.mark.parametrize(
    ("orderings", "message"),
    [
        (
            Silent(),
            r"declare whether they draw, .* got Silent, with draws=None. Say draws = True if its enumerate draws",
        ),
        (Bare(), r"the methods num_rows, row_length, enumerate; got Bare, without num_rows, enumerate. Add them"),
        (Alone(), r"draw to be RandomOrderings; got Alone, with draws=True. Derive it from"),
        (Half(), r"to have num_permutations, redrawn; got Half, without num_permutations, redrawn. Add them"),
        (Unrelated(), r"of a subclass of janossy.orderings.Orderings; got .*, of type Unrelated. Give one"),
        (Sampled, r"got the class Sampled. Write Sampled\(…\)"),
        (5, r"of a subclass of janossy.orderings.Orderings; got 5, of type int. Give one"),
        (None, "got None, of type NoneType"),
    ],
)
def test_what_is_not(orderings, message):
    with pytest.raises(TypeError, match=rf"^Owner expects .*{message}"):
        check_orderings(orderings, "Owner")


def test_a_default_is_no_default_of_a_field():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'k'"):
        Needy()
    assert Needy(3).k == 3 and Needy(3).max_rows == MAX_ROWS and Silent().k is None


def test_too_many_rows_in_all_ask_for_smaller_batches_where_they_help():
    sets = Ragged.from_sizes(torch.zeros(12, 2), (4, 4, 4))
    pooling = JanossyPooling(TupleMLP(2, 2, 3), Tuples(2, max_rows=12), evaluate="gather")
    with pytest.raises(ValueError, match=r"use smaller batches or Sampled\(num, k=2\) or a smaller k"):
        pooling(sets)
    pooling(sets[:1])
    with pytest.raises(ValueError, match=r"over max_rows=11; use Sampled\(num, k=2\) or a smaller k"):
        JanossyPooling(TupleMLP(2, 2, 3), Tuples(2, max_rows=11), evaluate="gather")(sets[:1])
