"""SelfAttention: attention of each element to all elements of its own set."""

from typing import cast

import torch
from torch import Tensor, nn

from janossy.evaluate.cost import Work
from janossy.functions.shown import arguments_shown
from janossy.functions.weights import draw_anew
from janossy.nn.encoder.cost import seconds_by_weights, seconds_of, seconds_of_attention
from janossy.nn.encoder.heads import Heads, attend, masked, of_padded
from janossy.nn.encoder.layer import SetLayer
from janossy.nn.encoder.padding import Padding
from janossy.nn.encoder.pair_bias import bias_of_padded, bias_of_pairs, bias_within, check_bias
from janossy.nn.encoder.within import attend_within, pairs_within
from janossy.sets import Ragged


class SelfAttention(SetLayer):
    """y_i = W·[softmax_j(q_h(x_i)·k_h(x_j)/√c + β_h) v_h(x_j)]_h + b: multi-head attention within each set.

    j runs over all elements of the set, including i (Vaswani et al., 2017, Sec. 3.2.2; Lee et al., 2019, Equation 6
    without the residual). ``Residual(SelfAttention(d))`` adds x.

    Args:
        in_features: the width of the elements, and of the results.
        num_heads: H, which divides in_features; c = in_features / H.
        bias: a module from rows (T, 2, e) to (T, H) that gives β = bias(z_i, z_j) of each pair; None for β = 0. The
            Particle Transformer has such a bias (Qu et al., 2022, Equation 3). z are the inputs of the ``SetEncoder``
            around the layer, or of the ``Residual``. Without either, z are x.

    Shapes: sets.values (N, in_features) -> Ragged of values (N, in_features), the same sets.
    Invariance: equivariant, exactly. A set's results do not depend on its batch-mates.
    Cost: time n² for a set of n; memory linear in n by torch's fused kernel. Sets of similar sizes are computed
        together, padded by 15 % at most in large groups. A bias takes H·n² numbers, and reads rows in pieces of 1 GiB.
        The fused kernel can be differentiated once. Under ``torch.nn.attention.sdpa_kernel(SDPBackend.MATH)`` results
        can be differentiated any number of times, with n² numbers per head.
    Raises:
        TypeError: for sizes that are not integers, or a bias that is not a module.
        ValueError: for sizes below 1, a num_heads that does not divide in_features, or elements of another width.
        ValueError: for a bias that does not read pairs, or does not give H numbers.

    Example:
        >>> SelfAttention(8, num_heads=2)(Ragged.from_sets([torch.randn(3, 8), torch.randn(0, 8)])).sizes
        (3, 0)
        >>> distances = FeaturedMLP(2, 8, 16, features=TupleFeatures(2, 8, distances=[[0, 1]]), out_features=2)
        >>> SelfAttention(8, num_heads=2, bias=distances)(Ragged.from_sets([torch.randn(3, 8)])).sizes
        (3,)
    """

    def __init__(
        self,
        in_features: int,
        *,
        num_heads: int = 4,
        bias: nn.Module | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.heads = Heads(self, in_features, num_heads)
        self.in_features = in_features
        self.num_heads = num_heads
        check_bias("SelfAttention", bias)
        self.bias = bias
        self.reads_inputs = bias is not None
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the weights anew."""
        draw_anew(self)

    def forward(self, sets: Ragged, *, inputs: Ragged | None = None) -> Ragged:
        self.check(sets)
        heads = self.heads.all_of(sets.values)
        attended = self._in_an_operator if torch.compiler.is_compiling() else self._by_groups
        return sets.with_values(self.heads.out(attended(heads, sets, sets if inputs is None else inputs)))

    def _in_an_operator(self, heads: Tensor, sets: Ragged, inputs: Ragged) -> Tensor:
        of_pairs = None
        if self.bias is not None:
            of_pairs = bias_within(self.bias, inputs.values, pairs_within(sets.offsets), self.num_heads)
        return attend_within(heads[:, 0], heads[:, 1:], sets, "elements", of_pairs)

    def _by_groups(self, heads: Tensor, sets: Ragged, inputs: Ragged) -> Tensor:
        padding = Padding.of(sets)
        masks = padding.masks()
        if self.bias is not None:
            read = zip(padding.pad(inputs.values), masks, strict=True)
            masks = [masked(self._of_pairs(part), mask) for part, mask in read]
        parts = zip(padding.pad(heads), masks, strict=True)  # together, which is faster than queries by themselves
        found = padding.unpad([attend(*part.unbind(2), mask=mask) for part, mask in parts])
        if self.bias is not None and len(found) == 0:
            found = found + cast(Tensor, masks[0]).sum()  # this 0 lets gradients reach the bias
        return found

    def padded(self, x: Tensor, mask: Tensor, *, inputs: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = of_padded(mask)
        if self.bias is not None:
            of_pairs = bias_of_padded(self.bias, x if inputs is None else inputs, self.num_heads)
            scores = masked(of_pairs, scores)
        return self.heads.out(attend(*self.heads.all_of(x).unbind(2), mask=scores)), mask

    def seconds(self, sets: Ragged) -> float:
        pairs = sum(n * n for n in sets.sizes)
        found = seconds_by_weights(self.heads, sets) + seconds_of_attention(sets, pairs, self.num_heads)
        if self.bias is None:
            return found
        work = Work.of(self.bias, whole_rows=True)
        return found + seconds_of(sets, flops=float(pairs * work.flops(1)), activations=float(pairs * work.outputs))

    def _of_pairs(self, x: Tensor) -> Tensor:
        return bias_of_pairs(cast(nn.Module, self.bias), x, self.num_heads)

    def extra_repr(self) -> str:
        return arguments_shown(self)
