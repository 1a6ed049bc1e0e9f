"""RNN, GRU and LSTM as functions of a sequence: the last hidden state, or that of every position."""

from collections.abc import Callable
from math import sqrt
from typing import ClassVar

import torch
from torch import Tensor, nn

from janossy.functions.checks import check_dropout, check_flags, check_sequences, check_widths
from janossy.functions.shown import arguments_shown
from janossy.functions.structure import Direction, Recurrent, State, hooked, overridden

NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class Recurrence(nn.Module):
    """f(x_1 … x_L) = the last hidden state of a recurrence's top layer, or every position's.

    A subclass gives its numbers of gates and states, and ``step``. Layers, directions and dropout are those of torch's
    RNNs. So are the names, shapes and initialisation of parameters: the state_dict of torch's module of that name loads
    here. This module holds the parameters itself, as torch.compile does not trace torch's modules.

    Shapes: (T, L, in_features) -> (T, hidden_features), twice as wide if bidirectional; L = 0 gives zero.
        With ``per_position=True`` every position's hidden state, (T, L, ·), for ``JanossyEquivariant``.
    Raises:
        TypeError: for numbers of another type.
        ValueError: for widths or num_layers below 1, a dropout outside [0, 1], or rows of another shape or dtype.

    Example:
        >>> class Leaky(Recurrence):  # h_t = (h_{t-1} + tanh(W x_t + U h_{t-1} + b)) / 2
        ...     num_gates = 1
        ...
        ...     @staticmethod
        ...     def step(inputs, hidden, state):
        ...         return ((state[0] + torch.tanh(inputs + hidden)) / 2,)
        >>> Leaky(3, 8)(torch.zeros(5, 7, 3)).shape
        torch.Size([5, 8])
    """

    num_gates: ClassVar[int]
    """The number of gates: W x_t and U h_{t−1} have gates·H numbers each."""
    num_states: ClassVar[int] = 1
    """The number of states carried from step to step, each (T, H): the hidden state, and perhaps a memory."""
    num_apart: ClassVar[int | None] = None
    """The number of last gates in which W x_t and U h_{t−1} are not simply added, such as one of the GRU's.

    None stands for all gates, and is always right. In the other gates, such as all of the LSTM's, evaluators add both
    biases to W x_t, once per element."""
    kind: ClassVar[str]
    """The name of the step, for evaluators with compiled kernels: "rnn", "gru", "lstm". Other steps need no name."""
    torch_kernel: ClassVar[Callable[..., tuple[Tensor, ...]] | None] = None
    """torch's function for rows of one length, called like ``torch.gru``; without one, steps run one by one."""

    @staticmethod
    def step(inputs: Tensor, hidden: Tensor, state: State) -> State:
        """Returns the next state.

        ``inputs`` are W x_t and ``hidden`` is U h_{t−1}, with their biases, (T, gates·H) each. ``state`` is the state
        before.
        """
        raise NotImplementedError

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = False,
        per_position: bool = False,
        unrolled: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_widths(self, in_features=in_features, hidden_features=hidden_features, num_layers=num_layers)
        check_dropout(self, dropout)
        check_flags(self, bidirectional=bidirectional, per_position=per_position, unrolled=unrolled)
        self.in_features = in_features
        self.hidden_features = hidden_features
        self.num_layers = num_layers
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.per_position = per_position
        self.unrolled = unrolled
        num_units = self.num_gates * hidden_features
        for layer in range(num_layers):
            width = in_features if layer == 0 else len(self._suffixes) * hidden_features
            shapes = ((num_units, width), (num_units, hidden_features), (num_units,), (num_units,))
            for suffix in self._suffixes:
                for name, shape in zip(NAMES, shapes, strict=True):
                    self.register_parameter(
                        f"{name}_l{layer}{suffix}", nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                    )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights anew, as torch does: uniform within ±1/√H."""
        bound = 1 / sqrt(self.hidden_features)
        for weight in self.parameters():
            nn.init.uniform_(weight, -bound, bound)

    def structure(self) -> Recurrent | None:
        """Returns the layers, for evaluators that run many rows at once; None if these would skip code of the user."""
        if hooked(self) or overridden(self, Recurrence.forward):
            return None
        layers = tuple(
            tuple(self._direction(layer, suffix) for suffix in self._suffixes) for layer in range(self.num_layers)
        )
        dropout = self.dropout if self.training else 0.0
        # The kind belongs to the class that gives the step. A subclass with another step is of another kind.
        stepping = self._stepping()
        kind = vars(stepping).get("kind", f"{stepping.__module__}.{stepping.__qualname__}")
        declared = vars(stepping).get("num_apart")
        num_apart = self.num_gates if declared is None else declared
        return Recurrent(kind, self.step, self.num_states, num_apart, layers, dropout, self.per_position, self.unrolled)

    @classmethod
    def _stepping(cls) -> "type[Recurrence]":
        return next(owner for owner in cls.__mro__ if "step" in vars(owner))

    @property
    def _suffixes(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def _direction(self, layer: int, suffix: str) -> Direction:
        weight_ih, weight_hh, bias_ih, bias_hh = (getattr(self, f"{name}_l{layer}{suffix}") for name in NAMES)
        return Direction(weight_ih, weight_hh, bias_ih, bias_hh, reverse=suffix == "_reverse")

    def forward(self, x: Tensor) -> Tensor:
        check_sequences(self, x)
        directions = len(self._suffixes)
        if x.shape[1] == 0:
            width = directions * self.hidden_features
            return x.new_zeros(len(x), 0, width) if self.per_position else x.new_zeros(len(x), width)
        stepping = self._stepping()
        kernel = stepping.torch_kernel if "torch_kernel" in vars(stepping) else None
        if kernel is None or self.unrolled or torch.compiler.is_compiling() or _is_refused(kernel, x):
            return self._unroll(x)
        zero = x.new_zeros(directions * self.num_layers, len(x), self.hidden_features)
        state = zero if self.num_states == 1 else (zero,) * self.num_states
        layers = (self._direction(layer, suffix) for layer in range(self.num_layers) for suffix in self._suffixes)
        weights = [w for each in layers for w in (each.weight_ih, each.weight_hh, each.bias_ih, each.bias_hh)]
        # cuDNN keeps nothing for backward unless it trains.
        trains, dropout = self.training or (x.is_cuda and torch.is_grad_enabled()), self.dropout * self.training
        options = (True, self.num_layers, dropout, trains, self.bidirectional, True)
        outputs, last, *_ = kernel(x, state, weights, *options)
        return outputs if self.per_position else last[-directions:].transpose(0, 1).flatten(1)

    def _unroll(self, x: Tensor) -> Tensor:
        """Computes ``forward`` cell by cell.

        torch.compile cannot trace torch's kernel, and cuDNN's cannot be differentiated twice.
        """
        last: list[Tensor] = []
        for layer in range(self.num_layers):
            if layer > 0:
                x = nn.functional.dropout(x, self.dropout, self.training)
            directions = [self._run(x, self._direction(layer, suffix)) for suffix in self._suffixes]
            x = torch.cat([outputs for outputs, _ in directions], dim=2)
            last = [hidden for _, hidden in directions]
        return x if self.per_position else torch.cat(last, dim=1)

    def _run(self, x: Tensor, weights: Direction) -> tuple[Tensor, Tensor]:
        """Runs one layer in one direction.

        Returns the outputs (T, L, H), in the order of x, and the last hidden state (T, H).
        """
        inputs = nn.functional.linear(x, weights.weight_ih, weights.bias_ih)
        state = (inputs.new_zeros(x.shape[0], self.hidden_features),) * self.num_states
        steps = range(x.shape[1])
        outputs = []
        for step in reversed(steps) if weights.reverse else steps:
            hidden = nn.functional.linear(state[0], weights.weight_hh, weights.bias_hh)
            state = self.step(inputs[:, step], hidden, state)
            outputs.append(state[0])
        return torch.stack(outputs[::-1] if weights.reverse else outputs, dim=1), state[0]

    def extra_repr(self) -> str:
        return arguments_shown(self)


def _is_refused(kernel: Callable[..., tuple[Tensor, ...]], x: Tensor) -> bool:
    """Returns True if autocast would give torch's LSTM a half precision that it does not train in on this CPU.

    It trains in float16 on none, also where torch reports instructions for it.
    """
    if kernel is not torch.lstm or x.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return False
    is_bfloat16 = torch.get_autocast_dtype("cpu") == torch.bfloat16
    return not (is_bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())


class RNN(Recurrence):
    """f(x_1 … x_L) = the last hidden state of a tanh RNN (Elman).

    Shapes: (T, L, in_features) -> (T, hidden_features), twice as wide if bidirectional; L = 0 gives zero.
        With ``per_position=True`` every position's hidden state, (T, L, ·), for ``JanossyEquivariant``.
    Raises: ValueError as ``Recurrence``.

    Args: as torch's ``nn.RNN``, whose input_size and hidden_size are ``in_features`` and ``hidden_features`` here.
        There are always biases, and rows are (T, L, in_features), so that ``bias`` and ``batch_first`` are not taken.
        ``unrolled=True`` runs cell by cell, which double backward needs on CUDA. ``torch.compile`` unrolls rows of k
        elements.
    """

    kind = "rnn"
    num_gates = 1
    num_apart = 0
    torch_kernel = staticmethod(torch.rnn_tanh)

    @staticmethod
    def step(inputs: Tensor, hidden: Tensor, state: State) -> State:
        """Returns h = tanh(W x + U h)."""
        return (torch.tanh(inputs + hidden),)


class GRU(Recurrence):
    """f(x_1 … x_L) = the last hidden state of a GRU (Cho et al., 2014).

    Shapes: (T, L, in_features) -> (T, hidden_features), twice as wide if bidirectional; L = 0 gives zero.
        With ``per_position=True`` every position's hidden state, (T, L, ·), for ``JanossyEquivariant``.
    Raises: ValueError as ``Recurrence``.

    Args: as torch's ``nn.GRU``, whose input_size and hidden_size are ``in_features`` and ``hidden_features`` here.
        There are always biases, and rows are (T, L, in_features), so that ``bias`` and ``batch_first`` are not taken.
        ``unrolled=True`` runs cell by cell, which double backward needs on CUDA. ``torch.compile`` unrolls rows of k
        elements.
    """

    kind = "gru"
    num_gates = 3
    num_apart = 1
    torch_kernel = staticmethod(torch.gru)

    @staticmethod
    def step(inputs: Tensor, hidden: Tensor, state: State) -> State:
        """Returns h = (1 − z) ⊙ n + z ⊙ h. The gates are r and z, and n = tanh(W x + r ⊙ U h)."""
        input_reset, input_update, input_new = inputs.chunk(3, dim=1)
        hidden_reset, hidden_update, hidden_new = hidden.chunk(3, dim=1)
        reset = torch.sigmoid(input_reset + hidden_reset)
        update = torch.sigmoid(input_update + hidden_update)
        new = torch.tanh(input_new + reset * hidden_new)
        return (new + update * (state[0] - new),)


class LSTM(Recurrence):
    """f(x_1 … x_L) = the last hidden ("short-term") state of an LSTM (Hochreiter and Schmidhuber, 1997).

    Shapes: (T, L, in_features) -> (T, hidden_features), twice as wide if bidirectional; L = 0 gives zero.
        With ``per_position=True`` every position's hidden state, (T, L, ·), for ``JanossyEquivariant``.
    Raises: ValueError as ``Recurrence``.

    Args: as torch's ``nn.LSTM``, whose input_size and hidden_size are ``in_features`` and ``hidden_features`` here.
        There are always biases, and rows are (T, L, in_features), so that ``bias`` and ``batch_first`` are not taken.
        ``unrolled=True`` runs cell by cell, which double backward needs on CUDA. ``torch.compile`` unrolls rows of k
        elements.
    """

    kind = "lstm"
    num_gates = 4
    num_states = 2
    num_apart = 0
    torch_kernel = staticmethod(torch.lstm)

    @staticmethod
    def step(inputs: Tensor, hidden: Tensor, state: State) -> State:
        """Returns h = o ⊙ tanh(c) and c = f ⊙ c + i ⊙ tanh(g), with the gates i, f, g, o."""
        input_gate, forget, cell, output = (inputs + hidden).chunk(4, dim=1)
        memory = torch.sigmoid(forget) * state[1] + torch.sigmoid(input_gate) * torch.tanh(cell)
        return torch.sigmoid(output) * torch.tanh(memory), memory
