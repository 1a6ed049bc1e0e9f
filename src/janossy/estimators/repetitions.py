"""Repetitions of a search of few sets: other folds and other weights in time that is left, and the average of all."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite

from janossy.estimators.candidates import Candidate
from janossy.estimators.interrupts import now
from janossy.estimators.search import Search, SearchResult
from janossy.estimators.trainer import Trainer
from janossy.estimators.trials import NothingTrained, Trial

MOST = 3
"""The most searches. More would lower the error of their average by little, and it would predict more slowly."""

FOR_ANOTHER = 0.8
"""The part of the time left that the longest search so far may have taken, for another one to begin."""


def repeated(trainer_of: Callable[[int], Trainer], candidates: Sequence[Candidate], most: int) -> SearchResult:
    """Searches up to ``most`` times, as often as there is time, and returns the average of the results.

    A repetition that an interrupt ends, or that fails, is left out.

    Args:
        trainer_of: returns the trainer of a repetition, 0 for the first. All trainers have one deadline.

    Raises: what the first search raises.
    """
    results: list[SearchResult] = []
    longest, begun = 0.0, 0
    for repetition in range(most):
        trainer = trainer_of(repetition)
        began = now()
        if results and (trainer.has_ended or longest > FOR_ANOTHER * (trainer.deadline - began)):
            break
        begun += 1
        try:
            found = Search(trainer).run(candidates)
        except (NothingTrained, FloatingPointError):
            if not results:
                raise
            continue
        if not (results and trainer.interrupts.came):
            results.append(found)
        longest = max(longest, now() - began)
    return replace(_together(results), num_searches=begun)


def _together(results: Sequence[SearchResult]) -> SearchResult:
    """Returns the average of several results. Its folds are those of the first."""
    trials: dict[int, list[Trial]] = {}
    for result in results:
        for trial in result.trials:
            trials.setdefault(trial.candidate, []).append(trial)
    for_larger = None
    if any(result.for_larger for result in results):
        for_larger = [weight / len(results) for result in results for weight in result.for_larger or result.weights]
    return SearchResult(
        [network for result in results for network in result.networks],
        [weight / len(results) for result in results for weight in result.weights],
        [_of_candidate(of_one, len(results)) for _, of_one in sorted(trials.items())],
        results[0].folds,
        [fold for result in results[1:] for fold in result.folds],
        for_larger=for_larger,
    )


def _of_candidate(trials: Sequence[Trial], num_searches: int) -> Trial:
    """Returns a candidate's first trial in which it was trained, with the weight and the seconds of all trials."""
    first = next((trial for trial in trials if isfinite(trial.loss)), trials[0])
    weight = sum(trial.weight for trial in trials) / num_searches
    return replace(first, weight=weight, seconds=sum(trial.seconds for trial in trials))
