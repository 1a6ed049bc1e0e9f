"""Cells of R networks, depth by depth: one batched product and one step for all rows, compiled or in torch."""

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.evaluate.on_kernels import (
    lanes,
    numbers_kept,
    on_threads,
    one_by_one,
    takes_cells,
    takes_gradients,
    unless_compiling,
)
from janossy.evaluate.rows.recompute import gradients_again
from janossy.functions.structure import Recurrent
from janossy.sets.transfer import upload
from janossy.stack.schedule import Schedule


def run(
    structure: Recurrent, schedule: Schedule, elements: Tensor, inputs: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """Returns the last hidden state of every row, (R·m, H).

    Shapes: elements (C,), the input (N, gates·H) that each cell reads. weight (R, gates·H, H). bias (R, H), that of the
        gate that stays apart.
    """
    compiled = takes_cells(structure, inputs) and inputs.dtype == weight.dtype and weight.shape[2] >= lanes(inputs)
    if compiled:
        keep = torch.is_grad_enabled() and any(x.requires_grad for x in (inputs, weight, bias))
        with unless_compiling():
            return cast(Tensor, _Cells.apply(structure, schedule, elements, keep, inputs, weight, bias))  # type: ignore[no-untyped-call]
    return _in_torch(structure, schedule, elements, inputs, weight, bias)


def _in_torch(
    structure: Recurrent, schedule: Schedule, elements: Tensor, inputs: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """Computes ``run`` in torch operations: on every device, differentiable any number of times."""
    R, num_units, H = weight.shape
    bias = nn.functional.pad(bias, (num_units - H, 0))[:, None]
    state = (inputs.new_zeros(R, max(schedule.active, default=0), H),) * structure.num_states
    hidden = []
    for t, m in enumerate(schedule.active):
        state = tuple(each[:, :m].flatten(0, 1) for each in state)
        product = torch.baddbmm(bias, state[0].view(R, m, H), weight.mT).flatten(0, 1)
        read = inputs.index_select(0, elements[schedule.starts[t] : schedule.starts[t + 1]])
        state = tuple(each.view(R, m, H) for each in structure.step(read, product, state))
        hidden.append(state[0].flatten(0, 1))
    ends = upload(schedule.ends.ravel(), inputs.device)
    zero = inputs.new_zeros(1, H)  # the last one: the state of rows of length 0
    return torch.cat((*hidden, zero)).index_select(0, ends.where(ends >= 0, schedule.starts[-1]))


class _Cells(torch.autograd.Function):
    """``run`` by the kernels; a gradient that is differentiated is in torch operations."""

    @staticmethod
    def forward(
        ctx: Any,
        structure: Recurrent,
        schedule: Schedule,
        elements: Tensor,
        keep: bool,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> Tensor:
        (R, num_units, H), num_cells = weight.shape, schedule.starts[-1]
        states, kept = inputs.new_empty(num_cells, structure.num_states * H), inputs.new_empty(0)
        if keep:
            kept = inputs.new_empty(num_cells * numbers_kept(structure) * H)
        hidden = inputs.new_empty(R * max(schedule.active, default=0) * num_units)
        arrays = [x.contiguous().numpy() for x in (inputs, elements, bias)]
        for t, m in enumerate(schedule.active):
            before = -1
            if t > 0:
                before = schedule.starts[t - 1]
                above = _at_depth(states, schedule, t - 1)[:, :m, :H]
                torch.bmm(above, weight.mT, out=hidden[: R * m * num_units].view(R, m, num_units))
            depth = before, schedule.starts[t], schedule.active[t - 1], m
            on_threads("step_rows", structure.kind, *arrays, hidden.numpy(), states.numpy(), kept.numpy(), depth)
        ctx.structure, ctx.schedule = structure, schedule
        ctx.save_for_backward(elements, inputs, weight, bias, states, kept)
        ends = torch.from_numpy(schedule.ends.ravel())
        if (schedule.ends >= 0).all():
            return states[:, :H].index_select(0, ends)
        return torch.cat((states[:, :H], inputs.new_zeros(1, H))).index_select(0, ends.where(ends >= 0, num_cells))

    @staticmethod
    @one_by_one
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if takes_gradients():
            with unless_compiling():
                return _Cells._backward_on_kernels(ctx, gradient)
        elements, *inputs = ctx.saved_tensors[:4]
        again = partial(_in_torch, ctx.structure, ctx.schedule, elements)
        return *(None,) * 4, *gradients_again(again, inputs, ctx.needs_input_grad[4:], gradient)

    @staticmethod
    def _backward_on_kernels(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        elements, inputs, weight, bias, states, kept = ctx.saved_tensors
        structure, schedule = ctx.structure, ctx.schedule
        R, num_units, H = weight.shape
        by_inputs, by_weight, by_bias = torch.zeros_like(inputs), torch.zeros_like(weight), torch.zeros_like(bias)
        widest = R * max(schedule.active, default=0)
        by_state, by_before = (inputs.new_empty(widest * states.shape[1]) for _ in range(2))
        by_hidden, product = inputs.new_empty(widest * num_units), inputs.new_empty(0)
        fixed = [x.contiguous().numpy() for x in (elements, states, kept, gradient)]
        num_after = 0
        for t in reversed(range(len(schedule.active))):
            m = schedule.active[t]
            before = schedule.starts[t - 1] if t > 0 else -1
            depth = before, schedule.starts[t], schedule.active[t - 1], m, num_after
            changing = (by_state, product, by_before, by_hidden, by_inputs)
            on_threads("step_rows_back", structure.kind, *fixed, *(x.numpy() for x in changing), schedule.ends, depth)
            if t > 0:
                changes = by_hidden[: R * m * num_units].view(R, m, num_units)
                by_weight.baddbmm_(changes.mT, _at_depth(states, schedule, t - 1)[:, :m, :H])
                if structure.num_apart > 0:
                    by_bias += changes[:, :, -H:].sum(1)
                product = torch.bmm(changes, weight).flatten()
            elif structure.num_apart > 0:
                by_bias += by_hidden[: R * m * num_units].view(R, m, num_units)[:, :, -H:].sum(1)
            by_state, by_before, num_after = by_before, by_state, m
        return *(None,) * 4, by_inputs, by_weight, by_bias


def _at_depth(states: Tensor, schedule: Schedule, t: int) -> Tensor:
    """Returns the states of this depth's cells, (R, m, states·H)."""
    return cast(Tensor, states[schedule.starts[t] : schedule.starts[t + 1]].unflatten(0, (-1, schedule.active[t])))
