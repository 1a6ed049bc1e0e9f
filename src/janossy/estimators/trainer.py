"""Trainer: what trains the contenders of a search, on one split or several, and judges them by validation sets."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from math import inf

import torch
from torch import Tensor

from janossy.estimators.batches import Examples, RandomBatches, short_seed_of
from janossy.estimators.candidates import Candidate, seconds_an_epoch, seconds_to_predict
from janossy.estimators.checkpoint import Checkpoint
from janossy.estimators.classical.cached import CachedStatistics
from janossy.estimators.classical.learners import ClassicalLearner
from janossy.estimators.contenders import Contender, Run, linked, mean_loss
from janossy.estimators.interrupts import Interrupts, now
from janossy.estimators.limits import Limits
from janossy.estimators.networks import is_compiling
from janossy.estimators.out_of_fold import outputs_by_draw
from janossy.estimators.splits import Split, Splits
from janossy.estimators.tasks import Task
from janossy.estimators.threads import Threads
from janossy.estimators.training import Ending, Plan, Trained, Training
from janossy.estimators.trials import Epoch, Progress, Trial
from janossy.tables.layout import Layout

PREDICTING = 0.05
"""The largest part of the time for a candidate's predictions from all pairs or triples; else they are sampled."""


class Trainer:
    """Trains contenders until the limits' time is over. It knows the data, the splits, the task and the clock.

    Args:
        examples: the sets with their targets.
        splits: those on which candidates are trained, and spare ones.
        layouts: those of elements and of context.
        num_permutations: the number of orders that predictions average over.
        tell: called after every epoch and trial.
        statistics: those of the sets, which several trainers may share; None for new ones.
        began: the time at which the limits' seconds began; None for now.
        for_larger: the candidates that may predict sets larger than in training; none to leave these to the average.
    """

    def __init__(
        self,
        examples: Examples,
        splits: Splits,
        task: Task,
        layouts: tuple[Layout, Layout],
        limits: Limits,
        *,
        num_permutations: int,
        seed: int,
        tell: Callable[[Progress], None],
        statistics: CachedStatistics | None = None,
        interrupts: Interrupts | None = None,
        checkpoint: Checkpoint | None = None,
        threads: Threads | None = None,
        began: float | None = None,
        for_larger: Sequence[Candidate] = (),
    ) -> None:
        self.examples, self.task, self.layouts, self.limits = examples, task, layouts, limits
        self.splits, self.num_spare = splits
        self.num_permutations, self.seed, self.tell, self.checkpoint = num_permutations, seed, tell, checkpoint
        self.began = now() if began is None else began
        self.end = self.began + limits.seconds
        self.deadline = self.end
        self.for_larger = for_larger
        self._find_targets()
        self.interrupts = interrupts or Interrupts()
        self.threads = threads or Threads()
        self.num_threads = self.threads.of(examples.sets, self.plan(0, 1.0).batch_size)
        self.contenders: list[Contender] = []
        self.statistics = statistics or CachedStatistics(examples, layouts)

    def _find_targets(self) -> None:
        validation = torch.cat([validation for _, validation in self.splits])
        self.targets, self.weights = self.examples.targets[validation], self.examples.weights[validation]

    def on_split(self, split: Split, contenders: list[Contender], what: str) -> "Trainer":
        """Returns a trainer of other contenders on another split, with the same clock and without a checkpoint.

        Its progress names ``what`` the split's sets are. Its trials are not told.
        """
        other = copy(self)
        other.splits, other.num_spare, other.checkpoint, other.contenders = [split], 0, None, contenders
        other.tell = lambda progress: self.tell(
            replace(progress, candidate=f"{progress.candidate}, on {what}", trial=None)
        )
        other._find_targets()
        return other

    @property
    def first_splits(self) -> list[Split]:
        """The splits without spare ones."""
        return self.splits[: len(self.splits) - self.num_spare]

    @property
    def has_ended(self) -> bool:
        """True after an interrupt, and when the time is over."""
        return self.interrupts.came or now() > self.deadline

    def keep(self, seconds: float) -> None:
        """Brings the deadline forward, so that this much of the time is left for fits to all sets."""
        self.deadline = self.end - seconds

    @property
    def trained(self) -> list[Contender]:
        """The contenders with a trained network."""
        return [contender for contender in self.contenders if contender.runs]

    def plan(self, split: int, part: float) -> Plan:
        """Returns the plan for a part of a full training."""
        return self.limits.plan(len(self.splits[split][0]), part)

    def _plan_epochs(self, split: int, epochs: int, share: int, deadline: float) -> Plan:
        """Returns a plan of this many epochs, with the patience of ``Limits.patience_of``."""
        patience = self.limits.patience_of(epochs, share)
        return replace(self.plan(split, 1.0), epochs=epochs, patience=patience, deadline=deadline)

    def is_compiling(self, contender: Contender) -> bool:
        """Returns True if a step on two sets of median size needs a kernel that another process still compiles."""
        training = self.splits[0][0]
        sizes = self.examples.sets.offsets.diff().cpu()[training]
        enough = (sizes >= max(1, contender.candidate.least_size)).nonzero()[:, 0]
        middle = enough[sizes[enough].argsort()[max(0, len(enough) // 2 - 1) :][:2]]
        if len(middle) < 2 or contender.candidate.factory is not None:
            return False
        some = self.examples[training[middle]]
        network = contender.candidate.build(*self.layouts, self.task.num_outputs).to(some.sets.device)
        return is_compiling(network, some.sets, some.context)

    def estimate(self, contender: Contender, part: float) -> float:
        """Returns the estimated seconds of a first round, and chooses one of the candidate's variants.

        The choice is the first variant whose predictions take a small part of the time, else the last.

        Raises: ValueError if the last has too many rows.
        """
        training, validation = (self.examples.sets[some] for some in self.splits[0])
        epochs = self.plan(0, part).epochs
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
            if len(self.first_splits) * predictions <= self.limits.seconds * PREDICTING:
                break
        contender.candidate = variant
        return seconds

    def train_further(self, contender: Contender, part: float, deadline: float) -> None:
        """Trains a contender up to a part of a full training, on the splits of its runs, or on the first split."""
        number, num_splits = len(contender.losses), max(1, len(contender.runs))
        epochs = self.plan(0, part).epochs
        for split in range(num_splits):
            share = now() + (deadline - now()) / (num_splits - split)
            if (split and self.has_ended) or self.train(contender, split, epochs, share) is None:
                break
        if not contender.runs or contender.note:
            return
        contender.planned = max(contender.planned, epochs)
        before = contender.losses[-1] if contender.losses else inf
        contender.losses.append(self._loss(contender))
        stopped = all(len(run.trained.history) < epochs and not run.trained.ending for run in contender.runs)
        contender.is_over = stopped or contender.losses[-1] >= before
        last = contender.runs[-1].trained.last
        self._tell(contender, number, num_splits - 1, num_splits, last, self.trial_of(contender))

    def train(self, contender: Contender, split: int, epochs: int, deadline: float) -> Run | None:
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

    def fit(self, contender: Contender, deadline: float, num_splits: int, latest: float | None = None) -> None:
        """Fits a classical learner on the first splits, or on fewer if time is over before.

        An earlier fit on as many splits or more is kept. If something is trained already, and the first step is
        estimated to end after ``latest``, nothing is fitted; None for the end of the time.

        Raises: FloatingPointError if a loss is not finite, and there is no other candidate.
        """
        try:
            found = self._learner(contender).fit_splits(
                self.statistics,
                self.splits[:num_splits],
                self.task,
                seeds=[self._seed_of(contender, split) for split in range(num_splits)],
                deadline=deadline,
                interrupted=lambda: self.interrupts.came,
                num_threads=self.threads.most,
                latest=(self.deadline if latest is None else latest) if self.trained else inf,
            )
        except FloatingPointError as error:
            if len(self.contenders) == 1:
                raise
            contender.note, contender.is_over = str(error), True
            return
        if len(found) <= len(contender.runs):
            if not contender.runs:
                contender.note = "not tried: its first step is estimated to take longer than the time left"
            return
        device = self.examples.sets.device
        contender.runs, contender.fitted = [], found[0]
        for each in found:
            outputs, network, trained = each.outputs.to(device)[:, None], each.network.to(device), each.trained
            if trained.ending is Ending.OUT_OF_TIME and now() < self.deadline:  # only its planned share was over
                trained = replace(trained, ending=Ending.AS_PLANNED)
            contender.runs.append(Run(network, None, trained, outputs, linked(outputs, self.task)))
        contender.is_over = True
        contender.losses = [self._loss(contender)]
        self._tell(contender, 0, len(found) - 1, len(found), found[-1].trained.last, self.trial_of(contender))

    def fit_to_all(self, contender: Contender) -> None:
        """Fits a classical learner to all sets, as far as it went on the splits, unless the time is over before."""
        assert contender.fitted is not None
        network = self._learner(contender).fit_to_all(
            self.statistics,
            contender.fitted,
            self.task,
            seed=self._seed_of(contender, len(self.splits)),
            is_over=lambda: self.interrupts.came or now() > self.end,
            num_threads=self.threads.most,
        )
        contender.of_all = None if network is None else network.to(self.examples.sets.device)

    def _learner(self, contender: Contender) -> ClassicalLearner:
        """Returns a classical candidate before its fit."""
        learner = contender.candidate.build(*self.layouts, self.task.num_outputs)
        assert isinstance(learner, ClassicalLearner)
        return learner

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
        return short_seed_of(self.seed, contender.index, split)

    def losses(self, predicted: Tensor) -> Tensor:
        """Returns the weighted losses of predictions for the first V validation sets, (V,)."""
        num = len(predicted)
        return self.task.losses(predicted, self.targets[:num]) * self.weights[:num]

    def judge_anew(self, contender: Contender) -> None:
        """Corrects the last loss of a contender that was trained on further splits, and reports it."""
        contender.losses[-1] = self._loss(contender)
        last, num = contender.runs[-1].trained.last, len(contender.runs)
        self._tell(contender, len(contender.losses) - 1, num - 1, len(self.splits), last, self.trial_of(contender))

    def _loss(self, contender: Contender) -> float:
        """Returns the mean loss of a contender on the validation sets of its splits, and keeps its standard error."""
        predicted = contender.predicted(len(contender.runs))
        num_a_split = len(predicted) / len(contender.runs)
        contender.standard_error = float(self.losses(predicted).std(correction=0)) / num_a_split**0.5
        return mean_loss(self.task, predicted, self.targets[: len(predicted)], self.weights[: len(predicted)])

    def trial_of(self, contender: Contender, weight: float = 0.0) -> Trial:
        """Returns the record of a contender, with its weight in the average."""
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
