"""The search: candidates in turn, promising ones for longer, and at any moment the best average so far."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, isinf

from torch import nn

from janossy.estimators.averages import best_average
from janossy.estimators.candidates import Candidate
from janossy.estimators.classical.cached import MAX_SETS
from janossy.estimators.comparisons import is_hopeless, promising
from janossy.estimators.contenders import Contender
from janossy.estimators.further_splits import (
    contenders_in_average,
    train_networks,
    train_next_best,
    train_on_other_splits,
    train_on_spare_splits,
)
from janossy.estimators.interrupts import now
from janossy.estimators.larger_sets import best_for_larger
from janossy.estimators.limits import FEW
from janossy.estimators.out_of_fold import Fold
from janossy.estimators.threads import using_threads
from janossy.estimators.trainer import Trainer
from janossy.estimators.trials import OF_LARGER, NothingTrained, Trial

GOING_ON = (5, 3, 2, 2)
"""The most candidates that go on to the second round, the third, and so on."""

SURELY = 2
"""The number of candidates that go on, even if none may become the best: averages gain from variety. While others have
not been tried, only one goes on in this way: they may be better."""

FIRST_ROUND = 0.3
"""The part of a turn's time after which no other candidate is begun, if three networks have been tried in it."""

FIRST_SPLIT = 0.6
"""The part of a turn's time after which the other splits are trained on, if there are several."""

CHEAP = 0.1
"""A network whose other splits take no more than this part of the time left is trained on all of them at once."""

LONG_STEP = 1 / 3
"""The part of the time left that the first step of a classical learner may take before other candidates are tried."""

FOR_ALL = 0.1
"""The largest part of the time that is kept for the fit of a classical learner to all sets."""

FOR_LARGER = 0.3
"""The part of the time that is kept for the choice of what predicts sets larger than in training."""

LEAST_FOR_LARGER = 30.0
"""The fewest seconds of a search that makes this choice. In a shorter one, the average needs all the time."""

SURE_FIT = 1.2
"""The number of times the seconds of a fit that a fit to as many sets surely ends in."""

COMPILING = 20.0
"""The seconds that are kept for a compiler: with less time left, no network is begun whose kernels it makes."""

MANY_SETS = 10_000
"""From so many training sets on, a network is tried second, before forests: these take most of a minute."""


@dataclass(eq=False)
class SearchResult:
    """The result of a search: networks, their weights, and per split those of them that left out its sets.

    ``others``: the same as ``folds`` for the other searches, if several are averaged. ``num_searches`` counts also
    those that failed. ``for_larger``: the weights for sets larger than in training, if they are others.
    """

    networks: list[nn.Module]
    weights: list[float]
    trials: list[Trial]
    folds: list[Fold]
    others: list[Fold] = field(default_factory=list)
    num_searches: int = 1
    for_larger: list[float] | None = None


