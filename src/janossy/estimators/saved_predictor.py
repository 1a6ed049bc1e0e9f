"""Predictors of saved estimators: the part of reading that does without scikit-learn."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any

import numpy as np
from torch import Tensor, nn

from janossy.checks import check_integer
from janossy.estimators.class_targets import ClassTargets
from janossy.estimators.description import Saved, SavedClassifier, checked
from janossy.estimators.ensemble import Ensemble
from janossy.estimators.networks import inner_layer
from janossy.estimators.predictor import AnyPredictor, ClassPredictor, NumberPredictor
from janossy.estimators.tasks import Classification, Regression
from janossy.nn import ColumnEmbedding, Readout
from janossy.nn.network import JanossyNetwork
from janossy.nn.statistics import ContextColumns, StatisticsNetwork
from janossy.saving import SavedModelError, read_model, rebuild
from janossy.tables.encoder import TableEncoder
from janossy.tables.layout import Layout

COLUMNS = ("set_columns", "numeric", "categorical")
"""The settings that are arguments of ``as_sets``."""


def read_predictor(path: str | PathLike[str]) -> tuple[Saved, AnyPredictor]:
    """Returns the description of an estimator that ``save`` wrote, and its predictor, on the CPU.

    Raises: FileNotFoundError if nothing is there. SavedModelError if it is not a saved estimator, is damaged, or has a
        version that this one cannot read.
    """
    model = read_model(path)
    saved = checked(model.description, path)
    with described(path):
        return saved, _predictor(saved, model.tensors)


@contextmanager
def described(path: str | PathLike[str]) -> Iterator[None]:
    """Raises a SavedModelError for whatever a description that ``save`` never writes raises."""
    try:
        yield
    except SavedModelError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"{error}\n".splitlines()[0][:200]
        raise SavedModelError(
            f"{path} expects an estimator as save describes it; got {type(error).__name__}: {reason}. Was it edited?"
        ) from error


def _predictor(saved: Saved, tensors: Mapping[str, Tensor]) -> AnyPredictor:
    is_class = isinstance(saved, SavedClassifier)
    owner = "SetClassifier" if is_class else "SetRegressor"
    task: Classification | Regression
    temperature = 1.0
    if isinstance(saved, SavedClassifier):
        known = ClassTargets(saved.fitted.kind, [labels.array() for labels in saved.fitted.columns])
        task, temperature = known.task(saved.fitted.ordinal), saved.fitted.temperature_
    else:
        task = Regression(len(saved.fitted.y_mean_), saved.fitted.loss, tuple(saved.fitted.quantiles))
    num_permutations = saved.settings.get("num_permutations", 20)
    check_integer(owner, "num_permutations", num_permutations, 1)
    encoder = TableEncoder.from_state(saved.encoder)
    networks = _networks(saved.networks, tensors)
    for network in networks:
        _check_fits(network, encoder.element_layout, encoder.context_layout, task.num_outputs)
    columns = {name: saved.settings[name] for name in COLUMNS if name in saved.settings}
    ensemble = Ensemble(networks, saved.weights, task, temperature, saved.larger)
    parts = owner, encoder, ensemble, columns, num_permutations, "cpu"
    if isinstance(saved, SavedClassifier):
        return ClassPredictor(*parts, known)
    fitted = saved.fitted
    return NumberPredictor(*parts, np.array(fitted.y_mean_), np.array(fitted.y_scale_), fitted.flat)


def _networks(descriptions: list[Any], tensors: Mapping[str, Tensor]) -> list[JanossyNetwork | StatisticsNetwork]:
    parts: dict[str, dict[str, Tensor]] = {str(i): {} for i in range(len(descriptions))}
    for name, tensor in tensors.items():
        number, _, rest = name.partition("/")
        parts[number][rest] = tensor
    return [rebuild(each, part) for each, part in zip(descriptions, parts.values(), strict=True)]


def _check_fits(network: JanossyNetwork | StatisticsNetwork, layout: Layout, context: Layout, num_outputs: int) -> None:
    """Raises a SavedModelError if a network's columns are not the encoder's, or its outputs not the task's."""
    if isinstance(network, StatisticsNetwork):
        _check_statistics(network, layout, context, num_outputs)
        return
    embed, rho, inner = network.h, network.rho, False
    layer = inner_layer(network)
    if layer is not None and isinstance(layer.inner, JanossyNetwork):
        embed, inner = layer.inner.h, True
    if isinstance(embed, ColumnEmbedding) and (
        (embed.vocabularies, embed.num_numbers) != (layout.vocabularies, layout.num_numbers)
        or layout.inner != bool(embed.num_unread + inner)
    ):
        raise SavedModelError(
            f"a saved network expects the columns that the encoder writes, {layout}; got vocabularies "
            f"{embed.vocabularies} and {embed.num_numbers} numbers, {'of' if inner else 'without'} inner sets."
        )
    while isinstance(rho, nn.Sequential) and len(rho):
        rho = rho[-1]
    last = rho.layers[-1] if isinstance(rho, Readout) else rho
    if isinstance(last, nn.Linear | nn.Bilinear) and last.out_features != num_outputs:
        raise SavedModelError(
            f"a saved network expects {num_outputs} outputs, one for each class or target; got {last.out_features}."
        )


def _check_statistics(network: StatisticsNetwork, layout: Layout, context: Layout, num_outputs: int) -> None:
    """Raises a SavedModelError for statistics of other columns, or scores of other outputs."""
    read = [(tuple(network.statistics.vocabularies), network.statistics.num_numbers)]
    written = [(layout.vocabularies, layout.num_numbers)]
    for block in network.statistics.blocks:
        if isinstance(block, ContextColumns):
            read.append((tuple(block.vocabularies), block.num_numbers))
            written.append((context.vocabularies, context.num_numbers))
    if read != written or network.statistics.inner != layout.inner or network.scores.out_features != num_outputs:
        raise SavedModelError(
            f"a saved network expects statistics of the columns {written} and {num_outputs} outputs; got {read} and "
            f"{network.scores.out_features}."
        )
