"""The contents of a result file of a graph experiment."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from studies.paper.graphs.settings import NAMES, Row, Settings
from studies.runs.schema import Count, OneOf, Seconds, Seed, Within, not_empty, shown

Share = Annotated[float, Within(0, 1)]


def is_row(name: str) -> None:
    """Checks the rule of a row's name."""
    try:
        Row.named(name)
    except ValueError:
        raise ValueError(f"expects the name of a row, as lstm-3-3; got {shown(name)}") from None


@dataclass(frozen=True)
class GraphScores:
    """Micro-F1 with all permutations."""

    validation: Share
    test: Share


@dataclass(frozen=True)
class GraphResult:
    """The result of a trained (dataset, row, seed). Curves have 1, 2, … permutations; losses may be NaN (diverged)."""

    dataset: Annotated[str, OneOf(NAMES)]
    row: Annotated[str, is_row]
    seed: Seed
    config: Settings
    num_trainable_parameters: Count
    scores: GraphScores
    curve: Annotated[list[Share], not_empty]
    losses: list[float | None]
    seconds: Seconds
    versions: dict[str, Any]
    loss_curve: Annotated[list[Annotated[float, Within(0, 1e9)]], not_empty] = field(default_factory=list)
    tuned_curve: Annotated[list[Share], not_empty] = field(default_factory=list)
    vertices_per_second: Annotated[float, Within(0, 1e12)] = 0.0
    finished: str = ""
