"""Predictions of many files in parts: each a stretch of a file's row groups, written whole, and never written twice."""

import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from janossy.atomic import beside, write_whole
from janossy.batch import SetPredictor
from janossy.cli.errors import BadArgument
from janossy.tables.files import Files

PLAN = "_plan.json"
"""Readers of folders of Parquet files pass over what begins with an underscore."""

PART = 2**16
"""Sets of a part, at least: a part has whole row groups."""

BATCH = 4096
"""Sets that are read, predicted and written at a time."""


@dataclass(frozen=True, eq=False)
class Part:
    """A stretch of a file's row groups, whose predictions are one file: what a worker does at a time."""

    predictor: SetPredictor
    fragment: Any
    """Of ``pyarrow.dataset``, cut to these row groups."""
    schema: pa.Schema
    """Of all files: they may have their columns in another order."""
    first_row: int
    num_rows: int
    out: Path

    @property
    def name(self) -> str:
        """What it is called, for a reader."""
        return f"{self.fragment.path}, rows {self.first_row + 1:,} to {self.first_row + self.num_rows:,}"

    @property
    def cost(self) -> float:
        return self.num_rows

    def run(self, progress: Callable[[float], None]) -> list[str]:
        """Write the predictions, unless they are there; what there was to warn of."""
        with warnings.catch_warnings(record=True) as found, beside(self.out) as part:
            warnings.simplefilter("always")
            if self.out.exists():
                return []
            with parquet.ParquetWriter(part, self.predictor.schema(self.schema)) as writer:
                for table in self._predicted():
                    writer.write_table(table)
                    progress(table.num_rows)
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.rename(self.out)
        return [str(each.message) for each in found if issubclass(each.category, UserWarning)]

    def _predicted(self) -> Iterator[pa.Table]:
        row = self.first_row
        try:
            for batch in self.fragment.to_batches(self.schema, batch_size=BATCH, batch_readahead=1, use_threads=False):
                yield self.predictor(batch)
                row += len(batch)
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise ValueError(f"{self.fragment.path}, after row {row:,}: {error}") from error


def parts(files: Files, predictor: SetPredictor, out: Path) -> list[Part]:
    """All parts of these files, of about ``PART`` sets each."""
    found: list[Part] = []
    for fragment in files.fragments:
        first_row = 0
        for groups in _stretches([group.num_rows for group in fragment.row_groups]):
            some = fragment.subset(row_group_ids=list(groups))
            num_rows = sum(group.num_rows for group in some.row_groups)
            target = out / f"part-{len(found):05}.parquet"
            found.append(Part(predictor, some, files.schema, first_row, num_rows, target))
            first_row += num_rows
    return found


def _stretches(sizes: Sequence[int]) -> Iterator[range]:
    """Row groups that follow each other, of at least ``PART`` rows but for the last."""
    begin = num = 0
    for i, size in enumerate(sizes):
        num += size
        if num >= PART or (i == len(sizes) - 1 and num):
            yield range(begin, i + 1)
            begin, num = i + 1, 0


def begin(planned: Sequence[Part], out: Path) -> list[Part]:
    """The parts that are not there yet, in a folder that is new, or was begun by the same command.

    Raises: BadArgument for a folder of anything else; OSError.
    """
    plan = json.dumps(_plan(planned), indent=1).encode()
    if (out / PLAN).is_file():
        if (out / PLAN).read_bytes() != plan:
            raise BadArgument(
                f"{out} holds predictions of another model, of other files, or with other options. Give another --out, "
                "or remove it."
            )
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadArgument(f"{out} exists, and janossy predict has not begun it. Give another --out, or remove it.")
    else:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / PLAN, plan)
    for left in out.glob(".*.part"):
        left.unlink(missing_ok=True)
    return [part for part in planned if not part.out.exists()]


def _plan(planned: Sequence[Part]) -> dict[str, Any]:
    """What makes two commands the same, to the last bit of what they write."""
    predictor = planned[0].predictor
    files = {part.fragment.path: os.stat(part.fragment.path) for part in planned}
    return {
        "model": predictor.digest,
        "keep": predictor.keep,
        "num_permutations": predictor.num_permutations,
        "seed": predictor.seed,
        "files": [[path, found.st_size, found.st_mtime_ns] for path, found in files.items()],
        "parts": [[part.out.name, part.fragment.path, part.first_row, part.num_rows] for part in planned],
    }
