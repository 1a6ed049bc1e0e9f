"""Result files: one JSON file per trial, written whole or not at all, and checked by a schema when read."""

import json
import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, cast

from janossy.files.atomic import write_whole
from studies.runs.schema import check

CELLS = "cells"
DEEPEST = 10
"""The deepest nesting of lists and objects. Our files have four levels."""

Result = Mapping[str, Any]
"""The contents of a result file."""


@dataclass(frozen=True)
class Skipped:
    """A file among the results that does not count, with the reason in one line."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{CELLS}/{printable(self.path.name)} is left out: {self.reason}"


def printable(name: str) -> str:
    """Returns a file's name in one line of text. Newlines and bytes that are not UTF-8 are escaped."""
    return name if name.isprintable() else ascii(name)[1:-1]


def cell_path(directory: Path, first: str, second: str, number: int, numbered: str = "seed") -> Path:
    """Returns the path of a trial's result. ``numbered``: the name of the numbered thing, seed or fold."""
    return directory / CELLS / f"{first}-{second}-{numbered}{number}.json"


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Writes a JSON file, whole or not at all. Raises: OSError if it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(data, indent=1).encode())


def read_result(path: Path, schema: type) -> Result:
    """Returns a file's contents. Raises: ValueError, in one line, if it cannot be read or does not fit the schema."""
    try:
        if not path.is_file():  # a pipe would be waited for
            raise ValueError("it is no file")
        result = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _depth(result) > DEEPEST:
        raise ValueError("it is nested too deeply")
    check(result, schema)
    return cast(Result, result)


def defaults(settings: Any) -> dict[str, Any]:
    """Returns the default values, by name, of a dataclass or its object. Results without a setting have its default."""
    return {field.name: field.default for field in fields(settings) if field.default is not MISSING}


def set_aside(path: Path) -> Path:
    """Renames a file or folder to a free name that ends in .damaged, and returns it. Raises: OSError."""
    free = path.with_suffix(".damaged")
    num = 1
    while os.path.lexists(free):
        num += 1
        free = path.with_suffix(f".{num}.damaged")
    return path.rename(free)


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [child for parent in level for child in _children(parent)]:
        depth += 1
    return depth


def _children(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
