"""The tables of the page: one per data set, and our models against peers and "auto"."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan, sqrt
from statistics import fmean, stdev

from studies.bench.folds import NUM_FOLDS
from studies.bench.names import AUTO, OURS, SINGLE
from studies.bench.scores import SMALLER
from studies.runs.results import Result


@dataclass(frozen=True)
class Mean:
    """A mean over folds, with its standard error and the standard deviation; None for a single fold."""

    mean: float
    error: float | None = None
    spread: float | None = None

    @classmethod
    def of(cls, values: Sequence[float], shared: float = 0.0) -> "Mean":
        """Returns the mean of these numbers, or NaN for none.

        ``shared``: the ratio of test sets to training sets if folds are splits of the same sets. The error is then the
        corrected one of Nadeau and Bengio (Inference for the Generalization Error, Machine Learning 52, 2003).
        """
        if len(values) < 2:
            return cls(values[0] if values else nan)
        spread = stdev(values)
        return cls(fmean(values), spread * sqrt(1 / len(values) + shared), spread)

    def __str__(self) -> str:
        if not isfinite(self.mean):
            return "–"
        return number(self.mean) if self.error is None else f"{number(self.mean)} ({number(self.error)})"

    @property
    def signed(self) -> str:
        """The mean with its sign, in the form of a difference."""
        return ("+" if self.mean >= 0 else "") + str(self)


@dataclass(frozen=True)
class Row:
    """A model's results on a data set."""

    model: str
    ours: bool
    scores: dict[str, Mean]
    num_parameters: str
    num_networks: int
    fit_seconds: str
    predict_milliseconds: str
    num_folds: int
    best: bool


@dataclass(frozen=True)
class Comparison:
    """The comparison on a data set: our best model with the best peer, and "auto" with our best strategy.

    Parts that were not run are None. Differences are paired over shared folds, and above zero if the first is better.
    ``ahead``: models that were run on too few folds to be the best, but are better there than ``ours``, with their
    advantage and the number of folds.
    """

    name: str
    score: str
    ours: str
    peer: str | None
    against_peer: Mean | None
    single: str | None
    auto: Mean | None
    num_folds: int
    ahead: list[tuple[str, float, int]]

    @property
    def verdict(self) -> str:
        """The verdict on "auto" in words: within noise of the best single strategy, or not."""
        if self.auto is None:
            return ""
        if self.auto.mean >= 0:
            return "at or above it"
        if self.auto.error is None:
            return "below it, by one fold"
        return "within two standard errors" if self.auto.mean >= -2 * self.auto.error else "below it"

    @property
    def ahead_in_words(self) -> str:
        """The models of ``ahead`` in words."""
        return "; ".join(f"{model} +{number(by)}, {num} fold{'s' * (num > 1)}" for model, by, num in self.ahead) or "–"


def number(value: float) -> str:
    """Formats a number: three decimals, five close to one, and none for large numbers."""
    nearly = 0.9995 <= value < 1
    return f"{value:.{5 if nearly else 3}f}" if abs(value) < 100 else f"{value:,.0f}"


def folds_of(summary: Result, model: str, score: str | None = None) -> dict[int, float]:
    """Returns a model's score per fold, the mean over tests; by default the deciding score. NaN is left out."""
    score = score or summary["data_set"]["scores"][0]
    of_model = summary["models"].get(model)
    if of_model is None or not of_model["folds"]:
        return {}
    found = {}
    for i, fold in enumerate(of_model["folds"]):
        values = [of_test[score][i] for of_test in of_model["scores"].values()]
        if all(value is not None and isfinite(value) for value in values):
            found[fold] = fmean(values)
    return found


def sign(summary: Result) -> int:
    """Returns +1 if a larger score is better, else -1."""
    return -1 if summary["data_set"]["scores"][0] in SMALLER else 1


def shared_sets(summary: Result) -> float:
    """Returns the ratio of test sets to training sets in cross-validation, or 0 if folds have new sets or are seeds."""
    return 1 / (NUM_FOLDS - 1) if summary["data_set"]["num_folds"] >= NUM_FOLDS else 0.0


def rows(summary: Result) -> list[Row]:
    """Returns one row per model that was run, in display order."""
    means = means_on_shared_folds(summary, [*summary["models"]])
    shared = shared_sets(summary)
    found = []
    for model, of_model in summary["models"].items():
        if not of_model["folds"]:
            continue
        milliseconds = [
            1000 * seconds / num
            for seconds, num in zip(of_model["predict_seconds"], of_model["num_test"], strict=True)
            if num
        ]
        found.append(
            Row(
                model,
                model in OURS,
                {
                    score: Mean.of([*folds_of(summary, model, score).values()], shared)
                    for score in summary["data_set"]["scores"]
                },
                f"{fmean(of_model['num_parameters']):,.0f}",
                round(fmean(of_model["num_networks"])),
                f"{fmean(of_model['fit_seconds']):.1f}",
                f"{Mean.of(milliseconds).mean:.3g}",
                len(of_model["folds"]),
                means.get(model) == max(means.values(), default=nan),
            )
        )
    return found


def comparison(summary: Result) -> Comparison | None:
    """Returns the comparison on a data set, or None if none of our models was run."""
    ours = best(summary, OURS)
    if ours is None:
        return None
    peer = best(summary, [model for model in summary["models"] if model not in OURS])
    single = best(summary, SINGLE)
    auto = paired(summary, AUTO, single) if single else None
    return Comparison(
        summary["name"],
        summary["data_set"]["scores"][0],
        ours,
        peer,
        paired(summary, ours, peer) if peer else None,
        single,
        auto,
        len(folds_of(summary, AUTO)),
        ahead_on_few_folds(summary, ours),
    )


def best(summary: Result, models: Sequence[str]) -> str | None:
    """Returns the model with the best of ``means_on_shared_folds``."""
    means = means_on_shared_folds(summary, models)
    return max(means, key=means.__getitem__, default=None)


def means_on_shared_folds(summary: Result, models: Sequence[str]) -> dict[str, float]:
    """Returns the mean of each model that has more than half as many folds as the one with the most.

    All are means over the folds that these models share, signed so that larger is better.
    """
    folds = {model: of_model for model in models if (of_model := folds_of(summary, model))}
    most = max(map(len, folds.values()), default=0)
    folds = {model: of_model for model, of_model in folds.items() if 2 * len(of_model) > most}
    shared = set.intersection(*map(set, folds.values())) if folds else set()
    if not shared:
        return {}
    return {model: sign(summary) * fmean(of_model[fold] for fold in shared) for model, of_model in folds.items()}


def ahead_on_few_folds(summary: Result, ours: str) -> list[tuple[str, float, int]]:
    """Returns ``Comparison.ahead``: models, with their advantage over ours and the number of shared folds."""
    groups = ([model for model in summary["models"] if (model in OURS) == of_ours] for of_ours in (True, False))
    few = {model for group in groups for model in group if model not in means_on_shared_folds(summary, group)}
    advantages = {model: paired(summary, model, ours) for model in summary["models"] if model in few}
    num_folds = {model: len(folds_of(summary, model).keys() & folds_of(summary, ours).keys()) for model in advantages}
    return [(model, by.mean, num_folds[model]) for model, by in advantages.items() if by and by.mean > 0]


def paired(summary: Result, first: str, second: str) -> Mean | None:
    """Returns the mean advantage of the first model over the second, over shared folds; None without any."""
    a, b = folds_of(summary, first), folds_of(summary, second)
    both = sorted(a.keys() & b.keys())
    return Mean.of([sign(summary) * (a[fold] - b[fold]) for fold in both], shared_sets(summary)) if both else None
