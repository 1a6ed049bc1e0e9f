"""janossy inspect: what a model is, on one screen."""

from pathlib import Path
from typing import Annotated

import typer

from janossy.cli.arguments import check_model
from janossy.cli.door import loading


def inspect(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A folder that janossy fit wrote.", show_default=False)
    ],
) -> None:
    """Show the columns, strategies, scores and versions of a model."""
    check_model(model)
    with loading():
        from janossy.cli.workflow.inspecting import inspect

    inspect(model)
