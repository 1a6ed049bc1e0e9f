"""The paper's printed tables, and the format of scores."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import isnan
from typing import Any, cast


@dataclass(frozen=True)
class Score:
    """A mean over runs with their standard deviation, None for a single run."""

    mean: float
    std: float | None
    digits: int

    def __str__(self) -> str:
        return f"{self.short} {self.spread}".rstrip()

    @property
    def short(self) -> str:
        return "NaN" if isnan(self.mean) else f"{self.mean:.{self.digits}f}"

    @property
    def spread(self) -> str:
        return "" if self.std is None else f"({self.std:.{self.digits}f})"


@cache
def paper_tables() -> dict[str, Any]:
    """Returns tables.json: every table of the paper, with notes."""
    return cast(
        "dict[str, Any]", json.loads(files("studies.paper").joinpath("tables.json").read_text(encoding="utf-8"))
    )
