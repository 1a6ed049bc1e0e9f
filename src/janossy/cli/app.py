"""The commands of ``janossy``.

A command's function is its options and checks of them. This file, and what it imports, loads typer and the standard
library alone, so that help and errors come before torch; what a command does is imported in its body, when it is run
(tests/test_imports.py).
"""

from typing import Annotated

import typer

from janossy import __version__
from janossy.cli.fit import fit
from janossy.cli.group import group
from janossy.cli.inspect import inspect
from janossy.cli.predict import predict

# Plain help: rich takes longer to load than all the rest.
app = typer.Typer(add_completion=False, rich_markup_mode=None)
app.command()(group)
app.command()(fit)
app.command()(predict)
app.command()(inspect)


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context, show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Janossy pooling: learning functions of sets."""
    if show:
        print(f"janossy {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
