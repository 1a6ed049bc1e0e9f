"""janossy inspect: what a model is, on one screen."""

from pathlib import Path
from typing import Annotated

import typer

from janossy.cli.arguments import check_model
from janossy.cli.door import loading


def inspect(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The model that janossy fit wrote.", show_default=False)
    ],
) -> None:
    """Show a model's columns, sizes, strategies, scores and versions."""
    check_model(model)
    with loading():
        from janossy.cli.workflow.inspecting import inspect

    inspect(model)
