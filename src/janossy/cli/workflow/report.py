"""The report of a fit: one self-contained page."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from janossy.cli.pages import Plot, data_uris, fill
from janossy.cli.workflow import figures
from janossy.cli.workflow.baselines import ahead, baselines, score_name
from janossy.cli.workflow.describing import describe, sizes_of
from janossy.cli.workflow.evaluation import Evaluation, Model, by_permutations, task_of, worst_predictions
from janossy.cli.workflow.record import Record, shown
from janossy.estimators import SetClassifier, Trial
from janossy.tables import SetTable

MAX_CURVES = 6
"""Candidates whose learning curves are drawn: those of the prediction, and the next best."""

FEW_RIGHT = 30
"""The number of sets below which a calibration curve says nothing."""


def report(
    model: Model,
    sets: SetTable,
    evaluation: Evaluation,
    record: Record,
    metadata: Mapping[str, str],
    reasons: Mapping[str, str] | None = None,
) -> bytes:
    """The page as HTML. ``metadata``: further settings and versions, by name; ``reasons``: of the columns' kinds."""
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
        "classes": _classes(model.classes_, evaluation) if isinstance(model, SetClassifier) else [],
        "target": "" if isinstance(model, SetClassifier) else _ranges(evaluation.targets, record.recipe.target),
        "wrong": list(worst_predictions(model, sets, evaluation, record.recipe.target)),
        "sensitivity": model.sensitivity_,
        "numbers": numbers,
        "images": {name: data_uris(plot) for name, plot in plots.items()},
        "of_targets": _of_targets(record.recipe.target),
        "metadata": metadata,
    }
    return fill(__package__, "report.html.j2", context)


def _plots(
    model: Model, evaluation: Evaluation, numbers: Sequence[tuple[int, float]], record: Record
) -> Iterator[tuple[str, Plot]]:
    curves = _curves(model.trials_)
    if curves:
        yield "curves", partial(figures.learning_curves, curves)
    if isinstance(model, SetClassifier):
        counts = _confusion(model.classes_, evaluation)
        yield "confusion", partial(figures.confusion, counts, [str(name) for name in model.classes_])
        if len(evaluation.sets) >= FEW_RIGHT and evaluation.probabilities is not None:
            yield "calibration", partial(figures.confidence, evaluation.probabilities.max(1), evaluation.right)
    else:
        for j, suffix in enumerate(_of_targets(record.recipe.target)):
            said, true = (
                x.reshape(len(evaluation.sets), -1)[:, j] for x in (evaluation.predictions, evaluation.targets)
            )
            yield f"residuals{suffix}", partial(figures.residuals, said, true)
            if len(evaluation.sets) >= FEW_RIGHT:
                yield f"calibration{suffix}", partial(figures.means, said, true)
    if len(numbers) > 1:
        nums, values = zip(*numbers, strict=True)
        yield "permutations", partial(figures.by_permutations, nums, values, next(iter(record.scores)))


def _curves(trials: Sequence[Trial]) -> list[figures.Curve]:
    """The candidates of the prediction first, then by loss."""
    tried = [trial for trial in trials if trial.epochs]
    chosen = sorted(tried, key=lambda trial: (-trial.weight, trial.loss))[:MAX_CURVES]
    return [
        figures.Curve(str(trial), [row["train_loss"] for row in history], [row["valid_loss"] for row in history])
        for trial in chosen
        for history in trial.history
        if history
    ]


def _confusion(classes: np.ndarray, evaluation: Evaluation) -> np.ndarray:
    counts = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(
        counts, (np.searchsorted(classes, evaluation.targets), np.searchsorted(classes, evaluation.predictions)), 1
    )
    return counts


def _classes(classes: np.ndarray, evaluation: Evaluation) -> list[tuple[str, int, str, str]]:
    """Returns, per class, its name, its sets, the share of them that is found, and the share of its predictions that is
    right.
    """
    counts = _confusion(classes, evaluation)
    true, said, found = counts.sum(1), counts.sum(0), counts.diagonal()
    return [
        (str(name), int(true[c]), _share(found[c], true[c]), _share(found[c], said[c]))
        for c, name in enumerate(classes)
    ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def _lead(evaluation: Evaluation, record: Record) -> str:
    """Says in a sentence how good it is, beside the best constant prediction."""
    num = len(evaluation.sets)
    of = f"on {num:,} sets, each predicted by networks that it is new to"
    if record.task == "classification":
        accuracy = evaluation.right.mean()
        error = (accuracy * (1 - accuracy) / num) ** 0.5
        names, counts = np.unique(evaluation.targets, return_counts=True)
        often = f"always saying {names[counts.argmax()]!s} is right in {counts.max() / num:.1%}"
        return f"Accuracy {accuracy:.4f} (standard error {error:.4f}) {of}; {often}."
    if evaluation.targets.ndim == 2:
        main = next(iter(record.scores.values()))
        num_targets = evaluation.targets.shape[1]
        return f"R² {shown(main or 0.0)}, the mean of {num_targets} targets, {of}; always saying the mean has 0."
    error = np.square(evaluation.targets - evaluation.predictions).mean() ** 0.5
    return f"Root mean squared error {error:.4g} {of}; always saying the mean has {evaluation.targets.std():.4g}."


def _of_all(evaluation: Evaluation, num_sets: int) -> np.ndarray:
    """The targets by set number, (B,): those of sets that were not judged are not looked at."""
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
    """Returns the titles that tell the figures of several targets apart."""
    return [f" of {name}" for name in names] if len(names) > 1 else [""]


def _place(trial: Trial) -> tuple[float, float, float]:
    """Sorts by weight, then by rounds: the losses of a shorter training are no measure of others."""
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
