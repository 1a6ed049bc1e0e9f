"""Comparisons of contenders by the losses of the same validation sets: which of them matter, and which are hopeless."""

from collections.abc import Sequence
from math import inf

from janossy.estimators.averages import Losses
from janossy.estimators.contenders import Contender

FAR_BEHIND = 5.0
"""The standard errors by which the first two candidates of a strategy are behind the best, if the next one waits."""


def promising(
    trained: Sequence[Contender], losses: Losses, surely: int, among: Sequence[Contender] | None = None
) -> list[Contender]:
    """Returns the contenders that may become the best or nearly so, the most promising first.

    Nearly means within the standard error of the difference of losses. Contenders are compared with the best one on
    the most splits, over the splits that both have.

    Args:
        trained: all contenders with a trained network.
        losses: maps predictions to the loss of each set, (V,).
        surely: the number of contenders that are returned at least, if there are so many.
        among: the contenders that may be returned; None for all that are trained.
    """
    if not trained:
        return []
    most = max(len(contender.runs) for contender in trained)
    best = min((each for each in trained if len(each.runs) == most), key=lambda each: each.losses[-1] + each.optimism)
    behind = {}
    for contender in trained:
        num = len(contender.runs)
        difference = losses(contender.predicted(num)) - losses(best.predicted(num))
        difference = difference + contender.optimism - best.optimism
        error = float(difference.std()) / len(difference) ** 0.5 if len(difference) > 1 else inf
        behind[contender] = float(difference.mean()), error
    least = min(mean for mean, _ in behind.values())
    found: list[Contender] = []
    for contender in sorted(trained, key=lambda each: behind[each][0] - each.gain_hoped_for):
        mean, error = behind[contender]
        matters = mean - contender.gain_hoped_for <= least + error
        if (among is None or contender in among) and (matters or len(found) < surely):
            found.append(contender)
    return found


def is_hopeless(strategy: str, trained: Sequence[Contender], losses: Losses) -> bool:
    """Returns True if two candidates or more of a strategy are trained, and all are far behind the best."""
    like = [each for each in trained if each.candidate.strategy == strategy]
    if len(like) < 2:
        return False
    each_loss = {each: losses(each.predicted(1)) for each in trained}
    best = min(each_loss.values(), key=lambda each: float(each.mean()))
    differences = [each_loss[each] - best for each in like]
    return all(each.mean() > FAR_BEHIND * each.std(correction=0) / len(each) ** 0.5 for each in differences)
