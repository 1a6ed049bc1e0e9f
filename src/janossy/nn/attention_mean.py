"""AttentionMean: what weighs the mean of rows of a GatedAttention."""

from typing import cast

from torch import Tensor, nn

from janossy.functions.checks import check_widths


class AttentionMean(nn.Module):
    """[Σ e^{s_i}·v_i, Σ e^{s_i}] -> Σ e^{s_i}·v_i / Σ e^{s_i}, for each head i of the rows of a ``GatedAttention``.

    Shapes: (B, features + num_heads) -> (B, features).
    Raises: TypeError or ValueError for sizes that are not integers >= 1, or a num_heads that does not divide
        in_features.

    Example:
        >>> AttentionMean(2)(torch.tensor([[3.0, 6.0, 1.5]]))
        tensor([[2., 4.]])
    """

    def __init__(self, in_features: int, *, num_heads: int = 1) -> None:
        super().__init__()
        check_widths(self, in_features=in_features, num_heads=num_heads)
        if in_features % num_heads:
            raise ValueError(
                f"AttentionMean expects num_heads to divide in_features={in_features}; got num_heads={num_heads}."
            )
        self.in_features = in_features
        self.num_heads = num_heads

    def forward(self, pooled: Tensor) -> Tensor:
        weighted, weights = pooled.split((self.in_features, self.num_heads), dim=1)
        return cast(Tensor, (weighted.unflatten(1, (self.num_heads, -1)) / weights[..., None]).flatten(1))

    def extra_repr(self) -> str:
        return f"{self.in_features}, num_heads={self.num_heads}"
