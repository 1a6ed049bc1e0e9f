"""Attention within sets, which under torch.compile is an operator that reads the sizes while the graph runs."""

from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor

from janossy.evaluate.rows.recompute import gradients_again, recorded
from janossy.nn.encoder.heads import attend
from janossy.nn.encoder.padding import Padding
from janossy.sets import Ragged


def attend_within(queries: Tensor, keys_and_values: Tensor, sets: Ragged, who: str) -> Tensor:
    """Returns the attention of queries over the keys of their own set, with the heads joined. ``who`` attends:

    - "elements" to elements: queries (N, H, c), keys and values (N, 2, H, c) -> (N, H·c);
    - "elements to points": queries (N, H, c), keys and values (B, m, 2, H, c) -> (N, H·c);
    - "seeds" to elements: queries (m, H, c), keys and values (N, 2, H, c) -> (B, m, H·c), zero for an empty set.

    Under torch.compile backward computes it again.
    """
    if torch.compiler.is_compiling():
        return cast(Tensor, attention_within(queries, keys_and_values, sets.offsets, who))
    return _within(queries, keys_and_values, Padding.of(sets), who)


def _within(queries: Tensor, keys_and_values: Tensor, padding: Padding, who: str) -> Tensor:
    of_sets = padding.of_sets if who == "elements to points" else padding.pad
    parts = of_sets(keys_and_values)
    asked = [queries.expand(len(part), -1, -1, -1) for part in parts] if who == "seeds" else padding.pad(queries)
    masks = [None] * len(parts) if who == "elements to points" else padding.masks()
    found = [attend(q, *kv.unbind(2), mask=mask) for q, kv, mask in zip(asked, parts, masks, strict=True)]
    return padding.to_sets(found) if who == "seeds" else padding.unpad(found)


@torch.library.custom_op("janossy::attention_within", mutates_args=(), device_types=("cpu", "cuda"))
def attention_within(queries: Tensor, keys_and_values: Tensor, offsets: Tensor, who: str) -> Tensor:
    """Returns ``attend_within`` for the sets between these offsets."""
    return _within(queries, keys_and_values, _padding(offsets), who).contiguous()


@attention_within.register_fake
def _(queries: Tensor, keys_and_values: Tensor, offsets: Tensor, who: str) -> Tensor:
    width = queries.shape[1] * queries.shape[2]
    if who == "seeds":
        return queries.new_empty(offsets.shape[0] - 1, queries.shape[0], width)
    return queries.new_empty(queries.shape[0], width)


@torch.library.custom_op("janossy::attention_within_back", mutates_args=(), device_types=("cpu", "cuda"))
def attention_within_back(
    gradient: Tensor, queries: Tensor, keys_and_values: Tensor, offsets: Tensor, who: str
) -> tuple[Tensor, Tensor]:
    """Returns the gradients of ``attention_within`` by the queries, and by the keys and values."""
    padding = _padding(offsets)
    with recorded(), torch.no_grad():
        again = gradients_again(
            lambda q, kv: _within(q, kv, padding, who), (queries, keys_and_values), (True,) * 2, gradient
        )
    by_queries, by_keys = (cast(Tensor, x).clone(memory_format=torch.contiguous_format) for x in again)
    return by_queries, by_keys


@attention_within_back.register_fake
def _(gradient: Tensor, queries: Tensor, keys_and_values: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
    made = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (queries, keys_and_values))
    by_queries, by_keys = made
    return by_queries, by_keys


def _padding(offsets: Tensor) -> Padding:
    return Padding(tuple(b - a for a, b in pairwise(offsets.tolist())), offsets.device)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.who = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    return *attention_within_back(gradient, *ctx.saved_tensors, ctx.who), None, None


attention_within.register_autograd(_backward, setup_context=_setup_context)
