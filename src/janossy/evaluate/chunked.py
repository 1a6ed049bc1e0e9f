"""f of every row, reduced: at most so many rows at a time, which are computed again in backward."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce as fold
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from janossy.evaluate.pieces import chunks_of, positions_of
from janossy.evaluate.problem import Function, Problem
from janossy.evaluate.reduce import HALF, REDUCTIONS, Reduction, widened
from janossy.orderings.rows import Block, Rows
from janossy.ragged import Ragged


@dataclass(frozen=True)
class Steps:
    """How a row's value comes about, in two steps: apply(f, take(values, positions)).

    Shapes:
        values: (N, …), what is known of each element; or (N + 1, …), the zero vector's last (see ``with_zero``).
        take: values and positions (T, L) in them -> (T, …), to which f is applied.
        apply: f and (T, …) -> (T, c), with the weights that f has at that time.
    """

    values: Tensor
    take: Callable[[Tensor, Tensor], Tensor]
    apply: Callable[[Function, Tensor], Tensor]
    row_bytes: Callable[[int], int]
    """An upper estimate of the bytes that a row of this length takes."""


def with_zero(elements: Tensor, rows: Rows) -> Tensor:
    """The elements, and behind them the zero vector, if a row needs it or there is no element to tell shapes by."""
    if len(elements) and not any(block.padded for block in rows.blocks):
        return elements
    return torch.cat((elements, elements.new_zeros(1, *elements.shape[1:])))


def pool(problem: Problem, rows: Rows, steps: Steps, memory_budget: int) -> Tensor | Ragged:
    """The reduced rows of each set, (B, c); or, if problem.reduce is None, the rows themselves.

    A row of length 0 is not computed: its value is the zero vector.
    """
    reduction = REDUCTIONS[problem.reduce]
    parts = {
        i: _evaluate(problem.f, steps, block, reduction, memory_budget)
        for i, block in enumerate(rows.blocks)
        if block.length > 0 and block.num_sets > 0
    }
    if parts:
        example = next(iter(parts.values()))
    else:
        # No element anywhere: f of zero vectors tells the width and dtype of the zero result.
        length = max(1, *(block.length for block in rows.blocks))
        zeros = torch.zeros(1, length, dtype=torch.long, device=steps.values.device)
        example = steps.apply(problem.f, steps.take(steps.values, zeros))[None]
    for i, block in enumerate(rows.blocks):
        if i not in parts:
            empty = example.new_zeros(block.num_sets, block.num_rows, example.shape[2])
            parts[i] = reduction.finish(reduction.start(empty), block.num_rows)
    joined = rows.join([parts[i] for i in range(len(rows.blocks))])
    if problem.elements.dtype in HALF:
        joined = joined.to(problem.elements.dtype)
    return joined if problem.reduce is not None else Ragged.from_sizes(joined, rows.counts())


def _evaluate(f: Function, steps: Steps, block: Block, reduction: Reduction, memory_budget: int) -> Tensor:
    """The reduction of each set's rows, (S, 1, c), or (S, R, c) where rows are kept."""
    limit = max(1, memory_budget // max(1, steps.row_bytes(block.length)))
    chunks = chunks_of(block.num_sets, block.num_rows, limit)
    if len(chunks) == len(chunks[0][1]) == 1:
        positions = positions_of(block, len(steps.values))
        y = steps.apply(f, steps.take(steps.values, positions.flatten(0, 1)))
        return reduction.finish(reduction.start(y.unflatten(0, positions.shape[:2])), block.num_rows)

    # Gradients add up over the chunks, so those of half-precision values and weights do it in float32.
    apply_now, wide_values, dtype = with_weights_of_now(f, steps.apply), widened(steps.values), steps.values.dtype

    def start(sets: slice, rows: slice) -> Tensor:
        positions = positions_of(block, len(wide_values), sets, rows)
        y = apply_now(steps.take(wide_values, positions.flatten(0, 1)).to(dtype))
        return reduction.start(y.unflatten(0, positions.shape[:2]))

    results = []
    for sets, pieces in chunks:
        started = (checkpoint(start, sets, rows, use_reentrant=False) for rows in pieces)
        results.append(reduction.finish(fold(reduction.combine, started), block.num_rows))
    return torch.cat(results)


class _Applied(nn.Module):
    """A step of f's as a module, so that ``functional_call`` can give it f's weights."""

    def __init__(self, f: nn.Module, apply: Callable[[Function, Any], Tensor]) -> None:
        super().__init__()
        self.f = f
        self.apply_step = apply

    def forward(self, x: Any) -> Tensor:
        return self.apply_step(self.f, x)


def with_weights_of_now(f: Function, apply: Callable[[Function, Any], Tensor]) -> Callable[[Any], Tensor]:
    """Applies f with the weights of forward, when backward computes again and ``functional_call`` may have put others.

    Raises: RuntimeError, in backward, if they were modified in place meanwhile, as autograd does without chunks.
    """
    if not isinstance(f, nn.Module) or torch.compiler.is_compiling():
        return lambda x: apply(f, x)
    applied = _Applied(f, apply)
    weights = {name: (weight, weight._version, widened(weight)) for name, weight in f.named_parameters()}

    def apply_now(x: Any) -> Tensor:
        for name, (weight, version, _) in weights.items():
            if weight._version != version:
                raise RuntimeError(
                    f"the weight {name} was modified in place between forward and backward, and f must be computed "
                    "again in backward; call backward before optimizer.step(), or raise memory_budget."
                )
        now = {f"f.{name}": wide.to(weight.dtype) for name, (weight, _, wide) in weights.items()}
        return functional_call(applied, now, (x,))

    return apply_now
