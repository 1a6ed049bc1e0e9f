"""RNN, GRU and LSTM as functions of a sequence: their last hidden state, or every position's."""

from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor, nn

from janossy.functions.structure import Direction, Recurrent, State, hooked, overridden

# Cells: from the projected input and the projected hidden state (T, gates·H), and the state, the next state.


def _rnn_cell(inputs: Tensor, hidden: Tensor, state: State) -> State:
    return (torch.tanh(inputs + hidden),)


def _gru_cell(inputs: Tensor, hidden: Tensor, state: State) -> State:
    input_reset, input_update, input_new = inputs.chunk(3, dim=1)
    hidden_reset, hidden_update, hidden_new = hidden.chunk(3, dim=1)
    reset = torch.sigmoid(input_reset + hidden_reset)
    update = torch.sigmoid(input_update + hidden_update)
    new = torch.tanh(input_new + reset * hidden_new)
    return (new + update * (state[0] - new),)


def _lstm_cell(inputs: Tensor, hidden: Tensor, state: State) -> State:
    input_gate, forget, cell, output = (inputs + hidden).chunk(4, dim=1)
    memory = torch.sigmoid(forget) * state[1] + torch.sigmoid(input_gate) * torch.tanh(cell)
    return torch.sigmoid(output) * torch.tanh(memory), memory


