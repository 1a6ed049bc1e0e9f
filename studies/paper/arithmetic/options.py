"""The command of the arithmetic study. Only typer is imported until it runs: see ``paper.commands``."""

from pathlib import Path
from typing import Annotated

import typer

from janossy.cli.door import loading
from studies.paper.arithmetic.names import MODELS, TABLE_3, TASKS, Preset, Protocol
from studies.runs.options import NUM_CORES, Out, Request, Resume, Workers, chosen


def arithmetic(
    preset: Annotated[
        Preset | None,
        typer.Option(help="smoke: a minute. quick: 15 minutes on two cores. full: Tables 1 and 3-8, a day of them."),
    ] = None,
    protocol: Annotated[
        Protocol,
        typer.Option(
            help="fast: what trains in minutes. paper: its text. released: its code. The two: full by default."
        ),
    ] = "fast",
    tasks: Annotated[str, typer.Option(help=f"Some of {', '.join(TASKS)}, with commas between.")] = "all",
    models: Annotated[
        str,
        typer.Option(help=f"Some of {', '.join(MODELS)}, with commas between. Those in -100: with full alone, if all."),
    ] = "all",
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Seeds 0, 1, ...: by default one; with full 15, of LSTM and GRU 5."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Instead of the preset's.")] = None,
    stack: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Seeds and learning rates that Adam trains together; 1: one by one. 15, of LSTM and GRU 5.",
        ),
    ] = None,
    out: Out = Path("results/arithmetic"),
    resume: Resume = False,
    workers: Workers = NUM_CORES,
) -> Request:
    """The five arithmetic tasks by the ten models of Table 3 (Section 4.1)."""
    preset = preset or ("quick" if protocol == "fast" else "full")
    some_tasks, some_models = chosen("--tasks", tasks, TASKS), chosen("--models", models, MODELS)
    if models == "all" and preset != "full":
        some_models = list(TABLE_3)
    with loading():
        from studies.paper.arithmetic.study import trials
        from studies.paper.arithmetic.trial import stacked

    some = trials(some_tasks, some_models, seeds, preset, protocol, epochs, stack)
    return Request(some, out, resume, workers, in_order=preset == "full", jobs_of=stacked)
