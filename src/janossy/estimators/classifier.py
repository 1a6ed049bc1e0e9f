"""SetClassifier: a classifier of sets with scikit-learn's interface."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, Literal, Self, cast, overload

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from torch import Tensor

from janossy.estimators.batches import Examples
from janossy.estimators.calibration import temperature
from janossy.estimators.class_codes import (
    EXPECTED,
    check_order,
    classes_of,
    collections_of,
    columns_of,
    of_one_type,
    plain_classes,
    table_of,
)
from janossy.estimators.class_targets import ClassTargets
from janossy.estimators.classical.many_classes import without_many_classes
from janossy.estimators.fit_settings import Strategy
from janossy.estimators.inputs import check_like, check_targets_given, groups_of, stream_of, weights_of
from janossy.estimators.out_of_fold import Fold
from janossy.estimators.predictor import ClassPredictor
from janossy.estimators.set_estimator import SetEstimator
from janossy.estimators.streams.fitting import StreamTargets
from janossy.estimators.streams.scan import Scan
from janossy.estimators.tasks import Classification
from janossy.estimators.trials import Progress
from janossy.tables.forms import Names
from janossy.tables.stream import SetStream
from janossy.tables.targets import as_array, check_weights


class SetClassifier(ClassifierMixin, SetEstimator):
    """A classifier of sets. It tries networks of several kinds within a time budget, and averages the best of them.

    ``X`` is anything that ``as_sets`` takes, one row per set. It can be a list of arrays, a table with columns of
    lists, or a ``SetTable`` of a long table. A plain matrix is sets of one element. Columns are standardised or
    embedded by the training sets.

    X may also name Parquet files that exceed the memory: a path, a pattern or a ``SetStream``. y is then the name of a
    column, or several. One network learns from a piece at a time, in as many processes as torchrun has started.

    There are two uncertainties. ``predict_proba`` is confidence in the label: an average over networks, calibrated by
    a temperature on validation sets. ``return_std=True`` adds a standard error over the random orders that strategies
    such as "gru" average over. It is 0 for strategies that average exactly.

    Args:
        strategy: the networks to try, in one of these forms.

            - "auto": a search among several kinds of networks
            - the name of one, such as "k2" or "gru" (``build_network``)
            - a dict with a name under "strategy" and its settings
            - a function (element_layout, context_layout, num_outputs) -> JanossyNetwork, or any module with the same
              call, network(sets, context=…, generator=…)
            - a list of these to search

        time_budget: seconds after which training ends with the best result so far; None for no limit. If it is not
            reached, a fit depends on ``random_state`` alone, and not on the speed of the machine. An exception is
            a candidate of "auto" that is estimated to take longer than the budget.
        max_epochs, batch_size, learning_rate, patience: settings of training; None for values that suit the number of
            sets. An epoch is a pass over the training sets, or over 100,000 of them. Patience is the number of epochs
            without a better validation loss after which training stops.
        validation: the validation sets, stratified by class. They stop, choose and calibrate networks. A fraction of
            the sets, or a number of folds, each held out by one network in turn. None for 5 folds up to 2,000 sets,
            and for a tenth of more sets, at most 20,000. With up to 10,000, a search of several candidates uses time
            that is left for four other tenths.
        num_permutations: the number of random orders that a prediction averages over, if the strategy samples orders.
        numeric, categorical, set_columns: as in ``as_sets``, for X that is not a ``SetTable``.
        class_weight: as in scikit-learn: None, "balanced" or a dict. It weighs errors, and shifts probabilities.
        ordinal: True if the classes ascend in their sorted order, as grades from 1 to 6 do. Then only networks are
            tried, and learn cumulative logits.
        checkpoint: a folder to which a fit is saved now and then. After a kill the same fit continues from it. The
            result is the same if no run reaches ``time_budget``, which counts each run anew. None saves nothing.
        num_threads: the threads of networks and trees in training. None for one if batches or tables are small, else
            all that torch has. Another number gives slightly different weights, by rounding.
        device: the device of training and prediction, such as "cuda".
        random_state: a seed, or a ``numpy.random.RandomState``, for a fit that can be repeated.
        verbose: 1 for one line per trial, 2 for one line per epoch.
        progress: a function that is called with a ``Progress`` after every epoch and trial.

    Attributes:
        classes_: the labels, in the order of ``predict_proba``'s columns; a list of arrays for several columns.
        trials_: the candidates, as ``Trial`` records: settings, validation loss and score, seconds, epochs.
        sensitivity_: the effect of single orders on validation sets, for the main network that samples orders
            (``janossy.inference.Sensitivity``); None if no network samples orders.
        validation_sets_, scan_, seconds_: only after a fit to files. The validation sets with their targets, the
            results of the first pass, and the seconds of "scan" and "training". Their "reading" is the time that
            training waited for files.
        interrupted_: True if Ctrl-C ended the search. The best model so far then predicts. A second Ctrl-C ends at
            once.
        temperature_: the number by which logits are divided.
        n_features_in_, feature_names_in_: as in scikit-learn, for tables and matrices.

    y may also be an array (B, t), of a class in each of t columns, or hold a collection of labels for each set. Such a
    fit learns all of them at once, by networks alone.

    Shapes: B sets, y (B,) -> labels (B,), probabilities (B, classes).

        - y (B, t) -> labels (B, t), and a list of t arrays of probabilities. If all columns hold 0 and 1, the
          probabilities of 1, (B, t).
        - Collections of L labels in all -> tuples of labels (B,), an object array, and their probabilities (B, L).

    Raises: TypeError or ValueError, in fit, for sets, targets or settings that it cannot take. FloatingPointError if
        training diverges, or a prediction is not finite. KeyboardInterrupt if Ctrl-C comes before there is a network to
        keep.

    Example:
        >>> hands = [np.random.randint(0, 13, (5, 1)) for _ in range(200)]
        >>> pairs = [len(np.unique(hand)) < 5 for hand in hands]
        >>> model = SetClassifier("k2", categorical=["x0"], max_epochs=30, random_state=0).fit(hands, pairs)
        >>> model.predict_proba(hands[:3]).shape
        (3, 2)
    """

    classes_: Any
    temperature_: float
    _class_targets: ClassTargets

    def __init__(
        self,
        strategy: Strategy | Sequence[Strategy] = "auto",
        *,
        time_budget: float | None = 600.0,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        patience: int | None = None,
        validation: float | int | None = None,
        num_permutations: int = 20,
        numeric: Names = (),
        categorical: Names = (),
        set_columns: Names | None = None,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        ordinal: bool = False,
        checkpoint: str | PathLike[str] | None = None,
        num_threads: int | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        super().__init__(
            strategy,
            time_budget=time_budget,
            max_epochs=max_epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            patience=patience,
            validation=validation,
            num_permutations=num_permutations,
            numeric=numeric,
            categorical=categorical,
            set_columns=set_columns,
            checkpoint=checkpoint,
            num_threads=num_threads,
            device=device,
            random_state=random_state,
            verbose=verbose,
            progress=progress,
        )
        self.class_weight = class_weight
        self.ordinal = ordinal

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learns to predict the class y (B,) of each set of X, or several, y (B, t), or a collection of labels.

        ``sample_weight`` (B,) weighs errors. ``groups`` (B,): sets of one group, such as a patient's, are never both in
        training and in validation. For files, both are names of columns.
        """
        if (stream := stream_of(X, self._columns(), y, sample_weight, groups)) is not None:
            self._fit_stream(stream, True, partial(self._targets, stream))
            return self
        check_targets_given(y, self)
        self._forget()
        sets = self._sets(X, reset=True)
        known, given, codes = classes_of(y)
        check_consistent_length(sets, codes)
        if self.ordinal:
            check_order(y, known.classes[0])
        weights = weights_of(sample_weight, len(codes))
        self._use(known)
        if self.class_weight is not None:
            used = np.flatnonzero(weights) if self.class_weight == "balanced" else None
            of_classes = compute_sample_weight(self.class_weight, given, indices=used)
            check_weights("class_weight", of_classes, lambda i: f"for the class of set {i}")
            weights = weights * of_classes
        task = known.task(self.ordinal, int(np.count_nonzero(weights)))
        self._fit(sets, codes, weights, groups_of(groups, len(codes)), task)
        return self

    def _use(self, known: ClassTargets) -> None:
        self._class_targets, self.classes_ = known, known.public
        self._check_class_weight(known)

    def _check_class_weight(self, known: ClassTargets) -> None:
        given, one = self.class_weight, known.kind == "one"
        if not (given is None or given == "balanced" or isinstance(given, Mapping if one else Mapping | list)):
            raise ValueError(f"class_weight expects None, 'balanced' or a dict; got {given!r}.")
        if isinstance(given, Mapping) and one:
            classes = known.classes[0].tolist()
            others = [each for each in given if each not in classes]
            if others and not all(each in given for each in classes):
                raise ValueError(f"class_weight expects classes of y, {classes[:20]}; got {others[:20]}.")

    def _targets(self, stream: SetStream, scan: Scan) -> StreamTargets:
        columns = [np.array(labels) for labels in scan.labels]
        one = len(columns) == 1
        for j, classes in enumerate(columns):
            if len(classes) < 2:
                where = "" if one else f", column {j}"
                raise ValueError(f"{EXPECTED}{where}; got one class, {classes[0]!r}. Is y the right column?")
            with without_many_classes():
                check_classification_targets(classes)
        self._use(ClassTargets("one" if one else "columns", columns))
        if self.ordinal and isinstance(stream.y, str):
            check_order(stream.table(0)[stream.y], columns[0])
        if self.class_weight not in (None, "balanced") and not one:
            raise ValueError("class_weight expects 'balanced' for several columns of classes in files; got a dict.")
        counted = zip(scan.labels, scan.counts, strict=True)
        weights = [_class_weights(self.class_weight, labels, np.array(counts)) for labels, counts in counted]

        def encode(targets: np.ndarray) -> Tensor:
            given = zip(columns, targets.reshape(len(targets), -1).T, strict=True)
            codes = [np.searchsorted(classes, column.astype(classes.dtype)) for classes, column in given]
            return torch.from_numpy((codes[0] if one else np.stack(codes, 1)).astype(np.int64))

        def weigh(codes: Tensor) -> Tensor:
            given = zip(weights, codes.reshape(len(codes), -1).T, strict=True)
            return torch.stack([weight[column] for weight, column in given]).prod(0)

        return StreamTargets(self._class_targets.task(self.ordinal), encode, weigh)

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Returns the most probable class of each set (B,), or of each column (B, t).

        For labels, it returns those whose probability exceeds 1/2. ``return_std`` adds the standard errors of the
        probabilities over random orders, (B,), (B, t) or (B, L). They are 0 if no orders are sampled.
        """
        outcome, task = self._outcome(X), self.task_
        codes = task.codes(outcome.mean)
        labels = self._class_targets.decoded(codes.numpy())
        if not return_std:
            return labels
        errors = task.chosen(outcome.standard_error, codes).numpy()
        return labels, errors[:, 0] if self._class_targets.kind == "one" else errors

    @overload
    def predict_proba(self, X: Any, return_std: Literal[False] = False) -> Any: ...

    @overload
    def predict_proba(self, X: Any, return_std: Literal[True]) -> tuple[Any, Any]: ...

    def predict_proba(self, X: Any, return_std: bool = False) -> Any:
        """Returns the probability of each class (B, C), in the order of ``classes_``.

        For several columns it is a list of such arrays, or (B, t) for 0 and 1. For labels it is (B, L).
        ``return_std`` adds its standard error over random orders, in the same form.
        """
        outcome, arranged = self._outcome(X), self._class_targets.arranged
        probabilities = arranged(outcome.mean)
        return (probabilities, arranged(outcome.standard_error)) if return_std else probabilities

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns the fraction of the sets whose class is right, or whose classes or labels are all right."""
        check_is_fitted(self)
        check_targets_given(y, self)
        y = as_array(y)
        if sample_weight is not None:
            sample_weight = weights_of(sample_weight, len(y))
        if self._class_targets.kind == "one":
            return float(super().score(X, plain_classes(np.asarray(of_one_type(y))), sample_weight))
        right = self._right(y, self.predict(X))
        return float(accuracy_score(np.ones(len(right), bool), right, sample_weight=sample_weight))

    def _right(self, y: Any, said: np.ndarray) -> np.ndarray:
        """Returns True for each set (B,) whose classes in all columns, or labels, are those that were predicted."""
        if self._class_targets.kind == "labels":
            given = collections_of(y)
            check_consistent_length(given, said)
            return np.array([set(each) == set(labels) for each, labels in zip(given, said, strict=True)])
        check_like(table := table_of(y), said, self)
        columns = zip(columns_of(table), said.T, strict=True)
        return cast(np.ndarray, np.all([column == of_column for column, of_column in columns], 0))

    def change_probability(self, X: Any) -> np.ndarray:
        """Returns the probability that averaging over more orders would give another class, (B,).

        It is 0 if no orders are sampled. It concerns only the orders, and is not the probability of a wrong class.
        Raises: AttributeError for several classes per set.
        """
        check_is_fitted(self)
        if self._class_targets.kind != "one":
            raise AttributeError("change_probability expects one class per set; got several. See return_std=True.")
        return self._outcome(X).change_probability.numpy()

    def _changes(self, whole: Tensor, without: Tensor, sizes: Tensor) -> Tensor:
        task = self.task_
        codes = task.codes(whole)
        of_set = task.chosen(whole, codes).repeat_interleave(sizes, 0)
        changes = of_set - task.chosen(without, codes.repeat_interleave(sizes, 0))
        return changes[:, 0] if self._class_targets.kind == "one" else changes

    def validation_predictions(self, num_permutations: int | None = None) -> tuple[np.ndarray, Any]:
        """Returns out-of-fold predictions of the validation sets, as kept from ``fit``.

        Each set is predicted by the networks that did not learn from it. These predictions are those of new sets,
        except that the choice of candidates and the temperature have used them. Saved models do not have them.

        Args:
            num_permutations: the number of sampled orders that count. None for all.

        Shapes: the numbers of the sets in X (V,), and probabilities (V, C), or the form of ``predict_proba`` for
            several.
        Raises: NotFittedError before fit, and for a loaded model.
        """
        sets, means = self._validation_means(num_permutations)
        return sets, self._class_targets.arranged(means)

    @property
    def predictor_(self) -> ClassPredictor:
        """The fitted part, which predicts."""
        return ClassPredictor(*self._fitted_parts(), self._class_targets)

    @property
    def task_(self) -> Classification:
        """The task of the fitted networks."""
        return cast(Classification, self.ensemble_.task)

    def _calibrate(self, folds: Sequence[Fold], examples: Examples) -> None:
        self.temperature_ = temperature(folds, examples, self.task_)
        self.ensemble_.temperature = self.temperature_


def _class_weights(
    given: Literal["balanced"] | Mapping[Any, float] | None, labels: list[Any], counts: np.ndarray
) -> Tensor:
    """Returns the weight of each class (C,). Their mean over the training sets is 1."""
    if given == "balanced":
        each = 1 / np.maximum(counts, 1)
    else:
        each = np.array([(given or {}).get(label, 1.0) for label in labels])
        check_weights("class_weight", each, lambda i: f"for class {labels[i]!r}")
    return torch.from_numpy(each * counts.sum() / (each * counts).sum()).float()
