"""Moments of the elements that slots divide among themselves: the share, mean and spread of each slot."""

from typing import cast

import torch
from torch import Tensor, nn

from janossy.evaluate.reduce import segment_sums, widened
from janossy.sets import Ragged

LEAST_SHARE, LEAST_VARIANCE = 1e-6, 1e-4
"""The share of a slot that no element chooses, and what is added to variances, so that all gradients are finite."""


class SlotMoments(nn.Module):
    """The weights by which slots read moments of inputs in each round.

    They add them to themselves, and in the last round they keep them behind their own numbers.
    """

    def __init__(self, width: int, input_width: int, num_rounds: int) -> None:
        super().__init__()
        self.input_width = input_width
        self.keys = nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(num_rounds))
        self.queries = nn.ModuleList(nn.Linear(width, width) for _ in range(num_rounds))
        self.sums = nn.ModuleList(nn.Linear(1 + 2 * input_width, width) for _ in range(num_rounds - 1))

    def keys_of(self, elements: Tensor, inputs: Tensor) -> Tensor:
        """Returns the keys of elements (…, d). Raises: ValueError for inputs of another width than input_features."""
        if inputs.shape[-1] != self.input_width:
            raise ValueError(
                f"SlotAttention expects inputs of the encoder of input_features={self.input_width} columns; got "
                f"{inputs.shape[-1]}. Write input_features={inputs.shape[-1]}."
            )
        return cast(Tensor, self.keys(elements))

    def of_sets(self, number: int, slots: Tensor, keys: Tensor, inputs: Ragged) -> Tensor:
        """Returns slots (B, m, d) after they have read the moments of a round, by the keys (N, d) of elements."""
        return self._told(number, slots, moments_within(self._asked(number, slots), keys, inputs))

    def of_padded(self, number: int, slots: Tensor, keys: Tensor, inputs: Tensor, mask: Tensor) -> Tensor:
        """Returns ``of_sets`` for padded sets: keys (B, n, d), inputs (B, n, e) and mask (B, n), True = real."""
        return self._told(number, slots, moments_of_padded(self._asked(number, slots), keys, inputs, mask))

    def _asked(self, number: int, slots: Tensor) -> Tensor:
        return cast(Tensor, self.queries[number](self.norms[number](slots)))

    def _told(self, number: int, slots: Tensor, moments: Tensor) -> Tensor:
        if number == len(self.sums):
            return torch.cat((slots, moments), dim=2)
        return cast(Tensor, slots + self.sums[number](moments))


def moments_within(queries: Tensor, keys: Tensor, inputs: Ragged) -> Tensor:
    """Returns log(share), mean μ and log(σ) of the inputs in each slot of their set, (B, m, 1 + 2·e).

    An element divides its weight by softmax_r(q_r·k_i/√c) over the slots r of its set. The share of a slot is its mean
    weight. Half precision is summed in float32. The moments of an empty set are those of a slot that no element
    chooses.

    Shapes: queries (B, m, c), keys (N, c), inputs.values (N, e).
    """
    _, owners = inputs.to_index()
    x = widened(inputs.values)[:, None]
    scores = (widened(queries).index_select(0, owners) * keys[:, None]).sum(2) / keys.shape[1] ** 0.5
    weights = scores.softmax(1)[..., None]
    counts = inputs.offsets.diff().clamp(min=1)[:, None, None]

    def mean(rows: Tensor) -> Tensor:
        """Returns the means over the elements of each set, (B, m, any), of rows (N, m, any)."""
        return segment_sums(rows, owners, inputs.offsets) / counts

    share = mean(weights).clamp_min(LEAST_SHARE)
    means = mean(weights * x) / share
    variances = mean(weights * (x - means.index_select(0, owners)).square()) / share
    return _together(share, means, variances).to(queries.dtype)


def moments_of_padded(queries: Tensor, keys: Tensor, inputs: Tensor, mask: Tensor) -> Tensor:
    """Returns ``moments_within`` for padded sets.

    Shapes: queries (B, m, c), keys (B, n, c), inputs (B, n, e), mask (B, n), True = real -> (B, m, 1 + 2·e).
    """
    x = widened(inputs).masked_fill(~mask[..., None], 0)
    scores = widened(queries) @ widened(keys).transpose(1, 2) / keys.shape[2] ** 0.5
    weights = scores.softmax(1) * mask[:, None] / mask.sum(1).clamp(min=1)[:, None, None]
    share = weights.sum(2, keepdim=True).clamp_min(LEAST_SHARE)
    means = weights @ x / share
    apart = (x[:, None] - means[:, :, None]).square()
    variances = (weights[..., None] * apart).sum(2) / share
    return _together(share, means, variances).to(queries.dtype)


def _together(share: Tensor, means: Tensor, variances: Tensor) -> Tensor:
    return torch.cat((share.log(), means, (variances + LEAST_VARIANCE).log() / 2), dim=2)
