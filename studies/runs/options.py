"""Options of commands that run trials. It loads nothing but typer, so that help and errors come before torch."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from janossy.cli.errors import BadArgument

if TYPE_CHECKING:
    from janossy.batch.workers import JobsOf, Trial

Out = Annotated[Path, typer.Option(help="The directory of the results.")]
Resume = Annotated[bool, typer.Option("--resume", help="Keep the results there, run what is missing.")]
Workers = Annotated[int, typer.Option("--workers", "--jobs", min=1, help="Processes, one core each.")]
NUM_CORES = os.cpu_count() or 1


@dataclass(frozen=True)
class Request:
    """What a command asks for: trials, where their results go, and how they are run."""

    trials: "Sequence[Trial]"
    out: Path
    resume: bool
    num_workers: int
    in_order: bool = False
    """Whether trials are run as they are listed, rather than the most expensive first."""
    jobs_of: "JobsOf | None" = None
    """Which trials are run together; None: each by itself."""


def chosen(option: str, names: str, known: Iterable[str]) -> list[str]:
    """The names of an option with commas between, "all" for all. Raises: BadArgument if one is not known."""
    if names == "all":
        return list(known)
    some = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in some if name not in known]
    if unknown or not some:
        raise BadArgument(f"{option} expects some of {', '.join(known)}; got {names!r}.")
    return list(dict.fromkeys(some))
