"""Reductions of a set's rows to one vector, piece by piece so that they need never be held together."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Reduction:
    """A reduction of rows (S, R, c) to (S, 1, c), or to themselves, in pieces.

    ``finish(combine(start(some rows), start(the other rows)), R)`` is the whole.
    Half-precision rows are accumulated in float32.
    """

    start: Callable[[Tensor], Tensor]
    combine: Callable[[Tensor, Tensor], Tensor]
    finish: Callable[[Tensor, float], Tensor]


def _sum(rows: Tensor) -> Tensor:
    return widened(rows).sum(1, keepdim=True)


def widened(x: Tensor) -> Tensor:
    """Half precision as float32, to accumulate in; everything else as it is."""
    return x.float() if x.dtype in HALF else x


REDUCTIONS: dict[str | None, Reduction] = {
    "mean": Reduction(_sum, torch.add, lambda total, num_rows: total / num_rows),
    "sum": Reduction(_sum, torch.add, lambda total, num_rows: total),
    "max": Reduction(lambda rows: rows.amax(1, keepdim=True), torch.maximum, lambda largest, num_rows: largest),
    "logmeanexp": Reduction(
        lambda rows: widened(rows).logsumexp(1, keepdim=True),
        torch.logaddexp,
        lambda total, num_rows: total - log(num_rows),
    ),
    None: Reduction(lambda rows: rows, lambda a, b: torch.cat((a, b), 1), lambda rows, num_rows: rows),
}
