"""Heads: the weights of multi-head attention, and the attention of queries over keys."""

from typing import cast

import torch
from torch import Tensor, nn

from janossy.functions.checks import check_widths
from janossy.functions.structure import is_linear


class Heads(nn.Module):
    """The weights of multi-head attention (Vaswani et al., 2017, Sec. 3.2.2), as in torch's ``MultiheadAttention``.

    ``project`` holds the rows of queries, keys and values, in this order, as torch's ``in_proj_weight``.

    Shapes: queries, keys and values (…, H, d/H); results (…, d).
    Raises: TypeError or ValueError for sizes that are not integers >= 1; ValueError if num_heads does not divide
        in_features.
    """

    def __init__(self, owner: nn.Module, in_features: int, num_heads: int) -> None:
        super().__init__()
        check_widths(owner, in_features=in_features, num_heads=num_heads)
        if in_features % num_heads:
            raise ValueError(
                f"{type(owner).__name__} expects num_heads to divide in_features={in_features}; got "
                f"num_heads={num_heads}. Give another of the two."
            )
        self.in_features = in_features
        self.num_heads = num_heads
        self.project = nn.Linear(in_features, 3 * in_features)
        self.out = nn.Linear(in_features, in_features)

    def all_of(self, x: Tensor) -> Tensor:
        """Returns queries, keys and values of elements (…, d), stacked as (…, 3, H, d/H)."""
        heads: Tensor = self.project(x).unflatten(-1, (3, self.num_heads, -1))
        return heads

    def queries(self, x: Tensor) -> Tensor:
        """Returns the queries (…, H, d/H) of elements (…, d)."""
        heads: Tensor = self._rows(x, slice(None, self.in_features)).unflatten(-1, (self.num_heads, -1))
        return heads

    def keys_and_values(self, x: Tensor) -> Tensor:
        """Returns keys and values of elements (…, d), stacked as (…, 2, H, d/H)."""
        heads: Tensor = self._rows(x, slice(self.in_features, None)).unflatten(-1, (2, self.num_heads, -1))
        return heads

    def _rows(self, x: Tensor, rows: slice) -> Tensor:
        """Returns these columns of ``project(x)``, and computes no others unless the module has code of the user."""
        project: nn.Module = self.project
        if not is_linear(project):
            return cast(Tensor, project(x)[..., rows])
        return nn.functional.linear(x, project.weight[rows], None if project.bias is None else project.bias[rows])


def attend(queries: Tensor, keys: Tensor, values: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Returns softmax(q·k/√c)·v of each query over the keys of its own set, with the heads joined.

    Shapes: queries (B, m, H, c), keys and values (B, n, H, c) -> (B, m, H·c). mask (B, 1, 1, n), True at real keys.
    """
    q, k, v = (each.transpose(1, 2) for each in (queries, keys, values))
    found = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return found.transpose(1, 2).flatten(2)


def compete(queries: Tensor, keys: Tensor, values: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Returns the mean of v for each query, with weights softmax(q·k/√c) over the queries; heads are joined.

    Each key's weights add up to 1, and a query divides its own by their sum. A set without real keys gives zero.

    Shapes: as ``attend``.
    """
    q, k, v = (each.transpose(1, 2) for each in (queries, keys, values))
    weights = (q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).softmax(2)
    if mask is not None:
        weights = weights * mask
    # A query that no key chooses would divide by zero.
    total = weights.sum(3, keepdim=True) + torch.finfo(weights.dtype).eps
    found: Tensor = weights @ v / total
    return found.transpose(1, 2).flatten(2)


def masked(bias: Tensor, mask: Tensor | None) -> Tensor:
    """Returns the bias of scores with −∞ at keys that are padding."""
    return bias if mask is None else bias.masked_fill(~mask, -torch.inf)


def of_padded(mask: Tensor) -> Tensor:
    """Returns the mask (B, 1, 1, n) for the keys of padded sets; an empty set's queries attend to its padding."""
    return (mask | ~mask.any(1, keepdim=True))[:, None, None]
