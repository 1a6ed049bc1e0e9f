"""BalancedTree: one learned binary operator, applied in a balanced tree."""

from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from janossy.functions.checks import check_mask, check_sequences, check_widths
from janossy.functions.shown import arguments_shown
from janossy.functions.weights import draw_anew


class BalancedTree(nn.Module):
    """f(x_1 … x_L) = m(f(x_1 … x_l), f(x_{l+1} … x_L)), l the largest power of 2 below L; f(x_1) = tanh(W x_1 + w).

    One operator m combines two neighbouring states into one, beginning with the pairs (1, 2), (3, 4), …. An odd last
    state passes up unchanged. The tree has ⌈log₂ L⌉ levels, and its shape depends on L alone.

    m is associative if m(a, m(b, c)) = m(m(a, b), c), and commutative if m(a, b) = m(b, a). If m is both, f is
    invariant by itself, as a sum or a maximum is. With a neutral element, f is then the reduction of a commutative
    monoid (Ong and Veličković, 2022, "Learnable Commutative Monoids for Graph Neural Networks"). A learned m need be
    neither. Averaged over orderings (Eq. 3) f is invariant whatever m is. If m is both, f equals every term of that
    average.

    Args:
        combine: m, a module mapping (…, 2·hidden_features), two states side by side, to (…, hidden_features). The
            default is m(a, b) = g₁ ⊙ a + g₂ ⊙ b + g₃ ⊙ tanh(C[a, b] + c). The gates g = softmax(G[a, b] + γ) sum
            to 1 over the three terms. It is the cell of Cho et al. (2014, "On the Properties of Neural Machine
            Translation") with separate gates per unit, and keeps states within [−1, 1] at any depth.

    ``f(x, mask)`` takes rows of several lengths, padded at the end. Each row's value is the one that it has alone,
    whatever the padding holds. A pair whose second half is padding passes its first half on. m is applied to padding
    too, as the element 0, and the result is dropped.

    Shapes: (T, L, in_features) -> (T, hidden_features); mask (T, L), bool, True = real. L = 0, and a row without
        real elements, gives zero.
    Cost: L embeddings and L − 1 applications of m per row, in ⌈log₂ L⌉ + 1 steps. The default m takes
        16·hidden_features² flops, and backward keeps about 10·hidden_features numbers for it.
    Raises:
        TypeError: for a width that is not an integer, or a combine that is not a module.
        ValueError: for a width below 1, rows or a mask of another shape, or a combine that does not return
            (…, hidden_features). For a mask on the CPU with padding before elements, or export with a dynamic L.

    Example:
        >>> f = BalancedTree(3, 8)
        >>> x, mask = torch.zeros(2, 5, 3), torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
        >>> torch.allclose(f(x, mask)[1], f(x[1:, :2])[0], atol=1e-6)
        True
    """

    takes_mask: ClassVar[bool] = True

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        *,
        combine: nn.Module | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_widths(self, in_features=in_features, hidden_features=hidden_features)
        if combine is not None and not isinstance(combine, nn.Module):
            raise TypeError(f"BalancedTree expects combine to be a module or None; got {type(combine).__name__}.")
        self.in_features = in_features
        self.hidden_features = hidden_features
        self.embed = nn.Linear(in_features, hidden_features)
        self.combine = _GatedCell(hidden_features) if combine is None else combine
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the weights anew."""
        draw_anew(self)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        self._check(x, mask)
        if x.shape[1] == 0:
            return x.new_zeros(len(x), self.hidden_features)
        if mask is None:
            return self._reduce(torch.tanh(self.embed(x)), None)
        # Padding is zeroed before anything is computed, as a NaN would return as 0 · NaN in backward.
        states = torch.tanh(self.embed(x.masked_fill(~mask[..., None], 0)))
        return self._reduce(states, mask).masked_fill(~mask[:, :1], 0)

    def _check(self, x: Tensor, mask: Tensor | None) -> None:
        check_sequences(self, x)
        if isinstance(x.shape[1], torch.SymInt):  # while torch.export traces rows of any length
            raise ValueError(
                "BalancedTree is exported for one number of elements, which shapes its tree; got a dynamic "
                "one. Export it with a fixed n, or use a MinGRU."
            )
        if mask is None:
            return
        check_mask(self, x, mask)
        # torch.compile cannot branch on values, and on CUDA a look at them would wait for the device.
        if not (torch.compiler.is_compiling() or mask.is_cuda) and (mask[:, 1:] & ~mask[:, :-1]).any():
            raise ValueError(
                "this BalancedTree expects a mask with padding only behind the real elements; got an element behind "
                "padding. Move the elements to the front."
            )

    def _reduce(self, states: Tensor, real: Tensor | None) -> Tensor:
        """Returns the root of each row's tree, (T, L, H) -> (T, H)."""
        while states.shape[1] > 1:
            num_pairs, odd = divmod(states.shape[1], 2)
            paired, last = states.split((2 * num_pairs, odd), dim=1)
            pairs = paired.unflatten(1, (num_pairs, 2))
            combined = self._combine(pairs.flatten(2))
            if real is not None:
                combined = combined.where(real[:, 1::2, None], pairs[:, :, 0])
                real = real[:, ::2]
            states = torch.cat((combined, last), dim=1) if odd else combined
        return states[:, 0]

    def _combine(self, pairs: Tensor) -> Tensor:
        combined = self.combine(pairs)
        expected = (*pairs.shape[:-1], self.hidden_features)
        if combined.shape != expected:
            raise ValueError(
                f"BalancedTree expects combine to map {tuple(pairs.shape)} to {expected}; got {tuple(combined.shape)}."
            )
        return cast(Tensor, combined)

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            "in_features": self.in_features,
            "hidden_features": self.hidden_features,
            "combine": None if type(self.combine) is _GatedCell else self.combine,
        }

    def extra_repr(self) -> str:
        return arguments_shown(self)


class _GatedCell(nn.Module):
    """A cell that mixes two states and a candidate convexly, unit by unit."""

    def __init__(self, hidden_features: int) -> None:
        super().__init__()
        self.hidden_features = hidden_features
        self.linear = nn.Linear(2 * hidden_features, 4 * hidden_features)

    def forward(self, pair: Tensor) -> Tensor:
        """Returns the state of a node from those of its two children, (…, 2H) -> (…, H)."""
        logits, candidate = self.linear(pair).split((3 * self.hidden_features, self.hidden_features), dim=-1)
        choices = torch.cat((pair, torch.tanh(candidate)), dim=-1)
        shape = (3, self.hidden_features)
        return cast(Tensor, (logits.unflatten(-1, shape).softmax(-2) * choices.unflatten(-1, shape)).sum(-2))
