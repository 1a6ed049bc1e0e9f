"""Readout: ρ of the pooled vector and of what is known of its set as a whole."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.functions.checks import check_dropout, check_widths
from janossy.functions.structure import ACTIVATIONS


class Readout(nn.Module):
    """ρ(z, c) = MLP([n(z), e(c)]): a perceptron on the pooled vector z and its set's context c.

    Args:
        in_features: the width of n(z).
        hidden_features: one width, several, or none, (), for a linear ρ.
        first: n, what is done to the pooled vector first, such as ``PooledNorm``; None for nothing.
        embed: e, of the context (B, columns), a module that says its out_features, such as ``ColumnEmbedding``; None if
            there is no context. A context of no columns is then one too.
        activation: as of ``TupleMLP``.
        dropout: after each hidden layer, in training.

    Shapes: (B, ·), context (B, columns) -> (B, out_features).
    Raises: TypeError or ValueError for arguments of another type or range; ValueError for a context that is missing, or
        that it does not take.

    Example:
        >>> rho = Readout(8, 16, 1, first=PooledNorm(8), embed=ColumnEmbedding([3], num_numbers=2))
        >>> rho(torch.randn(5, 8), torch.tensor([[1.0, 0.5, -0.5]] * 5)).shape
        torch.Size([5, 1])
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int | Sequence[int],
        out_features: int,
        *,
        first: nn.Module | None = None,
        embed: nn.Module | None = None,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_widths(self, in_features=in_features, out_features=out_features)
        hidden = tuple(hidden_features) if isinstance(hidden_features, Sequence) else (hidden_features,)
        if hidden:
            check_widths(self, several="hidden_features", hidden_features=hidden)
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            raise ValueError(f"Readout expects an activation among {', '.join(ACTIVATIONS)}; got {activation!r}.")
        check_dropout(self, dropout)
        if first is not None and not isinstance(first, nn.Module):
            raise TypeError(f"Readout expects first to be a module or None; got {first!r}.")
        of_context = 0 if embed is None else getattr(embed, "out_features", None)
        if not isinstance(of_context, int):
            raise TypeError(f"Readout expects embed to be a module that says its out_features, or None; got {embed!r}.")
        self.in_features = in_features
        self.activation = activation
        self.first = first
        self.embed = embed
        widths = [in_features + of_context, *hidden, out_features]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dropout = dropout

    def forward(self, pooled: Tensor, context: Tensor | None = None) -> Tensor:
        self._check(context)
        z = pooled if self.first is None else self.first(pooled)
        if self.embed is not None:
            z = torch.cat((z, self.embed(context)), dim=1)
        *hidden, last = self.layers
        for layer in hidden:
            z = nn.functional.dropout(ACTIVATIONS[self.activation](layer(z)), self.dropout, self.training)
        return cast(Tensor, last(z))

    def _check(self, context: Tensor | None) -> None:
        if self.embed is not None and context is None:
            raise ValueError(
                "this Readout expects a context (B, columns); got none. Give context=, a row for each set."
            )
        if self.embed is None and context is not None and context.shape[1:] != (0,):
            raise ValueError(
                f"this Readout expects no context, or one of no columns; got {tuple(context.shape)}. Build it with "
                "embed=ColumnEmbedding(…)."
            )

    def config(self) -> dict[str, Any]:
        """Returns the arguments that build it again."""
        return {
            "in_features": self.in_features,
            "hidden_features": [layer.out_features for layer in self.layers[:-1]],
            "out_features": self.layers[-1].out_features,
            "first": self.first,
            "embed": self.embed,
            "activation": self.activation,
            "dropout": self.dropout,
        }

    def extra_repr(self) -> str:
        return f"activation={self.activation}, dropout={self.dropout}"
