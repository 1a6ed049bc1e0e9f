"""SetNorm: normalisation of all elements of a set together."""

from math import inf

import torch
from torch import Tensor, nn

from janossy.checks import check_number
from janossy.evaluate.reduce import segment_sums, widened
from janossy.functions.checks import check_widths
from janossy.functions.shown import arguments_shown
from janossy.nn.encoder.layer import SetLayer
from janossy.sets import Ragged


class SetNorm(SetLayer):
    """y_if = γ_f·(x_if − μ)/√(σ² + ε) + β_f, μ and σ² over all elements and features of one set (Zhang et al., 2022).

    Unlike a layer norm it keeps the lengths and means of elements, which tell the elements of a set apart.

    Args:
        in_features: the width of the elements.
        eps: ε.

    Shapes: sets.values (N, in_features) -> Ragged of values (N, in_features), the same sets.
    Invariance: equivariant, exactly. A set's results do not depend on its batch-mates, not even in training.
    Cost: linear in n. Half precision is summed in float32.
    Raises: TypeError or ValueError for an in_features that is not an integer >= 1. ValueError for an eps that is not
        positive, or elements of another width.

    Example:
        >>> normed = SetNorm(4)(Ragged.from_sets([torch.randn(3, 4), torch.randn(2, 4)]))
        >>> normed[0].mean().abs() < 1e-6
        tensor(True)
    """

    def __init__(
        self,
        in_features: int,
        *,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_widths(self, in_features=in_features)
        check_number("SetNorm", "eps", eps, 1e-5)
        if not 0 < eps < inf:
            raise ValueError(f"SetNorm expects eps > 0; got eps={eps}. Write eps=1e-5.")
        self.in_features = in_features
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(in_features, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(in_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Makes γ one, and β zero."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, sets: Ragged) -> Ragged:
        self.check(sets)
        x, owners = widened(sets.values), sets.to_index()[1]
        counts = sets.offsets.diff().clamp(min=1)

        def mean(rows: Tensor) -> Tensor:
            """Returns the mean of each element's set, (N, 1)."""
            sums = segment_sums(rows.mean(1), owners, sets.offsets)
            return (sums / counts).index_select(0, owners)[:, None]

        centred = x - mean(x)
        return sets.with_values(self._scaled(centred, mean(centred.square())).to(sets.dtype))

    def padded(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        wide, counts = widened(x), mask.sum(1).clamp(min=1)

        def mean(rows: Tensor) -> Tensor:
            return (rows.mean(2).masked_fill(~mask, 0).sum(1) / counts)[:, None, None]

        centred = wide - mean(wide)
        return self._scaled(centred, mean(centred.square())).to(x.dtype), mask

    def _scaled(self, centred: Tensor, variance: Tensor) -> Tensor:
        return centred * (variance + self.eps).rsqrt() * self.weight + self.bias

    def extra_repr(self) -> str:
        return arguments_shown(self)
