"""The commands of ``python -m studies``.

Only typer and the standard library are imported, so that help and errors come before torch
(tests/studies/test_imports.py).
"""

import typer

from studies.bench.commands import bench
from studies.paper.commands import report, reproduce

# Plain help, because rich takes longer to load than all the rest.
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Studies of janossy: the paper's experiments, and the estimators beside peers.",
)
app.add_typer(reproduce, name="reproduce")
app.command()(report)
app.add_typer(bench, name="bench")
