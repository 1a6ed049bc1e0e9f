"""The command of the study of graphs. Only typer is imported until it runs: see ``paper.commands``."""

from pathlib import Path
from typing import Annotated

import typer

from janossy.cli.door import loading
from janossy.cli.errors import BadArgument
from studies.paper.graphs.settings import NAMES, PAPER_ROWS, Precision, Preset, Row
from studies.runs.options import NUM_CORES, Out, Request, Resume, Workers, chosen


def graphs(
    dataset: Annotated[str, typer.Option(help=f"Some of {', '.join(NAMES)}, with commas between.")] = "cora",
    rows: Annotated[
        str,
        typer.Option(help="Some of Table 2's, or others like them (gru-5-5, max, k2, ...), with commas between."),
    ] = ",".join(PAPER_ROWS),
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds 0, 1, ...; by default 1, or for full the paper's 30, of PPI 4.")
    ] = None,
    preset: Annotated[
        Preset,
        typer.Option(help="smoke: a minute. quick: a fifth of the paper's epochs on PPI. full: the paper's schedules."),
    ] = "quick",
    precision: Annotated[
        Precision | None,
        typer.Option(help="By default float32, and bfloat16 for LSTM and GRU with k_1 k_2 > 250 on PPI."),
    ] = None,
    data: Annotated[Path, typer.Option(help="The folder of the data, which are fetched if not there.")] = Path("data"),
    out: Out = Path("results/graphs"),
    resume: Resume = False,
    workers: Workers = NUM_CORES,
) -> Request:
    """Vertex classification by GraphSAGE (Section 4.2, Tables 2, 9, 10 and Figure 2)."""
    some, some_rows = chosen("--dataset", dataset, NAMES), _row_names(rows)
    with loading():
        from studies.paper.graphs.study import trials

    try:
        found = trials(some, some_rows, seeds, preset, data, precision, out / "checkpoints")
    except ValueError as error:
        raise typer.TyperException(str(error)) from None
    return Request(found, out, resume, workers)


def _row_names(names: str) -> list[str]:
    some = list(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in some:
        try:
            Row.named(name)
        except ValueError as error:
            raise BadArgument(f"--rows: {error}") from None
    return some
