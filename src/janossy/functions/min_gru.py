"""MinGRU: a gated recurrence whose gates do not read the state, evaluated by a parallel scan."""

from itertools import pairwise
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.nn.functional import dropout, pad

from janossy.functions.checks import check_dropout, check_mask, check_sequences, check_widths
from janossy.functions.shown import arguments_shown
from janossy.functions.weights import draw_anew


class MinGRU(nn.Module):
    """f(x_1 … x_L) = h_L, h_t = (1 − z_t) ⊙ h_{t−1} + z_t ⊙ h̃_t, h_0 = 0: the last state of a minGRU.

    The gates are z_t = σ(W_z x_t + b_z), and the candidates h̃_t = W_h x_t + b_h. They are those of a GRU without the
    state (Feng et al., 2024, "Were RNNs All We Needed?", arXiv 2410.01201). So each state is affine in the one before,
    and steps compose associatively: (a, b) then (a', b') is (a'a, a'b + b'). Neighbours are composed in pairs, pairs in
    pairs, and so on. Nothing is divided and no logarithm is taken, so gates may saturate and candidates may have any
    sign. The paper's g, which makes candidates positive for a scan in logarithms, is not needed.

    Gates and candidates of the first layer read one element each. Those of a second layer depend on the elements
    before it too. ``dropout`` is applied between layers, in training.

    ``f(x, mask)`` takes padded rows. Each row's value is that of its real elements, whatever the padding holds, as a
    state passes padding unchanged.

    Shapes: (T, L, in_features) -> (T, hidden_features); mask (T, L), bool, True = real. L = 0, and a row without real
        elements, gives zero.
    Cost: 4·(inputs of a layer)·hidden_features flops per position and layer. A layer takes ⌈log₂ L⌉ steps and, below
        the top layer, as many back. Backward keeps about 6·hidden_features numbers per position for the top layer,
        and 8·hidden_features for each layer below.
    Raises:
        TypeError: for numbers of another type.
        ValueError: for a width or num_layers below 1, a dropout outside [0, 1], or rows or a mask of another shape.

    Example:
        >>> MinGRU(3, 8, num_layers=2)(torch.zeros(5, 1000, 3)).shape
        torch.Size([5, 8])
    """

    takes_mask: ClassVar[bool] = True

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_widths(self, in_features=in_features, hidden_features=hidden_features, num_layers=num_layers)
        check_dropout(self, dropout)
        self.in_features = in_features
        self.hidden_features = hidden_features
        self.num_layers = num_layers
        self.dropout = dropout
        widths = [in_features] + [hidden_features] * num_layers
        # Two matrices: with one, backward would keep the gates' half of its outputs alive for the candidates' half.
        self.gates = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.candidates = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the weights anew."""
        draw_anew(self)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        check_sequences(self, x)
        if mask is not None:
            check_mask(self, x, mask)
            # Padding is zeroed before anything is computed, as a NaN would return as 0 · NaN in backward.
            x = x.masked_fill(~mask[..., None], 0)
        if x.shape[1] == 0:
            return x.new_zeros(len(x), self.hidden_features)
        # A scan in place of a tree, whose shape depends on L. Without a mask, rows are exported for one L alone.
        states = _scanned_states if mask is not None and torch.compiler.is_exporting() else _states
        for layer in range(self.num_layers - 1):
            x = dropout(states(*self._steps(layer, x, mask)), self.dropout, self.training)
        steps = self._steps(self.num_layers - 1, x, mask)
        return _last_state(*steps) if states is _states else states(*steps)[:, -1]

    def _steps(self, layer: int, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns a and b of h_t = a_t ⊙ h_{t−1} + b_t, each (T, L, H)."""
        z = torch.sigmoid(self.gates[layer](x))
        if mask is not None:
            z = z.masked_fill(~mask[..., None], 0)
        return 1 - z, z * self.candidates[layer](x)

    def extra_repr(self) -> str:
        return arguments_shown(self)


def _last_state(a: Tensor, b: Tensor) -> Tensor:
    """Returns h_L (T, H) of h_t = a_t ⊙ h_{t−1} + b_t, h_0 = 0."""
    left_over = []
    while b.shape[1] > 1:
        if b.shape[1] % 2:
            (a, last_a), (b, last_b) = _split_last(a), _split_last(b)
            left_over.append((last_a, last_b))
        a, b = _compose(*_pairs(a), *_pairs(b))
    for last_a, last_b in reversed(left_over):
        b = torch.addcmul(last_b, last_a, b)
    return b[:, 0]


def _states(a: Tensor, b: Tensor) -> Tensor:
    """Returns every h_t = a_t ⊙ h_{t−1} + b_t (T, L, H), h_0 = 0.

    Even states come from steps composed in pairs, and odd ones from the even ones.
    """
    if b.shape[1] == 1:
        return b
    if b.shape[1] % 2:
        (a, last_a), (b, last_b) = _split_last(a), _split_last(b)
        states = _states(a, b)
        before = states[:, -1:].clone()  # backward keeps it, and a view would keep all states
        return torch.cat((states, torch.addcmul(last_b, last_a, before)), dim=1)
    (first_a, second_a), (first_b, second_b) = _pairs(a), _pairs(b)
    second = _states(*_compose(first_a, second_a, first_b, second_b))
    first = torch.addcmul(first_b, first_a, pad(second[:, :-1], (0, 0, 1, 0)))
    return torch.stack((first, second), dim=2).flatten(1, 2)


def _scanned_states(a: Tensor, b: Tensor) -> Tensor:
    """Returns the states of ``_states``, one after the other; an export then serves any number of steps."""

    def step(state: Tensor, steps: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        after = torch.addcmul(steps[1], steps[0], state)
        return after, after.clone()

    start = b.new_zeros(b.shape[0], b.shape[2])
    return cast(Tensor, scan(step, start, (a.transpose(0, 1), b.transpose(0, 1)))[1].transpose(0, 1))


def _compose(first_a: Tensor, second_a: Tensor, first_b: Tensor, second_b: Tensor) -> tuple[Tensor, Tensor]:
    """Returns a and b of the step that does two steps at once."""
    return second_a * first_a, torch.addcmul(second_b, second_a, first_b)


# Split and unbind take steps apart, as the backward of a slice would fill a whole tensor with zeros.


def _pairs(x: Tensor) -> tuple[Tensor, ...]:
    """Returns the steps at even positions and those at odd positions; their number is even."""
    return cast("tuple[Tensor, ...]", x.unflatten(1, (x.shape[1] // 2, 2)).unbind(2))


def _split_last(x: Tensor) -> tuple[Tensor, ...]:
    return cast("tuple[Tensor, ...]", x.split((x.shape[1] - 1, 1), dim=1))
