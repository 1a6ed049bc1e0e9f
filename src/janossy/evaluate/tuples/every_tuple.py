"""The common part of the evaluators that average over every k-tuple without building rows."""

from typing import cast

import torch
from torch import Tensor

from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import HALF, widened
from janossy.orderings.contract import EveryTuple, averages_every_tuple
from janossy.sets.transfer import upload


def why_not_every_tuple(problem: Problem, k: int) -> str | None:
    """Returns the reason why this is not the mean or sum of f of k elements over every k-tuple; None if it is."""
    if not averages_every_tuple(problem.orderings):
        return f"{type(problem.orderings).__name__} does not average over every k-tuple, as Tuples and Combinations do"
    if (theirs := cast(EveryTuple, problem.orderings).k) != k:
        return f"f takes rows of k = {k} elements, and these orderings take {theirs}"
    if problem.reduce not in ("mean", "sum"):
        return f"it computes the mean and the sum, and no rows for reduce={problem.reduce!r}"
    return None


def is_increasing(problem: Problem) -> bool:
    """Returns True if the tuples are the increasing ones."""
    return cast(EveryTuple, problem.orderings).increasing


def in_order(problem: Problem) -> tuple[Tensor, Tensor | None]:
    """Returns the values, and the place among them of each element, (N,), in the order of increasing tuples.

    The places are None if the values are the elements in that order.
    """
    order = cast(EveryTuple, problem.orderings).order(problem.keys)
    if problem.table is None:
        return in_place(problem.values, order), None
    return problem.table, in_place(problem.elements.values, order)


def in_place(x: Tensor, places: Tensor | None) -> Tensor:
    """Returns the entries of x at these places, (N, …); x itself if places is None."""
    return x if places is None else x.index_select(0, places)


def reduced(problem: Problem, means: Tensor) -> Tensor:
    """Returns the means (B, c), or the sums if the problem asks for sums, in the elements' precision."""
    result = widened(means)
    if problem.reduce == "sum":
        sizes = problem.elements.sizes
        counts = {n: float(problem.orderings.num_rows(n)) for n in set(sizes)}
        if len(counts) == 1:
            result = result * counts[sizes[0]]
        else:
            each = [counts[n] for n in sizes]
            result = result * upload(torch.tensor(each, dtype=result.dtype, device="cpu"), result.device)[:, None]
    return result.to(problem.values.dtype) if problem.values.dtype in HALF else result
