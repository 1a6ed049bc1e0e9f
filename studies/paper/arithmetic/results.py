"""The contents of a result file of an arithmetic task."""

from dataclasses import dataclass
from typing import Annotated, Any

from studies.paper.arithmetic.models import MODELS
from studies.paper.arithmetic.settings import Settings
from studies.paper.arithmetic.tasks import TASKS
from studies.runs.schema import Count, OneOf, Seconds, Seed, Within

Accuracy = Annotated[float | None, Within(0, 1, or_nan=True)]
Error = Annotated[float | None, Within(0, or_nan=True)]


@dataclass(frozen=True)
class Scored:
    """The scores of predictions, null or NaN for a run that diverged."""

    accuracy: Accuracy
    rmse: Error
    mae: Error


@dataclass(frozen=True)
class AfterEpoch(Scored):
    """The scores on the validation set after an epoch, with its seconds."""

    epoch: Count
    seconds: Seconds = 0.0


@dataclass(frozen=True)
class WithPermutations(Scored):
    """The scores on the test set by the mean over several permutations; null for a model that samples none."""

    num_permutations: Count | None


@dataclass(frozen=True)
class OnCurve(Scored):
    """The scores on the test set by the mean over 1, 2, … permutations."""

    num_permutations: Count


@dataclass(frozen=True)
class ArithmeticResult:
    """The result of a trained (task, model, seed)."""

    task: Annotated[str, OneOf(TASKS)]
    model: Annotated[str, OneOf(MODELS)]
    seed: Seed
    config: Settings
    num_trainable_parameters: Count
    scores: list[WithPermutations]
    curve: list[OnCurve]
    history: list[AfterEpoch]
    seconds: Seconds
    versions: dict[str, Any]
    finished: str = ""
    stack: Count = 1
    """The number of replicas trained together, including itself. Its seconds are its share."""
