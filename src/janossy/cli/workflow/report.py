"""The report of a fit: one self-contained page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from janossy.cli.pages import Plot, data_uris, fill
from janossy.cli.workflow import figures
from janossy.cli.workflow.baselines import ahead, baselines, score_name
from janossy.cli.workflow.describing import describe, sizes_of
from janossy.cli.workflow.evaluation import Estimator, Evaluation, by_permutations, places, task_of, worst_predictions
from janossy.cli.workflow.record import Record, shown
from janossy.estimators import SetClassifier, Trial
from janossy.tables import SetTable

MAX_CURVES = 6
"""The most candidates whose learning curves are drawn: those of the prediction, then the next best."""

FEW_RIGHT = 30
"""The fewest sets from which a calibration curve is drawn."""


def report(
    model: Estimator,
    sets: SetTable,
    evaluation: Evaluation,
    record: Record,
    metadata: Mapping[str, str],
    reasons: Mapping[str, str],
    outlook: str = "",
) -> bytes:
    """Returns the page as HTML.

    ``metadata``: further settings and versions, by name. ``reasons``: the reasons for the columns' kinds.
    ``outlook``: a sentence on what more time may bring.
    """
    task = task_of(model)
    numbers = by_permutations(model, _of_all(evaluation, len(sets)))
    plots = dict(_plots(model, evaluation, numbers, record))
    beside, score = baselines(model, evaluation, record), score_name(model, record)
    context = {
        "record": record,
        "is_classifier": task == "classification",
        "scores": {name: "–" if value is None else shown(value) for name, value in record.scores.items()},
        "main": next(iter(record.scores)),
        "lead": ahead(beside, score) + _lead(evaluation, record),
        "num_evaluated": len(evaluation.sets),
        "baselines": [(each.name, shown(each.score)) for each in beside],
        "score": score,
        "sizes": sizes_of(sets),
        "columns": list(describe(sets, reasons)),
        "trials": [_trial_line(trial) for trial in sorted(model.trials_, key=_place)],
        "used": [str(trial) for trial in model.trials_ if trial.weight],
        "classes": _classes(evaluation),
        "target": "" if isinstance(model, SetClassifier) else _ranges(evaluation.targets, record.recipe.targets),
        "are_times": evaluation.are_times,
        "wrong": list(worst_predictions(model, sets, evaluation)),
        "sensitivity": model.sensitivity_,
        "numbers": numbers,
        "images": {name: data_uris(plot) for name, plot in plots.items()},
        "of_targets": _of_targets(record.recipe.target),
        "metadata": metadata,
        "outlook": outlook,
    }
    return fill(__package__, "report.html.j2", context)


def _plots(
    model: Estimator, evaluation: Evaluation, numbers: Sequence[tuple[int, float]], record: Record
) -> Iterator[tuple[str, Plot]]:
    curves = _curves(model.trials_)
    if curves:
        yield "curves", partial(figures.learning_curves, curves)
    if isinstance(model, SetClassifier):
        for (suffix, *of), classes in _confused(evaluation):
            yield f"confusion{suffix}", partial(figures.confusion, _confusion(classes, *of), list(map(str, classes)))
        if len(evaluation.sets) >= FEW_RIGHT and evaluation.probabilities is not None and evaluation.targets.ndim == 1:
            yield "calibration", partial(figures.confidence, evaluation.probabilities.max(1), evaluation.right)
    elif not evaluation.are_times:
        for suffix, true, said in _columns(evaluation):
            yield f"residuals{suffix}", partial(figures.residuals, said, true)
            if len(evaluation.sets) >= FEW_RIGHT:
                yield f"calibration{suffix}", partial(figures.means, said, true)
    if len(numbers) > 1:
        nums, values = zip(*numbers, strict=True)
        yield "permutations", partial(figures.by_permutations, nums, values, next(iter(record.scores)))


def _curves(trials: Sequence[Trial]) -> list[figures.Curve]:
    """Returns the learning curves of the most important candidates: those of the prediction, then by loss."""
    tried = [trial for trial in trials if trial.epochs]
    chosen = sorted(tried, key=lambda trial: (-trial.weight, trial.loss))[:MAX_CURVES]
    return [
        figures.Curve(str(trial), [row["train_loss"] for row in history], [row["valid_loss"] for row in history])
        for trial in chosen
        for history in trial.history
        if history
    ]


def _columns(evaluation: Evaluation) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Returns the title suffix, the targets (V,) and the predictions (V,) of each target."""
    columns = evaluation.columns
    return [(f" of {name}" if len(columns) > 1 else "", true, said) for name, true, said in columns]


def _confused(
    evaluation: Evaluation,
) -> list[tuple[tuple[str, np.ndarray, np.ndarray], np.ndarray]]:
    """Returns the columns with confusion matrices, and their classes. Flags have one table together instead."""
    if evaluation.probabilities is None or _are_flags(evaluation):
        return []
    return list(zip(_columns(evaluation), evaluation.classes, strict=True))


