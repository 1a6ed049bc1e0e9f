"""A study as one record: the contents, display and report of its results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from studies.runs.results import CELLS, Result, Skipped, cell_path, read_result


@dataclass(frozen=True)
class Study:
    """The properties of a study beside its command.

    Attributes:
        name: the name of its command.
        keys: the entries of a result that identify it: two names and a number, such as the seed.
        schema: the dataclass that every result file must fit.
        show: prints the results.
        write_report: writes into the directory, given its results and one line per file that is left out.
        as_run: returns a trial with the settings of its result, so that costs scale with measured seconds.
    """

    name: str
    keys: tuple[str, str, str]
    schema: type
    show: Callable[[Console, Sequence[Result]], None]
    write_report: Callable[[Path, Sequence[Result], Sequence[str]], list[Path]]
    as_run: Callable[[Any, Result], Any] = lambda trial, result: trial

    def place(self, result: Result) -> tuple[str, str, int]:
        """Returns the names and the number of a result, in the form of a trial's ``place``."""
        first, second, number = (result[key] for key in self.keys)
        return first, second, number

    def read(self, directory: Path) -> tuple[list[Result], list[Skipped]]:
        """Returns the results below a directory, by file name, and the files that do not count.

        A result counts only in the file of its own name. A copy under another name is left out.
        """
        results, skipped = [], []
        for path in sorted((directory / CELLS).glob("*.json")):
            try:
                result = read_result(path, self.schema)
                own = cell_path(directory, *self.place(result), self.keys[2]).name
                if path.name != own:
                    raise ValueError(f"it holds the result of {own}, and is not counted")
                results.append(result)
            except ValueError as error:
                skipped.append(Skipped(path, str(error)))
        return results, skipped
