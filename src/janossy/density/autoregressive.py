"""q(x_1 … x_n) = Π_t q(x_t | x_1 … x_{t−1}): a density of sequences, by a causal reader and a head."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from janossy.checks import check_integer
from janossy.density.contract import Head, SequenceDensity
from janossy.functions.shown import arguments_shown
from janossy.functions.weights import draw_anew
from janossy.nn.modes import untouched

REMEDY = (
    "A recurrence is one with per_position=True and one direction, such as GRU({features}, 64, per_position=True); a "
    "Transformer, with a causal mask."
)


class Autoregressive(SequenceDensity):
    """log q(x_1 … x_L) = Σ_t log q(x_t | x_1 … x_{t−1}): a head's density of each element, given a reader's state.

    Args:
        reader: maps rows (T, L, head.num_features) to a state behind every position, (T, L, H). The t-th state must
            depend on x_1 … x_t only, as with ``GRU(…, per_position=True)``, another recurrence, or a Transformer with a
            causal mask.
        head: the distribution of an element, by ``num_parameters`` numbers that are affine in the state.
        k: q(x_t | …) depends on the k − 1 elements before x_t only; None for all. k = 1 is ``IidMixture``.
        device, dtype: of all weights, those of the parts too; as they are if not given.

    Shapes: rows (T, L, *event_shape) -> (T, 1).
    Raises:
        TypeError: for a reader or head of another type.
        ValueError: for k < 2, or a reader that does not give a state for every position.
        ValueError: for a reader that reads ahead, which is tested on a few random rows.

    Example:
        >>> from janossy import GRU
        >>> q = Autoregressive(GRU(2, 16, per_position=True), Normals(2))
        >>> q(torch.zeros(5, 7, 2)).shape
        torch.Size([5, 1])
    """

    symmetric = False

    def __init__(
        self,
        reader: nn.Module,
        head: Head,
        *,
        k: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(head, Head):
            raise TypeError(f"Autoregressive expects a head, such as Normals(2); got {head!r}.")
        if not isinstance(reader, nn.Module):
            raise TypeError(f"Autoregressive expects a module as reader; got {reader!r}.")
        if k is not None:
            check_integer("Autoregressive", "k", k, 1, "elements")
            if k == 1:
                raise ValueError(
                    "Autoregressive expects k >= 2, as k = 1 reads nothing; got k=1. Write IidMixture(head), which is "
                    "that, or a mixture of such."
                )
        self.reader = reader
        self.head = head
        self.k = k
        self.start = nn.Parameter(head.initial())
        self.readout = nn.Linear(_state_width(reader, head), head.num_parameters)
        with torch.no_grad():
            self.readout.bias.copy_(head.initial())
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the weights anew, and those of its parts."""
        draw_anew(self)
        with torch.no_grad():
            self.start.copy_(self.head.initial())
            self.readout.bias.copy_(self.head.initial())

    def forward(self, rows: Tensor) -> Tensor:
        return self.log_conditionals(rows).sum(1, keepdim=True)

    def log_conditionals(self, rows: Tensor) -> Tensor:
        """Returns log q(x_t | x_1 … x_{t−1}) at every position of rows (T, L, *event_shape), (T, L)."""
        if rows.shape[1] == 0:  # torch's mixtures do not take empty rows
            return self.start.new_zeros(rows.shape[:2])
        return self.head.distribution(self._parameters_behind(rows[:, :-1])).log_prob(rows)

    def next(self, prefix: Tensor) -> Distribution:
        """Returns the distribution of the element after prefixes (T, t, *event_shape), of batch shape (T,)."""
        if self.k is not None:
            prefix = prefix[:, max(0, prefix.shape[1] - self.k + 1) :]
        return self.head.distribution(self._parameters_behind(prefix)[:, -1])

    def encode(self, x: Tensor) -> Tensor:
        """Returns the reader's inputs (…, num_features) for elements (…, *event_shape)."""
        return self.head.encode(x).to(self.start.dtype)

    def _parameters_behind(self, rows: Tensor) -> Tensor:
        """Returns the head's parameters behind the empty prefix and each position of (T, L, …), (T, L + 1, P)."""
        start = self.start.expand(len(rows), 1, -1)
        if rows.shape[1] == 0:
            return start
        return torch.cat((start, self.readout(self._states(self.encode(rows)))), 1)

    def _states(self, x: Tensor) -> Tensor:
        reach = x.shape[1] if self.k is None else self.k - 1
        first = self.reader(x[:, :reach])
        if x.shape[1] <= reach:
            return cast(Tensor, first)
        windows = x[:, 1:].unfold(1, reach, 1).transpose(2, 3)  # (T, L − reach, reach, d)
        later = self.reader(windows.flatten(0, 1))[:, -1].unflatten(0, windows.shape[:2])
        return torch.cat((first, later), 1)

    def extra_repr(self) -> str:
        return arguments_shown(self)


def _state_width(reader: nn.Module, head: Head) -> int:
    """Returns the width of the reader's states.

    Raises: ValueError unless the reader gives one state per position and does not read ahead.
    """
    expected = f"Autoregressive expects a reader that maps rows (T, L, {head.num_features}) to causal states (T, L, H)"
    remedy = REMEDY.format(features=head.num_features)
    weight = next(reader.parameters(), torch.zeros(()))
    rows = torch.rand(3, 4, head.num_features, generator=torch.Generator().manual_seed(0)).to(weight) - 0.5
    other = rows.clone()
    other[:, -1] = -rows[:, -1]
    with untouched(reader):
        try:
            states, of_other = reader(rows), reader(other)
        except (RuntimeError, ValueError, TypeError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise ValueError(f"{expected}; {type(reader).__name__} says: {reason}. {remedy}") from error
    if not isinstance(states, Tensor) or states.dim() != 3 or states.shape[:2] != rows.shape[:2]:
        got = tuple(states.shape) if isinstance(states, Tensor) else type(states).__name__
        raise ValueError(f"{expected}; got {got} of rows {tuple(rows.shape)}. {remedy}")
    if not torch.allclose(states[:, :-1], of_other[:, :-1], rtol=1e-3, atol=1e-5):
        raise ValueError(
            f"{expected}; this {type(reader).__name__} reads ahead: states of other positions change with the last "
            f"element. {remedy}"
        )
    return states.shape[2]
