"""Gather: build the rows, apply f, reduce. Works for every function and every ordering."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from janossy.evaluate.cost import Cost, Rates, Work, as_float
from janossy.evaluate.problem import Problem
from janossy.evaluate.rows.pieces import with_zero
from janossy.evaluate.rows.pool import Steps, apply, pool_rows
from janossy.functions.structure import Recurrent
from janossy.ragged import Ragged

STEP, STEP_OF_ONEDNN = 6e-5, 5e-6
"""Seconds of a step of torch's recurrences on a few rows, forward and backward; oneDNN has the LSTM in float32."""

# Fitted to TupleMLPs of 8 to 100 units on up to 100,000 tuples, float32, on two cores of an AMD EPYC.
RATES = Rates(flops_per_second=4e10, bytes_per_second=1.6e10, activations_per_second=1e9, overhead=3e-4)


@dataclass(frozen=True)
class Gather:
    """Build the rows, apply f, reduce (Eq. 3, literally). Every other evaluator is compared with this one.

    f is called on rows of equal length, so it never sees padding. It is never called on rows of length 0: their value
    is the zero vector. Rows estimated to need more than the memory budget are computed in chunks, and once more in
    backward.

    Applies to: everything.      Tolerance: none, it is the definition.
    Cost: f on every row; memory for one chunk of rows, for the result, and 5 kB a chunk (the state of the random
        generator, so that dropout recomputes alike).
    Raises: ValueError if f does not return (T, c); RuntimeError, in backward, if rows were chunked and f's weights
        modified in place since forward.
    """

    name: ClassVar[str] = "gather"

    def refuses(self, problem: Problem) -> str | None:
        return None

    def check_rows(self, problem: Problem) -> None:
        problem.check_rows()

    def cost(self, problem: Problem) -> Cost:
        orderings, work = problem.orderings, _work(problem)
        num_rows: Counter[int] = Counter()
        for n, num_sets in Counter(problem.elements.sizes).items():
            num_rows[orderings.row_length(n)] += num_sets * orderings.num_rows(n)
        flops = num_bytes = activations = 0.0
        for length, num in num_rows.items():
            flops += as_float(num) * work.flops(length)
            num_bytes += as_float(num) * _row_bytes(work, problem.values, length)
            activations += as_float(num) * work.activations(length)
        return Cost(flops, num_bytes, activations, RATES, calls=_step(problem) * sum(num_rows))

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        rows = problem.rows()
        values = with_zero(problem.values, rows)
        steps = Steps(values, _take, apply, partial(_row_bytes, _work(problem), values))
        return pool_rows(problem, rows, steps)


def _step(problem: Problem) -> float:
    """Seconds of a step at each position, through every layer, if f is a recurrence."""
    structure, values = problem.structure, problem.values
    if not isinstance(structure, Recurrent):
        return 0.0
    by_onednn = structure.kind == "lstm" and values.dtype == torch.float32 and values.device.type == "cpu"
    each = STEP_OF_ONEDNN if by_onednn and not structure.unrolled else STEP
    return each * sum(len(layer) for layer in structure.layers)


def _work(problem: Problem) -> Work:
    structure = problem.structure
    return Work.of(problem.f, whole_rows=structure is not None and structure.reads_whole_rows)


def _row_bytes(work: Work, values: Tensor, length: int) -> int:
    positions = 8 * length
    return positions + values.element_size() * work.elements(length, values.shape[1:].numel())


def _take(values: Tensor, positions: Tensor) -> Tensor:
    return values.index_select(0, positions.reshape(-1)).unflatten(0, positions.shape)
