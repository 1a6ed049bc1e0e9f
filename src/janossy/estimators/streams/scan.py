"""The pass over all pieces before training: how columns are encoded, what targets there are; the sets left out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from janossy.estimators.processes import Processes
from janossy.tables.encoder import TableEncoder
from janossy.tables.running_statistics import Seen
from janossy.tables.stream import SetStream


@dataclass(frozen=True, eq=False)
class Scan:
    """What a pass has found: plain data but for the rows.

    ``labels`` and ``counts``: of classes; ``means`` and ``scales``: of targets that are numbers, ``flat`` where they
    are one and no list of one. ``left_out`` and
    ``sample``: the rows of some sets, as the files have them.
    """

    encoder: dict[str, Any]
    flat: bool
    labels: list[Any]
    counts: list[int]
    means: list[float]
    scales: list[float]
    num_sets: int
    num_elements: int
    smallest: int
    largest: int
    left_out: pa.Table
    sample: pa.Table | None

    def table_encoder(self) -> TableEncoder:
        return TableEncoder.from_state(self.encoder)

    def state(self) -> dict[str, Any]:
        """As a checkpoint keeps it."""
        plain = {name: value for name, value in vars(self).items() if name not in ("left_out", "sample")}
        return plain | {
            "left_out": _bytes(self.left_out),
            "sample": None if self.sample is None else _bytes(self.sample),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Scan":
        sample = state["sample"]
        rows = {"left_out": _table(state["left_out"]), "sample": None if sample is None else _table(sample)}
        return cls(**state | rows)


def scan(stream: SetStream, classes: bool, left_out: np.ndarray, sample: np.ndarray, processes: Processes) -> Scan:
    """Read every piece once, each by one of the processes. ``left_out`` and ``sample``: numbers of sets, ascending.

    Raises: ValueError, naming file, column and row, for what is wrong in them.
    """
    seen = Seen()
    rows: dict[str, dict[int, pa.Table]] = {"left_out": {}, "sample": {}}
    error: Exception | None = None
    try:
        for i in processes.mine(len(stream.pieces)):
            table = stream.table(i)
            part = stream.part(table, stream.where(i))
            assert part.targets is not None
            chosen = {"left_out": stream.among(left_out, i), "sample": stream.among(sample, i)}
            learnt = np.setdiff1d(np.arange(len(part.sets)), chosen["left_out"])
            if len(learnt):
                seen.add(part.sets[learnt], part.targets[learnt], classes, stream.where(i))
            for name, numbers in chosen.items():
                if len(numbers):
                    rows[name][i] = stream.rows(table, numbers)
    except (ValueError, TypeError) as found:
        error = found
    everything = processes.gathered(
        (seen, {name: {i: _bytes(t) for i, t in x.items()} for name, x in rows.items()}, error)
    )
    if wrong := next((error for _, _, error in everything if error is not None), None):
        raise wrong
    together = Seen()
    for each, _, _ in everything:
        together.join(each)
    joined: dict[str, pa.Table | None] = {}
    for name in rows:
        pieces = {i: _table(bytes_) for _, each, _ in everything for i, bytes_ in each[name].items()}
        joined[name] = pa.concat_tables([pieces[i] for i in sorted(pieces)]) if pieces else None
    assert joined["left_out"] is not None
    spreads = [numbers.fitted() for numbers in together.targets]
    labels = sorted(together.classes)
    return Scan(
        together.encoder().state(),
        isinstance(stream.y, str),
        labels,
        [together.classes[label] for label in labels],
        [spread.mean for spread in spreads],
        [spread.scale for spread in spreads],
        together.num_sets,
        together.num_elements,
        together.smallest,
        together.largest,
        joined["left_out"],
        joined["sample"],
    )


def _bytes(table: pa.Table) -> Tensor:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return torch.frombuffer(bytearray(sink.getvalue()), dtype=torch.uint8)


def _table(content: Tensor) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(content.numpy().tobytes())) as reader:
        return reader.read_all()
