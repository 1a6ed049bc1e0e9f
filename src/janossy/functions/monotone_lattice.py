"""MonotoneLattice: interpolation between the corners of a cube, increasing in chosen inputs."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from math import expm1, isfinite, log
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from janossy.functions.checks import check_dtype, check_widths
from janossy.functions.shown import arguments_shown

MAX_INPUTS = 12
"""The most inputs: a lattice then has 2^12 corners."""


class MonotoneLattice(nn.Module):
    """f(x) = Σ_v θ_v Π_j (c_j(x_j) if v_j else 1 − c_j(x_j)): calibrated inputs, interpolated on the cube {0, 1}^d.

    As f of DeepSets, and again as ρ, it makes functions of sets that increase in chosen inputs, whatever the weights.
    The source is Cotter et al. (2018, "Interpretable set functions"). Calibrators c_j are piecewise linear from 0 to 1,
    between equally spaced keypoints.

    For an increasing input, c_j rises from keypoint to keypoint. A corner θ_v then lies above each corner that becomes
    v by raising such an input: θ_v is the largest of these, plus a positive step. Every lattice that increases strictly
    has such steps.

    Args:
        in_features: the number of inputs in a row, k·d for rows of k elements.
        increasing: the columns of a row in which f must not decrease. To forbid an increase, negate the column.
        num_keypoints: keypoints per calibrator.
        low, high: the range of the keypoints; inputs beyond it count as its ends.

    Shapes: (T, k, d), or (T, k·d) -> (T, out_features).
    Raises:
        TypeError: for sizes or columns that are not integers.
        ValueError: for sizes below 1, more than 12 inputs, fewer than 2 keypoints, or columns that do not exist.
        ValueError: for an empty range, or rows of another size or dtype.

    Example:
        >>> f = MonotoneLattice(3, 4, increasing=[0, 2])
        >>> x = torch.randn(5, 3)
        >>> bool((f(x + torch.tensor([1.0, 0.0, 0.5])) >= f(x)).all())
        True
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        increasing: Sequence[int] = (),
        num_keypoints: int = 8,
        low: float = -3.0,
        high: float = 3.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_widths(self, in_features=in_features, out_features=out_features, num_keypoints=num_keypoints)
        if in_features > MAX_INPUTS or num_keypoints < 2:
            raise ValueError(
                f"MonotoneLattice expects in_features <= {MAX_INPUTS}, as it has 2^in_features corners, and "
                f"num_keypoints >= 2; got in_features={in_features}, num_keypoints={num_keypoints}."
            )
        _check_columns(increasing, in_features)
        _check_range(low, high)
        self.in_features, self.out_features, self.num_keypoints = in_features, out_features, num_keypoints
        self.increasing = tuple(sorted({int(column) for column in increasing}))
        self.low, self.high = float(low), float(high)
        num_lowest = 2 ** (in_features - len(self.increasing))
        self.rises = nn.Parameter(torch.empty(len(self.increasing), num_keypoints - 1))
        self.levels = nn.Parameter(torch.empty(in_features - len(self.increasing), num_keypoints))
        self.lowest = nn.Parameter(torch.empty(num_lowest, out_features))
        self.steps = nn.Parameter(torch.empty(2**in_features - num_lowest, out_features))
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Sets calibrators to straight lines, the lowest corners within ±1, and the highest about 2 above."""
        with torch.no_grad():
            self.rises.zero_()
            # On the meta device, linspace and add_ would import torch._dynamo.
            self.levels.copy_(torch.linspace(0.02, 0.98, self.num_keypoints, device="cpu").logit())
            self.lowest.uniform_(-1, 1)
            middle = log(expm1(2 / max(1, len(self.increasing))))
            self.steps.uniform_(middle - 0.5, middle + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        if not isinstance(x, Tensor) or x.dim() not in (2, 3) or x.shape[1:].numel() != self.in_features:
            got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"this MonotoneLattice expects rows of {self.in_features} numbers, (T, k, d); got {got}.")
        check_dtype(self, x)
        weights = x.new_ones(len(x), 1)
        for c in self.calibrated(x.flatten(1))[..., None].unbind(1):
            weights = torch.cat((weights * (1 - c), weights * c), dim=1)
        return weights @ self.corners()

    def calibrated(self, x: Tensor) -> Tensor:
        """Returns c_j(x_j) of each input, from 0 to 1: (T, in_features), like x."""
        rising = nn.functional.pad(self.rises.softmax(1).cumsum(1), (1, 0))
        others = [j for j in range(self.in_features) if j not in self.increasing]
        values = torch.cat((rising, self.levels.sigmoid()))[np.argsort([*self.increasing, *others])].T
        last = self.num_keypoints - 1
        at = ((x - self.low) * (last / (self.high - self.low))).clamp(0, last)
        left = at.detach().nan_to_num().floor().clamp(max=last - 1)
        return torch.lerp(values.gather(0, left.long()), values.gather(0, left.long() + 1), at - left)

    def corners(self) -> Tensor:
        """Returns θ, (2^in_features, out_features); bit j of a corner's number is its input j."""
        levels, places = _corners(self.in_features, self.increasing)
        corners: Tensor = self.lowest
        for below, rise in zip(levels, softplus(self.steps).split([len(b) for b in levels]), strict=True):
            corners = torch.cat((corners, corners[below].amax(1) + rise))
        return corners[places]

    def extra_repr(self) -> str:
        return arguments_shown(self)


@lru_cache(maxsize=256)
def _corners(in_features: int, increasing: tuple[int, ...]) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns the places of each corner's lower neighbours, level by level, and the place of each corner.

    A corner's level is the number of increasing inputs that are 1 there. Corners are ordered by level. An array
    (m, level) of neighbours holds places in lower levels.
    """

    def level(corner: int) -> int:
        return sum(corner >> j & 1 for j in increasing)

    by_level = sorted(range(2**in_features), key=level)
    places = np.argsort(by_level)
    below = [[places[v - 2**j] for j in increasing if v >> j & 1] for v in by_level]
    return [np.array(list(same)) for _, same in groupby(below, key=len)][1:], places


def _check_columns(columns: Any, in_features: int) -> None:
    expected = f"MonotoneLattice expects increasing as a list of columns 0 … {in_features - 1}"
    listed = isinstance(columns, Sequence) and not isinstance(columns, str)
    if not listed or not all(isinstance(column, Integral) and not isinstance(column, bool) for column in columns):
        raise TypeError(f"{expected}; got {columns!r}.")
    if not all(0 <= column < in_features for column in columns):
        raise ValueError(f"{expected}, those of a row; got {columns!r}. Count them from 0.")


def _check_range(low: Any, high: Any) -> None:
    numbers = all(isinstance(end, Real) and not isinstance(end, bool) for end in (low, high))
    if not numbers or not (isfinite(low) and isfinite(high) and low < high):
        raise ValueError(f"MonotoneLattice expects numbers low < high; got low={low!r}, high={high!r}.")
