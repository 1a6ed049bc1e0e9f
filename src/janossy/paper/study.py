"""A study of the paper as one record: what its result files hold, how it is run, shown and reported."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from janossy.paper.results import CELLS, LeftOut, Result, cell_path, read_result
from janossy.paper.workers import Trial

Out = Annotated[Path, typer.Option(help="The directory of the results.")]
Resume = Annotated[bool, typer.Option("--resume", help="Keep the results there, run what is missing.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes, one core each.")]
NUM_CORES = os.cpu_count() or 1


class BadArgument(typer.TyperException):
    """An argument of a command that is refused, in one line."""

    exit_code = 2


@dataclass(frozen=True)
class Request:
    """What a command asks for: trials, where their results go, and how they are run."""

    trials: Sequence[Trial]
    out: Path
    resume: bool
    num_workers: int


@dataclass(frozen=True)
class Study:
    """All that the command line knows of a study.

    Attributes:
        name: that of its command, ``janossy reproduce NAME``.
        keys: the entries of a result that tell it from others: two names and the seed.
        schema: the dataclass that every result file fits.
        command: the command itself, with its options.
        show: prints the results.
        write_report: writes into the directory, given the results there and a line for each file that is left out.
    """

    name: str
    keys: tuple[str, str, str]
    schema: type
    command: Callable[..., Request]
    show: Callable[[Console, Sequence[Result]], None]
    write_report: Callable[[Path, Sequence[Result], Sequence[str]], list[Path]]

    def place(self, result: Result) -> tuple[str, str, int]:
        """The names and the seed of a result, as a trial's ``place``."""
        first, second, seed = (result[key] for key in self.keys)
        return first, second, seed

    def read(self, directory: Path) -> tuple[list[Result], list[LeftOut]]:
        """The results below a directory, by file name, and the files that do not count.

        A result counts once, in the file of its own name: a copy under another name is left out.
        """
        results, left_out = [], []
        for path in sorted((directory / CELLS).glob("*.json")):
            try:
                result = read_result(path, self.schema)
                own = cell_path(directory, *self.place(result)).name
                if path.name != own:
                    raise ValueError(f"it holds what belongs in {own}, and counts there alone")
                results.append(result)
            except ValueError as error:
                left_out.append(LeftOut(path, str(error)))
        return results, left_out


def chosen(option: str, names: str, known: Iterable[str]) -> list[str]:
    """The names of an option with commas between, "all" for all. Raises: BadArgument if one is not known."""
    if names == "all":
        return list(known)
    some = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in some if name not in known]
    if unknown or not some:
        raise BadArgument(f"{option} expects some of {', '.join(known)}; got {names!r}.")
    return list(dict.fromkeys(some))
