"""SetEncoder: a sequence of layers from sets to sets; and blocks of attention for it."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from janossy.functions.weights import draw_anew
from janossy.nn.encoder.cost import outline
from janossy.nn.encoder.induced_attention import InducedAttention
from janossy.nn.encoder.layer import SetLayer, apply, apply_padded, called, keeps_sizes, reads_inputs, seconds
from janossy.nn.encoder.residual import Residual
from janossy.nn.encoder.self_attention import SelfAttention
from janossy.nn.modes import untouched
from janossy.sets import Ragged


class SetEncoder(SetLayer):
    """A sequence of layers from sets to sets: ``JanossyNetwork(h, pooling, rho, encoder=SetEncoder([…]))``.

    A ``SetLayer`` reads whole sets. Any other module, such as ``torch.nn.Linear`` or ``torch.nn.LayerNorm``, is applied
    to each element.

    Args:
        layers: modules. If one draws orders, such as a ``JanossyEquivariant`` over ``Sampled``, ``predict`` counts its
            draws in the error bars, by whole calls of the network.

    Shapes: sets.values (N, d) -> Ragged of values (N, c), the same sets; or other sizes behind a ``SeedAttention``.
    Invariance: that of the layers.
    Raises: TypeError for layers that are not modules; ValueError for no layers.

    Example:
        >>> encoder = SetEncoder([nn.Linear(3, 8), *attention_blocks(8, num_blocks=2)])
        >>> encoder(Ragged.from_sets([torch.randn(3, 3), torch.randn(0, 3)])).values.shape
        torch.Size([3, 8])
    """

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        given = list(layers) if isinstance(layers, Iterable) else [layers]
        if not isinstance(layers, Iterable) or not all(isinstance(layer, nn.Module) for layer in given):
            raise TypeError(f"SetEncoder expects a list of modules; got {called(layers)}. Write SetEncoder([…]).")
        if not given:
            raise ValueError("SetEncoder expects at least one layer; got none. Leave the encoder out.")
        self.layers = nn.ModuleList(given)
        changed = False
        for layer in given:
            if changed and reads_inputs(layer):
                raise ValueError(
                    f"SetEncoder expects layers that read the encoder's own elements, such as for a bias, before those "
                    f"that make other sets; got {type(layer).__name__} behind one. Put it before the seeds, or leave "
                    "out bias= or input_features=."
                )
            changed = changed or not keeps_sizes(layer)
        self.in_features = getattr(given[0], "in_features", None) if isinstance(given[0], SetLayer) else None
        self.keeps_sizes = all(map(keeps_sizes, given))

    def reset_parameters(self) -> None:
        """Draws the weights of its parts anew."""
        draw_anew(self)

    def forward(self, sets: Ragged) -> Ragged:
        self.check(sets)
        inputs = sets
        for layer in self.layers:
            sets = apply(layer, sets, inputs)
        return sets

    def padded(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        self.check_values(x)
        inputs = x
        for layer in self.layers:
            x, mask = apply_padded(layer, x, mask, inputs)
        return x, mask

    def seconds(self, sets: Ragged) -> float:
        total, inputs = 0.0, sets[:0]
        with untouched(self):
            for layer in self.layers:
                total += seconds(layer, sets)
                sizes = layer.sizes_in(sets) if isinstance(layer, SetLayer) else sets.sizes
                sets = outline(apply(layer, sets[:0], inputs), sizes)
        return total

    def sizes_of(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        for layer in self.layers:
            sizes = layer.sizes_of(sizes) if isinstance(layer, SetLayer) else sizes
        return sizes

    def sizes_in(self, sets: Ragged) -> tuple[int, ...]:
        sizes = sets.sizes
        for i, layer in enumerate(self.layers):
            if isinstance(layer, SetLayer):
                sizes = layer.sizes_of(sizes) if i else layer.sizes_in(sets)
        return sizes

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {"layers": list(self.layers)}


def attention_blocks(
    in_features: int,
    *,
    num_blocks: int = 1,
    num_heads: int = 4,
    num_points: int | None = None,
    hidden_features: int | None = None,
    norm: type[nn.Module] | None = nn.LayerNorm,
    dropout: float = 0.0,
    bias: Callable[[], nn.Module] | None = None,
) -> list[nn.Module]:
    """Returns the layers of residual blocks of attention, with the norm before each layer, for a ``SetEncoder``.

    Each block is attention and then a feed-forward layer. With ``norm=SetNorm`` they are a Set Transformer++ (Zhang et
    al., 2022).

    Args:
        in_features: the width of the elements, and of the results.
        num_blocks: the number of blocks.
        num_heads: the number of heads of each attention.
        num_points: the number of points of induced attention; None for self-attention.
        hidden_features: the width within the feed-forward layers; None for 2·in_features.
        norm: a class of norms, called with in_features; None for none.
        dropout: the dropout of the numbers that each layer adds, in training.
        bias: a function that makes the bias of each block's ``SelfAttention``; None for none.

    Shapes: layers from sets.values (N, in_features) to (N, in_features).
    Raises: TypeError or ValueError as the layers; ValueError for a bias of induced attention.

    Example:
        >>> SetEncoder(attention_blocks(8, num_points=4, norm=SetNorm))(Ragged.from_sets([torch.randn(3, 8)])).sizes
        (3,)
    """
    hidden = 2 * in_features if hidden_features is None else hidden_features
    encoder: list[nn.Module] = []
    if num_points is not None and bias is not None:
        raise ValueError(
            f"attention_blocks expects a bias for self-attention, as induced points are not elements; got "
            f"num_points={num_points} and a bias. Leave one of them out."
        )
    for _ in range(num_blocks):
        made = None if bias is None else bias()
        attention: nn.Module = SelfAttention(in_features, num_heads=num_heads, bias=made)
        if num_points is not None:
            points = Residual(_feed_forward(in_features, hidden), norm=_normed(norm, in_features))
            attention = InducedAttention(in_features, num_points=num_points, num_heads=num_heads, inner=points)
        for layer in (attention, _feed_forward(in_features, hidden)):
            encoder.append(Residual(layer, norm=_normed(norm, in_features), dropout=dropout))
    return encoder


def _feed_forward(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))


def _normed(norm: type[nn.Module] | None, width: int) -> nn.Module | None:
    return None if norm is None else norm(width)
