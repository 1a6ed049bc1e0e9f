"""Checkpoints: the state of a fit in files that are written whole. A checkpoint of another fit is refused."""

from io import BytesIO
from pathlib import Path
from pickle import UnpicklingError  # raised by torch.load, which here unpickles only tensors and plain data
from typing import Any, cast

import torch

from janossy.estimators.processes import Processes
from janossy.files.atomic import write_whole

SECONDS = 10.0
"""The interval at which training is saved, at the end of an epoch or within one."""


class Checkpoint:
    """A folder with one file for each stage of a fit. The first process reads and writes it for all processes.

    ``metadata``: plain data that identifies the fit.
    """

    def __init__(self, folder: Path, metadata: dict[str, Any], processes: Processes) -> None:
        self.folder, self.metadata, self.processes = folder, metadata, processes

    def of_repetition(self, number: int) -> "Checkpoint":
        """Returns the checkpoint of a repetition of the fit, in a folder of its own: this one for the first, 0."""
        if number == 0:
            return self
        return Checkpoint(self.folder / f"repetition-{number}", self.metadata, self.processes)

    def read(self, stage: str) -> dict[str, Any] | None:
        """Returns the state of a stage, or None if none was written. All processes call this, and get the same.

        Raises: ValueError, in all processes, for a file of another fit or of another program; OSError if the folder
            cannot be made.
        """
        found: dict[str, Any] | Exception | None = None
        if self.processes.rank == 0:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                found = self._read(stage)
            except (ValueError, OSError) as error:
                found = error
        found = self.processes.of_first(found)
        if isinstance(found, Exception):
            raise found
        return found

    def _read(self, stage: str) -> dict[str, Any] | None:
        file = self.folder / f"{stage}.pt"
        if not file.exists():
            return None
        try:
            state = torch.load(file, weights_only=True, map_location="cpu")
            there = state["metadata"]
        except (
            RuntimeError,
            ValueError,
            LookupError,
            TypeError,
            EOFError,
            OSError,
            UnpicklingError,
        ) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:150]
            raise ValueError(f"{file} is not a checkpoint of janossy ({reason}). Remove it to begin anew.") from None
        for name, value in self.metadata.items():
            if there.get(name) != value:
                raise ValueError(
                    f"{self.folder} holds a checkpoint of another fit: {name} is {_short(there.get(name))} there, and "
                    f"{_short(value)} here. Give another folder, or remove it to begin anew."
                )
        return cast("dict[str, Any] | None", state["state"])

    def write(self, stage: str, state: dict[str, Any]) -> None:
        """Writes the state of a stage, whole, in place of an earlier one.

        Raises: OSError if there is no room. The earlier file then stays.
        """
        if self.processes.rank == 0:
            content = BytesIO()
            torch.save({"metadata": self.metadata, "state": state}, content)
            write_whole(self.folder / f"{stage}.pt", content.getvalue())


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 100 else f"{text[:97]}..."
