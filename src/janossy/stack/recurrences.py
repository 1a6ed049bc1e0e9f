"""The rows of R networks' recurrences, run together and reduced per set."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from janossy.evaluate.packed import Packed
from janossy.evaluate.problem import Problem
from janossy.evaluate.reduce import HALF, REDUCTIONS, widened
from janossy.functions.recurrent import Recurrence
from janossy.functions.structure import Recurrent
from janossy.orderings.rows import Bucket, Rows
from janossy.sets.transfer import upload
from janossy.stack.cells import run
from janossy.stack.maps import linear
from janossy.stack.schedule import schedule

EVALUATORS = ("gather", "packed")
"""The evaluators that a single network may choose if its rows are run here: both run every row."""

NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def why_not(problem: Problem) -> str | None:
    """Returns the reason why a network's rows cannot be run with others'; None if they can."""
    name, structure = type(problem.f).__name__, problem.structure
    if not isinstance(structure, Recurrent) or not isinstance(problem.f, Recurrence):
        return f"{name} declares no recurrence"
    if len(structure.layers) > 1 or len(structure.layers[0]) > 1 or structure.per_position:
        return f"{name} has several layers or directions, or gives every position's state"
    if problem.orderings.weighs_rows or problem.reduce is None:
        return "rows are weighed, or kept"
    return None


def num_bytes(problem: Problem) -> float:
    """Returns an estimate of the bytes that a network's rows keep."""
    return Packed().cost(problem).bytes


def pool_recurrences(
    problem: Problem, rows: Sequence[Rows], begins: Sequence[int], f: Recurrence, counts: Sequence[int]
) -> Tensor:
    """Returns the reduced rows (R·B, c) of all networks' sets, in turn.

    ``rows`` are each network's rows, as positions among its own elements. These begin at ``begins`` among all elements.
    ``f`` has parameters (R, *shape), and each network has its ``counts`` of the problem's values.
    """
    structure = cast(Recurrent, problem.structure)
    buckets = [sorted(each.buckets, key=lambda bucket: -bucket.length) for each in rows]
    plan = schedule(tuple(tuple((b.num_sets * b.num_rows, b.length) for b in each) for each in buckets))
    inputs, weight, bias = _projected(structure, f, problem.values, counts)
    num_values = len(inputs)
    if plan.has_gaps or any(bucket.padded for each in buckets for bucket in each):
        nothing = problem.values.new_zeros(len(rows), *problem.values.shape[1:])  # the zero vector of each network
        inputs = torch.cat((inputs, _projected(structure, f, nothing, [1] * len(rows))[0]))
    entries = upload(plan.entries, inputs.device)
    read = torch.cat([_read(problem, each, begins[r], num_values + r) for r, each in enumerate(buckets)])
    elements = read[entries]
    if plan.has_gaps:
        elements = elements.where(entries >= 0, num_values - 1 - entries)
    states = run(structure, plan, elements, inputs, weight, bias)
    return _reduced(problem, states.unflatten(0, plan.ends.shape), buckets, rows[0].num_sets)


def _projected(
    structure: Recurrent, f: Recurrence, values: Tensor, counts: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the cells' inputs per element (N, gates·H), weights (R, gates·H, H), and the separate bias (R, H).

    Every other bias is part of the inputs, as with one network (``evaluate/cells/layers.py``).
    """
    weight_ih, weight_hh, bias_ih, by_hidden = (widened(getattr(f, f"{name}_l0")) for name in NAMES)
    bias = torch.zeros_like(by_hidden[:, : weight_hh.shape[2]])
    if structure.num_apart > 0:
        apart = structure.num_apart * weight_hh.shape[2]
        by_hidden, bias = nn.functional.pad(by_hidden[:, :-apart], (0, apart)), by_hidden[:, -apart:]
    return linear(widened(values), weight_ih, bias_ih + by_hidden, counts), weight_hh, bias


def _read(problem: Problem, buckets: list[Bucket], begin: int, zero: int) -> Tensor:
    """Returns the number of the input at each entry of a network's rows, one row after the other."""
    entries_of = [torch.zeros(0, dtype=torch.long, device=problem.values.device)]
    for bucket in buckets:
        positions = bucket.positions()
        entries = positions + begin
        if problem.table is not None:
            entries = problem.elements.values[entries]
        entries_of.append((entries.where(positions >= 0, zero) if bucket.padded else entries).flatten())
    return torch.cat(entries_of)


def _reduced(problem: Problem, states: Tensor, buckets: list[list[Bucket]], num_sets: int) -> Tensor:
    """Returns the reduced rows of each set, (R·B, H), from states (R, m, H)."""
    reduction, R = REDUCTIONS[problem.reduce], len(buckets)
    shapes = [[(bucket.num_sets, bucket.num_rows) for bucket in each] for each in buckets]
    alike = all(shape == shapes[0] for shape in shapes)
    results: list[Tensor] = []
    owners: list[int] = []
    for networks in [range(R)] if alike else [range(r, r + 1) for r in range(R)]:
        begin = 0
        for i, (num, num_rows) in enumerate(shapes[networks[0]]):
            rows = states[networks[0] : networks[-1] + 1, begin : begin + num * num_rows]
            rows = rows.reshape(-1, num_rows, states.shape[2])
            results.append(reduction.finish(reduction.start(rows), num_rows)[:, 0])
            owners += [r * num_sets + b for r in networks for b in buckets[r][i].members(num_sets)]
            begin += num * num_rows
    joined = torch.cat(results)
    if any(bucket.sets is not None for each in buckets for bucket in each):
        joined = joined[upload(torch.tensor(owners).argsort(), joined.device)]
    return joined.to(problem.values.dtype) if problem.values.dtype in HALF else joined
