"""The arithmetic study as one record, with its trials."""

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from studies.paper.arithmetic.models import MODELS
from studies.paper.arithmetic.names import Preset, Protocol
from studies.paper.arithmetic.patterns import print_patterns
from studies.paper.arithmetic.report import write_report
from studies.paper.arithmetic.results import ArithmeticResult
from studies.paper.arithmetic.settings import num_seeds, settings_for
from studies.paper.arithmetic.tables import print_comparison
from studies.paper.arithmetic.tasks import TASKS
from studies.paper.arithmetic.trial import Trial, most
from studies.runs.results import Result
from studies.runs.study import Study


def trials(
    tasks: Sequence[str],
    models: Sequence[str],
    seeds: int | None,
    preset: Preset,
    protocol: Protocol,
    epochs: int | None,
    stack: int | None = None,
) -> list[Trial]:
    """Returns trials of all tasks and models, for all seeds in turn; by default the preset's number of seeds.

    ``stack``: the most replicas that Adam trains together; None for the number that pays.
    """
    num = {model: seeds or num_seeds(MODELS[model], preset, protocol) for model in models}
    found = []
    for seed in range(max(num.values())):
        for model in (model for model in models if seed < num[model]):
            for task in tasks:
                settings = settings_for(TASKS[task], MODELS[model], preset, protocol, epochs)
                room = most(model, settings)
                found.append(Trial(task, model, seed, settings, room if stack is None or room == 1 else stack))
    return found


def show(console: Console, results: Sequence[Result]) -> None:
    """Prints Table 3, ours beside the paper's, and the paper's patterns."""
    print_comparison(console, results)
    print_patterns(console, results)


def as_run(trial: Trial, result: Result) -> Trial:
    """Returns the trial with the stack in which it was trained."""
    return replace(trial, stack=result.get("stack", 1))


ARITHMETIC = Study("arithmetic", ("task", "model", "seed"), ArithmeticResult, show, write_report, as_run)
