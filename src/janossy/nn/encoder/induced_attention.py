"""InducedAttention: attention of elements to learned points, which have attended to all elements of the set."""

import torch
from torch import Tensor, nn

from janossy.functions.shown import arguments_shown
from janossy.functions.weights import draw_anew
from janossy.nn.encoder.cost import outline, seconds_by_weights, seconds_of_attention
from janossy.nn.encoder.heads import Heads, attend
from janossy.nn.encoder.layer import SetLayer, apply, apply_padded, called, keeps_sizes, seconds
from janossy.nn.encoder.seed_attention import SeedAttention
from janossy.nn.encoder.within import attend_within
from janossy.sets import Ragged


class InducedAttention(SetLayer):
    """Attention of elements over m induced points, z = inner(``SeedAttention``(x)) of their set (Lee et al., 2019).

    y_i = W·[softmax_r(q_h(x_i)·k_h(z_r)/√c) v_h(z_r)]_h + b. This is ISAB without its last residual and feed-forward
    layers (Eq. 9). ``Residual(InducedAttention(d))`` adds x.

    Args:
        in_features: the width of the elements, and of the results.
        num_points: m, the number of points.
        num_heads: H, which divides in_features; c = in_features / H.
        inner: a module applied to the points, such as the feed-forward layer of the first attention block; or None.

    Shapes: sets.values (N, in_features) -> Ragged of values (N, in_features), the same sets.
    Invariance: equivariant, exactly. A set's results do not depend on its batch-mates.
    Cost: m·n for a set of n, twice.
    Raises:
        TypeError: for sizes that are not integers, or an inner that is not a module or changes the number of points.
        ValueError: for sizes below 1, a num_heads that does not divide in_features, or elements of another width.

    Example:
        >>> InducedAttention(8, num_points=4)(Ragged.from_sets([torch.randn(3, 8), torch.randn(0, 8)])).sizes
        (3, 0)
    """

    def __init__(
        self,
        in_features: int,
        *,
        num_points: int = 16,
        num_heads: int = 4,
        inner: nn.Module | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.points = SeedAttention(in_features, num_seeds=num_points, num_heads=num_heads)
        self.heads = Heads(self, in_features, num_heads)
        if inner is not None and (not isinstance(inner, nn.Module) or not keeps_sizes(inner)):
            raise TypeError(
                "InducedAttention expects inner to be a module that gives one result per point, or None; got "
                f"{called(inner)}."
            )
        self.in_features = in_features
        self.num_points = num_points
        self.num_heads = num_heads
        self.inner = nn.Identity() if inner is None else inner
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the weights anew."""
        draw_anew(self)

    def forward(self, sets: Ragged) -> Ragged:
        points = apply(self.inner, self.points(sets))
        of_points = self.heads.keys_and_values(points.values).unflatten(0, (len(sets), self.num_points))
        found = attend_within(self.heads.queries(sets.values), of_points, sets, "elements to points")
        return sets.with_values(self.heads.out(found))

    def padded(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        points, _ = apply_padded(self.inner, *self.points.padded(x, mask))
        found = attend(self.heads.queries(x), *self.heads.keys_and_values(points).unbind(2))
        return self.heads.out(found), mask

    def seconds(self, sets: Ragged) -> float:
        points = outline(sets[:0], self.points.sizes_of(sets.sizes))
        weights = seconds_by_weights(self.heads, sets) / 2 + seconds_by_weights(self.heads, points) / 2
        attended = seconds_of_attention(sets, self.num_points * len(sets.values), self.num_heads)
        return self.points.seconds(sets) + seconds(self.inner, points) + weights + attended

    def extra_repr(self) -> str:
        return arguments_shown(self)
