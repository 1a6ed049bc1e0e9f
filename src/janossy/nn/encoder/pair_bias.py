"""The bias of attention scores: a function of two elements, for all pairs of each set."""

import torch
from torch import Tensor, nn

from janossy.evaluate import MEMORY_BUDGET
from janossy.evaluate.cost import Work
from janossy.evaluate.rows.recompute import computed_again
from janossy.functions.structure import structure


def check_bias(owner: str, bias: object) -> None:
    """Raises a TypeError unless the bias is a module or None, a ValueError if it declares a k other than 2."""
    if bias is not None and not isinstance(bias, nn.Module):
        raise TypeError(
            f"{owner} expects bias to be a module from rows (T, 2, d) to (T, num_heads), or None; got {bias!r}. "
            "FeaturedMLP is one."
        )
    k = getattr(bias, "k", None) if bias is None else getattr(structure(bias), "k", getattr(bias, "k", None))
    if k not in (None, 2):
        raise ValueError(
            f"{owner} expects a bias that reads pairs; got {type(bias).__name__} of k={k}. Build it of k=2."
        )


def bias_of_pairs(bias: nn.Module, x: Tensor, num_heads: int) -> Tensor:
    """Returns bias(x_i, x_j) for all pairs of each set, including i = j.

    Rows that need more memory than the budget are computed in pieces, and again in backward.

    Shapes: x (S, n, d) -> (S, num_heads, n, n).
    """
    num_sets, n, width = x.shape
    flat, pairs = x.flatten(0, 1), num_sets * n * n
    step = max(1, MEMORY_BUDGET // (x.element_size() * Work.of(bias, whole_rows=True).elements(2, width)))

    def piece(flat: Tensor, first: int) -> Tensor:
        place = torch.arange(first, min(pairs, first + step), device=x.device)
        of_set, i, j = place // (n * n), place // n, place % n
        return _checked(bias, torch.stack((flat[i], flat[of_set * n + j]), dim=1), num_heads)

    if pairs <= step:
        found = piece(flat, 0)
    else:
        # By the tensor torch finds the device whose random numbers are drawn again.
        found = torch.cat([computed_again(piece, flat, first) for first in range(0, pairs, step)])
    of_pairs: Tensor = found.unflatten(0, (num_sets, n, n))
    return of_pairs.movedim(3, 1)


def bias_within(bias: nn.Module, x: Tensor, pairs: Tensor, num_heads: int) -> Tensor:
    """Returns the bias (P, num_heads) of these pairs (P, 2) of elements x (N, d), all at once."""
    return _checked(bias, x.index_select(0, pairs.flatten()).unflatten(0, pairs.shape), num_heads)


def bias_of_padded(bias: nn.Module, x: Tensor, num_heads: int) -> Tensor:
    """Returns the bias for padded sets x (B, n, d), all at once, in operations whose sizes may be dynamic."""
    one, other = torch.broadcast_tensors(x[:, :, None], x[:, None])
    rows = torch.stack((one, other), dim=3)
    of_pairs: Tensor = _checked(bias, rows.flatten(0, 2), num_heads).unflatten(0, rows.shape[:3])
    return of_pairs.movedim(3, 1)


def _checked(bias: nn.Module, rows: Tensor, num_heads: int) -> Tensor:
    found: Tensor = bias(rows)
    if found.dim() != 2 or found.shape[1] != num_heads:
        raise ValueError(
            f"SelfAttention expects a bias that maps rows {tuple(rows.shape)} to one number per head, "
            f"(T, {num_heads}); got {tuple(found.shape)}. Give it out_features={num_heads}."
        )
    return found
