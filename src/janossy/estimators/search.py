"""The search: several kinds of networks trained for a while, the better ones for longer, and the best averaged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

import numpy as np
import torch
from torch import Tensor, nn

from janossy.estimators.batches import Examples, RandomBatches, num_batches
from janossy.estimators.candidates import Candidate, seconds_an_epoch, seconds_to_predict
from janossy.estimators.checkpoint import Checkpoint
from janossy.estimators.ensemble import picks
from janossy.estimators.interrupts import Interrupts, now
from janossy.estimators.out_of_fold import Fold, linked_mean, outputs_by_draw
from janossy.estimators.tasks import Task
from janossy.estimators.training import Ending, Plan, Trained, train
from janossy.estimators.trials import Epoch, NothingTrained, Progress, Trial
from janossy.tables.layout import Layout

KEPT, IN, LONGER = 5, 4, 8
"""A rung keeps one candidate in four, five at least, and the next trains them eight times as long."""

AT_ONCE = 3
"""Up to so many candidates are trained to the end at once; of more, a shorter rung tells which have the time first."""

FEW_SPLITS = 2
"""Before the last rung, candidates are judged by so many of the splits."""

PREDICTING = 0.05
"""The part of the time that a candidate's predictions of all pairs or triples may take; else they are drawn."""

FEWEST_STEPS = 200
"""No candidate is judged by fewer steps of training, unless all of it has fewer."""