class _Recurrence(nn.Module):
    """The last hidden state of a recurrence's top layer, or all of them: what RNN, GRU and LSTM share.

    The parameters have the names, shapes and initialisation of torch's module of that name, whose state_dict loads
    here. They are held by this module itself because torch.compile refuses to look at torch's.
    """

    _module: Callable[..., nn.RNNBase]
    _kernel: Callable[..., tuple[Tensor, ...]]
    _cell: Callable[[Tensor, Tensor, State], State]
    _num_states = 1

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        num_layers: int = 1,
        *,
        dropout: float = 0.0,
        bidirectional: bool = False,
        per_position: bool = False,
        unrolled: bool = False,
    ) -> None:
        super().__init__()
        like = self._module(in_features, hidden_features, num_layers, dropout=dropout, bidirectional=bidirectional)
        for name, parameter in like.named_parameters():
            self.register_parameter(name, parameter)
        self.in_features = in_features
        self.hidden_features = hidden_features
        self.num_layers = num_layers
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.per_position = per_position
        self.unrolled = unrolled

    def reset_parameters(self) -> None:
        """Draw the weights anew, as torch does: uniform within ±1/√H."""
        bound = 1 / sqrt(self.hidden_features) if self.hidden_features > 0 else 0.0
        for weight in self.parameters():
            nn.init.uniform_(weight, -bound, bound)

    def recurrence(self) -> Recurrent | None:
        """The layers, for evaluators that run many rows at once; None where a hook or a forward would not run."""
        if hooked(self) or overridden(self, _Recurrence.forward):
            return None
        layers = tuple(
            tuple(self._direction(layer, suffix) for suffix in self._suffixes) for layer in range(self.num_layers)
        )
        dropout = self.dropout if self.training else 0.0
        kind = self._module.__name__.lower()
        return Recurrent(kind, self._cell, self._num_states, layers, dropout, self.per_position, self.unrolled)

    @property
    def _suffixes(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def _direction(self, layer: int, suffix: str) -> Direction:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weight_ih, weight_hh, bias_ih, bias_hh = (getattr(self, f"{name}_l{layer}{suffix}") for name in names)
        return Direction(weight_ih, weight_hh, bias_ih, bias_hh, reverse=suffix == "_reverse")

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 3 or x.shape[2] != self.in_features:
            raise ValueError(
                f"this {type(self).__name__} expects rows of shape (T, L, {self.in_features}); got {tuple(x.shape)}."
            )
        directions = len(self._suffixes)
        if x.shape[1] == 0:
            width = directions * self.hidden_features
            return x.new_zeros(len(x), 0, width) if self.per_position else x.new_zeros(len(x), width)
        if self.unrolled or torch.compiler.is_compiling():
            return self._unroll(x)
        zero = x.new_zeros(directions * self.num_layers, len(x), self.hidden_features)
        state = zero if self._num_states == 1 else (zero,) * self._num_states
        layers = (self._direction(layer, suffix) for layer in range(self.num_layers) for suffix in self._suffixes)
        weights = [w for each in layers for w in (each.weight_ih, each.weight_hh, each.bias_ih, each.bias_hh)]
        options = (True, self.num_layers, self.dropout, self.training, self.bidirectional, True)
        outputs, last, *_ = self._kernel(x, state, weights, *options)
        return outputs if self.per_position else last[-directions:].transpose(0, 1).flatten(1)

    def _unroll(self, x: Tensor) -> Tensor:
        """The same, cell by cell: torch.compile cannot trace the kernel, nor can cuDNN's be differentiated twice."""
        last: list[Tensor] = []
        for layer in range(self.num_layers):
            if layer > 0:
                x = nn.functional.dropout(x, self.dropout, self.training)
            directions = [self._run(x, self._direction(layer, suffix)) for suffix in self._suffixes]
            x = torch.cat([outputs for outputs, _ in directions], dim=2)
            last = [hidden for _, hidden in directions]
        return x if self.per_position else torch.cat(last, dim=1)

    def _run(self, x: Tensor, weights: Direction) -> tuple[Tensor, Tensor]:
        """One layer in one direction: its outputs (T, L, H), in the order of x, and its last hidden state (T, H)."""
        inputs = nn.functional.linear(x, weights.weight_ih, weights.bias_ih)
        state = (inputs.new_zeros(x.shape[0], self.hidden_features),) * self._num_states
        steps = range(x.shape[1])
        outputs = []
        for step in reversed(steps) if weights.reverse else steps:
            hidden = nn.functional.linear(state[0], weights.weight_hh, weights.bias_hh)
            state = self._cell(inputs[:, step], hidden, state)
            outputs.append(state[0])
        return torch.stack(outputs[::-1] if weights.reverse else outputs, dim=1), state[0]

    def extra_repr(self) -> str:
        layers = f"num_layers={self.num_layers}, bidirectional={self.bidirectional}"
        outputs = ", per_position=True" if self.per_position else ""
        return f"{self.in_features}, {self.hidden_features}, {layers}{outputs}"


class RNN(_Recurrence):
    """f(x_1 … x_L) = the last hidden state of a tanh RNN (Elman).

    Shapes: (T, L, in_features) -> (T, hidden_features), twice as wide if bidirectional; L = 0 gives zero.
        With ``per_position=True`` every position's hidden state, (T, L, ·), for ``JanossyEquivariant``.
    Raises: ValueError for rows of another shape.

    Args: as torch's ``nn.RNN``. ``unrolled=True`` runs cell by cell, which double backward needs on CUDA; under
    ``torch.compile`` that happens by itself.
    """

    _module = nn.RNN
    _kernel = staticmethod(torch.rnn_tanh)
    _cell = staticmethod(_rnn_cell)


class GRU(_Recurrence):
    """f(x_1 … x_L) = the last hidden state of a GRU (Cho et al., 2014).

    Shapes: (T, L, in_features) -> (T, hidden_features), twice as wide if bidirectional; L = 0 gives zero.
        With ``per_position=True`` every position's hidden state, (T, L, ·), for ``JanossyEquivariant``.
    Raises: ValueError for rows of another shape.

    Args: as torch's ``nn.GRU``. ``unrolled=True`` runs cell by cell, which double backward needs on CUDA; under
    ``torch.compile`` that happens by itself.
    """

    _module = nn.GRU
    _kernel = staticmethod(torch.gru)
    _cell = staticmethod(_gru_cell)


class LSTM(_Recurrence):
    """f(x_1 … x_L) = the last hidden ("short-term") state of an LSTM (Hochreiter and Schmidhuber, 1997).

    Shapes: (T, L, in_features) -> (T, hidden_features), twice as wide if bidirectional; L = 0 gives zero.
        With ``per_position=True`` every position's hidden state, (T, L, ·), for ``JanossyEquivariant``.
    Raises: ValueError for rows of another shape.

    Args: as torch's ``nn.LSTM``. ``unrolled=True`` runs cell by cell, which double backward needs on CUDA; under
    ``torch.compile`` that happens by itself.
    """

    _module = nn.LSTM
    _kernel = staticmethod(torch.lstm)
    _cell = staticmethod(_lstm_cell)
    _num_states = 2
