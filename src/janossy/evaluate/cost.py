"""The cost of applying a function to rows, read off its weights."""

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
    """Seconds of a call that has next to nothing to compute."""
    launch: float = 0.0
    """Seconds of a kernel that has next to nothing to compute, on a GPU."""


@dataclass(frozen=True)
class Cost:
    """An estimate for one forward pass; its seconds, for a forward and a backward one."""

    flops: float
    bytes: float
    activations: float = 0.0
    """Numbers that the layers put out: the arguments of tanh and the like, which take longer than flops."""
    rates: Rates = Rates()
    calls: float = 0.0
    """Seconds that go by whatever there is to compute: in calls, set by set or step by step."""
    launches: float = 0.0
    """Kernels that a GPU would run, forward and backward: a rough count."""

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
    """A number of rows, as n! may be too large to be a float."""
    return float(min(num_rows, 10**200))


@dataclass(frozen=True)
class Work:
    """The work of applying f to one row, read off its weights."""

    numel: int
    """Numbers in the weight matrices."""
    outputs: int
    """Numbers that the weight matrices put out, each applied once."""
    heads: int
    kept: int
    """Further numbers that a row keeps, as its modules say: those without weights, by ``numbers_kept``."""
    whole_rows: bool
    """True if the matrices are applied to a row, and not to each of its positions."""

    @classmethod
    def of(cls, f: Function, whole_rows: bool) -> "Work":
        modules = list(f.modules()) if isinstance(f, nn.Module) else []
        weights = {id(w): w for m in modules for w in m._parameters.values() if w is not None and w.dim() > 1}.values()
        heads = sum(m.num_heads for m in modules if isinstance(m, nn.MultiheadAttention))
        kept = sum(getattr(m, "numbers_kept", 0) for m in modules)
        return cls(sum(w.numel() for w in weights), sum(w.shape[0] for w in weights), heads, kept, whole_rows)

    def flops(self, length: int) -> int:
        """An upper estimate: every weight matrix multiplies once at every position."""
        return 2 * self.numel * (1 if self.whole_rows else length)

    def activations(self, length: int) -> int:
        """An upper estimate: every number that a matrix puts out."""
        return self.outputs * (1 if self.whole_rows else length)

    def elements(self, length: int, num_features: int) -> int:
        """An upper estimate of the numbers kept: at each position the input and each matrix's output, thrice.

        Before and after an activation, and on the way back; attention adds its (heads, L, L) scores. oneDNN's LSTM
        (float32 on a CPU) keeps up to another half, and an initial state as large as a position. With over twice as
        many inputs as hidden units it keeps every state at the width of the input, beyond this estimate.
        """
        return 3 * (length + 1) * (num_features + self.outputs + self.heads * length) + self.kept


def check_memory_budget(owner: str, memory_budget: Any) -> None:
    """Raise a TypeError if this is no whole number of bytes, and a ValueError if it is not even one."""
    if not isinstance(memory_budget, Integral) or isinstance(memory_budget, bool):
        raise TypeError(f"{owner} expects memory_budget as a whole number of bytes; got {memory_budget!r}.")
    if memory_budget < 1:
        raise ValueError(f"{owner} expects memory_budget >= 1 byte; got {memory_budget}.")
