"""SelfAttention: each element looks at all elements of its own set."""

from torch import Tensor

from janossy.nn.encoder.cost import seconds_by_weights, seconds_of_attention
from janossy.nn.encoder.heads import Heads, attend, of_padded
from janossy.nn.encoder.layer import SetLayer
from janossy.nn.encoder.padding import Padding
from janossy.sets import Ragged


class SelfAttention(SetLayer):
    """y_i = W·[softmax_j(q_h(x_i)·k_h(x_j)/√c) v_h(x_j)]_h + b: multi-head attention over each set by itself.

    j runs over all elements of the set, i itself included (Vaswani et al., 2017, Sec. 3.2.2; Lee et al., 2019, Eq. 6
    without the residual). ``Residual(SelfAttention(d))`` adds x.

    Args:
        num_heads: H, which divides in_features; c = in_features / H.

    Shapes: sets.values (N, in_features) -> Ragged of values (N, in_features), the same sets.
    Invariance: equivariant, exactly. A set's results do not depend on its batch-mates.
    Cost: time n² for a set of n; memory linear in n by torch's fused kernel. Sets of like sizes are computed together,
        padded by 15 % at most. The fused kernel is differentiated once; under
        ``torch.nn.attention.sdpa_kernel(SDPBackend.MATH)`` any number of times, with n² numbers per head.
    Raises: TypeError or ValueError for sizes that are not integers >= 1, a num_heads that does not divide in_features,
        or elements of another width.

    Example:
        >>> SelfAttention(8, num_heads=2)(Ragged.from_sets([torch.randn(3, 8), torch.randn(0, 8)])).sizes
        (3, 0)
    """

    def __init__(self, in_features: int, *, num_heads: int = 4) -> None:
        super().__init__()
        self.heads = Heads(self, in_features, num_heads)
        self.in_features = in_features
        self.num_heads = num_heads

    def forward(self, sets: Ragged) -> Ragged:
        self.check(sets)
        padding = Padding.of(sets)
        parts = zip(padding.pad(self.heads.all_of(sets.values)), padding.masks(), strict=True)
        found = padding.unpad([attend(*part.unbind(2), mask=mask) for part, mask in parts])
        return sets.with_values(self.heads.out(found))

    def padded(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return self.heads.out(attend(*self.heads.all_of(x).unbind(2), mask=of_padded(mask))), mask

    def seconds(self, sets: Ragged) -> float:
        pairs = sum(n * n for n in sets.sizes)
        return seconds_by_weights(self.heads, sets) + seconds_of_attention(sets, pairs, self.num_heads)

    def extra_repr(self) -> str:
        return f"{self.in_features}, num_heads={self.num_heads}"
