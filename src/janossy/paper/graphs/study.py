"""The study of graphs as one record, and its command."""

from pathlib import Path
from typing import Annotated

import typer

from janossy.paper.graphs.datasets import NAMES, load
from janossy.paper.graphs.report import write_report
from janossy.paper.graphs.results import GraphResult
from janossy.paper.graphs.settings import NUM_RUNS, PAPER_ROWS, Preset, Row, settings_for
from janossy.paper.graphs.tables import print_table
from janossy.paper.graphs.trial import Trial
from janossy.paper.study import NUM_CORES, BadArgument, Out, Request, Resume, Study, Workers, chosen


def command(
    dataset: Annotated[str, typer.Option(help=f"Some of {', '.join(NAMES)}, with commas between.")] = "cora",
    rows: Annotated[
        str,
        typer.Option(help="Some of Table 2's, or others like them (gru-5-5, max, k2, …), with commas between."),
    ] = ",".join(PAPER_ROWS),
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many: 0, 1, …; by default 1, or for full the paper's 30, of PPI 4.")
    ] = None,
    preset: Annotated[
        Preset,
        typer.Option(help="smoke: a minute. quick: a fifth of the paper's epochs on PPI. full: the paper's schedules."),
    ] = "quick",
    data: Annotated[Path, typer.Option(help="The folder of the data, which are fetched if not there.")] = Path("data"),
    out: Out = Path("results/graphs"),
    resume: Resume = False,
    workers: Workers = NUM_CORES,
) -> Request:
    """Vertex classification by GraphSAGE (Section 4.2, Tables 2, 9, 10 and Figure 2)."""
    trials = []
    for name in chosen("--dataset", dataset, NAMES):
        num = seeds or (NUM_RUNS[name] if preset == "full" else 1)
        for row in _row_names(rows):
            settings = settings_for(name, Row.named(row), preset)
            trials += [Trial(name, row, seed, settings, data) for seed in range(num)]
        try:
            load(name, data)  # here once, before workers all fetch it
        except ValueError as error:
            raise typer.TyperException(str(error)) from None
    return Request(trials, out, resume, workers)


def _row_names(names: str) -> list[str]:
    some = list(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in some:
        try:
            Row.named(name)
        except ValueError as error:
            raise BadArgument(f"--rows: {error}") from None
    return some


GRAPHS = Study("graphs", ("dataset", "row", "seed"), GraphResult, command, print_table, write_report)