class Search:
    """A search that trains candidates on the first split in rounds, then the best on all splits, and averages them.

    Classical learners of the average are then fitted to all sets.

    This is one turn. Another turn follows while there is time, if the last one was too short for some candidates.

    Each round doubles the training of the few candidates whose learning curve may still matter. A network continues
    from its last state. The average is that of Caruana et al. (2004). Rounds are measured in epochs, not in seconds. If
    the time suffices, the result depends on the seed alone.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.splits = trainer.first_splits
        self.contenders: list[Contender] = []
        self.turn_began, self.was_short = trainer.began, False
        self.for_larger: Contender | None = None
        left = trainer.end - now()
        self.extrapolates = bool(trainer.for_larger) and left >= LEAST_FOR_LARGER
        self.kept_for_larger = FOR_LARGER * left if self.extrapolates and not isinf(left) else 0.0
        self._keep_time()

    @property
    def deadline(self) -> float:
        """The end of the time for training on splits."""
        return self.trainer.deadline

    def run(self, candidates: Sequence[Candidate]) -> SearchResult:
        """Tries the candidates, and averages the best.

        An interrupt, by Ctrl-C or by ``tell``, ends the search with the best average so far. The end of the time does
        the same, but not before there is one learner, if one can be fitted without training steps.

        Raises: FloatingPointError if training diverges for the only candidate, or for all candidates. NothingTrained
            if an interrupt or the end of the time comes before the first training step of any network. ValueError if
            none of several candidates suits the sets.
        """
        self.contenders = [Contender(i, candidate) for i, candidate in enumerate(candidates)]
        self.trainer.contenders = self.contenders
        parts = self.trainer.limits.parts(len(candidates))
        with using_threads(self.trainer.num_threads):
            waiting = self._turns(self._worth_trying(parts[0]), parts)
            if self.trainer.trained and len(candidates) > 1:
                if self.extrapolates:
                    self._for_larger_sets()
                    if waiting or self.was_short:
                        waiting = self._turns(waiting, parts)
                train_next_best(self.trainer)
                if self.trainer.num_spare:
                    train_on_spare_splits(self.trainer)
            for contender, _ in waiting:
                contender.note = "not tried: the time was for those that are promising"
            for contender in self.contenders:
                if not contender.runs and not contender.note:
                    contender.note = "not tried: its part of the time was too short for a step of training"
        if self.trainer.trained:
            return self._result()
        diverged = [contender.note for contender in self.contenders if contender.is_over]
        if self.trainer.interrupts.came or (now() > self.deadline and not diverged):
            raise NothingTrained("before the first step of training was done")
        if diverged:
            raise FloatingPointError(f"all candidates of the search failed; the last one: {diverged[-1]}")
        last = self.contenders[-1]
        raise ValueError(
            f"strategy expects a candidate that suits these sets; got none. {last.candidate} was {last.note}. Pass "
            "'auto', or one strategy alone, which is always tried."
        )

    def _turns(self, waiting: list[tuple[Contender, float]], parts: Sequence[float]) -> list[tuple[Contender, float]]:
        """Trains contenders in turns, as long as a turn trains and the time suffices. Returns those still to be tried.

        Args:
            waiting: contenders, with their estimated seconds.
        """
        num_epochs = -1
        while self._num_epochs() > num_epochs:
            self.turn_began, self.was_short, num_epochs = now(), False, self._num_epochs()
            waiting = self._first_round(waiting, parts[0])
            for number, part in enumerate(parts[1:], 1):
                if not self._further_round(number, part, 1 if waiting else SURELY):
                    break
            if self.trainer.trained:
                counts = contenders_in_average(self.trainer)
                train_on_other_splits(self.trainer, sorted(counts, key=lambda each: -counts[each]))
            if self.trainer.has_ended or not (waiting or self.was_short):
                break
        return waiting

    def _first_round(self, waiting: Sequence[tuple[Contender, float]], part: float) -> list[tuple[Contender, float]]:
        """Trains candidates for a while on the first split, and returns those for which there is no time now.

        Args:
            waiting: contenders, with their estimated seconds.
        """
        until, num_tried = now() + FIRST_ROUND * (self.deadline - now()), 0
        waiting, postponed = list(waiting), set()
        for place, (contender, seconds) in enumerate(waiting):
            has_ended = self.trainer.interrupts.came or (self.trainer.has_ended and self.trainer.trained)
            if has_ended or (num_tried >= FEW and now() > until):
                return list(waiting[place:])
            left = self.deadline - now()
            others = [each for _, each in waiting[place + 1 :]]
            if seconds > max(0.0, left) and (self.trainer.trained or any(each < seconds for each in others)):
                contender.note = f"not tried: it is estimated to take {seconds:.0f} seconds"
                continue
            share = now() + max(left / (len(others) + 1), left / 4)
            can_wait = bool(others) and contender not in postponed
            is_compiling = self._is_compiling(contender)
            if can_wait and (is_compiling or self._is_hopeless(contender)):
                postponed.add(contender)
                waiting.append((contender, seconds))
                continue
            if contender.candidate.classical:
                latest = now() + LONG_STEP * left if can_wait else self.deadline
                self.trainer.fit(contender, share, len(self.splits), latest)
                self._keep_time()
                if can_wait and not contender.runs and not contender.is_over:
                    contender.note = ""
                    postponed.add(contender)
                    waiting.append((contender, seconds))
                continue
            if is_compiling and left < COMPILING:
                contender.note = "not tried: its kernels were still being compiled, which is done once per machine"
                continue
            share = min(share, self._end_of_first_split())
            num_tried += 1
            self.trainer.train_further(contender, part, share)
            self._keep_time()
            needed = (len(self.splits) - 1) * contender.seconds if contender.runs else inf
            if needed <= CHEAP * (self.deadline - now()) and contender in self._best():
                train_on_other_splits(self.trainer, [contender])
        left_over = [each for each in waiting if not each[0].is_over and not each[0].note]
        if left_over and not self.trainer.trained and not self.trainer.has_ended:  # each share was too short for a step
            cheapest = min(left_over, key=lambda each: each[1])[0]
            self.trainer.train_further(cheapest, part, self.deadline)
        return []

    def _is_compiling(self, contender: Contender) -> bool:
        """Returns True if other candidates may come first, while another process compiles a network's kernels."""
        may_wait = not contender.candidate.classical and self.trainer.trained and not isinf(self.deadline)
        return bool(may_wait) and self.trainer.is_compiling(contender)

    def _is_hopeless(self, contender: Contender) -> bool:
        """Returns True for a classical learner if all others of its kind are far behind."""
        kind = contender.candidate
        return kind.classical and is_hopeless(kind.strategy, self.trainer.trained, self.trainer.losses)

    def _further_round(self, number: int, part: float, surely: int) -> bool:
        """Trains the candidates that may still matter further. Returns False if none matters or time is over."""
        has_trained = False
        going_on = [contender for contender in self.trainer.trained if not contender.is_over]
        for contender in self._best(going_on, surely)[: GOING_ON[number - 1]]:
            epochs = self.trainer.plan(0, part).epochs - contender.planned
            end = self._end_of_first_split() if len(contender.runs) < len(self.splits) else self.deadline
            pace = contender.seconds / max(1, len(contender.runs[0].trained.history))
            if self.trainer.has_ended or epochs * pace * len(contender.runs) > end - now():
                self.was_short = True
                continue
            if epochs > 0:
                self.trainer.train_further(contender, part, end)
            has_trained = True
        return has_trained

    def _best(self, among: Sequence[Contender] | None = None, surely: int = SURELY) -> list[Contender]:
        """Returns the contenders that may become the best or nearly so (``promising``)."""
        return promising(self.trainer.trained, self.trainer.losses, surely, among)

    def _for_larger_sets(self) -> None:
        """Trains a candidate for sets larger than in training, if one is better than the average for them."""
        self.kept_for_larger = 0.0
        self._keep_time()
        if self.trainer.interrupts.came:
            return
        others = [Contender(len(self.contenders) + i, each) for i, each in enumerate(self.trainer.for_larger)]
        best = best_for_larger(self.trainer, contenders_in_average(self.trainer), others)
        if best is not None:
            self.trainer.train_further(best, 1.0, self.deadline)
            train_networks(self.trainer, [best], len(self.splits))
            if best.runs and not best.runs[0].trained.ending:
                self.for_larger = best

    def _keep_time(self) -> None:
        """Keeps the time for the steps after the rounds.

        These are a fit to all sets, if the best contender so far is a learner that left out a split, and the choice of
        a contender for sets larger than in training.
        """
        best = min(self.trainer.trained, key=lambda each: each.losses[-1], default=None)
        seconds = 0.0
        if best is not None and best.candidate.classical and len(best.runs) == 1:
            seconds = self._seconds_for_all(best)
        self.trainer.keep(self.kept_for_larger + (seconds if seconds <= FOR_ALL * self.trainer.limits.seconds else 0.0))

    def _fit_to_all(self, weight_of: dict[Contender, float]) -> None:
        """Fits classical learners of the average to all sets in time that is left, those of large weight first.

        After fits to several splits, only forests gain from it: the mean of the others varies less than one of them.
        """
        if len(self.trainer.splits[0][0]) >= MAX_SETS:
            return
        for contender in sorted(weight_of, key=lambda each: -weight_of[each]):
            gains = contender.candidate.classical and (
                len(contender.runs) == 1 or contender.candidate.strategy == "forest"
            )
            has_time = gains and self._seconds_for_all(contender) <= self.trainer.end - now()
            if has_time and not self.trainer.interrupts.came:
                self.trainer.fit_to_all(contender)

    def _seconds_for_all(self, contender: Contender) -> float:
        """Estimates the seconds of a classical learner's fit to all sets."""
        num_sets = len(self.trainer.examples) / len(self.trainer.splits[0][0])
        return SURE_FIT * num_sets * contender.seconds

    def _end_of_first_split(self) -> float:
        part = FIRST_SPLIT if len(self.splits) > 1 else 1.0
        return self.deadline if isinf(self.deadline) else self.turn_began + part * (self.deadline - self.turn_began)

    def _num_epochs(self) -> int:
        """Returns the total number of epochs of all networks."""
        return sum(len(run.trained.history) for contender in self.contenders for run in contender.runs)

    def _worth_trying(self, part: float) -> list[tuple[Contender, float]]:
        """Returns the contenders that suit these sets, with the estimated seconds of a first round.

        A single contender is always tried.
        """
        if len(self.contenders) == 1:
            return [(self.contenders[0], 0.0)]
        largest = max(self.trainer.examples.sets.sizes)
        found = []
        for contender in self.contenders:
            if self.trainer.interrupts.came:
                break
            if contender.candidate.least_size > largest:
                contender.note = f"not tried: the largest set has {largest} element{'s' * (largest != 1)}"
                continue
            if why := contender.candidate.why_not(self.trainer.statistics):
                contender.note = f"not tried: {why}"
                continue
            try:
                found.append((contender, self.trainer.estimate(contender, part)))
            except ValueError as error:  # too many rows
                contender.note = f"not tried: {error}"
        networks = [i for i, (contender, _) in enumerate(found) if not contender.candidate.classical]
        if networks and len(self.splits[0][0]) >= MANY_SETS:
            found.insert(1, found.pop(networks[0]))
        return found

    def _result(self) -> SearchResult:
        counts, num_splits = best_average(self.trainer.trained, self.trainer.losses)
        total = sum(counts.values())
        weight_of = {contender: count / total for contender, count in counts.items() if count}
        folds = []
        for split in range(num_splits):
            runs = [contender.runs[split] for contender in weight_of]
            networks, outputs = [run.network for run in runs], [run.outputs for run in runs]
            folds.append(Fold(networks, list(weight_of.values()), self.trainer.splits[split][1], outputs))
        self._fit_to_all(weight_of)
        networks, weights, for_larger = [], [], None
        for contender, weight in weight_of.items():
            for network, part in contender.weighted:
                networks.append(network)
                weights.append(weight * part)
        trials = [self.trainer.trial_of(contender, weight_of.get(contender, 0.0)) for contender in self.contenders]
        if self.for_larger is not None:
            more, parts = zip(*self.for_larger.weighted, strict=True)
            for_larger = [0.0] * len(networks) + list(parts)
            networks, weights = networks + list(more), weights + [0.0] * len(more)
            trials.append(replace(self.trainer.trial_of(self.for_larger), note=OF_LARGER))
        return SearchResult(networks, weights, trials, folds, for_larger=for_larger)
