"""A study as one record: what its result files hold, how it is shown and reported."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from studies.runs.results import CELLS, Result, Skipped, cell_path, read_result


@dataclass(frozen=True)
class Study:
    """All that is known of a study beside its command.

    Attributes:
        name: that of its command.
        keys: the entries of a result that tell it from others: two names and a number, such as the seed.
        schema: the dataclass that every result file fits.
        show: prints the results.
        write_report: writes into the directory, given the results there and a line for each file that is left out.
        as_run: a trial as its result was made, whose cost is to that one's as their seconds are.
    """

    name: str
    keys: tuple[str, str, str]
    schema: type
    show: Callable[[Console, Sequence[Result]], None]
    write_report: Callable[[Path, Sequence[Result], Sequence[str]], list[Path]]
    as_run: Callable[[Any, Result], Any] = lambda trial, result: trial

    def place(self, result: Result) -> tuple[str, str, int]:
        """Returns the names and the number of a result, as a trial's ``place``."""
        first, second, number = (result[key] for key in self.keys)
        return first, second, number

    def read(self, directory: Path) -> tuple[list[Result], list[Skipped]]:
        """Returns the results below a directory, by file name, and the files that do not count.

        A result counts once, in the file of its own name: a copy under another name is left out.
        """
        results, skipped = [], []
        for path in sorted((directory / CELLS).glob("*.json")):
            try:
                result = read_result(path, self.schema)
                own = cell_path(directory, *self.place(result), self.keys[2]).name
                if path.name != own:
                    raise ValueError(f"it holds what belongs in {own}, and counts there alone")
                results.append(result)
            except ValueError as error:
                skipped.append(Skipped(path, str(error)))
        return results, skipped
