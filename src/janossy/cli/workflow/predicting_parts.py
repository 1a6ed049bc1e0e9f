"""Predictions of many files, for ``janossy predict --out FOLDER``: in parts, by several workers, resumed after a
kill."""

import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from janossy.batch import SetPredictor
from janossy.batch.workers import Event
from janossy.cli.errors import BadArgument
from janossy.cli.workflow.display import say, screen
from janossy.cli.workflow.null_values import table_without_words
from janossy.cli.workflow.record import Record
from janossy.cli.workflow.wording import in_options
from janossy.files.atomic import beside, write_whole
from janossy.saving import SavedModelError
from janossy.tables.files import Files, open_files
from janossy.tables.ids import parts_of

PLAN = "_plan.json"
"""The file of the plan. Readers of Parquet folders skip names that begin with an underscore."""

PART = 2**16
"""The fewest sets of a part. A part has whole row groups."""

BATCH = 4096
"""The number of sets that are read, predicted and written at a time."""


@dataclass(frozen=True, eq=False)
class FilePart:
    """A range of a file's row groups, with one output file: a worker's task."""

    predictor: SetPredictor
    fragment: Any
    """The fragment of ``pyarrow.dataset``, restricted to these row groups."""
    schema: pa.Schema
    """The schema of all files. A file may have the columns in another order."""
    first_row: int
    num_rows: int
    out: Path
    null_values: tuple[str, ...] = ()
    """The words of --null-values in the fit."""

    @property
    def name(self) -> str:
        """The name of the part, for messages."""
        return f"{self.fragment.path}, rows {self.first_row + 1:,} to {self.first_row + self.num_rows:,}"

    @property
    def cost(self) -> float:
        return self.num_rows

    def run(self, progress: Callable[[float], None]) -> list[str]:
        """Writes the predictions unless their file exists, and returns the warnings."""
        with warnings.catch_warnings(record=True) as raised, beside(self.out) as part:
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
        return [str(each.message) for each in raised if issubclass(each.category, UserWarning)]

    def _predicted(self) -> Iterator[pa.Table]:
        row = self.first_row
        try:
            for batch in self.fragment.to_batches(self.schema, batch_size=BATCH, batch_readahead=1, use_threads=False):
                yield self._of(batch)
                row += len(batch)
        except (TypeError, ValueError, FloatingPointError, OSError, pa.ArrowException) as error:
            raise ValueError(f"{self.fragment.path}, after row {row:,}: {in_options(error)}") from error

    def _of(self, batch: pa.RecordBatch) -> pa.Table:
        """Returns the predictions of a batch, beside its other columns as they are."""
        if not self.null_values:
            return self.predictor(batch)
        batch.validate(full=True)  # as the predictor does, before its values are read
        table = pa.Table.from_batches([batch])
        kept, _ = self.predictor.columns(table.schema)
        found = self.predictor(table_without_words(table, self.null_values))
        schema = self.predictor.schema(table.schema)
        return pa.Table.from_arrays([*(table[name] for name in kept), *found.columns[len(kept) :]], schema=schema)


def parts(files: Files, predictor: SetPredictor, out: Path, null_values: tuple[str, ...] = ()) -> list[FilePart]:
    """Returns all parts of these files, each with at least ``PART`` sets except the last of a file."""
    planned: list[FilePart] = []
    for fragment in files.fragments:
        first_row = 0
        for groups in _stretches([group.num_rows for group in fragment.row_groups]):
            stretch = fragment.subset(row_group_ids=list(groups))
            num_rows = sum(group.num_rows for group in stretch.row_groups)
            target = out / f"part-{len(planned):05}.parquet"
            planned.append(FilePart(predictor, stretch, files.schema, first_row, num_rows, target, null_values))
            first_row += num_rows
    return planned


def _stretches(sizes: Sequence[int]) -> Iterator[range]:
    """Yields ranges of consecutive row groups with at least ``PART`` rows. The last may have fewer."""
    begin = num = 0
    for i, size in enumerate(sizes):
        num += size
        if num >= PART or (i == len(sizes) - 1 and num):
            yield range(begin, i + 1)
            begin, num = i + 1, 0


