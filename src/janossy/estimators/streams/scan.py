"""The pass over all pieces before training: it finds the encoding of columns, the targets and the validation sets."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from janossy.estimators.processes import Processes
from janossy.tables.encoder import TableEncoder
from janossy.tables.running_statistics import RunningStatistics
from janossy.tables.stream import SetStream


@dataclass(frozen=True, eq=False)
class Scan:
    """The findings of a pass. All are plain data except the rows.

    - ``labels`` and ``counts``: the classes and their counts, per column of the targets.
    - ``means`` and ``scales``: those of targets that are numbers. ``flat`` is True for one target that is not a list.
    - ``mean_weight``: the mean weight of the training sets.
    - ``validation_sets`` and ``sample``: the rows of some sets, as in the files.
    """

    encoder: dict[str, Any]
    flat: bool
    labels: list[list[Any]]
    counts: list[list[int]]
    means: list[float]
    scales: list[float]
    num_sets: int
    num_elements: int
    smallest: int
    largest: int
    validation_sets: pa.Table
    sample: pa.Table | None
    mean_weight: float = 1.0

    def table_encoder(self) -> TableEncoder:
        return TableEncoder.from_state(self.encoder)

    def state(self) -> dict[str, Any]:
        """Returns the scan as saved in a checkpoint."""
        plain = {name: value for name, value in vars(self).items() if name not in ("validation_sets", "sample")}
        return plain | {
            "validation_sets": _bytes(self.validation_sets),
            "sample": None if self.sample is None else _bytes(self.sample),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Scan":
        sample = state["sample"]
        rows = {
            "validation_sets": _table(state["validation_sets"]),
            "sample": None if sample is None else _table(sample),
        }
        return cls(**state | rows)


def scan(stream: SetStream, classes: bool, validation: np.ndarray, sample: np.ndarray, processes: Processes) -> Scan:
    """Reads every piece once, each in one of the processes, and returns the findings.

    Args:
        classes: True if targets are classes.
        validation, sample: ascending set numbers.

    Raises: ValueError, naming file, column and row, for invalid data.
    """
    statistics = RunningStatistics()
    rows: dict[str, dict[int, pa.Table]] = {"validation_sets": {}, "sample": {}}
    error: Exception | None = None
    try:
        for i in processes.mine(len(stream.pieces)):
            table = stream.table(i)
            part = stream.part(table, stream.where(i))
            assert part.targets is not None
            chosen = {"validation_sets": stream.among(validation, i), "sample": stream.among(sample, i)}
            learnt = np.setdiff1d(np.arange(len(part.sets)), chosen["validation_sets"])
            if len(learnt):
                statistics.add(part.sets[learnt], part.targets[learnt], classes, stream.where(i))
                statistics.weight += len(learnt) if part.weights is None else float(part.weights[learnt].sum())
            if classes and len(chosen["validation_sets"]):
                statistics.know_classes(part.targets[chosen["validation_sets"]])
            for name, numbers in chosen.items():
                if len(numbers):
                    rows[name][i] = stream.rows(table, numbers)
    except (ValueError, TypeError) as found:
        error = found
    everything = processes.gathered(
        (statistics, {name: {i: _bytes(t) for i, t in x.items()} for name, x in rows.items()}, error)
    )
    if wrong := next((error for _, _, error in everything if error is not None), None):
        raise wrong
    together = RunningStatistics()
    for each, _, _ in everything:
        together.join(each)
    joined: dict[str, pa.Table | None] = {}
    for name in rows:
        pieces = {i: _table(bytes_) for _, each, _ in everything for i, bytes_ in each[name].items()}
        joined[name] = pa.concat_tables([pieces[i] for i in sorted(pieces)]) if pieces else None
    assert joined["validation_sets"] is not None
    spreads = [numbers.fitted() for numbers in together.targets]
    labels = [sorted(counts) for counts in together.classes]
    return Scan(
        together.encoder().state(),
        isinstance(stream.y, str),
        labels,
        [[counts[label] for label in each] for counts, each in zip(together.classes, labels, strict=True)],
        [spread.mean for spread in spreads],
        [spread.scale for spread in spreads],
        together.num_sets,
        together.num_elements,
        together.smallest,
        together.largest,
        joined["validation_sets"],
        joined["sample"],
        together.weight / together.num_sets,
    )


def _bytes(table: pa.Table) -> Tensor:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return torch.frombuffer(bytearray(sink.getvalue()), dtype=torch.uint8)


def _table(content: Tensor) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(content.numpy().tobytes())) as reader:
        return reader.read_all()
