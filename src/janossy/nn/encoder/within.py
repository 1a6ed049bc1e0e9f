"""Attention within sets, which under torch.compile is an operator that reads the sizes while the graph runs."""

from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor

from janossy.evaluate.rows.recompute import gradients_again, recorded
from janossy.nn.encoder.heads import attend, compete, masked
from janossy.nn.encoder.padding import Padding
from janossy.sets import Ragged


def attend_within(
    queries: Tensor, keys_and_values: Tensor, sets: Ragged, who: str, of_pairs: Tensor | None = None
) -> Tensor:
    """Returns the attention of queries over the keys of their own set, with the heads joined. ``who`` attends:

    - "elements" to elements: queries (N, H, c), keys and values (N, 2, H, c) -> (N, H·c). Scores may have a bias (P, H)
      for each of the ``pairs_within``;
    - "elements to points": queries (N, H, c), keys and values (B, m, 2, H, c) -> (N, H·c);
    - "seeds" to elements: queries (m, H, c), keys and values (N, 2, H, c) -> (B, m, H·c), zero for an empty set;
    - "slots" to elements, which ``compete``: queries (B, m, H, c), keys and values (N, 2, H, c) -> (B, m, H·c), too.

    Under torch.compile backward computes it again.
    """
    if torch.compiler.is_compiling():
        bias = queries.new_empty(0) if of_pairs is None else of_pairs
        return cast(Tensor, attention_within(queries, keys_and_values, bias, sets.offsets, who, of_pairs is not None))
    return _within(queries, keys_and_values, of_pairs, Padding.of(sets), who)


def _within(queries: Tensor, keys_and_values: Tensor, of_pairs: Tensor | None, padding: Padding, who: str) -> Tensor:
    of_sets = padding.of_sets if who == "elements to points" else padding.pad
    parts = of_sets(keys_and_values)
    if who == "seeds":
        asked = [queries.expand(len(part), -1, -1, -1) for part in parts]
    else:
        asked = padding.of_sets(queries) if who == "slots" else padding.pad(queries)
    masks: list[Tensor | None] = [None] * len(parts) if who == "elements to points" else padding.masks()
    if of_pairs is not None:
        masks = [masked(bias, mask) for bias, mask in zip(padding.of_pairs(of_pairs), masks, strict=True)]
    weighted = compete if who == "slots" else attend
    found = [weighted(q, *kv.unbind(2), mask=mask) for q, kv, mask in zip(asked, parts, masks, strict=True)]
    return padding.to_sets(found) if who in ("seeds", "slots") else padding.unpad(found)


@torch.library.custom_op("janossy::pairs_within", mutates_args=(), device_types=("cpu", "cuda"))
def pairs_within(offsets: Tensor) -> Tensor:
    """Returns the positions of all pairs of each set, (P, 2), set by set, the second element the fastest."""
    sizes = offsets.diff()
    counts = sizes * sizes
    owners = torch.repeat_interleave(counts)
    local = torch.arange(len(owners), device=offsets.device) - (counts.cumsum(0) - counts)[owners]
    n, start = sizes[owners], offsets[:-1][owners]
    return torch.stack((start + local // n, start + local % n), dim=1)


@pairs_within.register_fake
def _(offsets: Tensor) -> Tensor:
    return offsets.new_empty(torch.library.get_ctx().new_dynamic_size(), 2)


@torch.library.custom_op(
    "janossy::attention_within", mutates_args=(), device_types=("cpu", "cuda"), tags=torch.Tag.cudagraph_unsafe
)
def attention_within(
    queries: Tensor, keys_and_values: Tensor, of_pairs: Tensor, offsets: Tensor, who: str, is_biased: bool
) -> Tensor:
    """Returns ``attend_within`` for the sets between these offsets."""
    bias = of_pairs if is_biased else None
    return _within(queries, keys_and_values, bias, _padding(offsets), who).clone(memory_format=torch.contiguous_format)


@attention_within.register_fake
def _(queries: Tensor, keys_and_values: Tensor, of_pairs: Tensor, offsets: Tensor, who: str, is_biased: bool) -> Tensor:
    width = queries.shape[-2] * queries.shape[-1]
    if who == "seeds":
        return queries.new_empty(offsets.shape[0] - 1, queries.shape[0], width)
    if who == "slots":
        return queries.new_empty(*queries.shape[:2], width)
    return queries.new_empty(queries.shape[0], width)


@torch.library.custom_op(
    "janossy::attention_within_back", mutates_args=(), device_types=("cpu", "cuda"), tags=torch.Tag.cudagraph_unsafe
)
def attention_within_back(
    gradient: Tensor,
    queries: Tensor,
    keys_and_values: Tensor,
    of_pairs: Tensor,
    offsets: Tensor,
    who: str,
    is_biased: bool,
) -> list[Tensor]:
    """Returns the gradients of ``attention_within`` by the queries, by keys and values, and by the bias."""
    padding, given = _padding(offsets), (queries, keys_and_values, *([of_pairs] if is_biased else []))

    def again(queries: Tensor, keys_and_values: Tensor, of_pairs: Tensor | None = None) -> Tensor:
        return _within(queries, keys_and_values, of_pairs, padding, who)

    with recorded(), torch.no_grad():
        by_each = gradients_again(again, given, (True,) * len(given), gradient)
    found = [cast(Tensor, x).clone(memory_format=torch.contiguous_format) for x in by_each]
    return found if is_biased else [*found, torch.zeros_like(of_pairs)]


@attention_within_back.register_fake
def _(gradient: Tensor, queries: Tensor, keys_and_values: Tensor, of_pairs: Tensor, *rest: object) -> list[Tensor]:
    given = queries, keys_and_values, of_pairs
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in given]


def _padding(offsets: Tensor) -> Padding:
    return Padding(tuple(b - a for a, b in pairwise(offsets.tolist())), offsets.device)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.who, ctx.is_biased = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    by_each = attention_within_back(gradient, *ctx.saved_tensors, ctx.who, ctx.is_biased)
    return *by_each, None, None, None


attention_within.register_autograd(_backward, setup_context=_setup_context)
