"""The models by name: our strategies of the estimators, peers trained in the same loop, and trees."""

from collections.abc import Callable
from dataclasses import dataclass
from math import perm
from statistics import fmean
from typing import Any, Protocol, Self

import numpy as np

from janossy.estimators import Progress, SetClassifier, SetRegressor
from janossy.tables import SetTable
from studies.bench.best_rate import BestRate
from studies.bench.clustering import NETWORKS, MixtureEstimator
from studies.bench.data_set import DataSet
from studies.bench.names import AUTO
from studies.bench.peers import networks
from studies.bench.peers.trees import PooledTrees, side_by_side, statistics
from studies.bench.settings import Settings


class Fitted(Protocol):
    """An estimator of sets with scikit-learn's interface."""

    def fit(self, sets: SetTable, targets: np.ndarray) -> Self: ...

    def predict(self, sets: SetTable) -> np.ndarray: ...


class Classifier(Fitted, Protocol):
    """An estimator of classes, with probabilities."""

    classes_: np.ndarray

    def predict_proba(self, sets: SetTable) -> np.ndarray: ...


@dataclass(frozen=True)
class Task:
    """The task for which a model is built."""

    data_set: DataSet
    sets: SetTable
    """The training sets."""
    settings: Settings
    seed: int
    tell: Callable[[Progress], None]


class DoesNotApply(Exception):
    """The reason why a model does not apply to a data set."""


@dataclass(frozen=True)
class Model:
    """A model with its description for readers."""

    about: str
    build: Callable[[Task], Fitted]


def _estimator(task: Task, strategy: Any, **training: Any) -> SetClassifier | SetRegressor:
    estimator = SetClassifier if task.data_set.task == "classification" else SetRegressor
    given = {"time_budget": None, **training, **task.data_set.settings}
    if task.settings.max_epochs is not None:
        given["max_epochs"] = task.settings.max_epochs
    return estimator(strategy, random_state=task.seed, progress=task.tell, **given)


def _strategy(strategy: Any) -> Callable[[Task], Fitted]:
    return lambda task: _estimator(task, strategy)


def _peer(network: Callable[..., Any]) -> Callable[[Task], Fitted]:
    return lambda task: BestRate(lambda rate: _estimator(task, network, learning_rate=rate))


def _tuples(**strategy: Any) -> Callable[[Task], Fitted]:
    def build(task: Task) -> Fitted:
        k = 3 if strategy["strategy"].startswith("k3") else 2
        most = task.settings.pairs_a_set if k == 2 else task.settings.triples_a_set
        exact = fmean(perm(int(n), k) for n in task.sets.sizes) <= most
        return _estimator(task, {"exact": exact, **strategy})

    return build


def _copied(name: str) -> Callable[[Task], Fitted]:
    def build(task: Task) -> Fitted:
        if (num := len(task.sets.elements)) > task.settings.most_copied:
            raise DoesNotApply(f"there are {num:,} columns, which it would copy for each tuple that it draws")
        return _tuples(strategy=name)(task)

    return build


def _slots(task: Task) -> Fitted:
    raise DoesNotApply("its slots are the components of a mixture")


def _informed(task: Task) -> Fitted:
    if task.data_set.expert_settings is None:
        raise DoesNotApply("nothing is known of the columns but their kinds")
    return _tuples(**task.data_set.expert_settings)(task)


def _auto(task: Task) -> Fitted:
    return _estimator(task, AUTO, time_budget=task.settings.auto_seconds)


def _attended(build: Callable[[Task], Fitted]) -> Callable[[Task], Fitted]:
    def built(task: Task) -> Fitted:
        if (largest := int(task.sets.sizes.max())) > task.settings.most_attended:
            raise DoesNotApply(f"the largest set has {largest:,} elements, of which each would attend to each")
        return build(task)

    return built


def _trees(task: Task) -> Fitted:
    return PooledTrees(statistics, task.data_set.task, task.seed, task.data_set.settings.get("class_weight"))


def _raw(task: Task) -> Fitted:
    if len(set(task.sets.sizes)) > 1:
        raise DoesNotApply("sets differ in size")
    return PooledTrees(side_by_side, task.data_set.task, task.seed, task.data_set.settings.get("class_weight"))


BUILT: dict[str, Model] = {
    "k1": Model("a perceptron on each element, and the mean", _strategy("k1")),
    "mean+std": Model(
        "on each element, and the mean beside the standard deviation",
        _strategy({"strategy": "k1", "reduce": "mean+std"}),
    ),
    "k2": Model("on each pair of elements, and the mean over all pairs", _tuples(strategy="k2")),
    "k2+features": Model("the same, which also reads differences and equalities", _copied("k2+features")),
    "k3": Model("on each triple", _copied("k3")),
    "sum": Model("on each element, and the sum", _strategy("sum")),
    "additive": Model(
        "the same with a linear ρ, so that the prediction is a sum over the elements",
        _strategy({"strategy": "sum", "readout_depth": 0}),
    ),
    "max": Model("on each element, and the maximum", _strategy("max")),
    "attention": Model("on each element, and a weighted mean", _strategy("attention")),
    "gru": Model("a recurrence on random permutations (π-SGD)", _strategy("gru")),
    "self-attention": Model(
        "blocks of attention between elements, pooled by seeds (the strategy set-transformer)",
        _attended(_strategy("set-transformer")),
    ),
    "self-attention+features": Model(
        "the same, whose scores also read differences and equalities of pairs",
        _attended(_strategy("set-transformer+features")),
    ),
    "induced": Model("blocks of attention by induced points, pooled by seeds", _strategy("induced")),
    "relations": Model("blocks of means over all pairs with each element, pooled by seeds", _strategy("relations")),
    "slots": Model("slots that compete for the elements, in six rounds, behind a block of induced attention", _slots),
    "slots+moments": Model(
        "the same, which also read the share, mean and spread of the elements that they take", _slots
    ),
    "told": Model("pairs with the features that somebody who knows the data would name", _informed),
    "deepsets": Model("DeepSets: on each element, and the sum (Zaheer et al., 2017)", _peer(networks.deep_sets)),
    "abmil": Model("gated attention (Ilse et al., 2018)", _peer(networks.abmil)),
    "set-transformer": Model(
        "self-attention, pooled by attention (Lee et al., 2019)", _attended(_peer(networks.set_transformer))
    ),
    "set-transformer-isab": Model("the same by way of 16 induced points (ISAB)", _peer(networks.set_transformer_isab)),
    "pyg-lstm": Model(
        "torch_geometric's LSTM, in the order in which elements stand; it also reads the padding behind shorter sets",
        _peer(networks.pyg_lstm),
    ),
    "trees": Model("boosted trees on the size, and mean, max, min and std of columns, or counts of categories", _trees),
    "trees-raw": Model("boosted trees on the columns of all elements side by side", _raw),
    "auto": Model("a search among ours within a time budget, and the average of the best", _auto),
}
"""The models, in the order of ``MODELS``."""


def built(model: str, task: Task) -> Fitted:
    """Returns the model of this name for the task. Raises: DoesNotApply, with the reason."""
    if task.data_set.task != "mixtures":
        return BUILT[model].build(task)
    if model not in NETWORKS:
        raise DoesNotApply("no such network is built that says mixtures")
    return MixtureEstimator(model, task.seed, task.settings.max_epochs or 1)
