"""The reduction of the rows of forests per set, one forest at a time."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from janossy.evaluate.cells import by_torch
from janossy.evaluate.cells.by_torch import Sequences
from janossy.evaluate.cells.cost import cell_bytes
from janossy.evaluate.cells.forest import Forest
from janossy.evaluate.cells.layers import project, run
from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import HALF, REDUCTIONS, widened
from janossy.evaluate.rows.recompute import computed_again, with_weights_of_now
from janossy.functions.structure import Recurrent
from janossy.sets import Ragged
from janossy.sets.transfer import upload

MAX_FLOAT = sys.float_info.max
"""The largest float. A larger int raises OverflowError in ``float``."""


@dataclass(frozen=True)
class Part:
    """Rows of a forest that belong to some sets, equally many per set, one set after the other."""

    sets: Sequence[int]
    num_rows: int
    """The number of rows of each set in this forest."""
    continues: bool = False
    """True if these are more rows of the sets of the part before."""
    shares: Tensor | None = None
    """The share of a set's orderings that each of its rows stands for, (num_rows,), float64; None if each is one."""

    @property
    def count(self) -> float:
        """The number of orderings of each set that its rows stand for, or their share of all."""
        return self.num_rows if self.shares is None else float(self.shares.sum())


@dataclass(frozen=True)
class Grove:
    """A forest, or sequences, whose rows belong to these parts, one after the other."""

    forest: Forest | Sequences
    parts: Sequence[Part]


def pool_forests(problem: Problem, values: Tensor, groves: Sequence[Grove]) -> Tensor | Ragged:
    """Returns the reduced rows of each set, (B, c); or, if problem.reduce is None, the rows themselves.

    ``values`` are the elements that the forests' cells read. A row of length 0 is the zero vector. If all forests
    together need more than the memory budget, each is computed again in backward.
    """
    return _pool(problem, run, project(problem.f, problem.declared(Recurrent), values), groves)


def pool_sequences(problem: Problem, values: Tensor, groves: Sequence[Grove]) -> Tensor | Ragged:
    """Returns the reduced rows of sequences by torch's kernels, as ``pool_forests`` does of forests."""
    return _pool(problem, by_torch.run, values, groves)


def _pool(problem: Problem, of_rows: Callable[..., Tensor], read: Any, groves: Sequence[Grove]) -> Tensor | Ragged:
    """Returns the reduced rows of each set, which are ``of_rows(f, (read, forest))``."""
    reduction = REDUCTIONS[problem.reduce]
    once = sum(grove.forest.num_cells for grove in groves) * cell_bytes(problem) <= problem.memory_budget
    structure = problem.declared(Recurrent)
    apply = partial(of_rows, problem.f, structure=structure) if once else with_weights_of_now(problem.f, of_rows)

    def start(read: Any, grove: Grove) -> list[Tensor]:
        rows, parts = apply((read, grove.forest)), grove.parts
        each = (
            rows.split([len(part.sets) * part.num_rows for part in parts]) if len(parts) > 1 else (rows,) * len(parts)
        )
        return [_started(problem.reduce, x, part) for x, part in zip(each, parts, strict=True)]

    started: list[Tensor] = []
    counts: list[float] = []
    firsts: list[Part] = []
    for grove in groves:
        results = start(read, grove) if once else computed_again(start, read, grove)
        for part, result in zip(grove.parts, results, strict=True):
            if part.continues:
                started[-1] = reduction.combine(started[-1], result)
                counts[-1] += part.count
            else:
                started.append(result)
                counts.append(part.count)
                firsts.append(part)
    finished = [_finished(problem, *each) for each in zip(started, counts, firsts, strict=True)]
    return _joined(problem, finished, [part.sets for part in firsts])


def _started(reduce: str | None, rows: Tensor, part: Part) -> Tensor:
    """Returns the start of a reduction, (S, r, c), in which each row counts as much as its share says."""
    if part.shares is None and part.num_rows == 1:
        return widened(rows).unsqueeze(1)  # one row is its own mean, sum and maximum
    rows = rows.unflatten(0, (len(part.sets), part.num_rows))
    if part.shares is not None and reduce != "max":
        rows = widened(rows)
        shares = (part.shares.log() if reduce == "logmeanexp" else part.shares).to(rows)[:, None]
        rows = rows + shares if reduce == "logmeanexp" else rows * shares
    return REDUCTIONS[reduce].start(rows)


def _finished(problem: Problem, total: Tensor, num: float, part: Part) -> Tensor:
    """Returns the reduction, (S, r, c), of rows that count ``num`` together."""
    if problem.reduce == "sum" and part.shares is not None:
        times = problem.orderings.num_rows(problem.elements.sizes[part.sets[0]])
        # In float64, so that 0 stays 0 where their number is beyond float32.
        return (total.double() * (float(times) if times < MAX_FLOAT else inf)).to(total.dtype)
    return total if num == 1 else REDUCTIONS[problem.reduce].finish(total, num)


def _joined(problem: Problem, results: list[Tensor], sets: list[Sequence[int]]) -> Tensor | Ragged:
    """Returns the parts' results (S, r, c) in the order of the sets."""
    if not results:
        nothing = problem.values.new_zeros(0, problem.declared(Recurrent).out_features)
        return nothing if problem.reduce is not None else Ragged.from_sizes(nothing, [])
    joined = torch.cat([x.flatten(0, 1) for x in results]) if len(results) > 1 else results[0].flatten(0, 1)
    if problem.values.dtype in HALF:
        joined = joined.to(problem.values.dtype)
    if problem.reduce is not None and len(sets) == 1 and list(sets[0]) == list(range(len(sets[0]))):
        return joined
    owners = np.concatenate([np.repeat(each, x.shape[1]) for each, x in zip(sets, results, strict=True)])
    order = owners.argsort(kind="stable")
    if (order[1:] < order[:-1]).any():
        joined = joined[upload(order, joined.device)]
    if problem.reduce is not None:
        return joined
    return Ragged.from_sizes(joined, np.bincount(owners, minlength=len(problem.elements)).tolist())
