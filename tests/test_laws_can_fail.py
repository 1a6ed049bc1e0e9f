"""Every law fails on a known-bad input: a check that cannot fail is a defect."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from janossy import AllPermutations, JanossyPooling, Spectral, Tuples
from janossy.evaluate import Gather
from janossy.orderings import Orderings
from janossy.orderings.rows import build_rows
from tests.examples import D, distinct_sets, pooling
from tests.laws import (
    law_batch_mates,
    law_count,
    law_definition,
    law_gradients,
    law_invariant,
    law_parity,
    law_rows_are_orderings,
    law_saves_no_more_than,
    law_uniform,
)

pytestmark = pytest.mark.usefixtures("float64")


def first_block_edited(rows, edit):
    *others, last = rows.buckets
    return replace(rows, buckets=(*others, replace(last, local=edit(last.local))))


class DropsOneTuple(Tuples):
    def enumerate(self, keys, generator=None):
        return first_block_edited(super().enumerate(keys, generator), lambda local: local[:, :-1])


class RepeatsAnElement(Tuples):
    def enumerate(self, keys, generator=None):
        return first_block_edited(super().enumerate(keys, generator), torch.zeros_like)


class FillsWithTheFirst(Tuples):
    """Fills up sets smaller than k with their first element instead of the zero vector."""

    def enumerate(self, keys, generator=None):
        rows = super().enumerate(keys, generator)
        return replace(rows, buckets=tuple(replace(b, padded=False, local=b.local.clamp(min=0)) for b in rows.buckets))


class StraysIntoItsNeighbour(Tuples):
    def enumerate(self, keys, generator=None):
        rows = super().enumerate(keys, generator)
        return replace(rows, buckets=tuple(replace(b, starts=b.starts.roll(1)) for b in rows.buckets))


@dataclass(frozen=True)
class AsItComes(Orderings):
    """An order-sensitive "ordering": the set as it is stored."""

    draws = False

    def num_rows(self, n):
        return 1

    def row_length(self, n):
        return n

    def enumerate(self, keys, generator=None):
        return build_rows(keys, lambda n, _: torch.arange(n)[None, None])


@dataclass(frozen=True)
class Edited(Gather):
    """An evaluator that is right in value, and wrong in one gradient."""

    forgets: str = "elements"

    def __call__(self, problem):
        result = super().__call__(problem)
        if self.forgets == "elements":
            return super().__call__(replace(problem, elements=problem.elements.detach()))
        for parameter in problem.f.parameters():
            parameter.requires_grad_(False)
        unfollowed = super().__call__(problem)
        for parameter in problem.f.parameters():
            parameter.requires_grad_(True)
        return unfollowed + 0 * result


class WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.square()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class OnceDifferentiable(torch.autograd.Function):
    """Right once: its backward is a constant to autograd."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 * ctx.saved_tensors[0].detach()


class Squares(nn.Module):
    def __init__(self, square):
        super().__init__()
        self.linear = nn.Linear(D, 3)
        self.square = square

    def forward(self, x):
        return self.square(self.linear(x)).sum(1)


class ComparesWithTheBatch(nn.Module):
    def forward(self, x):
        return x.mean(1) - x.mean((0, 1))


def tuples_2(orderings=None, evaluator="gather"):
    return JanossyPooling(pooling("tuples_2", "tuple_mlp").f, orderings or Tuples(2), evaluate=evaluator)


def few_sets():
    return distinct_sets((3, 1, 3))


BAD = {
    "definition, a tuple dropped": lambda: law_definition(tuples_2(DropsOneTuple(2)), few_sets()),
    "definition, a sum for a mean": lambda: law_definition(
        _relabelled(pooling("tuples_2", "tuple_mlp", reduce="sum"), "mean"), few_sets()
    ),
    "definition, not filled with zero": lambda: law_definition(tuples_2(FillsWithTheFirst(2)), few_sets()),
    "definition, an empty set that is not zero": lambda: law_definition(
        _relabelled(pooling("all_permutations", "gru"), "mean", bias=1.0), distinct_sets((2, 0))
    ),
    "count, a tuple dropped": lambda: law_count(DropsOneTuple(2), few_sets()),
    "count, the wrong length": lambda: law_count(_with(Tuples(2), row_length=lambda n: 3), few_sets()),
    "count, the wrong number": lambda: law_count(_with(Tuples(2), num_rows=lambda n: n), few_sets()),
    "rows, an element twice": lambda: law_rows_are_orderings(RepeatsAnElement(2), few_sets()),
    "rows, of another set": lambda: law_rows_are_orderings(StraysIntoItsNeighbour(2), distinct_sets((3, 3))),
    "rows, not filled with zero": lambda: law_rows_are_orderings(FillsWithTheFirst(2), few_sets()),
    "invariance": lambda: law_invariant(JanossyPooling(pooling("canonical", "gru").f, AsItComes()), few_sets()),
    "invariance, bitwise": lambda: law_invariant(
        pooling("all_permutations", "gru"), distinct_sets((5, 5, 5, 4)), bitwise=True
    ),
    "batch-mates": lambda: law_batch_mates(JanossyPooling(ComparesWithTheBatch(), Tuples(2)), few_sets()),
    "parity in value": lambda: law_parity(tuples_2(), tuples_2(DropsOneTuple(2)), few_sets()),
    "parity in the elements' gradient": lambda: law_parity(tuples_2(evaluator=Edited()), tuples_2(), few_sets()),
    "parity in the parameters' gradient": lambda: law_parity(
        tuples_2(evaluator=Edited(forgets="parameters")), tuples_2(), few_sets()
    ),
    "parity of an evaluator without rows, to its tolerance": lambda: law_parity(
        pooling("tuples_2", "tuple_mlp", "spectral"),
        JanossyPooling(pooling("tuples_2", "tuple_mlp").f, Tuples(2), evaluate=Spectral(1e-3, enumerate_up_to=0)),
        few_sets(),
    ),
    "gradients": lambda: law_gradients(
        JanossyPooling(Squares(WrongBackward.apply), AllPermutations()), few_sets(), twice=False
    ),
    "gradients, twice": lambda: law_gradients(
        JanossyPooling(Squares(OnceDifferentiable.apply), AllPermutations()), few_sets(), twice=True
    ),
    "uniform, biased": lambda: law_uniform([(0, 1), (1, 0), (0, 1)] * 300, 2, 2),
    "uniform, not orderings": lambda: law_uniform([(0, 0), (1, 0), (0, 1)] * 300, 2, 2),
    "uniform, too few": lambda: law_uniform([(0, 1)], 2, 2),
    "bytes saved": lambda: law_saves_no_more_than(100, lambda: torch.randn(50, requires_grad=True).square().sin()),
}


@pytest.mark.parametrize("law", BAD)
def test_the_law_fails_on_a_bad_input(law):
    with pytest.raises(AssertionError):
        BAD[law]()


def test_right_once_passes_once():
    law_gradients(JanossyPooling(Squares(OnceDifferentiable.apply), AllPermutations()), few_sets(), twice=False)


def _relabelled(layer, reduce, bias=0.0):
    """Returns a layer that computes one thing and says that it computes another."""

    class Relabelled(nn.Module):
        f, orderings = layer.f, layer.orderings

        def __call__(self, sets, **arguments):
            return layer(sets, **arguments) + bias

    Relabelled.reduce = reduce
    return Relabelled()


def _with(orderings, **answers):
    class Lies(type(orderings)):
        pass

    for name, answer in answers.items():
        setattr(Lies, name, lambda self, n, answer=answer: answer(n))
    return Lies(orderings.k)
