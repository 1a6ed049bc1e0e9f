"""The search: several kinds of networks trained for a while, the better ones for longer, and the best averaged."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from time import monotonic
from typing import Any

import numpy as np
import torch
from torch import Tensor

from janossy.estimators.candidates import Candidate, seconds_a_set
from janossy.estimators.ensemble import Ensemble
from janossy.estimators.layout import Layout
from janossy.estimators.tasks import Task
from janossy.estimators.training import Examples, Plan, Trained, num_batches, train
from janossy.network import JanossyNetwork

KEPT, LONGER = 3, 8
"""A rung keeps one candidate in three, three at least, and trains those eight times as long."""

FEW_SPLITS = 2
"""Before the last rung, candidates are judged by so many of the splits."""

FEWEST_STEPS = 200
"""No candidate is judged by fewer steps of training."""

PICKS = 10
"""Steps of the choice of weights."""

MOST_AVERAGED = 3
"""The most candidates that are averaged."""


@dataclass(frozen=True)
class Trial:
    """One candidate on one rung of the search.

    ``loss``: of predictions for sets that were left out of training, weighed as in training: cross-entropy, or the
    squared error of standardised targets. It decides. ``score``: their accuracy, or R². ``weight``: the candidate's in
    the prediction, 0 where another rung of it or other candidates are used. ``note``: why it was not tried, or ended
    early. ``history``: the losses of each epoch, of each network.
    """

    strategy: str
    settings: dict[str, Any]
    rung: int
    epochs: int
    seconds: float
    loss: float
    score: float
    weight: float = 0.0
    note: str = ""
    history: list[list[dict[str, float]]] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class Progress:
    """Where a search is: after an epoch of one of a candidate's networks; or, with ``trial``, after the candidate's."""

    candidate: str
    rung: int
    num_rungs: int
    network: int
    num_networks: int
    epoch: int
    epochs: int
    """How many are planned; early stopping may end it before."""
    train_loss: float
    valid_loss: float
    seconds: float
    """Since the search began."""
    seconds_left: float
    """Until it ends at the latest."""
    trial: "Trial | None" = None

    def __str__(self) -> str:
        where = f"{self.seconds:6.1f} s  round {self.rung + 1} of {self.num_rungs}  {self.candidate}"
        if self.trial is not None:
            return f"{where}: loss {self.trial.loss:.4f}, score {self.trial.score:.4f} {self.trial.note}".rstrip()
        of = f", network {self.network + 1} of {self.num_networks}" if self.num_networks > 1 else ""
        losses = f"{self.train_loss:.4f} in training, {self.valid_loss:.4f} in validation"
        return f"{where}{of}, epoch {self.epoch} of {self.epochs}: loss {losses}"


Part = tuple[list[JanossyNetwork], list[float], Tensor]
"""Networks that left out the same sets, their weights, and the numbers of these."""


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
        epochs = max(fewest, round(full * part), 1)
        return Plan(epochs, batch_size, self.learning_rate or 1e-2, self.patience or max(10, epochs // 3))


@dataclass(eq=False)
class Found:
    """What a search found: the networks with their weights, and what they say of the sets that each had left out."""

    networks: list[JanossyNetwork]
    weights: list[float]
    trials: list[Trial]
    parts: list[Part]
    interrupted: bool


@dataclass(eq=False)
class _Result:
    """A candidate that has been trained: a network for each split, and its predictions of the sets left out."""

    trial: Trial
    networks: list[JanossyNetwork]
    outputs: Tensor


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
    ) -> None:
        self.examples, self.splits, self.task, self.layouts, self.limits = examples, splits, task, layouts, limits
        self.num_permutations, self.seed, self.tell = num_permutations, seed, tell
        self.began = monotonic()
        self.deadline = self.began + limits.seconds
        self.judged = torch.cat([left_out for _, left_out in splits])
        self.trials: list[Trial] = []
        self.interrupted = False

    def run(self, candidates: Sequence[Candidate]) -> Found:
        """Try the candidates, and choose.

        Raises: FloatingPointError, or what a network raises, if there is only one candidate, or it happens to all.
        """
        alone = len(candidates) == 1
        left = list(enumerate(candidates)) if alone else list(self._affordable(candidates))
        num_rungs = 1
        while len(left) > KEPT**num_rungs:
            num_rungs += 1
        best: dict[int, _Result] = {}
        for rung in range(num_rungs):
            part = float(LONGER) ** (rung + 1 - num_rungs)
            end = _part_of_the_time(self.deadline, num_rungs - rung)
            for place, (i, candidate) in enumerate(left):
                deadline = _part_of_the_time(end, len(left) - place)
                try:
                    result = self._try(candidate, i, (rung, num_rungs), part, deadline)
                except FloatingPointError as error:
                    if alone:
                        raise
                    self._note(candidate, rung, str(error))
                    continue
                except KeyboardInterrupt:
                    if not best:
                        raise
                    self.interrupted = True
                    break
                self.trials.append(result.trial)
                if i not in best or result.trial.loss <= best[i].trial.loss or len(result.networks) > len(best[i].networks):
                    best[i] = result
                if self.interrupted or monotonic() > self.deadline:
                    break
            if self.interrupted or monotonic() > self.deadline:
                break
            left = sorted((x for x in left if x[0] in best), key=lambda x: best[x[0]].trial.loss)
            left = left[: max(KEPT, len(left) // KEPT)]
        if not best:
            raise FloatingPointError("every candidate of the search diverged: " + self.trials[-1].note)
        return self._chosen(sorted(best.values(), key=lambda result: result.trial.loss))

    def _affordable(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Candidate]]:
        """The candidates whose full training may take no more than the time there is, by the cost of a step."""
        for i, candidate in enumerate(candidates):
            training = self.splits[0][0]
            plan = self.limits.plan(len(training), 1.0)
            with torch.random.fork_rng([]):
                network = candidate.build(*self.layouts, self.task.num_outputs)
                try:
                    seconds = seconds_a_set(network, self.examples.sets)
                except ValueError as error:
                    self._note(candidate, 0, f"not tried: {error}")
                    continue
            seconds *= plan.epochs * len(training) * len(self.splits)
            if seconds > self.limits.seconds:
                self._note(candidate, 0, f"not tried: a full training is estimated to take {seconds:.0f} seconds")
                continue
            yield i, candidate

    def _note(self, candidate: Candidate, rung: int, note: str) -> None:
        self.trials.append(Trial(candidate.strategy, dict(candidate.settings), rung, 0, 0.0, inf, -inf, note=note))

    def _try(self, candidate: Candidate, i: int, rung: tuple[int, int], part: float, deadline: float) -> _Result:
        """Train a network of this candidate on each split, and predict the sets that it left out."""
        began = monotonic()
        place: dict[str, Any] = {"candidate": str(candidate), "rung": rung[0], "num_rungs": rung[1]}
        networks: list[JanossyNetwork] = []
        outputs, runs = [], []
        splits = self.splits if rung[0] + 1 == rung[1] else self.splits[:FEW_SPLITS]
        for number, (training, left_out) in enumerate(splits):
            seed = int(np.random.SeedSequence([self.seed, i, number]).generate_state(1)[0])
            torch.manual_seed(seed)
            network = candidate.build(*self.layouts, self.task.num_outputs).to(self.examples.sets.device)
            generator = torch.Generator(self.examples.sets.device).manual_seed(seed)
            plan = self.limits.plan(len(training), part)
            plan.deadline = _part_of_the_time(deadline, len(splits) - number)
            place |= {"network": number, "num_networks": len(splits)}
            runs.append(self._train(network, training, left_out, plan, generator, place))
            networks.append(network.eval())
            outputs.append(self._predicted([network], [1.0], left_out))
            if runs[-1].interrupted:
                self.interrupted = True
                break
        targets, weights = (x[self.judged] for x in (self.examples.targets, self.examples.weights))
        known = sum(map(len, outputs))
        predicted = torch.cat(outputs)
        loss = self._loss(predicted)
        trial = Trial(
            candidate.strategy,
            dict(candidate.settings),
            rung[0],
            max(len(run.history) for run in runs),
            monotonic() - began,
            loss,
            self.task.score(predicted, targets[:known], weights[:known]),
            note="interrupted" if self.interrupted else "out of time" if any(r.out_of_time for r in runs) else "",
            history=[run.history for run in runs],
        )
        last = runs[-1].history[-1] if runs[-1].history else {}
        self._told(place, trial.epochs, plan, last.get("train_loss", inf), last.get("valid_loss", inf), trial)
        return _Result(trial, networks, predicted)

    def _train(
        self,
        network: JanossyNetwork,
        training: Tensor,
        left_out: Tensor,
        plan: Plan,
        generator: torch.Generator,
        place: dict[str, Any],
    ) -> Trained:
        def tell(epoch: int, plan: Plan, train_loss: float, valid_loss: float) -> None:
            self._told(place, epoch, plan, train_loss, valid_loss)

        examples = self.examples
        return train(network, examples[training], examples[left_out], self.task.criterion, plan, generator, tell)

    def _told(
        self,
        place: dict[str, Any],
        epoch: int,
        plan: Plan,
        train_loss: float,
        valid_loss: float,
        trial: Trial | None = None,
    ) -> None:
        now = monotonic()
        times = now - self.began, max(0.0, self.deadline - now)
        self.tell(
            Progress(
                **place,
                epoch=epoch,
                epochs=plan.epochs,
                train_loss=train_loss,
                valid_loss=valid_loss,
                seconds=times[0],
                seconds_left=times[1],
                trial=trial,
            )
        )

    def _predicted(self, networks: list[JanossyNetwork], weights: list[float], sets: Tensor) -> Tensor:
        examples = self.examples[sets]
        return (
            Ensemble(networks, weights, self.task).predict(examples.sets, examples.context, self.num_permutations).mean
        )

    def _loss(self, outputs: Tensor) -> float:
        """The weighted loss of predictions of the first of the sets left out."""
        judged = self.judged[: len(outputs)]
        weights = self.examples.weights[judged]
        return float((self.task.losses(outputs, self.examples.targets[judged]) * weights).sum() / weights.sum())

    def _chosen(self, results: list[_Result]) -> Found:
        """The average of the best few, as long as it is better than the best alone."""
        complete = [result for result in results if len(result.networks) == len(self.splits)]
        results = complete or results[:1]
        counts = picks([result.outputs for result in results], self._loss)
        networks, weights = [], []
        parts: list[Part] = [([], [], left_out) for _, left_out in self.splits]
        for result, count in zip(results, counts, strict=True):
            if not count:
                continue
            weight = count / sum(counts)
            at = next(k for k, trial in enumerate(self.trials) if trial is result.trial)
            self.trials[at] = replace(result.trial, weight=weight)
            for network, part in zip(result.networks, parts, strict=False):
                networks.append(network)
                weights.append(weight / len(result.networks))
                part[0].append(network)
                part[1].append(weight)
        known = [part for part in parts if part[0]]
        return Found(networks, weights, self.trials, known, self.interrupted)


def _part_of_the_time(deadline: float, num: int) -> float:
    """When the first of so many must end, if all are to have as long."""
    return monotonic() + (deadline - monotonic()) / num


def picks(outputs: Sequence[Tensor], loss: Callable[[Tensor], float]) -> list[int]:
    """How often each prediction is to be counted in the average: picked one by one, each that which helps the most.

    The first is the best by itself; it ends when none helps.
    """
    counts = [0] * len(outputs)
    total, least = torch.zeros_like(outputs[0]), inf
    for num in range(PICKS):
        allowed = [i for i in range(len(outputs)) if counts[i] or sum(map(bool, counts)) < MOST_AVERAGED]
        found = [loss((total + outputs[i]) / (num + 1)) for i in allowed]
        if min(found) >= least:
            break
        least = min(found)
        chosen = allowed[found.index(least)]
        counts[chosen] += 1
        total = total + outputs[chosen]
    return counts
