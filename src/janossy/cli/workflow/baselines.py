"""Baselines for a model: the best constant, and the classical learners that its search tried."""

from dataclasses import dataclass

import numpy as np

from janossy.cli.workflow.evaluation import Estimator, Evaluation
from janossy.cli.workflow.record import Record
from janossy.estimators import SetClassifier, Trial

NAMES = {
    "linear": ("ridge regression", "logistic regression"),
    "forest": ("random forest", "random forest"),
    "trees": ("gradient boosting", "gradient boosting"),
}
"""The names of classical strategies, for numbers and for classes."""


@dataclass(frozen=True)
class Baseline:
    """A predictor, with its score on validation sets."""

    name: str
    score: float
    is_model: bool = False


def score_name(model: Estimator, record: Record) -> str:
    """Returns the name of the score that trials have too: the balanced accuracy if classes are balanced."""
    several = "balanced accuracy" not in record.scores
    balanced = isinstance(model, SetClassifier) and model.class_weight == "balanced" and not several
    return "balanced accuracy" if balanced else next(iter(record.scores))


def baselines(model: Estimator, evaluation: Evaluation, record: Record) -> list[Baseline]:
    """Returns the model, the best constant, and each classical learner that was tried, with its best trial.

    The best comes first, and the model comes before baselines of the same score.
    """
    is_classifier = isinstance(model, SetClassifier)
    found = [_constant(model, evaluation, record)]
    for strategy, names in NAMES.items():
        tried = [trial for trial in model.trials_ if trial.strategy == strategy and trial.epochs]
        if tried:
            best = min(tried, key=lambda trial: trial.loss)
            found.append(Baseline(f"{names[is_classifier]}{_extra(best)} on statistics of sets", best.score))
    own = record.scores[score_name(model, record)]
    found.append(Baseline("this model", float("-inf") if own is None else own, is_model=True))
    return sorted(found, key=lambda each: (-each.score, not each.is_model))


def ahead(found: list[Baseline], score: str) -> str:
    """Returns a sentence that names a baseline better than the model, or "" if no baseline is."""
    best, model = found[0], next(each for each in found if each.is_model)
    if best.is_model or not best.score > model.score:
        return ""
    name = best.name[:1].upper() + best.name[1:]
    return f"{name} is better than this model: {score} {best.score:.4f} against {model.score:.4f}. "


def _constant(model: Estimator, evaluation: Evaluation, record: Record) -> Baseline:
    if evaluation.are_times:
        return Baseline("always the same hazard", 0.5)
    if not isinstance(model, SetClassifier):
        return Baseline("always the mean", 0.0)
    counted = [np.unique(np.array(true.tolist()), return_counts=True) for _, true, _ in evaluation.columns]
    balanced = score_name(model, record) == "balanced accuracy"
    score = np.mean([1 / len(names) if balanced else counts.max() / counts.sum() for names, counts in counted])
    names, counts = counted[0]
    often = f"always {names[counts.argmax()]!s}" if len(counted) == 1 else "always the most frequent class of each"
    return Baseline(often, float(score))


def _extra(trial: Trial) -> str:
    return " (extremely randomised)" if trial.settings.get("extra") else ""
