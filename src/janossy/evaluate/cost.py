"""What applying a function to rows costs, read off its weights."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

Function = Callable[[Tensor], Tensor]
"""f, mapping rows (T, L, *features) to (T, c); usually an ``nn.Module``."""


@dataclass(frozen=True)
class Cost:
    """An estimate for one forward pass."""

    flops: float
    bytes: float


def flops_per_row(f: Function, length: int) -> int:
    """Upper estimate: every weight matrix multiplies once at every position of the row."""
    return 2 * length * sum(weight.numel() for weight in _matrices(f))


def elements_per_row(f: Function, length: int, num_features: int) -> int:
    """Upper estimate of the numbers that one row takes: at each position the input and each matrix's output, thrice.

    Before and after an activation, and on the way back; attention adds its (heads, L, L) scores. oneDNN's LSTM (float32
    on a CPU) keeps up to another half, and an initial state as large as a position. With over twice as many inputs as
    hidden units it keeps every state at the width of the input, beyond this estimate.
    """
    outputs = sum(weight.shape[0] for weight in _matrices(f))
    heads = sum(m.num_heads for m in _modules(f) if isinstance(m, nn.MultiheadAttention))
    return 3 * (length + 1) * (num_features + outputs + heads * length)


def _modules(f: Function) -> list[nn.Module]:
    return list(f.modules()) if isinstance(f, nn.Module) else []


def _matrices(f: Function) -> list[Tensor]:
    return [weight for weight in f.parameters() if weight.dim() > 1] if isinstance(f, nn.Module) else []
