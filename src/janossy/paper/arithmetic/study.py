"""The arithmetic study as one record, and its command."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from janossy.paper.arithmetic.models import MODELS
from janossy.paper.arithmetic.patterns import print_patterns
from janossy.paper.arithmetic.report import write_report
from janossy.paper.arithmetic.results import ArithmeticResult
from janossy.paper.arithmetic.settings import Preset, Protocol, settings_for
from janossy.paper.arithmetic.tables import print_comparison
from janossy.paper.arithmetic.tasks import TASKS
from janossy.paper.arithmetic.trial import Trial
from janossy.paper.results import Result
from janossy.paper.study import NUM_CORES, Out, Request, Resume, Study, Workers, chosen


def command(
    preset: Annotated[
        Preset | None,
        typer.Option(help="smoke: a minute. quick: 15 minutes on two cores. full: the paper's epochs, days."),
    ] = None,
    protocol: Annotated[
        Protocol,
        typer.Option(
            help="fast: what trains in minutes. paper: its text. released: its code. The two: full by default."
        ),
    ] = "fast",
    tasks: Annotated[str, typer.Option(help=f"Some of {', '.join(TASKS)}, with commas between.")] = "all",
    models: Annotated[str, typer.Option(help=f"Some of {', '.join(MODELS)}, with commas between.")] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="How many: 0, 1, …")] = 1,
    epochs: Annotated[int | None, typer.Option(min=1, help="Instead of the preset's.")] = None,
    out: Out = Path("results/arithmetic"),
    resume: Resume = False,
    workers: Workers = NUM_CORES,
) -> Request:
    """The five arithmetic tasks by the ten models of Table 3 (Section 4.1)."""
    preset = preset or ("quick" if protocol == "fast" else "full")
    trials = [
        Trial(task, model, seed, settings_for(TASKS[task], MODELS[model], preset, protocol, epochs))
        for seed in range(seeds)
        for task in chosen("--tasks", tasks, TASKS)
        for model in chosen("--models", models, MODELS)
    ]
    return Request(trials, out, resume, workers)


def show(console: Console, results: Sequence[Result]) -> None:
    """Table 3, ours beside the paper's, and the paper's patterns."""
    print_comparison(console, results)
    print_patterns(console, results)


ARITHMETIC = Study("arithmetic", ("task", "model", "seed"), ArithmeticResult, command, show, write_report)
