"""InnerSets: sets of sets as sets of the vectors of their inner sets."""

from typing import Any

from torch import Tensor, nn

from janossy.functions.weights import draw_anew
from janossy.nn.encoder.layer import SetLayer
from janossy.nn.network import JanossyNetwork
from janossy.sets import Ragged
from janossy.sets.inner import inner_groups


class InnerSets(SetLayer):
    """A layer from sets of sets to sets: each inner set becomes one element, its vector by another network.

    The last column of the elements is the number of the inner set. Elements of one set with one number are an inner
    set. A number has no other meaning.

    Args:
        inner: maps a ``Ragged`` of M inner sets, whose elements have the other columns, to vectors (M, c). It may be a
            ``JanossyNetwork`` or a ``JanossyPooling``.

    Shapes: sets.values (N, d + 1) -> Ragged of values (M, c), of sets of their inner sets.
    Invariance: that of ``inner`` for the order of the elements; exact for the order and the numbers of the inner sets.
    Raises: TypeError if inner is not a module.

    Example:
        >>> prices = torch.tensor([[3.0, 0.0], [4.0, 1.0], [1.0, 0.0]])  # two inner sets, {3, 1} and {4}
        >>> layer = InnerSets(JanossyPooling(TupleMLP(1, 1, 8), Tuples(1)))
        >>> layer(Ragged.from_sets([prices])).shape
        (1, None, 8)
    """

    keeps_sizes = False

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        if not isinstance(inner, nn.Module):
            raise TypeError(f"InnerSets expects inner to be a module; got {type(inner).__name__}.")
        self.inner = inner

    def reset_parameters(self) -> None:
        """Draws the weights of ``inner`` anew."""
        draw_anew(self)

    def forward(self, sets: Ragged) -> Ragged:
        inner, num_inner = self.split(sets)
        return Ragged.from_sizes(self.inner(inner), num_inner.tolist())

    def split(self, sets: Ragged) -> tuple[Ragged, Tensor]:
        """Returns the M inner sets of all sets, without the last column, and how many each set has, (B,)."""
        self.check(sets)
        numbers = sets.values[:, -1].detach().long()
        order, sizes, num_inner = inner_groups(sets.to_index()[1], numbers, len(sets))
        return Ragged.from_sizes(sets.values[order, :-1], sizes.tolist()), num_inner

    def sizes_in(self, sets: Ragged) -> tuple[int, ...]:
        return tuple(self.split(sets)[1].tolist())

    def seconds(self, sets: Ragged) -> float:
        inner = self.split(sets)[0]
        return self.inner.seconds(inner) if isinstance(self.inner, JanossyNetwork) else super().seconds(inner)

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {"inner": self.inner}
