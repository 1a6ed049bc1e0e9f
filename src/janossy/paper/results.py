"""Result files: one JSON file a cell, written whole or not at all."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CELLS = "cells"


@dataclass(frozen=True)
class Kind:
    """What the results of an experiment hold: the keys that tell them apart, and others that all have."""

    place: tuple[str, str, str]
    others: tuple[str, ...]


ARITHMETIC = Kind(("task", "model", "seed"), ("config", "scores", "curve", "history", "seconds", "versions"))
GRAPHS = Kind(("dataset", "row", "seed"), ("config", "scores", "curve", "losses", "seconds", "versions"))
KINDS = (ARITHMETIC, GRAPHS)


def cell_path(directory: Path, first: str, second: str, seed: int) -> Path:
    """Where the result of a cell is written."""
    return directory / CELLS / f"{first}-{second}-seed{seed}.json"


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write a JSON file, whole or not at all. Raises: OSError if it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(data, indent=1).encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write to a file beside ``path``, then rename it: a full disk or a kill leaves the old file whole.

    Raises: OSError if it cannot be written.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def read_cells(directory: Path, kind: Kind, set_aside: bool = False) -> tuple[list[dict[str, Any]], list[str]]:
    """The finished cells below a directory, by file name, and one line for each file that is damaged.

    ``set_aside`` renames damaged files to *.damaged.
    """
    cells, damaged = [], []
    for path in sorted((directory / CELLS).glob("*.json")):
        try:
            cell = json.loads(path.read_text(encoding="utf-8"))
            missing = [key for key in (*kind.place, *kind.others) if not isinstance(cell, dict) or key not in cell]
            if missing:
                raise ValueError(f"it lacks {', '.join(missing)}")
            cells.append(cell)
        except (ValueError, TypeError, OSError) as error:
            damaged.append(f"{path} is damaged: {error}")
            if set_aside:
                path.replace(path.with_suffix(".damaged"))
    return cells, damaged
