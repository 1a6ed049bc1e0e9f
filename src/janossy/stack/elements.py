"""Reductions of f of every element, for R networks: f of all elements in one call, then one reduction."""

from collections.abc import Sequence

from torch import Tensor, nn

from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import reduce_segments
from janossy.evaluate.rows.steps import bytes_of_elements
from janossy.functions.structure import Additive, structure
from janossy.nn.pooling import JanossyPooling
from janossy.orderings.contract import averages_every_tuple
from janossy.stack.maps import Joined, is_stackable


def is_of_elements(pooling: JanossyPooling) -> bool:
    """Returns True if f reads single elements, and is more than the one hidden layer of ``pool_tuples``."""
    orderings, declared = pooling.orderings, structure(pooling.f)
    return (
        orderings.k == 1
        and averages_every_tuple(orderings)
        and pooling.orderings_train is None
        and pooling.choice.asked is None
        and pooling.reduced is not None
        and isinstance(pooling.f, nn.Module)
        and is_stackable(pooling.f)
        and not (isinstance(declared, Additive) and declared.rest_is_affine)
    )


def fits(problem: Problem) -> bool:
    """Returns True if no set is empty, and f of all elements at once keeps to the memory budget."""
    num_bytes = len(problem.values) * bytes_of_elements(problem)
    return 0 not in problem.elements.sizes and 0 < num_bytes <= problem.memory_budget


def pool_elements(problem: Problem, f: Joined, counts: Sequence[int]) -> Tensor:
    """Returns the reduced rows (R·B, c) of all networks' sets, in turn.

    Each network has its ``counts`` of the problem's values.
    """
    each = f(problem.values.unsqueeze(1), counts)
    if problem.table is not None:
        each = each.index_select(0, problem.elements.values)
    assert problem.reduce is not None
    return reduce_segments(problem.reduce, problem.elements.with_values(each)).to(problem.values.dtype)
