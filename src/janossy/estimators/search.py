"""The search: candidates in turn, promising ones for longer, and at any moment the best average so far."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, isinf

import numpy as np
import torch
from torch import Tensor, nn

from janossy.estimators.averages import best_average, counts_in_average
from janossy.estimators.batches import Examples, RandomBatches
from janossy.estimators.candidates import Candidate, seconds_an_epoch, seconds_to_predict
from janossy.estimators.checkpoint import Checkpoint
from janossy.estimators.classical.cached import CachedStatistics
from janossy.estimators.classical.learners import ClassicalLearner
from janossy.estimators.contenders import Contender, Run, linked, mean_loss
from janossy.estimators.interrupts import Interrupts, now
from janossy.estimators.limits import FEW, Limits
from janossy.estimators.networks import is_compiling
from janossy.estimators.out_of_fold import Fold, outputs_by_draw
from janossy.estimators.tasks import Task
from janossy.estimators.threads import Threads, using_threads
from janossy.estimators.training import Ending, Plan, Trained, Training
from janossy.estimators.trials import Epoch, NothingTrained, Progress, Trial
from janossy.tables.layout import Layout

GOING_ON = (5, 3, 2, 2)
"""The most candidates that go on to the second round, the third, and so on."""

SURELY = 2
"""The number of candidates that always go on, even if none may become the best: averages gain from variety."""

FIRST_ROUND = 0.3
"""The part of a turn's time after which no other candidate is begun, if three networks have been tried in it."""

FIRST_SPLIT = 0.6
"""The part of a turn's time after which the other splits are trained on, if there are several."""

CHEAP = 0.1
"""A network whose other splits take no more than this part of the time left is trained on all of them at once."""

COMPILING = 20.0
"""The seconds that are kept for a compiler: with less time left, no network is begun whose kernels it makes."""

PREDICTING = 0.05
"""The largest part of the time for a candidate's predictions from all pairs or triples; else they are sampled."""

MANY_SETS = 10_000
"""From so many training sets on, a network is tried second, before forests: these take most of a minute."""


@dataclass(eq=False)
class SearchResult:
    """The result of a search: networks, their weights, and per split those of them that left out its sets."""

    networks: list[nn.Module]
    weights: list[float]
    trials: list[Trial]
    folds: list[Fold]


