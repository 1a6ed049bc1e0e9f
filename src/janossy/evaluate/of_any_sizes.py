"""OfAnySizes: all k-tuples as rows, under torch.compile, in a graph that is compiled once for all sizes."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, cast

import torch
from torch import Tensor

from janossy.evaluate.cost import Cost, as_float
from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import HALF, reduce_between, widened
from janossy.evaluate.rows.steps import (
    cost_of_elements,
    cost_of_projections,
    of_elements,
    of_projections,
    why_no_projections,
)
from janossy.evaluate.tuples.every_tuple import in_place, is_increasing
from janossy.orderings.contract import EveryTuple, averages_every_tuple
from janossy.orderings.rows import Bucket, Rows, build_rows
from janossy.orderings.templates import increasing_tuples, injective_tuples
from janossy.sets import Ragged


@torch.library.custom_op("janossy::tuple_rows", mutates_args=(), device_types=("cpu", "cuda"))
def tuple_rows(offsets: Tensor, k: int, increasing: bool, num_values: int, max_rows: int) -> tuple[Tensor, Tensor]:
    """The positions of every k-tuple of each set, (T, k), and where each set's rows begin among them, (B + 1,).

    A position that a small set lacks is ``num_values``. How many rows there are is not known to torch.compile.
    Raises: RuntimeError if T > max_rows.
    """
    sizes = offsets.diff().tolist()
    sets = Ragged(offsets.new_empty(num_values), offsets, sizes=sizes)
    tuples = partial(increasing_tuples if increasing else injective_tuples, k=k, device=offsets.device)
    rows = build_rows(sets, lambda n, _: tuples(n)[None], k=k)
    counts = torch.tensor(rows.counts(), dtype=torch.long)
    if (total := int(counts.sum())) > max_rows:
        raise RuntimeError(
            f"the compiled layer expects at most {max_rows} rows, by its memory_budget and max_rows; these sets have "
            f"{total}. Use smaller batches, a larger budget, or evaluate='gather', which is compiled for each sizes."
        )
    positions = rows.join([bucket.positions() for bucket in rows.buckets])
    ends = torch.nn.functional.pad(counts.cumsum(0), (1, 0)).to(offsets.device)
    return torch.where(positions < 0, num_values, positions), ends


@tuple_rows.register_fake
def _(offsets: Tensor, k: int, increasing: bool, num_values: int, max_rows: int) -> tuple[Tensor, Tensor]:
    num_rows = torch.library.get_ctx().new_dynamic_size()
    return offsets.new_empty(num_rows, k), offsets.new_empty(offsets.shape[0])


@dataclass(frozen=True)
class OfAnySizes:
    """f of every k-tuple in one call, whose number is known to the running graph alone.

    Applies to: every f over all k-tuples, by every reduction, under torch.compile.      Tolerance: rounding.
    Cost: f on every tuple, all held at once.
    Raises: RuntimeError if the rows need more than the memory budget, or are more than max_rows.
    """

    name: ClassVar[str] = "of_any_sizes"

    def why_not_applicable(self, problem: Problem) -> str | None:
        if not torch.compiler.is_compiling():
            return "it is for torch.compile"
        if not averages_every_tuple(problem.orderings) or problem.table is not None or problem.reduce is None:
            return "it reduces all k-tuples of elements that are no places in a table"
        return None

    def check_rows(self, problem: Problem) -> None:
        problem.check_rows()

    def cost(self, problem: Problem) -> Cost:
        num = as_float(sum(problem.orderings.num_rows(n) for n in problem.elements.sizes))
        if why_no_projections(problem) is None:
            return cost_of_projections(problem, num)
        return cost_of_elements(problem, {cast(EveryTuple, problem.orderings).k: num})

    def __call__(self, problem: Problem) -> Tensor:
        orderings, offsets = cast(EveryTuple, problem.orderings), problem.elements.offsets
        k, num_values = orderings.k, len(problem.values)
        order = orderings.order(problem.keys)
        if order is not None:
            order = torch.cat((order, order.new_full((1,), num_values)))
        nothing = Bucket(offsets.new_zeros(1, 1, k), None, offsets[:-1], None, padded=True)
        steps = (of_projections if why_no_projections(problem) is None else of_elements)(
            problem, Rows((nothing,), len(offsets) - 1)
        )
        most = min(problem.orderings.max_rows, problem.memory_budget // max(1, steps.row_bytes(k)))
        positions, ends = tuple_rows(offsets, k, is_increasing(problem), num_values, most)
        if order is not None:
            positions = in_place(order, positions.flatten()).unflatten(0, positions.shape)
        results = steps.apply(problem.f, steps.take(steps.values, positions))
        reduced = reduce_between(cast(str, problem.reduce), results, ends)
        return reduced.to(problem.values.dtype) if problem.values.dtype in HALF else widened(reduced)
