"""Record: what is written beside a fitted model, of how its tables were read and of how well it did."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.recipe import Recipe
from janossy.cli.workflow.values import TaskName
from janossy.saving.schema import Count, Seconds, Within, check

NAME = "fit.json"
MOST_BYTES = 2**20


@dataclass(frozen=True)
class Record:
    """A fit. ``scores``: of sets that networks had not learnt from, by name, the main one first. ``text_ids``: the
    columns of ids that are text."""

    recipe: Recipe
    task: TaskName
    files: tuple[str, ...]
    num_sets: Count
    num_elements: Annotated[int, Within(0)]
    smallest: Annotated[int, Within(0)]
    largest: Annotated[int, Within(0)]
    num_judged: Count
    scores: dict[str, float | None]
    seconds: Seconds
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
            if file.stat().st_size > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_BYTES} bytes")
            found = json.loads(file.read_text(encoding="utf-8"))
            check(found, cls)
        except (OSError, ValueError, RecursionError) as error:
            raise BadArgument(f"{file} is damaged: {error or 'it is nested too deeply'}.") from None
        known = Recipe.__dataclass_fields__
        recipe: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in found["recipe"].items()
            if name in known
        }
        given = {name: found[name] for name in cls.__dataclass_fields__ if name in found}
        texts = {name: tuple(given.get(name, ())) for name in ("files", "text_ids")}
        return cls(**given | texts | {"recipe": Recipe(**recipe)})


def shown(score: float) -> str:
    """A score with four decimals, or with four digits where that is too many or too few: an error has a unit."""
    return f"{score:.4f}" if score == 0 or 0.001 <= abs(score) < 10 else f"{score:.4g}"


def in_words(scores: Mapping[str, float | None]) -> str:
    """The scores that there are, in a line."""
    return ", ".join(f"{name} {shown(score)}" for name, score in scores.items() if score is not None)
