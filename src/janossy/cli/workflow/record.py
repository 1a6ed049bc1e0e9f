"""Record: what is written beside a fitted model, of how its tables were read and of how well it did."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from janossy.cli.errors import BadArgument
from janossy.files.typed_json import decode, typed
from janossy.saving.reading import NO_DIGEST, digest, own_digest

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
    weight: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    event: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns of what is predicted: a time has an event beside it."""
        return (*self.target, *self.event)

    @property
    def beside(self) -> tuple[str, ...]:
        """Columns that are neither of elements nor of sets: what a fit reads beside them."""
        return (*self.targets, *self.weight, *(name for name in self.groups if name not in self.set_id))


@dataclass(frozen=True)
class Record:
    """A fit. ``scores``: of sets that no network has learnt from, by name, the main one first. ``text_ids``: the
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
    model: str = ""
    """The digest of the model that it stands beside."""
    digest: str = ""
    """The digest of all the rest as it is written."""

    def to_json(self) -> bytes:
        """Returns the record as it is written."""
        text = json.dumps(asdict(replace(self, digest=NO_DIGEST)), indent=1, ensure_ascii=False).encode()
        return own_digest(text, NO_DIGEST).encode().join(text.rsplit(NO_DIGEST.encode(), 1))

    @classmethod
    def read(cls, model: Path) -> "Record | None":
        """Reads the record of a model's folder. None without one: for a zip, or a model that Python code has saved.

        Raises: BadArgument for one that is damaged, or of another model.
        """
        file = model / NAME
        if not file.is_file():
            return None
        try:
            if file.stat().st_size > MAX_BYTES:
                raise ValueError(f"it has more than {MAX_BYTES} bytes")
            content = file.read_bytes()
            record = typed(decode(content), cls)
            if record.digest and own_digest(content, record.digest) != record.digest:
                raise ValueError("its values are not those that were written")
            if record.model and record.model != digest(model):
                raise ValueError("it was written with another model")
            return record
        except (OSError, ValueError) as error:
            raise BadArgument(f"{file} is damaged: {error}.") from None


def shown(score: float) -> str:
    """A score with four decimals, or with four digits where that is too many or too few: an error has a unit."""
    return f"{score:.4f}" if score == 0 or 0.001 <= abs(score) < 10 else f"{score:.4g}"


def in_words(scores: Mapping[str, float | None]) -> str:
    """Returns the scores that there are, in a line."""
    return ", ".join(f"{name} {shown(score)}" for name, score in scores.items() if score is not None)
