"""Classical learners as members of an ensemble: fitted by scikit-learn to statistics of sets, kept as modules."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from janossy.estimators.batches import Examples
from janossy.estimators.calibration import least_surprising
from janossy.estimators.classical.cached import MAX_NUMBERS, MAX_SETS, CachedRows, CachedStatistics, sample
from janossy.estimators.classical.choosing import Sizes
from janossy.estimators.classical.many_classes import without_many_classes
from janossy.estimators.classical.paths import BAGS, CATEGORIES, LEARNERS, ClassicalSettings, Data, Path
from janossy.estimators.classical.target_encoding import as_numbers, encoded_by_targets, num_values
from janossy.estimators.classical.together import Together
from janossy.estimators.interrupts import now
from janossy.estimators.tasks import Classification, Task
from janossy.estimators.training import Ending, Trained
from janossy.estimators.trials import Epoch
from janossy.nn.statistics import PooledStatistics, StatisticsNetwork
from janossy.sets import Ragged
from janossy.tables.layout import Layout

MAX_CELLS = 4_096
"""The most cells of a bag of categories for a linear learner."""


@dataclass(frozen=True, eq=False)
class FittedLearner:
    """A learner that was fitted to a split.

    ``point``: the point of its path, which all splits share. ``temperature``: that of a forest of classes, else 1.

    Shapes: outputs (V, out), for the split's validation sets.
    """

    network: StatisticsNetwork
    trained: Trained
    outputs: Tensor
    point: int
    temperature: float


class ClassicalLearner(nn.Module):
    """A classical learner before its fit.

    Args:
        strategy: its name in ``LEARNERS``.
        layouts: those of elements and of context.
        num_outputs: the number of classes or targets.
        settings: fields of ``ClassicalSettings``.
    """

    def __init__(
        self, strategy: str, layouts: tuple[Layout, Layout], num_outputs: int, settings: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self.strategy, self.layouts, self.num_outputs = strategy, layouts, num_outputs
        self.settings = classical_settings(strategy, settings)

    def forward(
        self, sets: Ragged, *, context: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        raise RuntimeError(f"{self.strategy!r} expects fit before it is called; got no fit.")

    def fit(
        self,
        training: Examples,
        validation: Examples,
        task: Task,
        *,
        seed: int,
        deadline: float,
        interrupted: Callable[[], bool] = bool,
    ) -> tuple[StatisticsNetwork, Trained]:
        """Returns the network fitted to one split, and the course of the fit (``fit_splits``)."""
        statistics = CachedStatistics(Examples.cat([training, validation]), self.layouts)
        split = torch.arange(len(training)), len(training) + torch.arange(len(validation))
        (found,) = self.fit_splits(statistics, [split], task, seeds=[seed], deadline=deadline, interrupted=interrupted)
        return found.network.to(training.sets.device), found.trained

    @without_many_classes()
    def fit_splits(
        self,
        statistics: CachedStatistics,
        splits: Sequence[tuple[Tensor, Tensor]],
        task: Task,
        *,
        seeds: Sequence[int],
        deadline: float,
        interrupted: Callable[[], bool] = bool,
        num_threads: int = 1,
        latest: float = inf,
    ) -> list[FittedLearner]:
        """Returns the result of a fit to each split, as one epoch each.

        The splits are fitted by ``Together``. The strength, or the number of trees, is that of the smallest loss over
        the validation sets of all splits. No split chooses for itself. The deadline ends the fits after a step. Without
        time for all splits, the first ones are returned. Threads grow forests faster, and change nothing else.
        Nothing is fitted, and the list is empty, if the first step is estimated to end after ``latest``.

        Raises: FloatingPointError if a loss is not finite.
        """
        began = now()
        is_class = isinstance(task, Classification)
        rows = self._rows(statistics, is_class=is_class)
        shape = len(splits[0][0]), rows.statistics.out_features, self.num_outputs
        step = LEARNERS[self.strategy].seconds_of_a_step(*shape, is_class=is_class)
        if now() + step > latest:
            return []
        of_splits: list[PooledStatistics] = []

        def start(number: int) -> Path:
            data, of_split = self._data(rows, *splits[number], task, seeds[number], num_threads)
            of_splits.append(of_split)
            return LEARNERS[self.strategy](self.settings, data)

        weights = [float(statistics.examples.weights[validation].sum()) for _, validation in splits]
        fits = Together(start, weights, deadline, interrupted)
        scores = [path.module(min(fits.point, len(path.losses) - 1)) for path in fits.paths]
        outputs = [module(path.data.valid_x) for module, path in zip(scores, fits.paths, strict=True)]
        temperature = 1.0
        if self.strategy == "forest" and isinstance(task, Classification):
            held_out = torch.cat([validation for _, validation in splits[: len(outputs)]]).cpu()
            temperature = _temperature(torch.cat(outputs), held_out, statistics.examples, task)
            for module in scores:
                module.temperature = temperature  # type: ignore[assignment]
            outputs = [each / temperature for each in outputs]
        seconds = (now() - began) / len(fits.paths)
        each_split = zip(of_splits, scores, outputs, fits.paths, strict=False)
        return [self._fitted(*each, seconds, fits.ending, fits.point, temperature) for each in each_split]

    @without_many_classes()
    def fit_to_all(
        self,
        statistics: CachedStatistics,
        like: FittedLearner,
        task: Task,
        *,
        seed: int,
        is_over: Callable[[], bool] = bool,
        num_threads: int = 1,
    ) -> StatisticsNetwork | None:
        """Returns the network fitted to all sets, with the strength, or the number of trees, of a fit to a split.

        Returns None if ``is_over`` is True after a step before the last.
        """
        rows = self._rows(statistics, is_class=isinstance(task, Classification))
        everything = torch.arange(len(statistics.examples))
        data, of_all = self._data(rows, everything, everything[:1], task, seed, num_threads)  # none is held out
        path = LEARNERS[self.strategy](self.settings, data)
        while not path.ended and len(path.losses) <= like.point:
            if path.losses and is_over():
                return None
            path.advance()
        scores = path.module(min(like.point, len(path.losses) - 1))
        if like.temperature != 1:
            scores.temperature = like.temperature  # type: ignore[assignment]
        return StatisticsNetwork(deepcopy(of_all), scores).eval()

    def _rows(self, statistics: CachedStatistics, *, is_class: bool) -> CachedRows:
        """Returns the statistics that this learner reads."""
        most, encoded = Sizes(), 0
        if self.strategy == "linear":
            cells = min(MAX_CELLS, MAX_NUMBERS // max(1, min(MAX_SETS, len(statistics.examples))))
            most = Sizes(cells=cells, hashed=cells // 4, pairs=2 * most.pairs)
        if not self.settings.pairs:
            most = replace(most, pairs=0)
        if self.settings.categories == "targets":
            encoded = num_values(self.num_outputs, is_class=is_class)
        return statistics.rows(most, self._scheme(), self.settings.compact, encoded)

    def _scheme(self) -> str:
        if self.settings.scheme is not None:
            return self.settings.scheme
        return "count" if self.strategy == "forest" and not self.settings.extra else "fraction"

    def _data(
        self, rows: CachedRows, training: Tensor, validation: Tensor, task: Task, seed: int, num_threads: int
    ) -> tuple[Data, PooledStatistics]:
        """Returns the data of one split, and the statistics that its learner reads."""
        examples = rows.examples
        training = torch.from_numpy(sample(training.cpu().numpy(), seed))
        y, classes = examples.targets[training].numpy(), None
        if isinstance(task, Classification):
            classes, y = np.unique(y, return_inverse=True)

        def loss(of: Tensor, scores: Tensor) -> float:
            mean, weights = task.link(1.0)(scores).float(), examples.weights[of]
            return float((task.losses(mean, examples.targets[of]) * weights).sum() / weights.sum())

        statistics, x, valid_x = rows.statistics, rows.of(training), rows.of(validation.cpu())
        sample_weights = examples.weights[training].double().numpy()
        if self.settings.categories == "targets":
            numbers = as_numbers(y, classes, num_values(self.num_outputs, is_class=classes is not None))
            parts = examples[training], examples[validation.cpu()]
            groups = None if rows.groups is None else rows.groups[training.numpy()]
            statistics, x, valid_x = encoded_by_targets(
                statistics, (x, valid_x), parts, numbers, sample_weights, seed % 2**31, groups
            )
        data = Data(
            x.numpy(),
            y,
            sample_weights,
            classes,
            self.num_outputs,
            valid_x,
            partial(loss, validation.cpu()),
            partial(loss, training),
            seed % 2**31,
            num_threads,
        )
        return data, statistics

    def _fitted(
        self,
        statistics: PooledStatistics,
        scores: nn.Module,
        outputs: Tensor,
        path: Path,
        seconds: float,
        ending: Ending,
        point: int,
        temperature: float,
    ) -> FittedLearner:
        data = path.data
        losses = {"train_loss": data.train_loss(scores(torch.from_numpy(data.x))), "valid_loss": data.loss(outputs)}
        row = {"epoch": 1, **losses, "dur": seconds}
        if not np.isfinite([row["train_loss"], row["valid_loss"]]).all():
            raise FloatingPointError(f"{self.strategy!r} expects finite losses; got {row}. Look for very large values.")
        epoch = Epoch(1, 1, row["train_loss"], row["valid_loss"])
        network = StatisticsNetwork(deepcopy(statistics), scores).eval()
        trained = Trained([row], epoch, ending, seconds)
        return FittedLearner(network, trained, outputs.to(torch.float32), point, temperature)


def _temperature(outputs: Tensor, held_out: Tensor, examples: Examples, task: Classification) -> float:
    """Returns the temperature at which validation sets are the least surprising to the forests that left them out.

    The mean of trees that are sure of different classes is sure of none, so that a forest which is often right has a
    large loss.

    Args:
        outputs: those of the forests for the sets ``held_out``, with a temperature of 1, (V, out).
    """
    targets, weights = examples.targets[held_out], examples.weights[held_out]

    def losses(temperature: float) -> float:
        mean = task.link(temperature)(outputs).float()
        return float((task.surprise(mean, targets) * weights).sum())

    return least_surprising(losses)


def classical_settings(strategy: str, given: Mapping[str, Any]) -> ClassicalSettings:
    """Returns the settings of a classical strategy, with those given in place of the defaults.

    Raises: ValueError for an unknown strategy or setting.
    """
    if strategy not in LEARNERS:
        raise ValueError(f"strategy expects one of {', '.join(map(repr, LEARNERS))}; got {strategy!r}.")
    known = [setting.name for setting in fields(ClassicalSettings)]
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"settings of {strategy!r} are {', '.join(known)}; got {', '.join(unknown)}.")
    settings = ClassicalSettings(**given)
    if settings.categories not in CATEGORIES:
        raise ValueError(
            f"strategy {strategy!r} expects categories among {', '.join(CATEGORIES)}; "
            f"got categories={settings.categories!r}."
        )
    if settings.scheme not in (None, *BAGS):
        raise ValueError(
            f"strategy {strategy!r} expects scheme among {', '.join(BAGS)}; got scheme={settings.scheme!r}."
        )
    return settings
