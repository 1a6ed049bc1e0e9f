"""TupleMLP: a multilayer perceptron on k elements."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
    "softplus": nn.functional.softplus,
    "sine": torch.sin,
}


class TupleMLP(nn.Module):
    """f(x_1 … x_k) = MLP([x_1, …, x_k]): a perceptron on k elements laid side by side (Section 2.2).

    ``hidden_features`` is one width or several. Without ``out_features`` f returns its last hidden activations, as
    the paper's does; with it, a linear layer follows. ``activation`` is one of tanh, sigmoid, relu, gelu (exact),
    silu, softplus, sine.

    Shapes: (T, k, in_features) -> (T, out_features), or (T, last hidden width).
    Raises: ValueError for an unknown activation, a width below 1, or rows that are not (T, k, in_features).

    Example:
        >>> TupleMLP(2, in_features=3, hidden_features=(16, 8))(torch.zeros(5, 2, 3)).shape
        torch.Size([5, 8])
    """

    def __init__(
        self,
        k: int,
        in_features: int,
        hidden_features: int | Sequence[int],
        out_features: int | None = None,
        activation: str = "tanh",
    ) -> None:
        super().__init__()
        hidden = (hidden_features,) if isinstance(hidden_features, int) else tuple(hidden_features)
        if activation not in ACTIVATIONS:
            raise ValueError(f"TupleMLP expects an activation among {', '.join(ACTIVATIONS)}; got {activation!r}.")
        if not hidden or min(k, in_features, *hidden, 1 if out_features is None else out_features) < 1:
            raise ValueError(
                "TupleMLP expects k, in_features, out_features and at least one hidden width, all >= 1; "
                f"got k={k}, in_features={in_features}, hidden_features={hidden}, out_features={out_features}."
            )
        self.k = k
        self.in_features = in_features
        self.activation = activation
        widths = [k * in_features, *hidden]
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.output = None if out_features is None else nn.Linear(hidden[-1], out_features)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1:] != (self.k, self.in_features):
            raise ValueError(
                f"this TupleMLP expects rows of shape (T, {self.k}, {self.in_features}); got {tuple(x.shape)}. "
                "Match its k to the orderings' k, and its in_features to the elements'."
            )
        x = x.flatten(1)
        for layer in self.hidden:
            x = ACTIVATIONS[self.activation](layer(x))
        return x if self.output is None else self.output(x)

    def extra_repr(self) -> str:
        return f"k={self.k}, activation={self.activation}"