def _are_flags(evaluation: Evaluation) -> bool:
    """Returns True for several targets of 0 and 1, such as labels."""
    several = evaluation.targets.ndim == 2
    return several and all(np.array_equal(classes, [0, 1]) for classes in evaluation.classes)


def _confusion(classes: np.ndarray, targets: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    counts = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(counts, (places(classes, targets), places(classes, predictions)), 1)
    return counts


@dataclass(frozen=True)
class ClassTable:
    """A table of a target's classes: name, number of sets, share that is found, and share that is right."""

    of: str
    rows: list[tuple[str, int, str, str]]


def _classes(evaluation: Evaluation) -> list[ClassTable]:
    """Returns one table per target. Flags share one table, with a row for the 1 of each."""
    if evaluation.probabilities is not None and _are_flags(evaluation):
        rows = [_class_rows(np.array([0, 1]), true, said)[1] for _, true, said in evaluation.columns]
        named = [(name, *row[1:]) for (name, _, _), row in zip(evaluation.columns, rows, strict=True)]
        return [ClassTable("", named)]
    return [
        ClassTable(suffix, _class_rows(classes, true, said)) for (suffix, true, said), classes in _confused(evaluation)
    ]


def _class_rows(classes: np.ndarray, targets: np.ndarray, predictions: np.ndarray) -> list[tuple[str, int, str, str]]:
    """Returns per class its name, its sets, the share of these that is found, and the share of predictions right."""
    counts = _confusion(classes, targets, predictions)
    true, said, found = counts.sum(1), counts.sum(0), counts.diagonal()
    return [
        (str(name), int(true[c]), _share(found[c], true[c]), _share(found[c], said[c]))
        for c, name in enumerate(classes)
    ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def _lead(evaluation: Evaluation, record: Record) -> str:
    """Returns two sentences: the model's score, and the score of the best constant prediction."""
    num = len(evaluation.sets)
    of = f"on {num:,} validation sets"
    if evaluation.are_times:
        main = next(iter(record.scores.values()))
        return (
            f"Concordance {shown(main or 0.0)} {of}: the share of pairs whose order of events is right. Chance has 0.5."
        )
    if record.task == "classification" and evaluation.targets.ndim == 2:
        main, num_targets = next(iter(record.scores.values())), evaluation.targets.shape[1]
        of_all = f"All are right for {evaluation.right.mean():.1%}"
        return f"Accuracy {shown(main or 0.0)}, the mean of {num_targets} targets, {of}. {of_all}."
    if record.task == "classification":
        accuracy = evaluation.right.mean()
        error = (accuracy * (1 - accuracy) / num) ** 0.5
        names, counts = np.unique(evaluation.targets, return_counts=True)
        often = f"Always predicting {names[counts.argmax()]!s} is right for {counts.max() / num:.1%}"
        return f"Accuracy {accuracy:.4f} (standard error {error:.4f}) {of}. {often}."
    if evaluation.targets.ndim == 2:
        main = next(iter(record.scores.values()))
        num_targets = evaluation.targets.shape[1]
        return f"R² {shown(main or 0.0)}, the mean of {num_targets} targets, {of}. Always predicting the mean has 0."
    error = np.square(evaluation.targets - evaluation.predictions).mean() ** 0.5
    return f"Root mean squared error {error:.4g} {of}. Always predicting the mean has {evaluation.targets.std():.4g}."


def _of_all(evaluation: Evaluation, num_sets: int) -> np.ndarray:
    """Returns the targets by set number, (B,). Entries of sets that were not validated are arbitrary."""
    targets = np.empty((num_sets, *evaluation.targets.shape[1:]), evaluation.targets.dtype)
    targets[evaluation.sets] = evaluation.targets
    return targets


def _ranges(targets: np.ndarray, names: Sequence[str]) -> str:
    columns = targets.reshape(len(targets), -1).T
    ranges = [f"{values.min():.6g} to {values.max():.6g}, mean {values.mean():.6g}" for values in columns]
    if len(ranges) == 1:
        return ranges[0]
    return "; ".join(f"{name} {each}" for name, each in zip(names, ranges, strict=True))


def _of_targets(names: Sequence[str]) -> list[str]:
    """Returns the title suffixes of the figures of several targets."""
    return [f" of {name}" for name in names] if len(names) > 1 else [""]


def _place(trial: Trial) -> tuple[float, float, float]:
    """Returns a sort key: by weight, then by rounds, because losses of shorter trainings do not compare."""
    return -trial.weight, -trial.rung, trial.loss


def _trial_line(trial: Trial) -> dict[str, str]:
    tried = trial.epochs > 0
    return {
        "name": str(trial),
        "round": str(trial.rung + 1),
        "epochs": str(trial.epochs) if tried else "–",
        "seconds": f"{trial.seconds:.1f}" if tried else "–",
        "loss": f"{trial.loss:.4f}" if tried else "–",
        "score": shown(trial.score) if tried else "–",
        "weight": f"{trial.weight:.2f}" if trial.weight else "",
        "note": trial.note,
    }