def begin(planned: Sequence[FilePart], out: Path) -> list[FilePart]:
    """Returns the parts still to be written, in a folder that is new or was begun by the same command.

    Raises: BadArgument for a folder with other contents; OSError.
    """
    plan = json.dumps(_plan(planned), indent=1).encode()
    if (out / PLAN).is_file():
        if (out / PLAN).read_bytes() != plan:
            raise BadArgument(
                f"{out} holds predictions of another model, of other files, or with other options. Give another --out, "
                "or remove it."
            )
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadArgument(f"{out} exists, and is not a folder of janossy predict. Give another --out, or remove it.")
    else:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / PLAN, plan)
    for left in out.glob(".*.part"):
        left.unlink(missing_ok=True)
    return [part for part in planned if not part.out.exists()]


def _plan(planned: Sequence[FilePart]) -> dict[str, Any]:
    """Returns the plan. Commands have equal plans if they write the same predictions, to the last bit."""
    predictor = planned[0].predictor
    fragments = {part.fragment.path: part.fragment for part in planned}
    files = {path: fragment.filesystem.get_file_info(path) for path, fragment in fragments.items()}
    words = planned[0].null_values
    return {
        "model": predictor.digest,
        "keep": predictor.keep,
        "num_permutations": predictor.num_permutations,
        "seed": predictor.seed,
        "files": [[path, about.size, about.mtime_ns] for path, about in files.items()],
        "parts": [[part.out.name, part.fragment.path, part.first_row, part.num_rows] for part in planned],
        **({"null_values": words} if words else {}),
    }


ENGINES = {"local": "janossy.batch.workers", "ray": "janossy.batch.workers_on_ray"}
"""The module of each engine. Its function ``work`` runs the jobs."""


def work_here(jobs: Sequence[FilePart], num_workers: int) -> Iterator[Event[FilePart]]:
    """Runs the jobs in this process, with all its threads, and yields their events."""
    for job in jobs:
        try:
            yield Event("done", job, job.run(lambda units: None))
        except ValueError as error:
            yield Event("failed", job, str(error))


def predict_parts(
    model: Path,
    paths: Sequence[Path | str],
    out: Path,
    set_id: tuple[str, ...],
    num_permutations: int | None,
    engine: str,
    num_workers: int,
) -> None:
    """Predicts the sets of Parquet files, one per row, to a folder of Parquet files. Existing parts stay.

    Raises: BadArgument for invalid arguments, an invalid model, or other columns. ChildProcessError if parts failed,
        naming the first, after the other parts are done. ImportError without the engine. OSError.
    """
    console = screen()
    work = work_here if (engine, num_workers) == ("local", 1) else import_module(ENGINES[engine]).work
    record = Record.read(model)
    targets = record.recipe.target if record is not None and len(record.recipe.target) > 1 else ()
    try:
        # Workers may have another working directory.
        files = open_files([path.absolute() if isinstance(path, Path) else path for path in paths])
        kept = [each for name in set_id for each in parts_of(name, files.schema.names)]
        predictor = SetPredictor(model, keep=kept or None, targets=targets, num_permutations=num_permutations)
        schema = predictor.schema(files.schema)
    except (SavedModelError, ValueError, FileNotFoundError) as error:
        raise BadArgument(in_options(error)) from error
    planned = parts(files, predictor, out.absolute(), () if record is None else record.recipe.null_values)
    if not planned:
        raise BadArgument(f"{', '.join(files.names)}: there are columns but no rows.")
    left = begin(planned, out)
    failed, warned = [], set()
    for event in work(left, num_workers):
        if event.kind == "done":
            say(console, f"wrote {event.job.out.name}: {event.job.name}")
            warned |= set(event.value)
        elif event.kind == "failed":
            failed.append(f"{event.job.name}: {event.value}")
    for text in sorted(warned):
        say(console, text, style="yellow")
    if failed:
        raise ChildProcessError(
            f"{len(failed)} of {len(planned)} parts failed. The same command computes the rest. {failed[0]}"
        )
    there = f", {len(planned) - len(left)} of them before" if len(left) < len(planned) else ""
    num_sets = sum(part.num_rows for part in planned)
    say(console, f"{out}: {num_sets:,} sets in {len(planned)} parts{there}, columns {', '.join(schema.names)}")
