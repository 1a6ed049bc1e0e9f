"""TupleMLP: a multilayer perceptron on k elements."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.functions.checks import check_dropout, check_dtype, check_elements, check_rows, check_widths
from janossy.functions.meaning import StatesItsMeaning
from janossy.functions.structure import ACTIVATIONS, Additive, hooked, overridden, project
from janossy.functions.tuple_function import TupleFunction


class TupleMLP(TupleFunction, StatesItsMeaning):
    """f(x_1 … x_k) = MLP([x_1, …, x_k]): a multilayer perceptron on k elements side by side (Section 2.2).

    Args:
        k: the number of elements of a row. Without it, f takes k from the orderings that it is pooled over, and has no
            weights before.
        in_features: the width of an element.
        hidden_features: one width or several.
        out_features: the width of a linear layer at the end. Without it f returns its last hidden activations, as in
            the paper.
        activation: one of tanh, sigmoid, relu, gelu (exact), silu, softplus, sine, cosine, erf.
        dropout: the probability with which each hidden activation is dropped in training. Evaluators that average
            activations, such as ``"spectral"``, then apply in evaluation only.
        norm: "layer" for an ``nn.LayerNorm`` of each hidden layer's activations, or None.
        device, dtype: the device and dtype of the weights, as in ``nn.Linear``.

    Shapes: (T, k, in_features) -> (T, out_features), or (T, last hidden width).
    Raises:
        TypeError: for widths or a dropout of another type, or rows that are not a tensor.
        ValueError: for an unknown activation or norm, widths below 1, or rows of another shape or dtype.
        RuntimeError: when a state of another k or activation is loaded.

    Example:
        >>> TupleMLP(2, in_features=3, hidden_features=(16, 8))(torch.zeros(5, 2, 3)).shape
        torch.Size([5, 8])
    """

    def __init__(
        self,
        k: int | None = None,
        in_features: int | None = None,
        hidden_features: int | Sequence[int] | None = None,
        *,
        out_features: int | None = None,
        activation: str = "tanh",
        dropout: float = 0.0,
        norm: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            raise ValueError(f"TupleMLP expects an activation among {', '.join(ACTIVATIONS)}; got {activation!r}.")
        given: dict[str, Any] = {
            "k": k,
            "in_features": in_features,
            "hidden_features": hidden_features,
            "out_features": out_features,
        }
        optional = [name for name in ("k", "out_features") if given[name] is None]
        widths = {name: width for name, width in given.items() if name not in optional}
        check_widths(self, several="hidden_features", **widths)
        check_dropout(self, dropout)
        if norm not in (None, "layer"):
            raise ValueError(f"TupleMLP expects norm as 'layer' or None; got {norm!r}.")
        self.k = cast(int, None)
        self.in_features = cast(int, in_features)
        self.activation = activation
        self.dropout = dropout
        self.norm = norm
        self._to_build: Any = hidden_features, out_features, {"device": device, "dtype": dtype}
        if k is not None:
            self.take_k(k)

    def build(self, k: int) -> None:
        hidden_features, out_features, of_weights = self._to_build
        hidden = tuple(hidden_features) if isinstance(hidden_features, Sequence) else (hidden_features,)
        widths = [k * self.in_features, *hidden]
        self.hidden = nn.ModuleList(nn.Linear(a, b, **of_weights) for a, b in pairwise(widths))
        self.output = None if out_features is None else nn.Linear(hidden[-1], out_features, **of_weights)
        if self.norm is not None:
            self.norms = nn.ModuleList(nn.LayerNorm(width, **of_weights) for width in hidden)

    def reset_parameters(self) -> None:
        """Draws the weights anew, as torch draws those of its layers."""
        for layer in self.modules():
            if isinstance(layer, nn.Linear | nn.LayerNorm):
                layer.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        check_rows(self, x)
        check_dtype(self, x)
        return self._rest(ACTIVATIONS[self.activation](self.hidden[0](x.flatten(1))))

    def structure(self) -> Additive | None:
        """Returns the first layer as a sum over positions; None if evaluators would then skip code of the user.

        Such code is a forward of a subclass, a hook, or a first layer that is more than ``nn.Linear``.
        """
        if self.k is None:
            return None
        first, output = self.hidden[0], self.output
        if not isinstance(first, nn.Linear) or overridden(first, nn.Linear.forward):
            return None
        if overridden(self, TupleMLP.forward) or hooked(self):
            return None
        bias = first.weight.new_zeros(len(first.weight)) if first.bias is None else first.bias
        affine = len(self.hidden) == 1 and (output is None or not overridden(output, nn.Linear.forward))
        affine = affine and self.norm is None and not (self.training and self.dropout)
        project = partial(self._project, first)
        return Additive(self.k, self.activation, project, bias, first.weight, self._rest, affine)

    def meaning(self) -> dict[str, int | str]:
        return {"k": self.k, "activation": self.activation}

    def _project(self, first: nn.Linear, elements: Tensor) -> Tensor:
        """Returns the projections of each element, (N, d) -> (N, k, H)."""
        check_elements(self, elements)
        check_dtype(self, elements, first.weight)
        return project(self.k, elements, first.weight, first.bias)[0]

    def _rest(self, x: Tensor) -> Tensor:
        """Applies the layers behind the first activation."""
        x = self._after(0, x)
        for i, layer in enumerate(list(self.hidden)[1:], 1):
            x = self._after(i, ACTIVATIONS[self.activation](layer(x)))
        return x if self.output is None else self.output(x)

    def _after(self, i: int, x: Tensor) -> Tensor:
        """Applies the norm and the dropout of hidden layer i to its activations."""
        x = x if self.norm is None else self.norms[i](x)
        return nn.functional.dropout(x, self.dropout, self.training) if self.dropout else x

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            "k": self.k,
            "in_features": self.in_features,
            "hidden_features": [getattr(layer, "out_features", 1) for layer in self.hidden],  # 1 for a user's layer
            "out_features": None if self.output is None else self.output.out_features,
            "activation": self.activation,
            "dropout": self.dropout,
            "norm": self.norm,
        }
