"""Residual: a layer beside a path that leaves its input unchanged."""

from torch import Tensor, nn

from janossy.functions.checks import check_dropout
from janossy.functions.shown import arguments_shown
from janossy.functions.weights import draw_anew
from janossy.nn.encoder.layer import SetLayer, apply, apply_padded, called, keeps_sizes, reads_inputs, seconds
from janossy.sets import Ragged


class Residual(SetLayer):
    """y = x + dropout(layer(norm(x))): the norm is before the layer, and the residual path has nothing on it.

    Deep encoders then train (Zhang et al., 2022, Sec. 4: "clean path" residuals).

    Args:
        layer: a module from sets to sets, or of each element, that keeps the width.
        norm: a norm such as ``SetNorm`` or ``torch.nn.LayerNorm``; None for none.
        dropout: the probability with which a number of the layer's result is dropped in training.

    Shapes: sets.values (N, d) -> Ragged of values (N, d), the same sets.
    Invariance: that of the layer and the norm.
    Raises:
        TypeError: for a layer or a norm that is not a module or changes the sets' sizes, or a dropout that is not a
            number.
        ValueError: for a layer that changes the width, or a dropout that is not a probability.

    Example:
        >>> block = Residual(SelfAttention(8), norm=SetNorm(8))
        >>> block(Ragged.from_sets([torch.randn(3, 8), torch.randn(0, 8)])).sizes
        (3, 0)
    """

    def __init__(self, layer: nn.Module, *, norm: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        for name, module in (("layer", layer), ("norm", nn.Identity() if norm is None else norm)):
            if not isinstance(module, nn.Module) or not keeps_sizes(module):
                raise TypeError(
                    f"Residual expects {name} to be a module that gives one result per element; got {called(module)}."
                )
        check_dropout(self, dropout)
        self.layer = layer
        self.norm = nn.Identity() if norm is None else norm
        self.dropout = dropout
        self.reads_inputs = reads_inputs(layer)

    def reset_parameters(self) -> None:
        """Draws the weights of its parts anew."""
        draw_anew(self)

    def forward(self, sets: Ragged, *, inputs: Ragged | None = None) -> Ragged:
        self.check(sets)
        inputs = sets if inputs is None else inputs
        return sets.with_values(self._added(sets.values, apply(self.layer, apply(self.norm, sets), inputs).values))

    def padded(self, x: Tensor, mask: Tensor, *, inputs: Tensor | None = None) -> tuple[Tensor, Tensor]:
        found, _ = apply_padded(self.layer, *apply_padded(self.norm, x, mask), x if inputs is None else inputs)
        return self._added(x, found), mask

    def seconds(self, sets: Ragged) -> float:
        return seconds(self.norm, sets) + seconds(self.layer, sets)

    def _added(self, x: Tensor, found: Tensor) -> Tensor:
        if found.shape != x.shape:
            raise ValueError(
                f"Residual expects a layer that keeps the width; got {type(self.layer).__name__} from "
                f"{tuple(x.shape)} to {tuple(found.shape)}. Give it as many outputs as inputs."
            )
        return x + nn.functional.dropout(found, self.dropout, self.training)

    def extra_repr(self) -> str:
        return arguments_shown(self)
