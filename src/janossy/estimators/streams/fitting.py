"""A fit to sets that are read as it goes: a pass to learn what they are, a choice of the network, and its training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from janossy.estimators.batches import Examples, seed_of
from janossy.estimators.candidates import Candidate
from janossy.estimators.checkpoint import Checkpoint
from janossy.estimators.classical.learners import ClassicalLearner
from janossy.estimators.interrupts import Interrupts, now
from janossy.estimators.out_of_fold import Fold, outputs_by_draw
from janossy.estimators.processes import Processes
from janossy.estimators.search import Limits, Search, SearchResult
from janossy.estimators.size_extrapolation import largest_size
from janossy.estimators.splits import MAX_SETS, PART, splits
from janossy.estimators.streams.order import Order, Reader
from janossy.estimators.streams.scan import Scan, scan
from janossy.estimators.tasks import Task
from janossy.estimators.training import train
from janossy.estimators.trials import Epoch, NothingTrained, Progress, Trial
from janossy.tables.encoder import TableEncoder
from janossy.tables.stream import Labelled, SetStream

SAMPLE = 20_000
"""Of several candidates the best is chosen by training on so many sets, in memory and in half of the time.

A classical learner is fitted to as many."""


@dataclass(frozen=True)
class Targets:
    """What is predicted: the task; targets as it has them, of targets as files have them; and the weight of each."""

    task: Task
    encode: Callable[[np.ndarray], Tensor]
    weigh: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class FitRequest:
    """The settings of a fit. ``metadata``: those that tell it from other fits, as plain data."""

    tried: Sequence[Candidate]
    limits: Limits
    validation: float | int | None
    num_permutations: int
    seed: int | None
    device: str
    checkpoint: Path | None
    metadata: dict[str, Any]
    tell: Callable[[Progress], None]


@dataclass
class Fitted:
    """A network, as a search would have found it, and how it came about.

    ``validation_sets``: sets that it has not learnt from, to which the numbers in ``found.folds`` point. ``examples``
    are the same, encoded. ``seconds``: "scan", the first pass; "training", of which "reading" is what it waited for.
    """

    found: SearchResult
    encoder: TableEncoder
    targets: Targets
    validation_sets: Labelled
    examples: Examples
    scan: Scan
    seed: int
    interrupted: bool
    processes: Processes
    seconds: dict[str, float] = field(default_factory=dict)


def fit_stream(
    stream: SetStream, request: FitRequest, classes: bool, targets_of: Callable[[Scan], Targets], interrupts: Interrupts
) -> Fitted:
    """Fit one network, in this process, or together with those that torchrun started.

    ``classes``: whether targets are classes. ``targets_of``: what the first pass tells of them. With a checkpoint, what
    an earlier run of the same fit has finished is not done again.

    Raises: ValueError for what is wrong in the files or the checkpoint; FloatingPointError if training diverges;
        NothingTrained for an interrupt, or the end of the time, before there is anything to keep.
    """
    began = now()
    processes = Processes.found(request.device)
    metadata = request.metadata | {"stream": stream.state(), "processes": processes.num}
    checkpoint = None if request.checkpoint is None else Checkpoint(request.checkpoint, metadata, processes)
    prepared = _prepared(stream, request, classes, processes, checkpoint)
    seed, scanned = prepared["seed"], Scan.from_state(prepared["scan"])
    encoder, targets = scanned.table_encoder(), targets_of(scanned)
    device = processes.device(request.device)
    examples_of = _Encoding(encoder, targets)
    validation_sets = stream.part(scanned.validation_sets)
    examples = examples_of(validation_sets).to(device)
    seconds = {"scan": now() - began}
    largest = largest_size(examples.targets, examples.sets.offsets.diff(), scanned.largest)
    layouts = replace(encoder.element_layout, largest_size=largest), encoder.context_layout
    tell = request.tell if processes.rank == 0 else _say_nothing
    if "candidate" not in prepared:
        chosen: tuple[int, dict[str, Any]] = (0, {})
        trials = list[Trial]()
        if len(request.tried) > 1 and processes.rank == 0:
            assert scanned.sample is not None
            sample = examples_of(stream.part(scanned.sample)).to(device)
            chosen, trials = _chosen(sample, request, targets.task, layouts, seed, tell, interrupts)
        chosen, trials = processes.of_first((chosen, trials))
        prepared |= {"candidate": list(chosen)}
        if checkpoint is not None:
            checkpoint.write("prepared", prepared)
    else:
        trials = []
    index, settings = prepared["candidate"]
    candidate = request.tried[index]
    candidate = replace(candidate, settings={**candidate.settings, **settings})

    torch.manual_seed(seed_of(seed))
    network = candidate.build(*layouts, targets.task.num_outputs).to(device)
    deadline = began + request.limits.seconds
    num_learnt = [piece.num_sets for piece in stream.pieces]
    numbers = _validation_numbers(len(stream), request.validation, 0, seed)[0]
    for i in range(len(num_learnt)):
        num_learnt[i] -= len(stream.among(numbers, i))
    plan = request.limits.plan(sum(num_learnt), 1.0)
    order = Order(num_learnt, [piece.num_elements for piece in stream.pieces], plan.batch_size, processes.num, seed)
    plan = replace(plan, deadline=deadline)

    def read(i: int) -> Examples:
        of_piece = examples_of(stream.read(i))
        kept = np.setdiff1d(np.arange(len(of_piece)), stream.among(numbers, i))
        return of_piece if len(kept) == len(of_piece) else of_piece[torch.from_numpy(kept)]

    def tell_epoch(epoch: Epoch, trial: Trial | None = None) -> None:
        at = now()
        left = max(0.0, plan.deadline - at)
        tell(Progress(str(candidate), 0, 0, 1, epoch, at - began, left, trial))

    started = now()
    if isinstance(network, ClassicalLearner):
        assert scanned.sample is not None
        sample = examples_of(stream.part(scanned.sample))
        read_for = now() - started
        network, run = network.fit(
            sample,
            examples,
            targets.task,
            seed=seed_of(seed),
            deadline=deadline,
            interrupted=lambda: interrupts.came,
        )
    else:
        reader = Reader(read, order, processes.rank)
        run = train(
            network,
            reader,
            examples,
            targets.task.criterion,
            plan,
            tell_epoch,
            interrupts=interrupts,
            processes=processes,
            checkpoint=checkpoint,
        )
        read_for = reader.seconds
    seconds |= {"reading": read_for, "training": now() - started}
    if not run.history:
        raise NothingTrained("before the first step of training was done")
    network.eval()
    outputs = outputs_by_draw(network, examples, request.num_permutations)
    fold = Fold([network], [1.0], torch.arange(len(examples)), [outputs])
    mean = fold.mean(targets.task.link(1.0))
    losses = targets.task.losses(mean, examples.targets) * examples.weights
    trial = Trial(
        candidate.strategy,
        dict(candidate.settings),
        0,
        len(run.history),
        run.seconds,
        float(losses.sum() / examples.weights.sum()),
        targets.task.score(mean, examples.targets, examples.weights),
        1.0,
        str(run.ending),
        [run.history],
        index,
    )
    tell_epoch(run.last, trial)
    found = SearchResult([network], [1.0], [*trials, trial], [fold])
    return Fitted(
        found, encoder, targets, validation_sets, examples, scanned, seed, interrupts.came, processes, seconds
    )


class _Encoding:
    """Parts of a stream as a network reads them."""

    def __init__(self, encoder: TableEncoder, targets: Targets) -> None:
        self.encoder, self.targets = encoder, targets

    def __call__(self, part: Labelled) -> Examples:
        assert part.targets is not None
        encoded, targets = self.encoder.transform(part.sets), self.targets.encode(part.targets)
        context = encoded.context if encoded.context.shape[1] else None
        return Examples(encoded.elements, context, targets, self.targets.weigh(targets))


def _prepared(
    stream: SetStream, request: FitRequest, classes: bool, processes: Processes, checkpoint: Checkpoint | None
) -> dict[str, Any]:
    """The seed and the first pass, of a checkpoint if it has them."""
    found = None if checkpoint is None else checkpoint.read("prepared")
    if found is not None:
        return found
    seed = processes.of_first(int(np.random.SeedSequence(request.seed).generate_state(1)[0]))
    needs_sample = len(request.tried) > 1 or request.tried[0].classical
    validation_sets, sample = _validation_numbers(len(stream), request.validation, SAMPLE if needs_sample else 0, seed)
    prepared = {"seed": seed, "scan": scan(stream, classes, validation_sets, sample, processes).state()}
    if checkpoint is not None:
        checkpoint.write("prepared", prepared)
    return prepared


def _validation_numbers(
    num: int, validation: float | int | None, num_more: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of sets to be judged by, ascending, a part of all and at most 20,000; and of so many others."""
    num_validation = min(MAX_SETS, max(1, round((PART if validation is None else validation) * num)))
    num_more = min(num_more, num - num_validation)
    drawn = np.random.default_rng(seed).choice(num, num_validation, replace=False)
    more = np.zeros(0, np.int64)
    if num_more:
        others = np.random.default_rng([seed, 1]).choice(num, num_validation + num_more, replace=False)
        more = np.setdiff1d(others, drawn)[:num_more]
    return np.sort(drawn), more


def _chosen(
    sample: Examples,
    request: FitRequest,
    task: Task,
    layouts: tuple[Any, Any],
    seed: int,
    tell: Callable[[Progress], None],
    interrupts: Interrupts,
) -> tuple[tuple[int, dict[str, Any]], list[Trial]]:
    """Returns the place of the candidate of most weight in a search on a sample, its settings, and all trials."""
    search = Search(
        sample,
        splits(sample.targets.cpu(), 0.2, np.random.default_rng(seed)),
        task,
        layouts,
        replace(request.limits, seconds=request.limits.seconds / 2),
        num_permutations=request.num_permutations,
        seed=seed,
        tell=tell,
        interrupts=interrupts,
    )
    trials = search.run(request.tried).trials
    best = max(trials, key=lambda trial: (trial.weight, -trial.loss))
    return (best.candidate, best.settings), [replace(trial, weight=0.0) for trial in trials]


def _say_nothing(progress: Progress) -> None:
    pass
