"""Fits of a learner to several splits, step by step. One strength, or one number of trees, is chosen for all."""

from collections.abc import Callable, Sequence
from itertools import pairwise, takewhile
from math import inf

import numpy as np

from janossy.estimators.classical.paths import Path
from janossy.estimators.interrupts import now
from janossy.estimators.training import Ending

MISSES = 2
"""The number of steps without a lower validation loss after which a learner stops."""


class Together:
    """Fits to splits, one path per split.

    A learner of which a point is chosen first goes its whole way on the first split. It is begun on as many others as
    there is time for. The first steps of all splits alone would predict worse than one split to the end. A forest is
    begun on all, because few trees of each split predict as well as many of one.

    Args:
        start: returns the path of a split, before its first step.
        weights: the weight of each split's validation sets.
        deadline: the time that ends the fits after a step.
        interrupted: returns True if the fits shall end after a step.

    Attributes:
        paths: those of the first splits, at least one.
        point: the point that is chosen for all.
        ending: how the fits ended.
    """

    def __init__(
        self,
        start: Callable[[int], Path],
        weights: Sequence[float],
        deadline: float = inf,
        interrupted: Callable[[], bool] = bool,
    ) -> None:
        self.start, self.weights, self.deadline, self.interrupted = start, weights, deadline, interrupted
        self.paths: list[Path] = []
        self.ending = Ending.AS_PLANNED
        num, began = len(weights), now()
        self._begin(1)
        if self.paths[0].chosen:
            self._climb()
            seconds, left = now() - began, deadline - now()
            num = sum(number * seconds <= left for number in range(num))
        while len(self.paths) < num and not self._is_over():
            self._begin(num)
        self._climb()
        if self.paths[0].chosen and self.ending is not Ending.AS_PLANNED:
            point = best_point(self.paths[:1], weights)
            self.paths = list(takewhile(lambda path: path.ended or len(path.losses) > point, self.paths))
        self.point = best_point(self.paths, weights)

    def _begin(self, num: int) -> None:
        """Takes the first step on the next of ``num`` splits, in its part of the time."""
        path = self.start(len(self.paths))
        path.advance(now() + (self.deadline - now()) / max(1, num - len(self.paths)))
        self.paths.append(path)

    def _climb(self) -> None:
        """Takes further steps. Splits that have taken fewer than others go first."""
        while not self._is_over() and _misses(self.paths, self.weights) < MISSES:
            going = [path for path in self.paths if not path.ended]
            if not going:
                break
            least = min(len(path.ends) for path in going)
            for path in going:
                if len(path.ends) == least and not self._is_over():
                    path.advance(self.deadline)

    def _is_over(self) -> bool:
        if self.interrupted():
            self.ending = Ending.INTERRUPTED
        elif now() > self.deadline:
            self.ending = Ending.OUT_OF_TIME
        return self.ending is not Ending.AS_PLANNED


def best_point(paths: Sequence[Path], weights: Sequence[float], num_points: float = inf) -> int:
    """Returns the point of the smallest mean loss over all splits, among the first points that all splits have reached.

    A path that has ended stays at its last point. If a learner's last point is always its best, that one is returned.
    """
    going = [len(path.losses) for path in paths if not path.ended]
    num = int(min(num_points, min(going) if going else max(len(path.losses) for path in paths)))
    if not paths[0].chosen:
        return num - 1
    losses = np.array([[path.losses[min(point, len(path.losses) - 1)] for path in paths] for point in range(num)])
    return int(np.average(losses, axis=1, weights=weights[: len(paths)]).argmin())


def _misses(paths: Sequence[Path], weights: Sequence[float]) -> int:
    """Returns how many of the last steps, among those that all splits have taken, did not change the best point."""
    ends = min((path.ends for path in paths if not path.ended), key=len, default=paths[0].ends)
    best = [best_point(paths, weights, end) for end in ends]
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairwise(reversed(best)))))
