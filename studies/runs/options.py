"""Options of commands that run trials. Only typer is imported, so that help and errors come before torch."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from janossy.cli.errors import BadArgument

if TYPE_CHECKING:
    from studies.runs.trials import JobsOf, Trial

Out = Annotated[Path, typer.Option(help="The directory of the results.")]
Resume = Annotated[bool, typer.Option("--resume", help="Keep the results there, run what is missing.")]
Workers = Annotated[int, typer.Option("--workers", "--jobs", min=1, help="Processes, one core each.")]
NUM_CORES = os.cpu_count() or 1


@dataclass(frozen=True)
class Request:
    """The request of a command: trials, the place of their results, and the way of running them."""

    trials: "Sequence[Trial]"
    out: Path
    resume: bool
    num_workers: int
    in_order: bool = False
    """True if trials are run in the given order instead of the most expensive first."""
    jobs_of: "JobsOf | None" = None
    """A function that chooses which trials run together; None runs each by itself."""


def chosen(option: str, names: str, known: Iterable[str]) -> list[str]:
    """Returns the names in a comma-separated option, "all" for all. Raises: BadArgument if a name is unknown."""
    if names == "all":
        return list(known)
    some = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in some if name not in known]
    if unknown or not some:
        raise BadArgument(f"{option} expects some of {', '.join(known)}; got {names!r}.")
    return list(dict.fromkeys(some))
