"""One cell: a model is fitted to a fold of a data set, and scored on its tests."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from time import monotonic, process_time
from typing import Any, ClassVar, cast

import numpy as np
from threadpoolctl import threadpool_limits

from janossy.estimators import Progress as Search
from janossy.estimators import SetClassifier, SetRegressor
from janossy.estimators.interrupts import time_by
from studies.bench.best_rate import BestRate
from studies.bench.cells import About, Cell, score_of
from studies.bench.clustering import MixtureEstimator, of_mixtures
from studies.bench.data_set import DataSet, Sample
from studies.bench.data_sets import load
from studies.bench.models import Classifier, DoesNotApply, Fitted, Task, built
from studies.bench.peers.trees import PooledTrees
from studies.bench.scores import of_classes, of_numbers
from studies.bench.settings import Settings
from studies.runs.trials import Progress


@dataclass(frozen=True)
class Trial:
    """Names of a data set and a model, a fold, settings, and the folder of the data. Progress is a fraction of 1."""

    data: str
    model: str
    fold: int
    settings: Settings
    folder: Path | None

    numbered: ClassVar[str] = "fold"

    @property
    def place(self) -> tuple[str, str, int]:
        return self.data, self.model, self.fold

    @property
    def units(self) -> float:
        return 1.0

    @property
    def cost(self) -> float:
        return 1.0  # so that cells run in the given order

    def run(self, progress: Progress) -> dict[str, Any]:
        with threadpool_limits(1):
            return asdict(measure(load(self.data, self.folder), self.model, self.fold, self.settings, progress))

    def score(self, result: dict[str, Any]) -> str:
        if result["does_not_apply"]:
            return f"does not apply, {result['does_not_apply']}"
        name = result["data_set"]["scores"][0]
        return f"{name} {score_of(result, name):.3f}, {result['fit_seconds']:.1f} CPU seconds to fit"


def measure(data_set: DataSet, model: str, number: int, settings: Settings, progress: Progress) -> Cell:
    """Fits a model to a fold, and scores it. Seconds are CPU seconds of this process, as machines may be shared."""
    began = monotonic()
    fold = data_set.fold(number)
    about = About(
        data_set.about,
        data_set.task,
        list(data_set.scores),
        data_set.num_folds,
        dict(data_set.published),
        {name: _plain(value) for name, value in data_set.settings.items()},
    )
    cell = Cell(data_set.name, model, number, asdict(settings), about, 0.0, num_train=len(fold.train.sets))
    try:
        fitted = built(model, Task(data_set, fold.train.sets, settings, number, _telling(progress)))
    except DoesNotApply as reason:
        cell.does_not_apply = str(reason)
        return cell
    start = process_time()
    with time_by(process_time):
        fitted.fit(fold.train.sets, fold.train.targets)
    cell.fit_seconds = process_time() - start
    _describe(cell, fitted)
    for name, make in fold.tests.items():
        test = make()
        start = process_time()
        if data_set.task == "classification":
            found = cast(Classifier, fitted).predict_proba(test.sets)
        else:
            found = fitted.predict(test.sets)
        cell.predict_seconds += process_time() - start
        cell.num_test += len(test.sets)
        cell.scores[name] = {**_scores(data_set, fitted, test, found)}
    cell.seconds = monotonic() - began
    return cell


def _scores(data_set: DataSet, fitted: Fitted, test: Sample, found: np.ndarray) -> dict[str, float]:
    if data_set.task == "classification":
        return of_classes(data_set.scores, test.targets, found, cast(Classifier, fitted).classes_)
    if data_set.task == "mixtures":
        return of_mixtures(data_set.scores, test.sets, test.targets, found)
    return of_numbers(data_set.scores, test.targets, found)


def _describe(cell: Cell, fitted: Fitted) -> None:
    if isinstance(fitted, PooledTrees):
        cell.num_parameters = fitted.num_leaves
    elif isinstance(fitted, MixtureEstimator):
        cell.num_networks, cell.num_parameters = 1, sum(weight.numel() for weight in fitted.network.parameters())
    elif isinstance(fitted, BestRate):
        _describe(cell, fitted.best)
        cell.chosen = {f"learning rate {fitted.rate:g}": 1.0}
    elif isinstance(fitted, SetClassifier | SetRegressor):
        networks = fitted.ensemble_.networks
        cell.num_networks = len(networks)
        tensors = [tensor for network in networks for tensor in (*network.parameters(),) or network.buffers()]
        cell.num_parameters = sum(tensor.numel() for tensor in tensors)  # a classical learner has only buffers
        for trial in fitted.trials_:
            if trial.weight:
                cell.chosen[trial.strategy] = cell.chosen.get(trial.strategy, 0.0) + trial.weight


def _telling(progress: Progress) -> Callable[[Search], None]:
    """Returns a function that reports a search's progress to the worker. It only moves forward."""
    done = 0.0

    def tell(search: Search) -> None:
        nonlocal done
        networks = (search.network + search.epoch.number / max(1, search.epoch.planned)) / search.num_networks
        total = search.seconds + search.seconds_left
        part = min(1.0, search.seconds / total if isfinite(total) else networks)
        progress(max(0.0, part - done))
        done = max(done, part)

    return tell


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
