"""FeaturedMLP: a multilayer perceptron on k elements and on hand-made features of them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from janossy.functions.checks import check_dtype, check_rows, check_widths
from janossy.functions.meaning import StatesItsMeaning
from janossy.functions.structure import ACTIVATIONS
from janossy.functions.tuple_function import TupleFunction
from janossy.functions.weights import draw_anew


class FeaturedMLP(TupleFunction, StatesItsMeaning):
    """f(x_1 … x_k) = [MLP_1([x_1, …, x_k, φ]), MLP_2(φ)] with φ = features(x_1 … x_k), such as ``TupleFeatures``.

    Half of each layer reads the features alone. A mean of such units over pairs can be a statistic of distances only,
    independent of where the elements are. Training hardly finds such a statistic if all units read the elements too
    (docs/results/sets/defaults.md).

    Args:
        k: the number of elements of a row.
        in_features: the width of an element.
        hidden_features: one width or several. A width counts both halves; the first half has the odd unit.
        features: a module that maps rows (T, k, in_features) to (T, c), c = features.out_features >= 1.
        out_features: the width of a linear layer at the end. Without it f returns its last hidden activations.
        activation: as in ``TupleMLP``.

    Shapes: (T, k, in_features) -> (T, out_features), or (T, last hidden width).
    Raises:
        TypeError: for widths that are not integers, features that are not such a module, or rows that are not a tensor.
        ValueError: for an unknown activation, widths below 2, features without columns, or rows of another shape or
            dtype.
        RuntimeError: when a state of another k or activation is loaded.

    Example:
        >>> f = FeaturedMLP(2, 3, (16, 8), features=TupleFeatures(2, 3, distances=[[0, 1]]), activation="relu")
        >>> f(torch.zeros(5, 2, 3)).shape
        torch.Size([5, 8])
    """

    def __init__(
        self,
        k: int,
        in_features: int,
        hidden_features: int | Sequence[int],
        *,
        features: nn.Module,
        out_features: int | None = None,
        activation: str = "tanh",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            raise ValueError(f"FeaturedMLP expects an activation among {', '.join(ACTIVATIONS)}; got {activation!r}.")
        outputs: dict[str, Any] = {} if out_features is None else {"out_features": out_features}
        check_widths(
            self, several="hidden_features", k=k, in_features=in_features, hidden_features=hidden_features, **outputs
        )
        hidden = tuple(hidden_features) if isinstance(hidden_features, Sequence) else (hidden_features,)
        num_features = getattr(features, "out_features", None)
        if not isinstance(features, nn.Module) or not isinstance(num_features, int):
            raise TypeError(
                f"FeaturedMLP expects features to be a module that says its out_features; got {features!r}. "
                "TupleFeatures is one."
            )
        if num_features < 1 or min(hidden) < 2:
            raise ValueError(
                "FeaturedMLP expects features of one column at least, and hidden_features >= 2, half of them for each; "
                f"got {num_features} columns and hidden_features={hidden_features}. TupleMLP needs no features."
            )
        self.k = k
        self.in_features = in_features
        self.activation = activation
        self.features = features
        self.of_all = _layers(k * in_features + num_features, [width - width // 2 for width in hidden])
        self.of_features = _layers(num_features, [width // 2 for width in hidden])
        self.output = None if out_features is None else nn.Linear(hidden[-1], out_features)
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the weights anew."""
        draw_anew(self)

    def forward(self, x: Tensor) -> Tensor:
        check_rows(self, x)
        check_dtype(self, x)
        features = self.features(x)
        of_all, of_features = torch.cat((x.flatten(1), features), dim=1), features
        activation = ACTIVATIONS[self.activation]
        for one, other in zip(self.of_all, self.of_features, strict=True):
            of_all, of_features = activation(one(of_all)), activation(other(of_features))
        hidden = torch.cat((of_all, of_features), dim=1)
        return hidden if self.output is None else self.output(hidden)

    def meaning(self) -> dict[str, int | str]:
        return {"k": self.k, "activation": self.activation}

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            "k": self.k,
            "in_features": self.in_features,
            "hidden_features": [
                sum(getattr(layer, "out_features", 1) for layer in layers)  # 1 for a layer that the user put in
                for layers in zip(self.of_all, self.of_features, strict=True)
            ],
            "features": self.features,
            "out_features": None if self.output is None else self.output.out_features,
            "activation": self.activation,
        }


def _layers(in_features: int, widths: Sequence[int]) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([in_features, *widths]))
