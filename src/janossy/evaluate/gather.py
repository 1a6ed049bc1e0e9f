"""Gather: build the rows, apply f, reduce. Works for every function and every ordering."""

from collections import Counter
from dataclasses import dataclass
from functools import reduce as fold
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from janossy.evaluate.cost import Cost, Function, elements_per_row, flops_per_row
from janossy.evaluate.reduce import HALF, REDUCTIONS, Reduction, widened
from janossy.orderings.rows import Block, Orderings, Rows
from janossy.ragged import Ragged


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
        if self.memory_budget < 1:
            raise ValueError(f"Gather expects memory_budget >= 1 byte; got {self.memory_budget}.")

    def refuses(self, f: Function, orderings: Orderings) -> str | None:
        return None

    def cost(self, f: Function, orderings: Orderings, elements: Ragged) -> Cost:
        flops = num_bytes = 0
        for n, num_sets in Counter(elements.sizes).items():
            num_rows, length = num_sets * orderings.num_rows(n), orderings.row_length(n)
            flops += num_rows * flops_per_row(f, length)
            num_bytes += num_rows * _row_bytes(f, length, elements.values)
        return Cost(flops, num_bytes)

    def __call__(self, f: Function, elements: Ragged, rows: Rows, reduce: str | None = "mean") -> Tensor | Ragged:
        reduction = REDUCTIONS[reduce]
        parts = {
            i: self._evaluate(f, elements.values, block, reduction)
            for i, block in enumerate(rows.blocks)
            if block.length > 0 and block.num_sets > 0
        }
        if parts:
            example = next(iter(parts.values()))
        else:
            # No element anywhere: f of zero vectors tells the width and dtype of the zero result.
            length = max(1, *(block.length for block in rows.blocks))
            example = _apply(f, elements.values.new_zeros(1, length, *elements.values.shape[1:]))[None]
        for i, block in enumerate(rows.blocks):
            if i not in parts:
                empty = example.new_zeros(block.num_sets, block.num_rows, example.shape[2])
                parts[i] = reduction.finish(reduction.start(empty), block.num_rows)
        joined = rows.join([parts[i] for i in range(len(rows.blocks))])
        if elements.dtype in HALF:
            joined = joined.to(elements.dtype)
        return joined if reduce is not None else Ragged.from_sizes(joined, rows.counts())

    def _evaluate(self, f: Function, values: Tensor, block: Block, reduction: Reduction) -> Tensor:
        """The reduction of each set's rows, (S, 1, c), or (S, R, c) where rows are kept."""
        if block.padded:
            values = torch.cat((values, values.new_zeros(1, *values.shape[1:])))
        limit = max(1, self.memory_budget // max(1, _row_bytes(f, block.length, values)))
        chunks = _chunks(block.num_sets, block.num_rows, limit)
        if len(chunks) == len(chunks[0][1]) == 1:
            return reduction.finish(reduction.start(_rows(f, values, block)), block.num_rows)

        # Gradients add up over the chunks, so those of half-precision elements and weights do it in float32.
        f_now, wide_values, dtype = _with_weights_of_now(f), widened(values), values.dtype

        def start(sets: slice, rows: slice) -> Tensor:
            return reduction.start(_rows(lambda x: f_now(x.to(dtype)), wide_values, block, sets, rows))

        results = []
        for sets, pieces in chunks:
            started = (checkpoint(start, sets, rows, use_reentrant=False) for rows in pieces)
            results.append(reduction.finish(fold(reduction.combine, started), block.num_rows))
        return torch.cat(results)


def _rows(f: Function, values: Tensor, block: Block, sets: slice = slice(None), rows: slice = slice(None)) -> Tensor:
    """f of some rows of some sets of a block, (S, R, c); the last of the values is the zero vector if it is padded."""
    positions = block.positions(sets, rows)
    if block.padded:
        positions = positions.where(positions >= 0, len(values) - 1)
    x = values.index_select(0, positions.reshape(-1)).unflatten(0, (-1, block.length))
    return _apply(f, x).unflatten(0, positions.shape[:2])


def _with_weights_of_now(f: Function) -> Function:
    """f with the weights it has in forward, for recomputing in backward, when ``functional_call`` may have put others.

    Raises: RuntimeError, in backward, if they were modified in place meanwhile, as autograd does without chunks.
    """
    if not isinstance(f, nn.Module) or torch.compiler.is_compiling():
        return f
    weights = {name: (weight, weight._version, widened(weight)) for name, weight in f.named_parameters()}

    def f_now(x: Tensor) -> Tensor:
        for name, (weight, version, _) in weights.items():
            if weight._version != version:
                raise RuntimeError(
                    f"the weight {name} was modified in place between forward and backward, and f must be computed "
                    "again in backward; call backward before optimizer.step(), or raise memory_budget."
                )
        return functional_call(f, {name: wide.to(weight.dtype) for name, (weight, _, wide) in weights.items()}, (x,))

    return f_now


def _chunks(num_sets: int, num_rows: int, limit: int) -> list[tuple[slice, list[slice]]]:
    """Pieces of at most ``limit`` rows: slices of the sets, each with slices of their rows."""
    rows_each = min(num_rows, limit)
    sets_each = max(1, limit // num_rows)
    pieces = [slice(r, r + rows_each) for r in range(0, num_rows, rows_each)]
    return [(slice(s, s + sets_each), pieces) for s in range(0, num_sets, sets_each)]


def _row_bytes(f: Function, length: int, values: Tensor) -> int:
    positions = 8 * length
    return positions + values.element_size() * elements_per_row(f, length, values[:1].numel())


def _apply(f: Function, x: Tensor) -> Tensor:
    y = f(x)
    if not isinstance(y, Tensor) or y.dim() != 2 or len(y) != len(x):
        got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(
            f"f must map rows {tuple(x.shape)} to ({len(x)}, c); got {got}. "
            "Reduce the sequence dimension inside f: its last state, or a mean over positions."
        )
    return y
