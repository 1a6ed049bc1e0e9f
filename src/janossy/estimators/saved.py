"""Saved estimators: a folder or a zip with safetensors weights and a JSON description, without pickle or code."""

from collections.abc import Mapping
from dataclasses import asdict
from math import inf, isfinite
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import to_builtins
from sklearn.utils.validation import check_is_fitted

from janossy.estimators.classifier import SetClassifier
from janossy.estimators.description import NUMBERS, Saved, SavedTrial, check_lengths
from janossy.estimators.predictor import AnyPredictor, ClassPredictor
from janossy.estimators.regressor import SetRegressor
from janossy.estimators.saved_predictor import COLUMNS, described, read_predictor
from janossy.estimators.trials import Trial
from janossy.saving import SavedModelError, describe, weights, write_model
from janossy.saving.network import check_finite
from janossy.tables.forms import names_of

KINDS: dict[str, type[SetClassifier] | type[SetRegressor]] = {
    "SetClassifier": SetClassifier,
    "SetRegressor": SetRegressor,
}


def save(estimator: SetClassifier | SetRegressor, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
    """Writes a fitted estimator as a folder of model.safetensors and model.json, or as a zip if path ends in .zip.

    It holds all that prediction needs: the encoder's state, the networks and their weights, the classes and the
    temperature. It also holds the settings and ``trials_``, but not ``sensitivity_``. Of a strategy that is a function,
    it holds the name. The folder appears whole or not at all.

    Raises: TypeError for an object that is not a SetClassifier or SetRegressor, or whose network is not a
        JanossyNetwork. NotFittedError before fit. ValueError for a network with foreign parts (``janossy.saving``), or
        for labels that are neither text nor numbers. FileExistsError if something is at the path, unless it is a saved
        model and overwrite is True.

    Shapes: none.

    Example:
        >>> model = SetRegressor("k1", max_epochs=2).fit([[1.0, 2.0], [3.0]] * 10, [3.0, 3.0] * 10)
        >>> load(save(model, tempfile.mkdtemp() + "/model")).predict([[1.0, 2.0]]).shape
        (1,)
    """
    if type(estimator) not in KINDS.values():
        raise TypeError(f"save expects a SetClassifier or SetRegressor; got {type(estimator).__name__}.")
    check_is_fitted(estimator)
    ensemble = estimator.ensemble_.to("cpu")
    fitted: dict[str, Any] = {"n_features_in_": int(estimator.n_features_in_)}
    if hasattr(estimator, "feature_names_in_"):
        fitted["feature_names_in_"] = [str(name) for name in estimator.feature_names_in_]
    if isinstance(estimator, SetClassifier):
        known = estimator._class_targets
        labels = [_labels(each) for each in known.classes]
        fitted |= {
            "temperature_": estimator.temperature_,
            "classes_": labels if known.kind == "columns" else labels[0],
            "kind": known.kind,
            "ordinal": estimator.task_.ordinal,
        }
    else:
        fitted |= {
            "y_mean_": estimator.y_mean_.tolist(),
            "y_scale_": estimator.y_scale_.tolist(),
            "flat": estimator._flat,
            "loss": estimator.task_.loss,
            "quantiles": list(estimator.task_.quantiles),
        }
    description = {
        "estimator": type(estimator).__name__,
        "settings": {name: _setting(name, value) for name, value in estimator.get_params(deep=False).items()},
        "encoder": estimator.encoder_.state(),
        "networks": [describe(network) for network in ensemble.networks],
        "weights": ensemble.weights,
        "fitted": fitted,
        "trials": [_plain(asdict(trial)) for trial in estimator.trials_],
    }
    if ensemble.larger is not None:
        description["larger"] = to_builtins(ensemble.larger)
    tensors = {
        f"{i}/{name}": tensor
        for i, network in enumerate(ensemble.networks)
        for name, tensor in weights(network).items()
    }
    check_finite(tensors)
    return write_model(path, description, tensors, overwrite=overwrite)


def load(path: str | PathLike[str]) -> SetClassifier | SetRegressor:
    """Returns the estimator that ``save`` wrote to a folder or a zip, on the CPU. Its predictions are the same bits.

    The source need not be trusted: no code is run, and memory is limited by the sizes of the files.

    Raises: FileNotFoundError if nothing is there. SavedModelError if it is not a saved estimator, is damaged, or has a
        version that this one cannot read.

    Shapes: none.

    Example:
        >>> model = SetClassifier("k1", max_epochs=2).fit([[1.0, 2.0], [3.0]] * 10, ["two", "one"] * 10)
        >>> load(save(model, tempfile.mkdtemp() + "/model.zip")).classes_
        array(['one', 'two'], dtype='<U3')
    """
    saved, predictor = read_predictor(path)
    with described(path):
        return _estimator(saved, predictor)


def _estimator(saved: Saved, predictor: AnyPredictor) -> SetClassifier | SetRegressor:
    """Returns the estimator of a description whose fields have been checked one by one."""
    estimator: SetClassifier | SetRegressor
    if isinstance(predictor, ClassPredictor):
        estimator = SetClassifier(**_settings(saved, SetClassifier))
        estimator._use(predictor.known)
        estimator.temperature_ = predictor.ensemble.temperature
    else:
        estimator = SetRegressor(**_settings(saved, SetRegressor))
        estimator.y_mean_, estimator.y_scale_, estimator._flat = predictor.mean, predictor.scale, predictor.flat
    estimator._limits()
    estimator.device = predictor.device
    estimator.encoder_, estimator.ensemble_ = predictor.encoder, predictor.ensemble
    estimator.n_features_in_ = saved.fitted.n_features_in_
    if saved.fitted.feature_names_in_ is not None:
        estimator.feature_names_in_ = np.array(saved.fitted.feature_names_in_, dtype=object)
    estimator.trials_ = [_trial(trial) for trial in saved.trials]
    return estimator


def _settings(saved: Saved, kind: type[SetClassifier] | type[SetRegressor]) -> dict[str, Any]:
    """Returns the arguments of the estimator. None of them is used before it is fitted again."""
    known = kind().get_params(deep=False)
    if unknown := saved.settings.keys() - known.keys():
        raise SavedModelError(
            f"a saved {kind.__name__} expects settings among {', '.join(known)}; got {', '.join(unknown)[:200]}. "
            "Was it written by a later version of janossy?"
        )
    settings = dict(saved.settings)
    if isinstance(pairs := settings.get("class_weight"), list):
        are_pairs = all(isinstance(pair, list) and len(pair) == 2 for pair in pairs)
        if not are_pairs or not all(isinstance(label, str | int | float) for label, _ in pairs):
            got = str(pairs)[:200]
            raise SavedModelError(f"a saved class_weight expects pairs of a class and its weight; got {got}.")
        settings["class_weight"] = dict(pairs)
    return settings


def _setting(name: str, value: Any) -> Any:
    """Returns a setting as JSON, in a form that a fit after loading takes."""
    if name in COLUMNS:
        return None if value is None else names_of(value)
    if name == "progress":
        return None
    if name == "class_weight" and isinstance(value, Mapping):
        return [[_plain(label), _plain(weight)] for label, weight in value.items()]
    return _plain(value)


def _plain(value: Any) -> Any:
    """Returns a setting as JSON: functions by name, and None for numbers that are not finite and for other objects."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return getattr(value, "__name__", None) if callable(value) else None


def _trial(saved: SavedTrial) -> Trial:
    return Trial(
        saved.strategy,
        saved.settings,
        saved.rung,
        saved.epochs,
        saved.seconds,
        inf if saved.loss is None else saved.loss,
        -inf if saved.score is None else saved.score,
        saved.weight,
        saved.note,
        saved.history,  # type: ignore[arg-type]
        saved.candidate,
    )


def _labels(classes: np.ndarray) -> dict[str, Any]:
    """Returns labels as JSON, with the dtype that restores them."""
    values = classes.tolist()
    if not all(isinstance(x, str | bool | int | float) for x in values):
        raise ValueError(
            f"save expects labels that are text, numbers or booleans; got {type(values[0]).__name__}. Fit with labels "
            "as text."
        )
    others = {"O": "object", "f": "float64"}  # the format has no float16
    dtype = classes.dtype.name if classes.dtype.name in NUMBERS else others.get(classes.dtype.kind, "str")
    check_lengths(values, dtype)
    return {"values": values, "dtype": dtype}
