"""SeedAttention: learned seeds that attend to all elements of each set and replace them."""

import torch
from torch import Tensor, nn

from janossy.functions.checks import check_widths
from janossy.functions.shown import arguments_shown
from janossy.functions.weights import draw_anew
from janossy.nn.encoder.cost import seconds_by_weights, seconds_of_attention
from janossy.nn.encoder.heads import Heads, attend, of_padded
from janossy.nn.encoder.layer import SetLayer, of_one_size
from janossy.nn.encoder.within import attend_within
from janossy.sets import Ragged


class SeedAttention(SetLayer):
    """z_r = s_r + W·[softmax_i(q_h(s_r)·k_h(x_i)/√c) v_h(x_i)]_h + b, for learned seeds s_1 … s_m.

    Every set becomes a set of m elements, in the order of the seeds. This is pooling by multi-head attention (PMA)
    without its feed-forward layer (Lee et al., 2019, Equation 11). The attention of an empty set is zero.

    Args:
        in_features: the width of the elements, and of the seeds.
        num_seeds: m, the number of seeds.
        num_heads: H, which divides in_features; c = in_features / H.

    Shapes: sets.values (N, in_features) -> Ragged of B sets of m, values (B·m, in_features).
    Invariance: exact. A set's result does not depend on its batch-mates.
    Cost: m·n for a set of n.
    Raises: TypeError or ValueError for sizes that are not integers >= 1. ValueError for a num_heads that does not
        divide in_features, or elements of another width.

    Example:
        >>> SeedAttention(8, num_seeds=2)(Ragged.from_sets([torch.randn(3, 8), torch.randn(0, 8)])).sizes
        (2, 2)
    """

    keeps_sizes = False

    def __init__(
        self,
        in_features: int,
        *,
        num_seeds: int = 1,
        num_heads: int = 4,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_widths(self, num_seeds=num_seeds)
        self.heads = Heads(self, in_features, num_heads)
        self.in_features = in_features
        self.num_seeds = num_seeds
        self.num_heads = num_heads
        self.seeds = nn.Parameter(torch.empty(num_seeds, in_features))
        nn.init.xavier_uniform_(self.seeds)
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the weights and the seeds anew."""
        draw_anew(self)
        nn.init.xavier_uniform_(self.seeds)

    def forward(self, sets: Ragged) -> Ragged:
        self.check(sets)
        of_elements = self.heads.keys_and_values(sets.values)
        found = attend_within(self.heads.queries(self.seeds), of_elements, sets, "seeds")
        return of_one_size((self.seeds + self.heads.out(found)).flatten(0, 1), sets, self.num_seeds)

    def padded(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        queries = self.heads.queries(self.seeds).expand(x.shape[0], -1, -1, -1)
        found = attend(queries, *self.heads.keys_and_values(x).unbind(2), mask=of_padded(mask))
        found = found.masked_fill(~mask.any(1)[:, None, None], 0)
        return self.seeds + self.heads.out(found), mask.new_ones(x.shape[0], self.num_seeds)

    def seconds(self, sets: Ragged) -> float:
        pairs = self.num_seeds * len(sets.values)
        return seconds_by_weights(self.heads, sets) / 2 + seconds_of_attention(sets, pairs, self.num_heads)

    def sizes_of(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return (self.num_seeds,) * len(sizes)

    def extra_repr(self) -> str:
        return arguments_shown(self)


class ConcatenatedElements(SetLayer):
    """[x_1, …, x_m] as the one element of each set of m elements, such as those of ``SeedAttention``.

    Shapes: sets.values (B·m, d) -> Ragged of B sets of one element, values (B, m·d).
    Invariance: none. Elements keep their order, which is the same in every set if they come from seeds.
    Raises: TypeError or ValueError for a num_elements that is not an integer >= 1; ValueError for sets of other sizes.

    Example:
        >>> ConcatenatedElements(2)(Ragged.from_sets([torch.randn(2, 3), torch.randn(2, 3)])).values.shape
        torch.Size([2, 6])
    """

    keeps_sizes = False

    def __init__(self, num_elements: int) -> None:
        super().__init__()
        check_widths(self, num_elements=num_elements)
        self.num_elements = num_elements

    def forward(self, sets: Ragged) -> Ragged:
        if not torch.compiler.is_compiling() and (others := set(sets.sizes) - {self.num_elements}):
            raise ValueError(
                f"ConcatenatedElements expects sets of {self.num_elements}, as SeedAttention makes them; got one of "
                f"{min(others)}. Put it behind a SeedAttention of as many seeds."
            )
        self.check(sets)
        values = sets.values.reshape(len(sets), self.num_elements * sets.values.shape[1])
        return of_one_size(values, sets, 1)

    def padded(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return x.flatten(1)[:, None], mask[:, :1]

    def sizes_of(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return (1,) * len(sizes)

    def extra_repr(self) -> str:
        return arguments_shown(self)
