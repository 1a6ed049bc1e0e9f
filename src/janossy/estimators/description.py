"""The description of a saved estimator, as typed structs, without torch."""

from collections.abc import Mapping
from math import isclose
from os import PathLike
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from janossy.files.typed_json import typed
from janossy.saving.reading import Contents, SavedModelError, read_contents
from janossy.tables.codes import Code, columns_from_state

NUMBERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
"""The dtypes of labels that are numbers. Other labels are text, in an array of text or of objects."""

MAX_LABEL = 10_000
"""The largest number of characters of a label."""
MAX_LABELS_BYTES = 2**26
"""The largest size in bytes of an array of text labels, whose entries are all as long as the longest."""

LossName = Literal["squared_error", "huber", "poisson", "gamma", "quantile", "cox"]
"""The losses of regressors, as in ``tasks``, which needs torch."""

ClassKind = Literal["one", "columns", "labels"]
"""The kinds of a classifier's targets, as in ``class_targets``, which needs torch."""

Positive = Annotated[float, Meta(gt=0)]
Weight = Annotated[float, Meta(ge=0)]
Level = Annotated[float, Meta(gt=0, lt=1)]
Label = Annotated[str, Meta(max_length=MAX_LABEL)] | bool | int | float


class Labels(Struct):
    """The classes of a saved classifier, and the dtype of their array."""

    values: list[Label]
    dtype: Literal[
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
        "object", "str",
    ]  # fmt: skip

    def array(self) -> np.ndarray:
        """Returns the classes as an array.

        Raises: ValueError unless there are two or more classes, all different, ascending, and of their dtype.
        """
        check_lengths(self.values, self.dtype)
        classes = np.array(self.values, dtype=self.dtype)
        if len(classes) < 2 or not np.array_equal(np.unique(classes), classes):
            raise ValueError("fitted.classes_: two classes or more, all different and in ascending order, are expected")
        return classes


class FittedClassifier(Struct):
    """The fitted part of a classifier beside its networks."""

    n_features_in_: int
    temperature_: Positive
    classes_: Labels | list[Labels]
    feature_names_in_: list[str] | None = None
    kind: ClassKind = "one"
    ordinal: bool = False

    @property
    def columns(self) -> list[Labels]:
        """The classes of each column, or one entry of classes or labels."""
        return self.classes_ if isinstance(self.classes_, list) else [self.classes_]


class FittedRegressor(Struct):
    """The fitted part of a regressor beside its networks."""

    n_features_in_: int
    y_mean_: list[float]
    y_scale_: list[Positive]
    flat: bool
    feature_names_in_: list[str] | None = None
    loss: LossName = "squared_error"
    quantiles: list[Level] = []


class SavedTrial(Struct):
    """A candidate of the search, as saved."""

    strategy: str
    settings: dict[str, Any]
    rung: int
    epochs: int
    seconds: float
    loss: float | None
    score: float | None
    weight: float
    note: str
    history: list[list[dict[str, float | int | None]]]
    candidate: int = 0


class LargerSets(Struct, frozen=True):
    """The weights of networks for sets of more than ``size`` elements, the largest size of training."""

    size: Annotated[int, Meta(ge=0)]
    weights: list[Weight]


class _Saved(Struct, kw_only=True):
    settings: dict[str, Any]
    encoder: dict[str, Any]
    networks: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    weights: list[Weight]
    trials: list[SavedTrial]
    larger: LargerSets | None = None


class SavedClassifier(_Saved, tag_field="estimator", tag="SetClassifier"):
    """A saved classifier."""

    fitted: FittedClassifier

    @property
    def num_outputs(self) -> int:
        sizes = [len(labels.values) for labels in self.fitted.columns]
        return sum(sizes) * (2 if self.fitted.kind == "labels" else 1) - self.fitted.ordinal


class SavedRegressor(_Saved, tag_field="estimator", tag="SetRegressor"):
    """A saved regressor."""

    fitted: FittedRegressor

    @property
    def num_outputs(self) -> int:
        return len(self.fitted.y_mean_) * max(1, len(self.fitted.quantiles))


Saved = SavedClassifier | SavedRegressor


def read_estimator(path: str | PathLike[str]) -> tuple[Saved, Contents]:
    """Returns the description of a saved estimator, with all the contents that were read.

    Raises: FileNotFoundError if nothing is there; SavedModelError if it is not a saved estimator, or damaged.
    """
    contents = read_contents(path)
    return checked(contents.description, path), contents


def checked(description: Mapping[str, Any], path: str | PathLike[str]) -> Saved:
    """Returns a description as structs.

    Raises: SavedModelError, naming the field, for a description that ``save`` never writes.
    """
    if "estimator" not in description:
        raise SavedModelError(
            f"{path} expects a saved estimator; got another model. janossy.saving.load reads networks."
        )
    try:
        saved: Saved = typed(dict(description), Saved)  # type: ignore[arg-type]
        for weights in (saved.weights, *([saved.larger.weights] if saved.larger else [])):
            _check_weights(weights, len(saved.networks))
        if isinstance(saved, SavedRegressor):
            _check_targets(saved.fitted)
        else:
            _check_classes(saved.fitted)
    except ValueError as error:
        raise SavedModelError(f"{path} expects an estimator as save describes it; {error}. Was it edited?") from None
    return saved


def columns(saved: Saved) -> tuple[tuple[Code, ...], tuple[Code, ...]]:
    """Returns the columns of the elements and of the sets. Raises: ValueError if no encoder writes such columns."""
    return columns_from_state(saved.encoder)[1:]


def check_lengths(labels: list[Any], dtype: str) -> None:
    """Raises a ValueError for labels that take far more memory in their array than in a file."""
    longest = max((len(x) if isinstance(x, str) else 32 for x in labels), default=0)
    if longest > MAX_LABEL or (dtype == "str" and 4 * longest * len(labels) > MAX_LABELS_BYTES):
        raise ValueError(
            f"fitted.classes_: labels of at most {MAX_LABEL} characters, and {MAX_LABELS_BYTES} bytes in all, are "
            f"expected; got {len(labels)}, the longest of {longest} characters"
        )


def _check_weights(weights: list[float], num_networks: int) -> None:
    if len(weights) != num_networks:
        raise ValueError(f"weights: one for each of {num_networks} networks is expected; got {len(weights)}")
    if not isclose(sum(weights), 1, abs_tol=1e-6):
        raise ValueError(f"weights: a sum of 1 is expected; got {sum(weights):.6g}")


def _check_classes(fitted: FittedClassifier) -> None:
    if isinstance(fitted.classes_, list) != (fitted.kind == "columns") or not fitted.columns:
        raise ValueError(f"fitted.classes_: classes of the kind {fitted.kind!r} are expected; got others")
    if fitted.ordinal and fitted.kind != "one":
        raise ValueError("fitted.ordinal: one class per set is expected; got several")


def _check_targets(fitted: FittedRegressor) -> None:
    num = len(fitted.y_mean_)
    if num < 1 or len(fitted.y_scale_) != num or (fitted.flat and num != 1):
        raise ValueError("fitted: a mean and a scale for each target are expected; got others")
    levels = fitted.quantiles
    if levels != sorted(set(levels)) or bool(levels) != (fitted.loss == "quantile"):
        raise ValueError("fitted.quantiles: ascending levels, of the loss quantile alone, are expected; got others")