@dataclass(frozen=True)
class Limits:
    """How far a search goes: seconds, and, where not None, what else would follow from the number of sets."""

    seconds: float = inf
    max_epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    patience: int | None = None

    def plan(self, num_sets: int, part: float) -> Plan:
        """How to train on so many sets, for a part of a full training."""
        batch_size = self.batch_size or int(min(1024, max(32, 2 ** round(np.log2(num_sets**0.5)))))
        full = self.max_epochs or max(10, round(400 / num_sets**0.25))
        fewest = min(full, ceil(FEWEST_STEPS / num_batches(num_sets, batch_size)))
        epochs = max(fewest, round(full * part))
        return Plan(epochs, batch_size, self.learning_rate or 1e-2, self.patience or max(10, epochs // 3))


@dataclass(eq=False)
class SearchResult:
    """The networks that a search ends with, their weights, and for each split those of them that left out its sets."""

    networks: list[nn.Module]
    weights: list[float]
    trials: list[Trial]
    folds: list[Fold]


@dataclass(eq=False)
class _Result:
    """A candidate that has been trained: a network per split, with its outputs for the validation sets.

    Shapes: each of outputs (V, m, out); predicted (V, out), for the sets of all splits.
    """

    trial: Trial
    networks: list[nn.Module]
    outputs: list[Tensor]
    predicted: Tensor


@dataclass(frozen=True)
class _Rung:
    """One round of a search: of so many, on how many splits, and by what part of a full training."""

    number: int
    num_rungs: int
    num_splits: int
    part: float


class Search:
    """Successive halving (Jamieson and Talwalkar, 2016) with averaging of the best (Caruana et al., 2004).

    Rungs are of epochs, and not of time: as long as the time suffices, the result depends on the seed alone.
    """

    def __init__(
        self,
        examples: Examples,
        splits: Sequence[tuple[Tensor, Tensor]],
        task: Task,
        layouts: tuple[Layout, Layout],
        limits: Limits,
        *,
        num_permutations: int,
        seed: int,
        tell: Callable[[Progress], None],
        interrupts: Interrupts | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.examples, self.splits, self.task, self.layouts, self.limits = examples, splits, task, layouts, limits
        self.num_permutations, self.seed, self.tell, self.checkpoint = num_permutations, seed, tell, checkpoint
        self.began = now()
        self.deadline = self.began + limits.seconds
        self.validated = torch.cat([validation for _, validation in splits])
        self.trials: list[Trial] = []
        self.diverged = False
        self.interrupts = interrupts or Interrupts()

    def run(self, candidates: Sequence[Candidate]) -> SearchResult:
        """Try the candidates, and choose.

        An interrupt, by Ctrl-C or by what is told, ends the search with the best so far.

        Raises: FloatingPointError if training diverges, where there is only one candidate, or for all;
            NothingTrained after an interrupt, or the end of the time, before any network has learnt for a step.
        """
        left = dict(enumerate(candidates)) if len(candidates) == 1 else self._worth_trying(candidates)
        num_rungs = 1
        while len(left) > AT_ONCE * IN ** (num_rungs - 1):
            num_rungs += 1
        results: dict[int, _Result] = {}
        for number in range(num_rungs):
            last = number + 1 == num_rungs
            num_splits = len(self.splits) if last else min(FEW_SPLITS, len(self.splits))
            rung = _Rung(number, num_rungs, num_splits, float(LONGER) ** (number + 1 - num_rungs))
            results |= self._climb(rung, left)
            if self._ended():
                break
            ranked = sorted(left.keys() & results.keys(), key=lambda i: results[i].trial.loss)
            if ranked:  # else no candidate's part of the time was enough for a step, and the next round has more
                left = {i: left[i] for i in ranked[: max(KEPT, len(ranked) // IN)]}
        if not results and (self.interrupts.came or (left and not self.diverged)):
            raise NothingTrained("before the first step of training was done")
        if not results:
            raise FloatingPointError(f"all candidates of the search failed, the last by: {self.trials[-1].note}")
        return self._chosen(sorted(results.values(), key=lambda result: result.trial.loss))

    def _climb(self, rung: _Rung, left: dict[int, Candidate]) -> dict[int, _Result]:
        """Try the candidates that are left, for as long as this rung says."""
        end = _share(self.deadline, rung.num_rungs - rung.number)
        results: dict[int, _Result] = {}
        for place, (i, candidate) in enumerate(left.items()):
            try:  # candidates that have been judged are the better ones first, and these have all the time they need
                until = _share(end, len(left) - place) if rung.number == 0 else end
                tried = self._try(candidate, i, rung, until)
                if tried is not None:
                    results[i], last = tried
                    self.trials.append(results[i].trial)
                    self._tell(candidate, rung, len(results[i].networks) - 1, last, results[i].trial)
            except FloatingPointError as error:
                if len(left) == 1:
                    raise
                self.diverged = True
                self._note(i, candidate, rung.number, str(error))
            if self._ended():
                break
        return results

    def _ended(self) -> bool:
        return self.interrupts.came or now() > self.deadline

    def _worth_trying(self, candidates: Sequence[Candidate]) -> dict[int, Candidate]:
        """The candidates that read more than one of these sets has not, and, by their cost, suit the time there is.

        If none does, the cheapest.
        """
        largest = max(self.examples.sets.sizes)
        estimated: dict[int, tuple[Candidate, float]] = {}
        for i, candidate in enumerate(candidates):
            if self.interrupts.came:
                break
            if candidate.least_size > largest:
                self._note(i, candidate, 0, f"not tried: the largest set has {largest} elements")
                continue
            try:
                estimated[i] = self._estimated(candidate)
            except ValueError as error:  # of too many rows
                self._note(i, candidate, 0, f"not tried: {error}")
        within = {i: candidate for i, (candidate, seconds) in estimated.items() if seconds <= self.limits.seconds}
        if not within and estimated:
            cheapest = min(estimated, key=lambda i: estimated[i][1])
            within = {cheapest: estimated[cheapest][0]}
        for i in estimated.keys() - within.keys():
            candidate, seconds = estimated[i]
            self._note(i, candidate, 0, f"not tried: it is estimated to take {seconds:.0f} seconds")
        return within

    def _estimated(self, candidate: Candidate) -> tuple[Candidate, float]:
        """The first of its variants whose predictions take little of the time there is, else its last, and its seconds.

        Raises: ValueError where the last has too many rows.
        """
        training, validation = (self.examples.sets[part] for part in self.splits[0])
        epochs = self.limits.plan(len(training), 1.0).epochs
        *others, last = candidate.variants
        for variant in (*others, last):
            network = variant.build(*self.layouts, self.task.num_outputs).to(self.examples.sets.device)
            try:
                predictions = seconds_to_predict(network, validation)
                seconds = len(self.splits) * (epochs * seconds_an_epoch(network, training, validation) + predictions)
            except ValueError:
                if variant is last:
                    raise
                continue
            if len(self.splits) * predictions <= self.limits.seconds * PREDICTING:
                break
        return variant, seconds

    def _note(self, i: int, candidate: Candidate, rung: int, note: str) -> None:
        untrained = Trial(candidate.strategy, dict(candidate.settings), rung, 0, 0.0, inf, -inf, note=note, candidate=i)
        self.trials.append(untrained)

    def _try(self, candidate: Candidate, i: int, rung: _Rung, deadline: float) -> tuple[_Result, Epoch] | None:
        """Trains a network of this candidate on each split, and predicts the split's validation sets.

        Returns None if an interrupt or the deadline came before the first step.
        """
        began = now()
        networks: list[nn.Module] = []
        outputs: list[Tensor] = []
        runs: list[Trained] = []
        for number, (training, validation) in enumerate(self.splits[: rung.num_splits]):
            seed = int(np.random.SeedSequence([self.seed, i, number]).generate_state(1)[0])
            torch.manual_seed(seed)
            network = candidate.build(*self.layouts, self.task.num_outputs).to(self.examples.sets.device)
            plan = self.limits.plan(len(training), rung.part)
            plan = replace(plan, deadline=_share(deadline, rung.num_splits - number))

            def tell(epoch: Epoch, number: int = number) -> None:
                self._tell(candidate, rung, number, epoch)

            run = train(
                network,
                RandomBatches(self.examples[training], plan.batch_size, seed),
                self.examples[validation],
                self.task.criterion,
                plan,
                tell,
                interrupts=self.interrupts,
                checkpoint=self.checkpoint,
                stage=f"training-{rung.number}-{i}-{number}",
            )
            if not run.history:  # this one has learnt nothing, but those before it have
                break
            runs.append(run)
            networks.append(network.eval())
            outputs.append(outputs_by_draw(network, self.examples[validation], self.num_permutations))
            if self.interrupts.came:
                break
        if not runs:
            return None
        predicted = torch.cat([linked_mean(each, self.task.link(1.0)) for each in outputs])
        targets, weights = (x[self.validated[: len(predicted)]] for x in (self.examples.targets, self.examples.weights))
        trial = Trial(
            candidate.strategy,
            dict(candidate.settings),
            rung.number,
            max(len(run.history) for run in runs),
            max(now() - began, sum(run.seconds for run in runs)),
            self._loss(predicted),
            self.task.score(predicted, targets, weights),
            note=str(Ending.INTERRUPTED) if self.interrupts.came else _ending(runs),
            history=[run.history for run in runs],
            candidate=i,
        )
        return _Result(trial, networks, outputs, predicted), runs[-1].last

    def _tell(self, candidate: Candidate, rung: _Rung, network: int, epoch: Epoch, trial: Trial | None = None) -> None:
        at = now()
        self.tell(
            Progress(
                str(candidate),
                rung.number,
                rung.num_rungs,
                network,
                rung.num_splits,
                epoch,
                at - self.began,
                max(0.0, self.deadline - at),
                trial,
            )
        )

    def _loss(self, outputs: Tensor) -> float:
        """The weighted loss of predictions of the first of the sets left out."""
        validated = self.validated[: len(outputs)]
        weights = self.examples.weights[validated]
        return float((self.task.losses(outputs, self.examples.targets[validated]) * weights).sum() / weights.sum())

    def _chosen(self, results: list[_Result]) -> SearchResult:
        """The average of the best few that went all the way, if it is better than the best alone; else the best."""
        results = [result for result in results if len(result.networks) == len(self.splits)] or results[:1]
        counts = picks([result.predicted for result in results], self._loss)
        folds = [Fold([], [], validation, []) for _, validation in self.splits]
        for result, count in zip(results, counts, strict=True):
            if not count:
                continue
            weight = count / sum(counts)
            place = next(place for place, trial in enumerate(self.trials) if trial is result.trial)
            self.trials[place] = replace(result.trial, weight=weight)
            for network, outputs, fold in zip(result.networks, result.outputs, folds, strict=False):
                fold.networks.append(network)
                fold.weights.append(weight)
                fold.outputs.append(outputs)
        folds = [fold for fold in folds if fold.networks]
        networks = [network for fold in folds for network in fold.networks]
        weights = [weight / len(folds) for fold in folds for weight in fold.weights]
        return SearchResult(networks, weights, self.trials, folds)


def _ending(runs: Sequence[Trained]) -> str:
    """Returns why the first network that did not end as planned ended."""
    return next((str(run.ending) for run in runs if run.ending), "")


def _share(deadline: float, num: int) -> float:
    """When the first of so many must end, if all are to have as long."""
    return now() + (deadline - now()) / num