class Search:
    """A search that trains candidates on the first split in rounds, then the best on all splits, and averages them.

    This is one turn. Another turn follows while there is time, if the last one was too short for some candidates.

    Each round doubles the training of the few candidates whose learning curve may still matter. A network continues
    from its last state. The average is that of Caruana et al. (2004). Rounds are measured in epochs, not in seconds. If
    the time suffices, the result depends on the seed alone.
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
        groups: np.ndarray | None = None,
        interrupts: Interrupts | None = None,
        checkpoint: Checkpoint | None = None,
        threads: Threads | None = None,
    ) -> None:
        self.examples, self.splits, self.task, self.layouts, self.limits = examples, splits, task, layouts, limits
        self.num_permutations, self.seed, self.tell, self.checkpoint = num_permutations, seed, tell, checkpoint
        self.began = now()
        self.deadline = self.began + limits.seconds
        validation = torch.cat([validation for _, validation in splits])
        self.targets, self.weights = examples.targets[validation], examples.weights[validation]
        self.interrupts = interrupts or Interrupts()
        self.threads = threads or Threads()
        self.num_threads = self.threads.of(examples.sets, self._plan(0, 1.0).batch_size)
        self.contenders: list[Contender] = []
        self.turn_began, self.was_short = self.began, False
        self.statistics = CachedStatistics(examples, layouts, groups)

    def run(self, candidates: Sequence[Candidate]) -> SearchResult:
        """Tries the candidates, and averages the best.

        An interrupt, by Ctrl-C or by ``tell``, ends the search with the best average so far. The end of the time does
        the same, but not before there is one learner, if one can be fitted without training steps.

        Raises: FloatingPointError if training diverges for the only candidate, or for all candidates. NothingTrained
            if an interrupt or the end of the time comes before the first training step of any network.
        """
        self.contenders = [Contender(i, candidate) for i, candidate in enumerate(candidates)]
        parts = self.limits.parts(len(candidates))
        with using_threads(self.num_threads):
            waiting, num_epochs = self._worth_trying(parts[0]), -1
            while self._num_epochs() > num_epochs:
                self.turn_began, self.was_short, num_epochs = now(), False, self._num_epochs()
                waiting = self._first_round(waiting, parts[0])
                for number, part in enumerate(parts[1:], 1):
                    if not self._further_round(number, part):
                        break
                self._other_splits()
                if self._has_ended() or not (waiting or self.was_short):
                    break
            for contender, _ in waiting:
                contender.note = "not tried: the time was for those that are promising"
            for contender in self.contenders:
                if not contender.runs and not contender.note:
                    contender.note = "not tried: its part of the time was too short for a step of training"
        if self._trained():
            return self._result()
        diverged = [contender.note for contender in self.contenders if contender.is_over]
        notes = diverged or [contender.note for contender in self.contenders]
        if self.interrupts.came or (now() > self.deadline and not diverged):
            raise NothingTrained("before the first step of training was done")
        raise FloatingPointError(f"all candidates of the search failed; the last one: {notes[-1]}")

    def _first_round(self, waiting: Sequence[tuple[Contender, float]], part: float) -> list[tuple[Contender, float]]:
        """Trains candidates for a while on the first split, and returns those for which there is no time now.

        Args:
            waiting: contenders, with their estimated seconds.
        """
        until, num_tried = now() + FIRST_ROUND * (self.deadline - now()), 0
        waiting, postponed = list(waiting), set()
        for place, (contender, seconds) in enumerate(waiting):
            has_ended = self.interrupts.came or (self._has_ended() and self._trained())
            if has_ended or (num_tried >= FEW and now() > until):
                return list(waiting[place:])
            left = self.deadline - now()
            others = [each for _, each in waiting[place + 1 :]]
            if seconds > max(0.0, left) and (self._trained() or any(each < seconds for each in others)):
                contender.note = f"not tried: it is estimated to take {seconds:.0f} seconds"
                continue
            share = now() + max(left / (len(others) + 1), left / 4)
            if contender.candidate.classical:
                self._fit(contender, share)
                continue
            if self._trained() and not isinf(left) and self._is_compiling(contender):
                if others and contender not in postponed:
                    postponed.add(contender)
                    waiting.append((contender, seconds))
                    continue
                if left < COMPILING:
                    contender.note = "not tried: its kernels were still being compiled, which is done once per machine"
                    continue
            share = min(share, self._end_of_first_split())
            num_tried += 1
            self._train_further(contender, part, share)
            needed = (len(self.splits) - 1) * contender.seconds if contender.runs else inf
            if needed <= CHEAP * (self.deadline - now()) and contender in self._promising():
                self._train_other_splits([contender])
        left_over = [each for each in waiting if not each[0].is_over and not each[0].note]
        if left_over and not self._trained() and not self._has_ended():  # each share was too short for a step
            cheapest = min(left_over, key=lambda each: each[1])[0]
            self._train_further(cheapest, part, self.deadline)
        return []

    def _is_compiling(self, contender: Contender) -> bool:
        """Returns True if a step on two sets of median size needs a kernel that another process still compiles."""
        training = self.splits[0][0]
        sizes = self.examples.sets.offsets.diff().cpu()[training]
        enough = (sizes >= contender.candidate.least_size).nonzero()[:, 0]
        middle = enough[sizes[enough].argsort()[max(0, len(enough) // 2 - 1) :][:2]]
        if len(middle) < 2 or contender.candidate.factory is not None:
            return False
        some = self.examples[training[middle]]
        network = contender.candidate.build(*self.layouts, self.task.num_outputs).to(some.sets.device)
        return is_compiling(network, some.sets, some.context)

    def _further_round(self, number: int, part: float) -> bool:
        """Trains the candidates that may still matter further. Returns False if none matters or time is over."""
        has_trained = False
        for contender in self._promising()[: GOING_ON[number - 1]]:
            epochs = self._plan(0, part).epochs - contender.planned
            end = self._end_of_first_split() if len(contender.runs) < len(self.splits) else self.deadline
            pace = contender.seconds / max(1, len(contender.runs[0].trained.history))
            if self._has_ended() or epochs * pace * len(contender.runs) > end - now():
                self.was_short = True
                continue
            if epochs > 0:
                self._train_further(contender, part, end)
            has_trained = True
        return has_trained

    def _promising(self) -> list[Contender]:
        """Returns the contenders that may become the best or nearly so, the most promising first, but at least two.

        Nearly means within the standard error of the difference of losses. Contenders are compared with the best one on
        the most splits, over the splits that both have.
        """
        trained = self._trained()
        if not trained:
            return []
        most = max(len(contender.runs) for contender in trained)
        best = min(
            (each for each in trained if len(each.runs) == most), key=lambda each: each.losses[-1] + each.optimism
        )
        behind = {}
        for contender in trained:
            num = len(contender.runs)
            difference = self.losses(contender.predicted(num)) - self.losses(best.predicted(num))
            difference = difference + contender.optimism - best.optimism
            error = float(difference.std()) / len(difference) ** 0.5 if len(difference) > 1 else inf
            behind[contender] = float(difference.mean()), error
        least = min(mean for mean, _ in behind.values())
        found: list[Contender] = []
        for contender in sorted(trained, key=lambda each: behind[each][0] - each.gain_hoped_for):
            mean, error = behind[contender]
            matters = mean - contender.gain_hoped_for <= least + error
            if not contender.is_over and (matters or len(found) < SURELY):
                found.append(contender)
        return found

    def _other_splits(self) -> None:
        """Trains the contenders of the average on the other splits, split by split, the largest weight first."""
        if self._trained():
            counts = counts_in_average(self._trained(), 1, self.losses)
            used = [contender for contender in counts if counts[contender]]
            self._train_other_splits(sorted(used, key=lambda contender: -counts[contender]))

    def _train_other_splits(self, contenders: Sequence[Contender]) -> None:
        for contender in contenders:
            is_short = contender.candidate.classical and len(contender.runs) < len(self.splits)
            if is_short and contender.seconds * len(self.splits) <= self.deadline - now() and not self._has_ended():
                self._fit(contender, self.deadline)  # all splits share one strength, so all are fitted again
        networks = [contender for contender in contenders if not contender.candidate.classical]
        trained_before = [len(contender.runs) for contender in networks]
        for split in range(1, len(self.splits)):
            for contender in networks:
                has_time = contender.seconds <= self.deadline - now()
                if len(contender.runs) == split and has_time and not self._has_ended():
                    self._train(contender, split, contender.planned, self.deadline)
        for contender, num in zip(networks, trained_before, strict=True):
            if len(contender.runs) > num:
                contender.losses[-1] = self._loss(contender)
                last, rung = contender.runs[-1].trained.last, len(contender.losses) - 1
                self._tell(contender, rung, len(contender.runs) - 1, len(self.splits), last, self._trial(contender))

    def _has_ended(self) -> bool:
        return self.interrupts.came or now() > self.deadline

    def _end_of_first_split(self) -> float:
        part = FIRST_SPLIT if len(self.splits) > 1 else 1.0
        return self.deadline if isinf(self.deadline) else self.turn_began + part * (self.deadline - self.turn_began)

    def _num_epochs(self) -> int:
        """Returns the total number of epochs of all networks."""
        return sum(len(run.trained.history) for contender in self.contenders for run in contender.runs)

    def _trained(self) -> list[Contender]:
        return [contender for contender in self.contenders if contender.runs]

    def _plan(self, split: int, part: float) -> Plan:
        return self.limits.plan(len(self.splits[split][0]), part)

    def _plan_epochs(self, split: int, epochs: int, share: int, deadline: float) -> Plan:
        """Returns a plan of this many epochs, with the patience of ``Limits.patience_of``."""
        patience = self.limits.patience_of(epochs, share)
        return replace(self._plan(split, 1.0), epochs=epochs, patience=patience, deadline=deadline)

    def _worth_trying(self, part: float) -> list[tuple[Contender, float]]:
        """Returns the contenders that suit these sets, with the estimated seconds of a first round.

        A single contender is always tried.
        """
        if len(self.contenders) == 1:
            return [(self.contenders[0], 0.0)]
        largest = max(self.examples.sets.sizes)
        found = []
        for contender in self.contenders:
            if self.interrupts.came:
                break
            if contender.candidate.least_size > largest:
                contender.note = f"not tried: the largest set has {largest} elements"
                continue
            if why := contender.candidate.why_not(self.statistics):
                contender.note = f"not tried: {why}"
                continue
            try:
                found.append((contender, self._estimate(contender, part)))
            except ValueError as error:  # too many rows
                contender.note = f"not tried: {error}"
        networks = [i for i, (contender, _) in enumerate(found) if not contender.candidate.classical]
        if networks and len(self.splits[0][0]) >= MANY_SETS:
            found.insert(1, found.pop(networks[0]))
        return found

    def _estimate(self, contender: Contender, part: float) -> float:
        """Returns the estimated seconds of a first round, and chooses one of the candidate's variants.

        The choice is the first variant whose predictions take a small part of the time, else the last.

        Raises: ValueError if the last has too many rows.
        """
        training, validation = (self.examples.sets[some] for some in self.splits[0])
        epochs = self._plan(0, part).epochs
        *others, last = contender.candidate.variants
        for variant in (*others, last):
            network = variant.build(*self.layouts, self.task.num_outputs).to(self.examples.sets.device)
            try:
                predictions = seconds_to_predict(network, validation)
                seconds = epochs * seconds_an_epoch(network, training, validation) + predictions
            except ValueError:
                if variant is last:
                    raise
                continue
            if len(self.splits) * predictions <= self.limits.seconds * PREDICTING:
                break
        contender.candidate = variant
        return seconds

    def _train_further(self, contender: Contender, part: float, deadline: float) -> None:
        """Trains a contender up to a part of a full training, on the splits of its runs, or on the first split."""
        number, num_splits = len(contender.losses), max(1, len(contender.runs))
        epochs = self._plan(0, part).epochs
        for split in range(num_splits):
            share = now() + (deadline - now()) / (num_splits - split)
            if (split and self._has_ended()) or self._train(contender, split, epochs, share) is None:
                break
        if not contender.runs or contender.note:
            return
        contender.planned = max(contender.planned, epochs)
        before = contender.losses[-1] if contender.losses else inf
        contender.losses.append(self._loss(contender))
        stopped = all(len(run.trained.history) < epochs and not run.trained.ending for run in contender.runs)
        contender.is_over = stopped or contender.losses[-1] >= before
        last = contender.runs[-1].trained.last
        self._tell(contender, number, num_splits - 1, num_splits, last, self._trial(contender))

    def _train(self, contender: Contender, split: int, epochs: int, deadline: float) -> Run | None:
        """Trains a contender's network of a split up to ``epochs`` in all. Returns None if it learnt nothing.

        Raises: FloatingPointError if training diverges, and there is no other candidate and no other run.
        """
        goes_on = split < len(contender.runs)
        try:
            run = contender.runs[split] if goes_on else self._start(contender, split, epochs, deadline)
            assert run.training is not None
            if goes_on:
                self._extend(contender, run, split, epochs - contender.planned, deadline)
            run.trained = run.training.run()
        except FloatingPointError as error:
            if len(self.contenders) == 1 and not contender.runs:
                raise
            contender.note, contender.is_over = str(error), True
            if goes_on and run.training is not None:
                run.network.load_state_dict(run.training.best)
                self._predict(run, split)
            return None
        if not run.trained.history:
            return None
        if self.interrupts.came:
            run.trained = replace(run.trained, ending=Ending.INTERRUPTED)
        self._predict(run, split)
        if not goes_on:
            contender.runs.append(run)
        return run

    def _predict(self, run: Run, split: int) -> None:
        """Stores a network's outputs for the validation sets of its split."""
        validation = self.examples[self.splits[split][1]]
        run.outputs = outputs_by_draw(run.network.eval(), validation, self.num_permutations)
        run.predicted = linked(run.outputs, self.task)

    def _fit(self, contender: Contender, deadline: float) -> None:
        """Fits a classical learner on all splits, or on the first ones if time is over before.

        Raises: FloatingPointError if a loss is not finite, and there is no other candidate.
        """
        learner = contender.candidate.build(*self.layouts, self.task.num_outputs)
        assert isinstance(learner, ClassicalLearner)
        try:
            found = learner.fit_splits(
                self.statistics,
                self.splits,
                self.task,
                seeds=[self._seed_of(contender, split) for split in range(len(self.splits))],
                deadline=deadline,
                interrupted=lambda: self.interrupts.came,
                num_threads=self.threads.asked or self.threads.available,
                latest=self.deadline if self._trained() else inf,
            )
        except FloatingPointError as error:
            if len(self.contenders) == 1:
                raise
            contender.note, contender.is_over = str(error), True
            return
        if not found:
            if not contender.runs:
                contender.note = "not tried: its first step is estimated to take longer than the time left"
            return
        device = self.examples.sets.device
        contender.runs = []
        for each in found:
            outputs, network, trained = each.outputs.to(device)[:, None], each.network.to(device), each.trained
            if trained.ending is Ending.OUT_OF_TIME and now() < self.deadline:  # only its planned share was over
                trained = replace(trained, ending=Ending.AS_PLANNED)
            contender.runs.append(Run(network, None, trained, outputs, linked(outputs, self.task)))
        contender.is_over = True
        contender.losses = [self._loss(contender)]
        self._tell(contender, 0, len(found) - 1, len(found), found[-1].trained.last, self._trial(contender))

    def _start(self, contender: Contender, split: int, epochs: int, deadline: float) -> Run:
        """Returns a new network with its training still ahead."""
        training, validation = self.splits[split]
        seed = self._seed_of(contender, split)
        torch.manual_seed(seed)
        network = contender.candidate.build(*self.layouts, self.task.num_outputs).to(self.examples.sets.device)
        nothing = self.targets.new_zeros(0)
        untrained = Trained([], Epoch(0, 0, inf, inf), Ending.AS_PLANNED, 0.0)
        plan = self._plan_epochs(split, epochs, 3, deadline)

        def tell(epoch: Epoch) -> None:  # for the epochs of all rounds
            rung, num_networks = (len(contender.losses), 1) if split == 0 else (0, len(self.splits))
            self._tell(contender, rung, split, num_networks, epoch)

        paused = Training(
            network,
            RandomBatches(self.examples[training], plan.batch_size, seed),
            self.examples[validation],
            self.task.criterion,
            plan,
            tell,
            interrupts=self.interrupts,
            checkpoint=self.checkpoint,
            stage=f"training-0-{contender.index}-{split}",
        )
        return Run(network, paused, untrained, nothing, nothing)

    def _extend(self, contender: Contender, run: Run, split: int, epochs: int, deadline: float) -> None:
        """Plans further epochs of a network."""
        assert run.training is not None
        plan = self._plan_epochs(split, epochs, 2, deadline)
        run.training.extend(plan, f"training-{len(contender.losses)}-{contender.index}-{split}")

    def _seed_of(self, contender: Contender, split: int) -> int:
        return int(np.random.SeedSequence([self.seed, contender.index, split]).generate_state(1)[0])

    def losses(self, predicted: Tensor) -> Tensor:
        """Returns the weighted losses of predictions for the first V validation sets, (V,)."""
        num = len(predicted)
        return self.task.losses(predicted, self.targets[:num]) * self.weights[:num]

    def _loss(self, contender: Contender) -> float:
        """Returns the mean loss of a contender on the validation sets of its splits."""
        predicted = contender.predicted(len(contender.runs))
        return mean_loss(self.task, predicted, self.targets[: len(predicted)], self.weights[: len(predicted)])

    def _trial(self, contender: Contender, weight: float = 0.0) -> Trial:
        return contender.trial(self.task, self.targets, self.weights, weight)

    def _tell(
        self,
        contender: Contender,
        number: int,
        network: int,
        num_networks: int,
        epoch: Epoch,
        trial: Trial | None = None,
    ) -> None:
        at = now()
        left = max(0.0, self.deadline - at)
        name = str(contender.candidate)
        self.tell(Progress(name, number, network, num_networks, epoch, at - self.began, left, trial))

    def _result(self) -> SearchResult:
        counts, num_splits = best_average(self._trained(), self.losses)
        total = sum(counts.values())
        weight_of = {contender: count / total for contender, count in counts.items() if count}
        folds = []
        for split in range(num_splits):
            runs = [contender.runs[split] for contender in weight_of]
            networks, outputs = [run.network for run in runs], [run.outputs for run in runs]
            folds.append(Fold(networks, list(weight_of.values()), self.splits[split][1], outputs))
        networks, weights = [], []
        for contender, weight in weight_of.items():
            networks += [run.network for run in contender.runs]
            weights += [weight / len(contender.runs)] * len(contender.runs)
        trials = [self._trial(contender, weight_of.get(contender, 0.0)) for contender in self.contenders]
        return SearchResult(networks, weights, trials, folds)
