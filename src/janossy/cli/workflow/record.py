"""Record: what is written beside a fitted model, of how its tables were read and of how well it did."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from janossy.cli.errors import BadArgument
from janossy.files.typed_json import decode, typed

NAME = "fit.json"

TaskName = Literal["classification", "regression"]
MAX_BYTES = 2**20

Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]
NotNegative = Annotated[int, Meta(ge=0, le=2**63 - 1)]


@dataclass(frozen=True)
class Recipe:
    """The options of ``janossy fit`` that name columns."""

    set_id: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    set_columns: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    null_values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """A fit. ``scores``: of sets that networks had not learnt from, by name, the main one first. ``text_ids``: the
    columns of ids that are text."""

    recipe: Recipe
    task: TaskName
    files: tuple[str, ...]
    num_sets: Count
    num_elements: NotNegative
    smallest: NotNegative
    largest: NotNegative
    num_judged: Count
    scores: dict[str, float | None]
    seconds: Annotated[float, Meta(ge=0, le=1e9)]
    finished: str
    command: str
    text_ids: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """As it is written."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False).encode()

    @classmethod
    def read(cls, model: Path) -> "Record | None":
        """That of a model's folder; None where there is none: of a zip, or a model that Python code has saved.

        Raises: BadArgument for one that is damaged.
        """
        file = model / NAME
        if not file.is_file():
            return None
        try:
            if file.stat().st_size > MAX_BYTES:
                raise ValueError(f"it has more than {MAX_BYTES} bytes")
            return typed(decode(file.read_bytes()), cls)
        except (OSError, ValueError) as error:
            raise BadArgument(f"{file} is damaged: {error}.") from None


def shown(score: float) -> str:
    """A score with four decimals, or with four digits where that is too many or too few: an error has a unit."""
    return f"{score:.4f}" if score == 0 or 0.001 <= abs(score) < 10 else f"{score:.4g}"


def in_words(scores: Mapping[str, float | None]) -> str:
    """The scores that there are, in a line."""
    return ", ".join(f"{name} {shown(score)}" for name, score in scores.items() if score is not None)
