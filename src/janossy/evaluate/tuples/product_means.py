"""Means over tuples of Π_j z_j[i_j] in torch operations: a balanced tree of subset products.

A segment of a set is represented by D[S] for every set S of positions. D[S] is the sum of the products of z's over all
ways to fill S with distinct elements of the segment. Two neighbouring segments combine to

    (D·E)[S] = Σ_{A⊆S} D[A]·E[S∖A]

Increasing tuples have only the S without a gap, and A before S∖A. The operation is associative, so log₂ n steps reduce
a set. Nothing is subtracted, so no digits are lost to inclusion–exclusion.

States are in order of |S|. Segments of 2^l elements fill at most 2^l positions, and hold only the states for these.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, cast

import torch
from torch import Tensor

from janossy.sets.transfer import constant_when_compiled, upload

Terms = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""The terms of a sum of products: the states they are added to, the left factors' states, the right factors'."""


def product_means(z: Tensor, sizes: Sequence[int], increasing: bool) -> Tensor:
    """Returns the mean over k-tuples of Π_j z_j[i_j]; on any device, and differentiable any number of times.

    If a set has n < k elements, its tuples are those of all n elements, at the first n positions. An empty set's mean
    is 1. Sets of similar size are reduced together, and do not depend on each other.

    Shapes: z (N, k, R) -> (B, R)
    """
    k, device = z.shape[1], z.device
    z = torch.cat((z, z.new_zeros(1, *z.shape[1:])))  # fills no position
    full = _full_states(k, increasing)
    starts = [0, *accumulate(sizes)]
    heights = [max(n - 1, 0).bit_length() for n in sizes]
    order = sorted(range(len(sizes)), key=heights.__getitem__)
    means = [z[:0, 0]]
    for height in sorted(set(heights)):
        members = [b for b in order if heights[b] == height]
        filled = [min(sizes[b], k) for b in members]
        lanes = torch.arange(1 << height, device=device)
        begin, size = (
            upload(torch.tensor([x[b] for b in members], device="cpu"), device)[:, None] for x in (starts, sizes)
        )
        sums = _tree(z[torch.where(lanes < size, begin + lanes, len(z) - 1)] * 0.5**height, increasing)
        states = upload(torch.tensor([full[n] for n in filled], device="cpu"), device)
        picked = sums[torch.arange(len(members), device=device), states]
        counts = [_num_tuples(sizes[b], n, increasing, height) for b, n in zip(members, filled, strict=True)]
        means.append(picked / upload(torch.tensor(counts, dtype=z.dtype, device="cpu"), device)[:, None])
    back = sorted(range(len(order)), key=order.__getitem__)
    return torch.cat(means)[upload(torch.tensor(back, dtype=torch.long, device="cpu"), device)]


def _tree(z: Tensor, increasing: bool) -> Tensor:
    """Returns the sums of products over sets of 2^height elements: (G, 2^height, k, R) -> (G, states, R)."""
    k = z.shape[2]
    D = torch.cat((torch.ones_like(z[:, :, :1]), z), dim=2)
    combine = _sums if torch.compiler.is_compiling() else _Combine.apply  # torch.compile traces no jvp, vmap
    length = 1
    while D.shape[1] > 1:
        D = combine(D[:, 0::2], D[:, 1::2], *_terms(k, increasing, min(length, k)))
        length *= 2
    return D[:, 0]


def _sums(left: Tensor, right: Tensor, terms: Terms, num_states: int) -> Tensor:
    """Computes out[t] = Σ left[i]·right[j] over the terms (t, i, j), on states in the second axis from the end.

    The 3^k terms are formed in parts no larger than a few times the states.
    """
    out = left.new_zeros(*left.shape[:-2], num_states, left.shape[-1])
    part = 4 * num_states
    for a in range(0, len(terms[0]), part):
        to, i, j = (upload(torch.tensor(states[a : a + part], device="cpu"), left.device) for states in terms)
        out = out.index_add(-2, to, left.index_select(-2, i) * right.index_select(-2, j))
    return out


class _Combine(torch.autograd.Function):
    """``_sums``, keeping only its factors for backward, and not the 3^k terms.

    Its derivatives are sums of the same kind, with the roles of the terms exchanged.
    """

    @staticmethod
    def forward(left: Tensor, right: Tensor, terms: Terms, num_states: int) -> Tensor:
        return _sums(left, right, terms, num_states)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Terms, int], output: Tensor) -> None:
        left, right, ctx.terms, _ = inputs
        ctx.save_for_backward(left, right)
        ctx.save_for_forward(left, right)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        left, right = ctx.saved_tensors
        to, i, j = ctx.terms
        of_left = _Combine.apply(gradient, right, (i, to, j), left.shape[-2])  # type: ignore[no-untyped-call]
        of_right = _Combine.apply(left, gradient, (j, i, to), right.shape[-2])  # type: ignore[no-untyped-call]
        return of_left, of_right, None, None

    @staticmethod
    def jvp(ctx: Any, d_left: Tensor, d_right: Tensor, *_: None) -> Tensor:
        left, right = ctx.saved_tensors
        num_states = 1 + max(ctx.terms[0])
        return cast(
            Tensor,
            _Combine.apply(d_left, right, ctx.terms, num_states) + _Combine.apply(left, d_right, ctx.terms, num_states),  # type: ignore[no-untyped-call]
        )

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], left: Tensor, right: Tensor, terms: Terms, num_states: int
    ) -> tuple[Tensor, int]:
        batched = (
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip((left, right), in_dims[:2], strict=True)
        )
        return _Combine.apply(*batched, terms, num_states), 0  # type: ignore[no-untyped-call]


@constant_when_compiled
def _full_states(k: int, increasing: bool) -> list[int]:
    """Returns the numbers of the states in which the first n positions are filled, for n = 0 … k."""
    states = _states(k, increasing)
    return [states.index((1 << n) - 1) for n in range(k + 1)]


@constant_when_compiled
def _terms(k: int, increasing: bool, most: int) -> tuple[Terms, int]:
    """Returns the terms that combine two segments of at most ``most`` filled positions, and their number of states."""
    return _enumerate_terms(k, increasing, most)


def _states(k: int, increasing: bool) -> list[int]:
    """Returns sets of positions as bits, small ones first: all of them or, if increasing, those without a gap."""
    if increasing:
        return [0, *(((1 << length) - 1) << a for length in range(1, k + 1) for a in range(k - length + 1))]
    return sorted(range(1 << k), key=lambda S: (S.bit_count(), S))


@lru_cache(maxsize=256)
def _enumerate_terms(k: int, increasing: bool, most: int) -> tuple[Terms, int]:
    states = _states(k, increasing)
    number = {S: i for i, S in enumerate(states)}
    num_states = sum(S.bit_count() <= 2 * most for S in states)
    terms = []
    for S in states[:num_states]:
        A = S
        while True:
            B = S ^ A
            in_order = not increasing or (A in number and B in number and (A == 0 or B == 0 or A < B))
            if in_order and max(A.bit_count(), B.bit_count()) <= most:
                terms.append((number[S], number[A], number[B]))
            if A == 0:
                break
            A = (A - 1) & S
    to, left, right = zip(*terms, strict=True)
    return (to, left, right), num_states


def _num_tuples(n: int, filled: int, increasing: bool, height: int) -> float:
    """Returns the number of tuples of n elements over 2^height per position: between 10^-10 and 1."""
    total = 1.0
    for j in range(filled):
        total *= (n - j) / 2.0**height
    for j in range(filled if increasing else 0):
        total /= j + 1
    return total
