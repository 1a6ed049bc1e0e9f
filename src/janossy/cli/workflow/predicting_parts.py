"""What ``janossy predict --out FOLDER`` does: predictions of many files by several workers, resumed after any end."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from janossy.batch import SetPredictor
from janossy.batch.workers import Event
from janossy.cli.errors import BadArgument
from janossy.cli.workflow.display import say, screen
from janossy.cli.workflow.parts import Part, begin, parts
from janossy.cli.workflow.record import Record
from janossy.saving import SavedModelError
from janossy.tables.files import open_files

ENGINES = {"local": "janossy.batch.workers", "ray": "studies.runs.on_ray"}
"""Where each has its function ``work``."""


def work_here(jobs: Sequence[Part], num_workers: int) -> Iterator[Event[Part]]:
    """The jobs in this process, with all its threads."""
    for job in jobs:
        try:
            yield Event("done", job, job.run(lambda units: None))
        except ValueError as error:
            yield Event("failed", job, str(error))


def predict_parts(
    model: Path,
    paths: Sequence[Path],
    out: Path,
    set_id: tuple[str, ...],
    num_permutations: int | None,
    engine: str,
    num_workers: int,
) -> None:
    """Predict the sets of Parquet files, a row each, to a folder of Parquet files; those that are there already stay.

    Raises: BadArgument for what is wrong in the arguments, the model or the files' columns; ChildProcessError if a part
        failed, naming the first, when the others are done; ImportError without the engine; OSError.
    """
    console = screen()
    work = work_here if (engine, num_workers) == ("local", 1) else import_module(ENGINES[engine]).work
    record = Record.read(model)
    targets = record.recipe.target if record is not None and len(record.recipe.target) > 1 else ()
    try:
        predictor = SetPredictor(model, keep=set_id or None, targets=targets, num_permutations=num_permutations)
        files = open_files([path.absolute() for path in paths])  # workers stand elsewhere
        schema = predictor.schema(files.schema)
    except (SavedModelError, ValueError, FileNotFoundError) as error:
        raise BadArgument(str(error)) from error
    planned = parts(files, predictor, out.absolute())
    if not planned:
        raise BadArgument(f"{', '.join(files.names)}: there are columns, and no row.")
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
            f"{len(failed)} of {len(planned)} parts failed, and the same command does what is left. {failed[0]}"
        )
    there = f", {len(planned) - len(left)} of them before" if len(left) < len(planned) else ""
    num_sets = sum(part.num_rows for part in planned)
    say(console, f"{out}: {num_sets:,} sets in {len(planned)} parts{there}, columns {', '.join(schema.names)}")
