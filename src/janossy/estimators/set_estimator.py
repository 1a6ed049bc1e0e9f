"""The common part of SetClassifier and SetRegressor: from sets of any form to an ensemble and its predictions."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from hashlib import sha256
from numbers import Integral
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from sklearn.base import TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from janossy.checks import check_integer
from janossy.estimators.batches import Examples, short_seed_of
from janossy.estimators.candidates import FOR_LARGER, Candidate
from janossy.estimators.checkpoint import Checkpoint
from janossy.estimators.classical.cached import CachedStatistics
from janossy.estimators.description import LargerSets
from janossy.estimators.ensemble import Ensemble, Outcome, check_outputs_finite
from janossy.estimators.fit_settings import FitSettings
from janossy.estimators.importance import ElementImportance, leave_one_out
from janossy.estimators.inputs import stream_of
from janossy.estimators.interrupts import Interrupts, now
from janossy.estimators.larger_sets import can_extrapolate
from janossy.estimators.networks import explained, pooled_by
from janossy.estimators.out_of_fold import Fold, order_sensitivity
from janossy.estimators.predictor import Predictor
from janossy.estimators.processes import Processes
from janossy.estimators.repetitions import MOST, repeated
from janossy.estimators.size_extrapolation import largest_size
from janossy.estimators.splits import FEW_SETS, splits
from janossy.estimators.streams.fitting import FitRequest, StreamFit, StreamTargets, fit_stream
from janossy.estimators.streams.scan import Scan
from janossy.estimators.tasks import Classification, Task
from janossy.estimators.threads import Threads, usable_threads
from janossy.estimators.trainer import Trainer
from janossy.estimators.training import unfinished
from janossy.estimators.trials import NothingTrained, Progress, Trial, UnfinishedTraining
from janossy.inference import Sensitivity
from janossy.kernels.compilation import waiting
from janossy.sets import Ragged
from janossy.tables.encoder import TableEncoder
from janossy.tables.forms import as_sets
from janossy.tables.stream import Labelled, SetStream
from janossy.tables.table import SetTable

T = TypeVar("T")


class SetEstimator(TransformerMixin, FitSettings):
    """The part of ``SetClassifier`` and ``SetRegressor`` that does not depend on the kind of targets."""

    encoder_: TableEncoder
    ensemble_: Ensemble
    folds_: list[Fold]
    trials_: list[Trial]
    sensitivity_: Sensitivity | None
    validation_sets_: Labelled
    """The validation sets of a fit to files. Numbers in ``folds_`` refer to them."""
    scan_: Scan
    seconds_: dict[str, float]
    num_threads_: int
    interrupted_: bool
    n_features_in_: int

    def __sklearn_is_fitted__(self) -> bool:
        """Returns True if there are networks that predict. A failed fit leaves none."""
        return hasattr(self, "ensemble_")

    def _forget(self) -> None:
        """Removes what an earlier fit has left. What this fit learns may fail halfway, and would not belong to it."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def transform(self, X: Any) -> np.ndarray:
        """Returns the pooled vectors of each set (B, c), float32, from all networks that predict, side by side.

        They are f's mean over the set's elements or orders, normalised, before the perceptron and without the set's own
        columns. For a classical learner they are its statistics. Raises: TypeError for another module.
        """
        sets, context = self._encoded(X)
        parts = [pooled_by(network, sets, context, self.num_permutations) for network in self.ensemble_.networks]
        return torch.cat(parts, 1).cpu().numpy()

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Returns the names of the columns of ``transform``: the network's number, and the column's number in it."""
        check_is_fitted(self)
        width = self.encoder_.element_layout.width
        empty = Ragged(torch.zeros(0, width), torch.zeros(2, dtype=torch.long))
        context = torch.zeros(1, self.encoder_.context_layout.num_columns)
        of_sets = context if context.shape[1] else None
        widths = [pooled_by(network.cpu(), empty, of_sets, 1).shape[1] for network in self.ensemble_.networks]
        return np.array([f"network{i}_{j}" for i, width in enumerate(widths) for j in range(width)], dtype=object)

    def explain(self, X: Any) -> str:
        """Returns text on each network that predicts: the evaluator of its pooling, and the cost of each evaluator."""
        sets, _ = self._encoded(X)
        explanations: dict[str, str] = {}
        for network in self.ensemble_.networks:
            explanations.setdefault(str(network), explained(network, sets))
        return "\n".join(explanations.values())

    def element_importance(self, X: Any) -> ElementImportance:
        """Returns the importance of elements: the change of each set's prediction when one element is left out.

        Cost: for a set of n elements, a prediction of n sets of n - 1 elements.
        """
        sets, context = self._encoded(X)
        whole, without = leave_one_out(self.ensemble_, sets, context, self.num_permutations)
        check_outputs_finite(whole, type(self).__name__)
        check_outputs_finite(without, type(self).__name__, "the set without element")
        changes = self._changes(whole.cpu(), without.cpu(), torch.tensor(sets.sizes))
        return ElementImportance(changes.numpy(), sets.offsets.cpu().numpy())

    def as_of_new_sets(self) -> Iterator[tuple[Self, np.ndarray]]:
        """Yields models of the networks that left out the same sets in training, with the numbers of these sets in X.

        Such a model predicts its sets like new sets, except that the choice of candidates and the temperature have used
        them. Loaded models cannot do this. Raises: NotFittedError before fit, and for a loaded model.
        """
        check_is_fitted(self, "folds_")
        for fold in self.folds_:
            model = copy(self)
            model.ensemble_ = replace(self.ensemble_, networks=fold.networks, weights=fold.weights, larger=None)
            yield model, fold.sets.numpy()

    def _validation_means(self, num_permutations: int | None) -> tuple[np.ndarray, Tensor]:
        """Returns the numbers of the validation sets (V,), and their out-of-fold predictions (V, out).

        Raises: FloatingPointError if a prediction is not finite.
        """
        check_is_fitted(self, "folds_")
        check_integer("validation_predictions", "num_permutations", num_permutations, 1, optional=True)
        link = self.ensemble_.task.link(self.ensemble_.temperature)
        means = torch.cat([fold.mean(link, num_permutations) for fold in self.folds_])
        check_outputs_finite(means, type(self).__name__)
        return torch.cat([fold.sets for fold in self.folds_]).numpy(), means

    def _changes(self, whole: Tensor, without: Tensor, sizes: Tensor) -> Tensor:
        """Returns the changes between predictions of whole sets (B, out) and of sets without one element (N, out)."""
        raise NotImplementedError

    @waiting()
    def _fit(self, sets: SetTable, targets: Tensor, weights: np.ndarray, groups: np.ndarray | None, task: Task) -> None:
        """Trains on sets with targets (B,) or (B, t), weights, some of which may be 0, and group numbers."""
        several = isinstance(task, Classification) and len(task.sizes) > 1
        limits, tried = self._limits(), self._candidates(several, sets.inner is not None)
        used = np.flatnonzero(weights)
        if len(used) < 2:
            raise ValueError(
                f"{type(self).__name__} expects two sets or more whose weight is not zero; got {len(used)} sample(s). "
                "Give it more."
            )
        if len(used) < len(weights):
            sets, targets, weights = sets[used], targets[torch.from_numpy(used)], weights[used]
            groups = None if groups is None else np.unique(groups[used], return_inverse=True)[1]
        self.encoder_ = TableEncoder().fit(sets)
        encoded = self.encoder_.transform(sets)
        sizes = encoded.elements.offsets.diff()
        largest = largest_size(targets, sizes, int(sizes.max()))
        examples = Examples(
            encoded.elements,
            encoded.context if encoded.context.shape[1] else None,
            targets,
            torch.from_numpy(weights / weights.mean()).float(),
        )
        tried = [each.suited(len(sizes), float(sizes.double().mean())) for each in tried]
        prepared, checkpoint = self._prepared(tried, examples, groups)
        seed = prepared["seed"]
        examples = examples.to(self.device)
        layouts = replace(self.encoder_.element_layout, largest_size=largest), self.encoder_.context_layout
        statistics = CachedStatistics(examples, layouts, groups)
        began = now()
        is_repeated = len(tried) > 1 and self.validation is None and len(examples) <= FEW_SETS
        searched = None if checkpoint is None else checkpoint.read("searched")
        has_finished = searched is not None and limits.seconds <= searched["seconds"]
        most = searched["num"] if searched is not None and has_finished else MOST if is_repeated else 1
        with _seeded(seed, self.device), Interrupts() as interrupts:
            has_trend = largest is None and sets.inner is None
            extrapolates = self.strategy == "auto" and has_trend and can_extrapolate(task, sizes)

            def trainer_of(repetition: int) -> Trainer:
                own = short_seed_of(seed, repetition) if repetition else seed
                trainer = Trainer(
                    examples,
                    splits(targets, self.validation, np.random.default_rng(own), groups),
                    task,
                    layouts,
                    limits,
                    num_permutations=self.num_permutations,
                    seed=own,
                    tell=lambda progress: self._tell(
                        interrupts, replace(progress, repetition=repetition, num_searches=most)
                    ),
                    statistics=statistics,
                    interrupts=interrupts,
                    checkpoint=checkpoint and checkpoint.of_repetition(repetition),
                    threads=Threads(self.num_threads, prepared["threads"]),
                    began=began,
                    for_larger=FOR_LARGER if extrapolates else (),
                )
                self.num_threads_ = trainer.num_threads
                return trainer

            found = self._found(interrupts, lambda: repeated(trainer_of, tried, most))
            if checkpoint is not None and not interrupts.came and not has_finished:
                checkpoint.write("searched", {"num": found.num_searches, "seconds": limits.seconds})
            self.trials_ = found.trials
            larger = None if found.for_larger is None else LargerSets(int(sizes.max()), found.for_larger)
            self.ensemble_ = Ensemble(found.networks, found.weights, task, larger=larger)
            self._calibrate([*found.folds, *found.others], examples)
            self.sensitivity_ = order_sensitivity([*found.folds, *found.others], examples, task, seed)
            self.folds_ = [fold.on_host(torch.from_numpy(used)) for fold in found.folds]
        self.interrupted_ = interrupts.came
        self.ensemble_.to("cpu")
        self._warn_unfinished()

    def _prepared(
        self, tried: Sequence[Candidate], examples: Examples, groups: np.ndarray | None
    ) -> tuple[dict[str, Any], Checkpoint | None]:
        """Returns the seed and the number of available threads, from the checkpoint if it has them."""
        state = self.random_state
        given = None if state is None else int(check_random_state(state).randint(2**31 - 1))
        seed = int(check_random_state(None).randint(2**31 - 1)) if given is None else given
        prepared: dict[str, Any] = {"seed": seed, "threads": usable_threads()}
        if self.checkpoint is None:
            return prepared, None
        metadata = self._metadata(tried, given) | {"sets": examples.digest()}
        metadata["groups"] = None if groups is None else sha256(groups.tobytes()).hexdigest()
        checkpoint = Checkpoint(Path(self.checkpoint), metadata, Processes())
        found = checkpoint.read("prepared")
        if found is not None:
            return found, checkpoint
        checkpoint.write("prepared", prepared)
        return prepared, checkpoint

    def _found(self, interrupts: Interrupts, fit: Callable[[], T]) -> T:
        """Returns the result of a fit.

        Raises: KeyboardInterrupt if an interrupt came before any training; NothingTrained if the time was over before.
        """
        try:
            found = fit()
        except NothingTrained:
            if interrupts.came:
                raise KeyboardInterrupt from None
            raise NothingTrained(
                f"{type(self).__name__} expects a time_budget in which a network learns; got time_budget="
                f"{self.time_budget}, which was over before the first step of training. Give more."
            ) from None
        interrupts.check()
        return found

    def _warn_unfinished(self) -> None:
        """Warns if networks that predict were not trained to the end."""
        if text := unfinished(self.trials_, self.time_budget):
            warnings.warn(text, UnfinishedTraining, stacklevel=4)

    @waiting()
    def _fit_stream(self, stream: SetStream, classes: bool, targets_of: Callable[[Scan], StreamTargets]) -> None:
        """Learns from sets in files, a few of which are in memory at a time."""
        owner = type(self).__name__
        if isinstance(self.validation, Integral):
            raise ValueError(
                f"{owner} expects validation as a fraction of sets in files, as 0.1; got {self.validation}."
            )
        if stream.y is None:
            raise ValueError(f"{owner} requires y to be passed, but the target y is None: SetStream(paths, y='name').")
        if len(stream) < 2:
            raise ValueError(f"{owner} expects two sets or more; got {len(stream)} sample(s). Give it more.")
        several = classes and not isinstance(stream.y, str) and len(set(stream.y)) > 1
        limits, tried = self._limits(), self._candidates(several)
        self._forget()
        random_state, checkpoint = self.random_state, self.checkpoint
        seed = None if random_state is None else int(check_random_state(random_state).randint(2**31 - 1))
        request = FitRequest(
            tried,
            limits,
            self.validation,
            self.num_permutations,
            seed,
            self.device,
            None if checkpoint is None else Path(checkpoint),
            self.num_threads,
            self._metadata(tried, seed),
            lambda progress: self._tell(interrupts, progress),
        )
        with _seeded(0, self.device), Interrupts() as interrupts:
            fitted = self._found(interrupts, lambda: fit_stream(stream, request, classes, targets_of, interrupts))
            self._take(fitted)
        self.interrupted_ = fitted.interrupted or interrupts.came
        self._warn_unfinished()

    def _take(self, fitted: StreamFit) -> None:
        """Keeps the results of a fit to a stream."""
        found, task = fitted.found, fitted.targets.task
        self.encoder_, self.trials_ = fitted.encoder, found.trials
        self.folds_ = [fold.on_host(torch.arange(len(fitted.examples))) for fold in found.folds]
        self.ensemble_ = Ensemble(found.networks, found.weights, task)
        self.validation_sets_, self.scan_, self.seconds_ = fitted.validation_sets, fitted.scan, fitted.seconds
        self.num_threads_ = fitted.num_threads
        self.n_features_in_ = len(self.encoder_.elements) + len(self.encoder_.context)
        torch.manual_seed(fitted.seed)
        self._calibrate(found.folds, fitted.examples)
        self.sensitivity_ = order_sensitivity(found.folds, fitted.examples, task, fitted.seed)
        self.ensemble_.to("cpu")

    def _calibrate(self, folds: Sequence[Fold], examples: Examples) -> None:
        """Learns from the validation sets after the networks are trained."""

    def _tell(self, interrupts: Interrupts, progress: Progress) -> None:
        """Reports progress. A KeyboardInterrupt from the user's function ends the fit like Ctrl-C."""
        if self.verbose and (self.verbose > 1 or progress.trial is not None):
            print(progress, flush=True)
        if self.progress is not None:
            try:
                self.progress(progress)
            except KeyboardInterrupt:
                interrupts.check()
                interrupts.came = True

    def _sets(self, X: Any, reset: bool = False) -> SetTable:
        """Returns the sets of X. In prediction they must have the columns of training."""
        matrix = len(getattr(X, "shape", ())) == 2
        if matrix:
            validate_data(self, X, reset=reset, skip_check_array=True)
        sets: SetTable = as_sets(X, **self._columns())
        if reset and not matrix:
            self.n_features_in_ = len(sets.elements) + len(sets.context)
        return sets

    def _encoded(self, X: Any) -> tuple[Ragged, Tensor | None]:
        """Returns the sets of X and their context as input of the networks."""
        check_is_fitted(self)
        return self.predictor_.encoded(self._sets(X))

    def far_values(self, X: Any) -> np.ndarray:
        """Counts the values of each set, (B,), that lie outside the range of training by more than its width."""
        check_is_fitted(self)
        return self.predictor_.far_values(self._sets(X))

    @property
    def predictor_(self) -> Predictor:
        """The fitted part, which predicts."""
        raise NotImplementedError

    def _fitted_parts(self) -> tuple[str, TableEncoder, Ensemble, dict[str, Any], int, str]:
        """Returns the arguments of any ``Predictor``."""
        owner = type(self).__name__
        return owner, self.encoder_, self.ensemble_, self._columns(), self.num_permutations, self.device

    def _outcome(self, X: Any) -> Outcome:
        """Returns the prediction of each set of X in the networks' units.

        Raises: FloatingPointError if a prediction is not finite.
        """
        outcome = self._networks_outcome(X)
        check_outputs_finite(outcome.mean, type(self).__name__)
        return outcome

    def _networks_outcome(self, X: Any) -> Outcome:
        """Returns the predictions of sets in memory at once, or of sets in files piece by piece."""
        check_is_fitted(self)
        if (stream := stream_of(X, self._columns(), encoder=self.encoder_)) is not None:
            return Outcome.cat([self._networks_outcome(part.sets) for part in stream])
        return self.predictor_.outcome(self._sets(X))


@contextmanager
def _seeded(seed: int, device: str) -> Iterator[None]:
    """Seeds torch's random numbers inside ``with``, and restores their state afterwards."""
    with torch.random.fork_rng([device] if torch.device(device).type == "cuda" else []):
        torch.manual_seed(seed)
        yield
