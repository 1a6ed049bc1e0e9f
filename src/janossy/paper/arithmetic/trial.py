"""One training run of an arithmetic task, as workers take it."""

from dataclasses import dataclass
from typing import Any, ClassVar

from janossy.paper.arithmetic.models import MODELS
from janossy.paper.arithmetic.settings import Settings
from janossy.paper.arithmetic.tasks import TASKS
from janossy.paper.arithmetic.train import train_trial
from janossy.runs.workers import Progress

AN_EXAMPLE = 2.5e-6
"""Seconds of an example in a pass of L-BFGS, with its share of the preconditioners: much the same for all models."""

A_STEP, FLOPS = 1.2e-3, 1.6e10
"""Seconds of a step of Adam beside its products, and multiplications of f a second, forward and backward."""


@dataclass(frozen=True)
class Trial:
    """Names of a task and a model, a seed, and the settings. Progress is counted in epochs."""

    task: str
    model: str
    seed: int
    settings: Settings

    numbered: ClassVar[str] = "seed"

    @property
    def place(self) -> tuple[str, str, int]:
        return self.task, self.model, self.seed

    @property
    def units(self) -> float:
        return self.settings.epochs * max(1, len(self.settings.learning_rates))

    @property
    def cost(self) -> float:
        """Seconds of one core, about."""
        if self.settings.optimizer == "L-BFGS":
            an_example = AN_EXAMPLE
        else:
            an_example = A_STEP / max(1, self.settings.batch_size) + MODELS[self.model].flops(TASKS[self.task]) / FLOPS
        return an_example * self.settings.num_train * self.units

    def run(self, progress: Progress) -> dict[str, Any]:
        return train_trial(TASKS[self.task], MODELS[self.model], self.seed, self.settings, progress)

    def score(self, result: dict[str, Any]) -> str:
        score = result["scores"][-1]
        text = f"accuracy {score['accuracy']:.3f}" if TASKS[self.task].is_integer else f"RMSE {score['rmse']:.3f}"
        permutations = score["num_permutations"]
        return text if permutations is None else f"{text} with {permutations} permutations"
