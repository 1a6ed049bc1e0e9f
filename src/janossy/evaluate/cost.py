"""The cost of applying a function to rows, estimated from its weights."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from torch import nn

from janossy.evaluate.problem import Function


@dataclass(frozen=True)
class Rates:
    """The speed of one evaluator, forward and backward together."""

    flops_per_second: float = 1e11
    bytes_per_second: float = 1e10
    activations_per_second: float = 1e9
    overhead: float = 0.0
    """The seconds of a call with next to nothing to compute."""
    launch: float = 0.0
    """The seconds of a kernel with next to nothing to compute, on a GPU."""


@dataclass(frozen=True)
class Cost:
    """An estimate for one forward pass; ``seconds`` count a forward and a backward pass."""

    flops: float
    bytes: float
    activations: float = 0.0
    """The number of layers' outputs, the arguments of tanh and the like, which take longer than flops."""
    rates: Rates = Rates()
    calls: float = 0.0
    """The seconds that do not depend on the arithmetic: of calls, of sets or of steps."""
    launches: float = 0.0
    """A rough count of the kernels that a GPU would run, forward and backward."""

    @property
    def seconds(self) -> float:
        rates = self.rates
        return (
            rates.overhead
            + self.calls
            + self.launches * rates.launch
            + self.flops / rates.flops_per_second
            + self.bytes / rates.bytes_per_second
            + self.activations / rates.activations_per_second
        )


def as_float(num_rows: int) -> float:
    """Returns a number of rows as a float, at most 1e200, as n! may be too large."""
    return float(min(num_rows, 10**200))


@dataclass(frozen=True)
class Work:
    """The work of applying f to one row, estimated from its weights."""

    numel: int
    """The number of entries of the weight matrices."""
    outputs: int
    """The number of outputs of the weight matrices, each applied once."""
    heads: int
    kept: int
    """The further numbers that a row keeps, as modules without weights say by ``numbers_kept``."""
    whole_rows: bool
    """True if the matrices are applied to whole rows, and not to each position."""

    @classmethod
    def of(cls, f: Function, whole_rows: bool) -> "Work":
        numel = outputs = heads = kept = 0
        seen: set[int] = set()
        left: list[nn.Module | None] = [f] if isinstance(f, nn.Module) else []
        while left:  # not f.modules(), which takes most of the time of a small call
            m = left.pop()
            if m is None or id(m) in seen:
                continue
            seen.add(id(m))
            left += m._modules.values()
            for w in m._parameters.values():
                if w is not None and w.dim() > 1 and id(w) not in seen:
                    seen.add(id(w))
                    numel, outputs = numel + w.numel(), outputs + w.shape[0]
            heads += m.num_heads if isinstance(m, nn.MultiheadAttention) else 0
            kept += vars(m).get("numbers_kept", 0)
        return cls(numel, outputs, heads, kept, whole_rows)

    def flops(self, length: int) -> int:
        """Returns an upper estimate of the flops: every weight matrix multiplies once per position."""
        return 2 * self.numel * (1 if self.whole_rows else length)

    def activations(self, length: int) -> int:
        """Returns an upper estimate of the activations: every output of a matrix."""
        return self.outputs * (1 if self.whole_rows else length)

    def elements(self, length: int, num_features: int) -> int:
        """Returns an upper estimate of the numbers kept: per position three times the input and each matrix's output.

        They are kept before an activation, after it, and in backward. Attention adds its (heads, L, L) scores. oneDNN's
        LSTM (float32 on a CPU) keeps up to another half, and an initial state as large as a position. With over twice
        as many inputs as hidden units it keeps every state at the width of the input; the estimate does not count it.
        """
        return 3 * (length + 1) * (num_features + self.outputs + self.heads * length) + self.kept


def check_memory_budget(owner: str, memory_budget: Any) -> None:
    """Raises a TypeError unless this is a whole number of bytes, a ValueError if it is below 1."""
    if not isinstance(memory_budget, Integral) or isinstance(memory_budget, bool):
        raise TypeError(f"{owner} expects memory_budget as a whole number of bytes; got {memory_budget!r}.")
    if memory_budget < 1:
        raise ValueError(f"{owner} expects memory_budget >= 1 byte; got {memory_budget}.")
