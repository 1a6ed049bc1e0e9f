"""GatedAttention: rows with scores, so that a mean over the rows is attention pooling."""

import torch
from torch import Tensor, nn

from janossy.functions.checks import check_widths
from janossy.functions.shown import arguments_shown
from janossy.functions.weights import draw_anew

MOST = 10.0
"""The bound of a score: weights lie within e^±10, so that float32 holds their sums to its usual precision."""


class GatedAttention(nn.Module):
    """f(x) = [e^{s_1}·v_1, …, e^{s_m}·v_m, e^{s_1}, …, e^{s_m}], v_1 … v_m being m equal parts of v = g(x).

    The scores are gated, s_i = w_i·(tanh(V v) ⊙ σ(U v)), and kept within ±10. ``AttentionMean`` of the mean of f over
    rows is then Σ_π e^{s_i(π)} v_i(π) / Σ_π e^{s_i(π)}. For rows of one element this is attention-based pooling with m
    heads (Ilse, Tomczak and Welling, 2018, "Attention-based Deep Multiple Instance Learning"). For rows of k it is
    attention over k-tuples.

    Args:
        g: any function of rows, such as a ``TupleMLP``.
        in_features: c, the width of g's outputs.
        num_heads: m, the number of scores.
        hidden_features: the width of V and U.

    Shapes: g (T, L, d) -> (T, c); (T, L, d) -> (T, c + num_heads).
    Raises:
        TypeError: if g is not a module or a size is not an integer.
        ValueError: for a size below 1, or a num_heads that does not divide in_features.

    Example:
        >>> pooling = JanossyPooling(GatedAttention(TupleMLP(1, 3, 8), in_features=8), Tuples(1))
        >>> AttentionMean(8)(pooling(Ragged.from_sets([torch.randn(4, 3), torch.randn(2, 3)]))).shape
        torch.Size([2, 8])
    """

    def __init__(
        self,
        g: nn.Module,
        *,
        in_features: int,
        num_heads: int = 1,
        hidden_features: int = 64,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(g, nn.Module):
            raise TypeError(f"GatedAttention expects g to be a module that maps rows to (T, c); got {g!r}.")
        check_widths(self, in_features=in_features, num_heads=num_heads, hidden_features=hidden_features)
        if in_features % num_heads:
            raise ValueError(
                f"GatedAttention expects num_heads to divide in_features={in_features}; got num_heads={num_heads}."
            )
        self.g = g
        self.in_features = in_features
        self.num_heads = num_heads
        self.hidden_features = hidden_features
        self.gates = nn.Linear(in_features, 2 * hidden_features)
        self.scores = nn.Linear(hidden_features, num_heads, bias=False)
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the weights anew."""
        draw_anew(self)

    def forward(self, x: Tensor) -> Tensor:
        values = self.g(x)
        candidate, gate = self.gates(values).chunk(2, dim=1)
        scores = self.scores(torch.tanh(candidate) * torch.sigmoid(gate))
        weights = torch.exp(MOST * torch.tanh(scores / MOST))
        weighted = values.unflatten(1, (self.num_heads, -1)) * weights[..., None]
        return torch.cat((weighted.flatten(1), weights), dim=1)

    def extra_repr(self) -> str:
        return arguments_shown(self)
