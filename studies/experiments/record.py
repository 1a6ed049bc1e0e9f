"""Records of results: the machine and the versions, and cells that are saved one by one, so that runs can resume."""

import json
import os
import platform
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch


class Record:
    """A JSON file with the command and a list of cells. Each cell has the time, the machine and the versions.

    Cells of before that have none of these. They are those of the file, which stay.
    """

    def __init__(self, file: Path, command: str) -> None:
        self.file, self.command = file, command
        self.old: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        self.cells: list[dict[str, Any]] = self.old.pop("cells", [])

    def holds(self, key: dict[str, Any]) -> bool:
        return any(key.items() <= cell.items() for cell in self.cells)

    def missing(self, keys: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yields the keys without a cell. Each is looked up after those before it are done."""
        return (key for key in keys if not self.holds(key))

    def add(self, cell: dict[str, Any]) -> None:
        self.cells.append(cell | about_here())
        self.file.parent.mkdir(parents=True, exist_ok=True)
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps({**self.old, "command": self.command, "cells": self.cells}, indent=1) + "\n")
        part.replace(self.file)


def about_here() -> dict:
    """Returns the part that every cell and result has: the time, the machine and the versions."""
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "torch_threads": torch.get_num_threads(),
            "platform": platform.platform(),
        },
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
