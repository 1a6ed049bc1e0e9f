"""Readouts: ρ of the pooled vector and of the set's context, and the norms and means that it begins with."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.functions.checks import check_dropout, check_widths
from janossy.functions.shown import arguments_shown
from janossy.functions.structure import ACTIVATIONS
from janossy.functions.weights import draw_anew


class Readout(nn.Module):
    """ρ(z, c) = MLP([n(z), e(c)]): a perceptron on the pooled vector z and its set's context c.

    Args:
        in_features: the width of n(z).
        hidden_features: one width, several, or none, (), for a linear ρ.
        out_features: the width of the outputs.
        first: n, the module applied to the pooled vector first, such as ``PooledNorm``; None for none.
        embed: e, a module on the context (B, columns) with an attribute out_features, such as ``ColumnEmbedding``. None
            if there is no context; a context of no columns is then accepted.
        activation: as in ``TupleMLP``.
        dropout: the dropout after each hidden layer, in training.

    Shapes: (B, ·), context (B, columns) -> (B, out_features).
    Raises: TypeError or ValueError for arguments of another type or range. ValueError for a context that is missing or
        not expected.

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
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
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
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the weights anew."""
        draw_anew(self)

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
        """Returns the arguments of the constructor."""
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
        return arguments_shown(self)


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
        return arguments_shown(self)


class PooledNorm(nn.BatchNorm1d):
    """Batch normalisation of pooled vectors (Ioffe and Szegedy, 2015), which unlike torch's allows a batch of one set.

    A single set has no variance. In training it is normalised by the running statistics, as every set is in evaluation.

    ``total``, if set, is a function that adds a tensor up over processes, with a gradient. The mean and the variance
    are then those of the sets of all processes. torch's SyncBatchNorm does this too, but not on CPUs.

    Shapes: (B, num_features) -> (B, num_features).
    Invariance: in evaluation a set's result depends on that set alone; in training, on its batch-mates.

    Example:
        >>> PooledNorm(3)(torch.randn(1, 3)).shape
        torch.Size([1, 3])
    """

    total: Callable[[Tensor], Tensor] | None = None

    def forward(self, input: Tensor) -> Tensor:
        if self.training and self.total is not None:
            return self._of_all(input, self.total)
        if len(input) > 1 or not self.training:
            return super().forward(input)
        return nn.functional.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps
        )

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            "num_features": self.num_features,
            "eps": self.eps,
            "momentum": self.momentum,
            "affine": self.affine,
            "track_running_stats": self.track_running_stats,
        }

    def _of_all(self, input: Tensor, total: Callable[[Tensor], Tensor]) -> Tensor:
        """Normalises by the mean and variance over the batches of all processes; some may have no set."""
        sums = total(torch.cat((input.sum(0), input.new_full((1,), len(input)))))
        num, mean = sums[-1].item(), sums[:-1] / sums[-1]
        variance = total((input - mean).square().sum(0)) / num
        assert self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None
        if num > 1:
            self.num_batches_tracked.add_(1)
            part = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
            with torch.no_grad():
                self.running_mean.lerp_(mean, part)
                self.running_var.lerp_(variance * (num / (num - 1)), part)
        else:
            mean, variance = self.running_mean, self.running_var
        return (input - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias
