"""A fit to sets that are read during training: a first pass, a choice of the network, and its training."""

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
from janossy.estimators.classical.cached import CachedStatistics
from janossy.estimators.classical.learners import ClassicalLearner
from janossy.estimators.interrupts import Interrupts, now
from janossy.estimators.limits import Limits
from janossy.estimators.out_of_fold import Fold, outputs_by_draw
from janossy.estimators.processes import Processes
from janossy.estimators.search import Search, SearchResult
from janossy.estimators.size_extrapolation import largest_size
from janossy.estimators.splits import MAX_SETS, PART, splits
from janossy.estimators.streams.order import Order, Reader
from janossy.estimators.streams.scan import Scan, scan
from janossy.estimators.tasks import Task
from janossy.estimators.threads import Threads, usable_threads, using_threads
from janossy.estimators.trainer import Trainer
from janossy.estimators.training import train
from janossy.estimators.trials import Epoch, NothingTrained, Progress, Trial
from janossy.tables.encoder import TableEncoder
from janossy.tables.stream import Labelled, SetStream

SAMPLE = 20_000
"""The number of sets on which the best of several candidates is chosen, in memory and in half of the time.

A classical learner is fitted to the same number."""


@dataclass(frozen=True)
class StreamTargets:
    """The task, a function that encodes targets as read from files, and a function that weighs encoded targets."""

    task: Task
    encode: Callable[[np.ndarray], Tensor]
    weigh: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class FitRequest:
    """The settings of a fit. ``metadata`` is plain data that identifies the fit."""

    tried: Sequence[Candidate]
    limits: Limits
    validation: float | int | None
    num_permutations: int
    seed: int | None
    device: str
    checkpoint: Path | None
    num_threads: int | None
    metadata: dict[str, Any]
    tell: Callable[[Progress], None]


@dataclass
class StreamFit:
    """The result of a fit to a stream, in the form of a search's result.

    - ``validation_sets``: the sets that ``found.folds`` refers to by number. The network does not learn from them.
    - ``examples``: the same sets, encoded.
    - ``seconds``: "scan" for the first pass, and "training", of which "reading" was spent on waiting for files.
    """

    found: SearchResult
    encoder: TableEncoder
    targets: StreamTargets
    validation_sets: Labelled
    examples: Examples
    scan: Scan
    seed: int
    interrupted: bool
    processes: Processes
    num_threads: int
    seconds: dict[str, float] = field(default_factory=dict)


def fit_stream(
    stream: SetStream,
    request: FitRequest,
    classes: bool,
    targets_of: Callable[[Scan], StreamTargets],
    interrupts: Interrupts,
) -> StreamFit:
    """Fits one network, in this process or together with those that torchrun started.

    With a checkpoint, stages that an earlier run of the same fit finished are skipped.

    Args:
        classes: True if targets are classes.
        targets_of: makes the targets from the first pass.

    Raises: ValueError for invalid files or an invalid checkpoint. FloatingPointError if training diverges.
        NothingTrained if an interrupt or the end of the time comes before there is a network to keep.
    """
    began = now()
    processes = Processes.found(request.device)
    metadata = request.metadata | {"stream": stream.state(), "processes": processes.num}
    checkpoint = None if request.checkpoint is None else Checkpoint(request.checkpoint, metadata, processes)
    prepared = _prepared(stream, request, classes, processes, checkpoint)
    seed, scanned = prepared["seed"], Scan.from_state(prepared["scan"])
    threads = Threads(request.num_threads, prepared["threads"])
    encoder, targets = scanned.table_encoder(), targets_of(scanned)
    device = processes.device(request.device)
    if scanned.mean_weight == 0:
        raise ValueError("sample_weight expects a weight above 0 for some set to learn from; got 0 for all.")
    examples_of = _Encoding(encoder, targets, scanned.mean_weight)
    validation_sets = stream.part(scanned.validation_sets)
    examples = examples_of(validation_sets).to(device)
    seconds = {"scan": now() - began}
    largest = largest_size(examples.targets, examples.sets.offsets.diff(), scanned.largest)
    layouts = replace(encoder.element_layout, largest_size=largest), encoder.context_layout
    tell = request.tell if processes.rank == 0 else _say_nothing
    mean_size = sum(examples.sets.sizes) / len(examples)
    request = replace(request, tried=[each.suited(len(stream), mean_size) for each in request.tried])
    if "candidate" not in prepared:
        chosen: tuple[int, dict[str, Any]] = (0, {})
        trials = list[Trial]()
        if len(request.tried) > 1 and processes.rank == 0:
            assert scanned.sample is not None
            sample = examples_of(stream.part(scanned.sample)).to(device)
            groups = prepared["sample_groups"]
            chosen, trials = _chosen(sample, groups, request, targets.task, layouts, seed, threads, tell, interrupts)
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
    numbers = prepared["validation"].numpy()
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
    num_threads = threads.of(examples.sets, plan.batch_size)
    if isinstance(network, ClassicalLearner):
        assert scanned.sample is not None
        sample = examples_of(stream.part(scanned.sample)).to(examples.sets.device)
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
        with using_threads(num_threads):
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
    return StreamFit(
        found,
        encoder,
        targets,
        validation_sets,
        examples,
        scanned,
        seed,
        interrupts.came,
        processes,
        num_threads,
        seconds,
    )


