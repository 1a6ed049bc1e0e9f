"""One training run of an arithmetic task, and a stack of runs, as jobs of workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from studies.paper.arithmetic.models import MODELS
from studies.paper.arithmetic.second_order import EVALUATIONS, FRACTIONS
from studies.paper.arithmetic.settings import Settings
from studies.paper.arithmetic.tasks import TASKS
from studies.paper.arithmetic.train import train_trials
from studies.runs.trials import Progress

A_STEP, AN_EXAMPLE, A_TUPLE, FLOPS = 8e-4, 1e-6, 7e-9, 2.3e10
"""The rates of training.

- seconds of a step of Adam, shared by all replicas of a stack
- seconds of an example in a step, and of one of its tuples
- multiplications of a recurrence per second, forward and backward
"""

AN_MLP, A_ROW, A_NUMBER, A_DISTINCT = 3.5e-7, 1.1e-8, 2e-9, 1.5e-7
"""The rates of L-BFGS on all examples, in seconds.

- per example in an MLP as ρ
- per tuple of an example before an MLP, and before a linear ρ
- per distinct tuple in f
"""

A_ROUND, A_WEIGHT = 0.8, 4e-4
"""The seconds of a round of L-BFGS, and of each weight in it, for the Gauss-Newton matrix and its products."""

MOST, MAX_RECURRENT = 15, 5
"""The most replicas trained together, by replicas.json. Stacks of 15 recurrences on sets of 10 are no faster."""


@dataclass(frozen=True)
class Trial:
    """Names of a task and a model, a seed, the settings, and the most replicas that are trained together.

    Progress is counted in epochs.
    """

    task: str
    model: str
    seed: int
    settings: Settings
    stack: int = 1

    numbered: ClassVar[str] = "seed"

    @property
    def place(self) -> tuple[str, str, int]:
        return self.task, self.model, self.seed

    @property
    def units(self) -> float:
        return self.settings.epochs * max(1, len(self.settings.learning_rates))

    @property
    def cost(self) -> float:
        """The estimated seconds of one core, as its share of a full stack."""
        task, model, num = TASKS[self.task], MODELS[self.model], self.settings.num_train
        if self.settings.optimizer == "L-BFGS":
            num_tuples, is_mlp = model.num_tuples(task), model.rho == "mlp"
            a_pass = num * (AN_MLP + A_ROW * num_tuples if is_mlp else A_NUMBER * num_tuples)
            a_pass += A_DISTINCT * model.num_distinct_tuples(task)
            num_rounds = len(FRACTIONS) + self.units / EVALUATIONS
            return a_pass * self.units + (A_ROUND + A_WEIGHT * model.num_trained) * num_rounds
        tuples = A_TUPLE * model.num_tuples(task) if model.k is not None else model.flops(task) / FLOPS
        a_step = A_STEP / (max(1, self.settings.batch_size) * self.stack)
        return (a_step + AN_EXAMPLE + tuples) * num * self.units

    def run(self, progress: Progress) -> dict[str, Any]:
        return Stacked((self,)).run(progress)[0]

    def score(self, result: dict[str, Any]) -> str:
        score = result["scores"][-1]
        text = f"accuracy {score['accuracy']:.3f}" if TASKS[self.task].is_integer else f"RMSE {score['rmse']:.3f}"
        permutations = score["num_permutations"]
        return text if permutations is None else f"{text} with {permutations} permutations"


@dataclass(frozen=True)
class Stacked:
    """Trials that differ only in their seeds, trained together: a job of ``run_trials``."""

    trials: tuple[Trial, ...]

    @property
    def units(self) -> float:
        return sum(trial.units for trial in self.trials)

    @property
    def cost(self) -> float:
        return sum(trial.cost for trial in self.trials)

    def run(self, progress: Progress) -> list[dict[str, Any]]:
        of, seeds = self.trials[0], [trial.seed for trial in self.trials]
        return train_trials(TASKS[of.task], MODELS[of.model], seeds, of.settings, progress, of.stack)


def most(model: str, settings: Settings) -> int:
    """Returns the most replicas of a model that are trained together by default; 1 if stacking does not pay."""
    if settings.optimizer == "L-BFGS":
        return 1
    return MAX_RECURRENT if MODELS[model].k is None else MOST


def stacked(trials: Sequence[Trial]) -> list[Stacked]:
    """Returns the trials as jobs in the order of their first trials: stacks of seeds per model and task."""
    alike: dict[tuple[Any, ...], list[Trial]] = {}
    for trial in trials:
        alike.setdefault((trial.task, trial.model, trial.settings), []).append(trial)
    jobs = {}
    for some in alike.values():
        room = max(1, some[0].stack // max(1, len(some[0].settings.learning_rates)))
        for first in range(0, len(some), room):
            jobs[some[first]] = Stacked(tuple(some[first : first + room]))
    return [jobs[trial] for trial in trials if trial in jobs]
