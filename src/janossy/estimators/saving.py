"""Saved estimators: their networks, encoder, settings and trials as JSON values and tensors, of ``janossy.saved``."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import inf, isfinite
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from janossy.estimators.classifier import SetClassifier
from janossy.estimators.encoder import TableEncoder
from janossy.estimators.ensemble import Ensemble
from janossy.estimators.regressor import SetRegressor
from janossy.estimators.search import Trial
from janossy.estimators.set_estimator import SetEstimator
from janossy.estimators.tasks import Classification, Regression, Task
from janossy.network import JanossyNetwork
from janossy.ragged import Ragged
from janossy.saved import SavedModelError, describe, read_model, rebuild, weights, write_model
from janossy.schema import OneOf, Within, check

KINDS: dict[str, type[SetEstimator]] = {"SetClassifier": SetClassifier, "SetRegressor": SetRegressor}
SCALARS = "biufUO"
"""The kinds of dtypes that labels of classes may have."""


@dataclass(frozen=True)
class _Saved:
    """What a description holds under "estimator"; tensors of network i have names that begin with "i."."""

    kind: Annotated[str, OneOf(KINDS)]
    settings: dict[str, Any]
    encoder: dict[str, Any]
    networks: list[Any]
    weights: list[Annotated[float, Within(0, 1)]]
    temperature: Annotated[float, Within(1e-6, 1e6)]
    learnt: dict[str, Any]
    num_columns: Annotated[int, Within(1)]
    column_names: list[str] | None
    trials: list[dict[str, Any]]


def save_estimator(model: SetEstimator, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a fitted estimator as ``janossy.saved`` writes networks: a folder, or one zip of it for a path in .zip.

    What is no JSON value among its settings, such as a function as strategy, is not kept: it loads as the default.
    Networks must be made of parts that janossy and torch have; ``as_of_new_sets`` and ``sensitivity_`` are not kept.

    Raises: what ``janossy.saved.save`` raises.
    """
    ensemble = model.ensemble_
    saved = _Saved(
        kind=type(model).__name__,
        settings={name: value for name, value in model.get_params(deep=False).items() if _is_json(value)},
        encoder=model.encoder_.state(),
        networks=[describe(network) for network in ensemble.networks],
        weights=ensemble.weights,
        temperature=ensemble.temperature,
        learnt=_learnt(model),
        num_columns=model.n_features_in_,
        column_names=_names(model),
        trials=[_finite(asdict(trial)) for trial in model.trials_],
    )
    tensors = {
        f"{i}.{name}": tensor
        for i, network in enumerate(ensemble.networks)
        for name, tensor in weights(network).items()
    }
    return write_model(path, {"estimator": asdict(saved)}, tensors, overwrite=overwrite)


def load_estimator(path: str | PathLike[str]) -> SetClassifier | SetRegressor:
    """The estimator that ``save_estimator`` has written, on the CPU; anybody may have written it.

    Raises: FileNotFoundError where there is nothing; SavedModelError for what is no saved estimator, a damaged one, or
        one of a version that this one cannot read.
    """
    model = read_model(path)
    try:
        given = model.description.get("estimator")
        if given is None:
            raise ValueError("it holds a network alone: janossy.saved.load reads it")
        check(given, _Saved)
        saved = _Saved(**{name: given.get(name) for name in _Saved.__dataclass_fields__})
        return _restored(saved, model.tensors)
    except SavedModelError:
        raise
    except (TypeError, ValueError, KeyError, RuntimeError, IndexError) as error:
        reason = f"{error}\n".splitlines()[0][:200]
        raise SavedModelError(f"{path} expects an estimator as save writes it; got another: {reason}.") from error


def _restored(saved: _Saved, tensors: dict[str, Tensor]) -> SetClassifier | SetRegressor:
    known = KINDS[saved.kind]().get_params(deep=False)
    model: Any = KINDS[saved.kind](**{name: value for name, value in saved.settings.items() if name in known})
    model.encoder_ = TableEncoder.from_state(saved.encoder)
    task = _relearn(model, saved.learnt)
    parts: list[dict[str, Tensor]] = [{} for _ in saved.networks]
    for name, tensor in tensors.items():
        number, _, rest = name.partition(".")
        parts[int(number)][rest] = tensor
    networks = [rebuild(each, part) for each, part in zip(saved.networks, parts, strict=True)]
    if not networks or len(saved.weights) != len(networks):
        raise ValueError("it has other numbers of networks and of weights")
    for network in networks:
        _check_fits(network, model.encoder_, task)
    model.ensemble_ = Ensemble(networks, saved.weights, task, saved.temperature)
    if isinstance(model, SetClassifier):
        model.temperature_ = saved.temperature
    model.n_features_in_ = saved.num_columns
    if saved.column_names is not None:
        model.feature_names_in_ = np.array(saved.column_names, dtype=object)
    model.trials_ = [Trial(**_infinite(trial)) for trial in saved.trials]
    model.sensitivity_ = None
    return model


def _learnt(model: SetEstimator) -> dict[str, Any]:
    """What a kind of estimator alone has learnt."""
    if isinstance(model, SetClassifier):
        return {"classes": model.classes_.tolist(), "dtype": str(model.classes_.dtype)}
    assert isinstance(model, SetRegressor)
    return {"mean": model.y_mean_.tolist(), "scale": model.y_scale_.tolist(), "flat": model._flat}


def _relearn(model: SetClassifier | SetRegressor, learnt: dict[str, Any]) -> Task:
    if isinstance(model, SetClassifier):
        dtype, classes = np.dtype(learnt["dtype"]), learnt["classes"]
        if dtype.kind not in SCALARS or not all(isinstance(each, str | bool | int | float) for each in classes):
            raise ValueError("it has classes that are neither text nor numbers")
        model.classes_ = np.array(classes, dtype=dtype if dtype.kind != "U" else str)
        if len(np.unique(model.classes_)) < max(2, len(classes)):
            raise ValueError("it has fewer than two classes, or one of them twice")
        return Classification(len(classes))
    model.y_mean_, model.y_scale_ = (np.array(learnt[name], dtype=np.float64) for name in ("mean", "scale"))
    model._flat = learnt["flat"] is True
    num = len(model.y_mean_)
    if model.y_mean_.shape != (num,) or model.y_scale_.shape != (num,) or (model._flat and num != 1) or num < 1:
        raise ValueError("it has other numbers of means and of scales")
    return Regression(num)


def _check_fits(network: JanossyNetwork, encoder: TableEncoder, task: Task) -> None:
    """Raise an error unless the network takes the encoder's columns, and gives as many outputs as the task has."""
    sets = Ragged.from_sets([torch.zeros(1, encoder.element_layout.num_columns)])
    num = encoder.context_layout.num_columns
    with torch.no_grad():
        outputs = network(sets, context=torch.zeros(1, num) if num else None)
    if outputs.shape != (1, task.num_outputs):
        raise ValueError(
            f"it has a network of outputs {tuple(outputs.shape)} for {task.num_outputs} targets or classes"
        )


def _names(model: SetEstimator) -> list[str] | None:
    names: Iterable[Any] | None = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _is_json(value: Any) -> bool:
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return json.loads(text) == (list(value) if isinstance(value, tuple) else value)


def _finite(value: Any) -> Any:
    """The same with null for what is not finite, which JSON does not hold."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _infinite(trial: dict[str, Any]) -> dict[str, Any]:
    """A trial, whose loss and score are infinite where it was not tried."""
    known = {name: trial[name] for name in Trial.__dataclass_fields__}
    worst = {"loss": inf, "score": -inf}
    return known | {name: least for name, least in worst.items() if known[name] is None}