class _Encoding:
    """An encoder of parts of a stream as examples for a network."""

    def __init__(self, encoder: TableEncoder, targets: StreamTargets, mean_weight: float) -> None:
        self.encoder, self.targets, self.mean_weight = encoder, targets, mean_weight

    def __call__(self, part: Labelled) -> Examples:
        assert part.targets is not None
        encoded, targets = self.encoder.transform(part.sets), self.targets.encode(part.targets)
        context = encoded.context if encoded.context.shape[1] else None
        weights = self.targets.weigh(targets)
        if part.weights is not None:
            weights = weights * torch.from_numpy(part.weights / self.mean_weight).float()
        return Examples(encoded.elements, context, targets, weights)


def _prepared(
    stream: SetStream, request: FitRequest, classes: bool, processes: Processes, checkpoint: Checkpoint | None
) -> dict[str, Any]:
    """Returns the seed and the first pass, from the checkpoint if it has them."""
    found = None if checkpoint is None else checkpoint.read("prepared")
    if found is not None:
        return found
    seed = processes.of_first(int(np.random.SeedSequence(request.seed).generate_state(1)[0]))
    groups = stream.group_numbers()
    needs_sample = len(request.tried) > 1 or request.tried[0].classical
    num_more = SAMPLE if needs_sample else 0
    validation, sample = validation_numbers(len(stream), request.validation, num_more, seed, groups)
    prepared = {
        "seed": seed,
        "scan": scan(stream, classes, validation, sample, processes).state(),
        "threads": usable_threads(),
        "validation": torch.from_numpy(validation),
        "sample_groups": None if groups is None else torch.from_numpy(groups[sample]),
    }
    if checkpoint is not None:
        checkpoint.write("prepared", prepared)
    return prepared


def validation_numbers(
    num: int, validation: float | int | None, num_more: int, seed: int, groups: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ascending numbers of the validation sets, and the numbers of ``num_more`` other sets.

    Validation is a part of all sets, at most 20,000, and leaves one set to train on. With ``groups`` (B,), it is whole
    groups, at least one.
    """
    num_validation = min(MAX_SETS, num - 1, max(1, round((PART if validation is None else validation) * num)))
    if groups is None:
        drawn = np.random.default_rng(seed).choice(num, num_validation, replace=False)
    else:
        drawn = _of_groups(groups, num_validation, np.random.default_rng(seed))
    num_more = min(num_more, num - len(drawn))
    more = np.zeros(0, np.int64)
    if num_more:
        others = np.random.default_rng([seed, 1]).choice(num, len(drawn) + num_more, replace=False)
        more = np.sort(others[~np.isin(others, drawn)][:num_more])  # cut in random order, not in that of the files
    return np.sort(drawn), more


def _of_groups(groups: np.ndarray, num: int, generator: np.random.Generator) -> np.ndarray:
    """Returns the numbers of the sets of random groups, as many groups as give about ``num`` sets."""
    sizes = np.bincount(groups)
    if len(sizes) < 2:
        raise ValueError("groups expects two groups or more, as a network is judged by others than it learns from.")
    order = generator.permutation(len(sizes))
    num_groups = 1 + int(np.abs(sizes[order].cumsum()[:-1] - num).argmin())
    return np.flatnonzero(np.isin(groups, order[:num_groups]))


def _chosen(
    sample: Examples,
    groups: Tensor | None,
    request: FitRequest,
    task: Task,
    layouts: tuple[Any, Any],
    seed: int,
    threads: Threads,
    tell: Callable[[Progress], None],
    interrupts: Interrupts,
) -> tuple[tuple[int, dict[str, Any]], list[Trial]]:
    """Returns the position of the heaviest candidate in a search on a sample, its settings, and all trials."""
    numbered = None if groups is None else np.unique(groups.numpy(), return_inverse=True)[1]
    if numbered is not None and numbered.max() == 0:
        numbered = None  # with two groups, one validates, and the sample is of the other alone
    trainer = Trainer(
        sample,
        splits(sample.targets.cpu(), 0.2, np.random.default_rng(seed), numbered),
        task,
        layouts,
        replace(request.limits, seconds=request.limits.seconds / 2),
        num_permutations=request.num_permutations,
        seed=seed,
        tell=tell,
        statistics=CachedStatistics(sample, layouts, numbered),
        interrupts=interrupts,
        threads=threads,
    )
    trials = Search(trainer).run(request.tried).trials
    best = max(trials, key=lambda trial: (trial.weight, -trial.loss))
    return (best.candidate, best.settings), [replace(trial, weight=0.0) for trial in trials]


def _say_nothing(progress: Progress) -> None:
    pass
