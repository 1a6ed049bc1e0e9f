"""The commands of ``janossy``.

A command's function holds its options and checks them. This file and its imports load only typer and the standard
library, so that help and errors come before torch. The work of a command is imported in its body when it runs
(tests/test_imports.py).
"""

from typing import Annotated

import typer

from janossy import __version__
from janossy.cli.fit import fit
from janossy.cli.group import group
from janossy.cli.inspect import inspect
from janossy.cli.predict import predict

# Plain help, because rich takes longer to load than all the rest.
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
