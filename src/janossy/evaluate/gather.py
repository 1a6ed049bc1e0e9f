"""Gather: build the rows, apply f, reduce. Works for every function and every ordering."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from janossy.evaluate.cost import Cost, Rates, Work, as_float, check_memory_budget
from janossy.evaluate.problem import Function, Problem
from janossy.evaluate.rows.pieces import with_zero
from janossy.evaluate.rows.pool import Steps, pool
from janossy.ragged import Ragged

STEP, STEP_OF_ONEDNN = 6e-5, 5e-6
"""Seconds of a step of torch's recurrences on a few rows, forward and backward; oneDNN has the LSTM in float32."""

# Fitted to TupleMLPs of 8 to 100 units on up to 100,000 tuples, float32, on two cores of an AMD EPYC.
RATES = Rates(flops_per_second=4e10, bytes_per_second=1.6e10, activations_per_second=1e9, overhead=3e-4)


@dataclass(frozen=True)
class Gather:
    """Build the rows, apply f, reduce (Eq. 3, literally). Every other evaluator is compared with this one.

    f is called on rows of equal length, so it never sees padding. It is never called on rows of length 0: their value
    is the zero vector. Rows estimated to need more than memory_budget bytes are computed in chunks, and once more in
    backward.

    Applies to: everything.      Tolerance: none, it is the definition.
    Cost: f on every row; memory for one chunk of rows, for the result, and 5 kB a chunk (the state of the random
        generator, so that dropout recomputes alike).
    Raises: ValueError if memory_budget < 1, or if f does not return (T, c); RuntimeError, in backward, if rows were
        chunked and f's weights modified in place since forward.
    """

    memory_budget: int = 2**30
    name: ClassVar[str] = "gather"

    def __post_init__(self) -> None:
        check_memory_budget("Gather", self.memory_budget)

    def refuses(self, problem: Problem) -> str | None:
        return None

    def cost(self, problem: Problem) -> Cost:
        orderings, work = problem.orderings, _work(problem)
        num_rows: Counter[int] = Counter()
        for n, num_sets in Counter(problem.elements.sizes).items():
            num_rows[orderings.row_length(n)] += num_sets * orderings.num_rows(n)
        flops = num_bytes = activations = 0.0
        for length, num in num_rows.items():
            flops += as_float(num) * work.flops(length)
            num_bytes += as_float(num) * _row_bytes(work, problem.elements.values, length)
            activations += as_float(num) * work.activations(length)
        return Cost(flops, num_bytes, activations, RATES, calls=_step(problem) * sum(num_rows))

    def __call__(self, problem: Problem) -> Tensor | Ragged:
        rows = problem.orderings.enumerate(problem.keys, problem.generator)
        values = with_zero(problem.elements.values, rows)
        steps = Steps(values, _take, _apply, partial(_row_bytes, _work(problem), values))
        return pool(problem, rows, steps, self.memory_budget)


def _step(problem: Problem) -> float:
    """Seconds of a step at each position, through every layer, if f is a recurrence."""
    structure, values = problem.recurrent, problem.elements.values
    if structure is None:
        return 0.0
    by_onednn = structure.kind == "lstm" and values.dtype == torch.float32 and values.device.type == "cpu"
    each = STEP_OF_ONEDNN if by_onednn and not structure.unrolled else STEP
    return each * sum(len(layer) for layer in structure.layers)


def _work(problem: Problem) -> Work:
    return Work.of(problem.f, whole_rows=problem.additive is not None)


def _row_bytes(work: Work, values: Tensor, length: int) -> int:
    positions = 8 * length
    return positions + values.element_size() * work.elements(length, values.shape[1:].numel())


def _take(values: Tensor, positions: Tensor) -> Tensor:
    return values.index_select(0, positions.reshape(-1)).unflatten(0, positions.shape)


def _apply(f: Function, x: Tensor) -> Tensor:
    y = f(x)
    if not isinstance(y, Tensor) or y.dim() != 2 or len(y) != len(x):
        got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(
            f"f must map rows {tuple(x.shape)} to ({len(x)}, c); got {got}. "
            "Reduce the sequence dimension inside f: its last state, or a mean over positions."
        )
    return y
