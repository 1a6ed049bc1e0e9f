"""Record: the file beside a fitted model with the recipe of its tables and its scores."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from janossy.cli.errors import BadArgument
from janossy.files.typed_json import decode, typed
from janossy.saving.reading import NO_DIGEST, digest, own_digest

NAME = "fit.json"

TaskName = Literal["classification", "regression"]
MAX_BYTES = 2**24
"""The most bytes of a record. A command line has at most 2 MB, and a record names each file twice."""

Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]
NotNegative = Annotated[int, Meta(ge=0, le=2**63 - 1)]


@dataclass(frozen=True)
class Recipe:
    """The options of ``janossy fit`` that name columns.

    The values of the columns ``set_id`` together identify a set. In sets of sets, those of ``inner_id`` identify an
    inner set within its set.
    """

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
    inner_id: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The columns of all ids."""
        return (*self.set_id, *self.inner_id)

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns of the targets: the target, and the event of a time."""
        return (*self.target, *self.event)

    @property
    def beside(self) -> tuple[str, ...]:
        """The columns that a fit reads and that belong neither to elements nor to sets."""
        return (*self.targets, *self.weight, *(name for name in self.groups if name not in self.ids))


@dataclass(frozen=True)
class Record:
    """A fit.

    - ``scores``: the scores on validation sets, by name, the main one first.
    - ``text_ids``: the columns of ids that are text.
    - ``kinds``: the kinds of columns of text files that other files may leave open, such as dates with the day first,
      and if other dates have a time zone.
    """

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
    kinds: dict[str, str] = field(default_factory=dict)
    model: str = ""
    """The digest of the model beside the record."""
    digest: str = ""
    """The digest of all other fields as written."""

    def to_json(self) -> bytes:
        """Returns the record as written to its file."""
        text = json.dumps(asdict(replace(self, digest=NO_DIGEST)), indent=1, ensure_ascii=False).encode()
        return own_digest(text, NO_DIGEST).encode().join(text.rsplit(NO_DIGEST.encode(), 1))

    @classmethod
    def read(cls, model: Path) -> "Record | None":
        """Returns the record in a model's folder, or None for a zip or a model that Python code saved.

        Raises: BadArgument for a record that is damaged, or belongs to another model.
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
    """Returns a score with four decimals, or with four digits if decimals are too many or too few for its unit."""
    return f"{score:.4f}" if score == 0 or 0.001 <= abs(score) < 10 else f"{score:.4g}"


def in_words(scores: Mapping[str, float | None]) -> str:
    """Returns the scores that are not None, in one line."""
    return ", ".join(f"{name} {shown(score)}" for name, score in scores.items() if score is not None)
