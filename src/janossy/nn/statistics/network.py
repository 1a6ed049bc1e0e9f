"""StatisticsNetwork: a function of fixed statistics of each set."""

import torch
from torch import Tensor, nn

from janossy.nn.statistics.pooled import PooledStatistics
from janossy.sets import Ragged


class StatisticsNetwork(nn.Module):
    """y(x) = scores(statistics(x)), without gradients and without randomness.

    Args:
        statistics: a ``PooledStatistics``.
        scores: maps its vectors (B, c) to outputs (B, out), such as ``TreeEnsemble`` or ``LinearScores``.

    Shapes: sets.values (N, columns), context (B, e) or None -> (B, out).
    Invariance: exact, to the last bit. The result does not depend on the batch either.
    Raises: ValueError if ``scores`` takes vectors of another width.
    """

    def __init__(self, statistics: PooledStatistics, scores: nn.Module) -> None:
        super().__init__()
        if not isinstance(statistics, PooledStatistics) or scores.in_features != statistics.out_features:
            raise ValueError(
                "StatisticsNetwork expects scores that take as many features as there are statistics; got "
                f"{getattr(scores, 'in_features', None)} and {getattr(statistics, 'out_features', None)}."
            )
        self.statistics, self.scores = statistics, scores

    def forward(
        self, sets: Ragged, *, context: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        outputs: Tensor = self.scores(self.statistics(sets, context))
        return outputs.to(sets.values.dtype)
