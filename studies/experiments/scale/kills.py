"""Predictions of many files, killed at random moments: no finished part is lost or computed again.

    python -m studies.experiments.scale.kills   docs/results/scale/kills.json and kills.md: two minutes on one core

It needs the extra ``dev``. A run of ``janossy predict --out FOLDER`` is a process, killed (SIGKILL) after a random time
and started again. When all is done, another folder is begun. An interrupted study resumes.
"""

import argparse
import hashlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import parquet

from janossy.cli.app import app
from janossy.cli.workflow.grouping import group
from janossy.estimators import SetRegressor, save
from janossy.tables import SetStream
from studies.experiments.record import Record
from studies.experiments.scale.table import write_table

COMMAND = "python -m studies.experiments.scale.kills"
PAGE = Path(__file__).parents[3] / "docs" / "results" / "scale" / "kills.md"
NUM_KILLS, NUM_FILES, NUM_ROWS = 50, 40, 20_000
OFTEN = 4
"""The approximate number of kills in the time of a whole run."""


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--kills", type=int, default=NUM_KILLS)
    parser.add_argument("--out", type=Path, default=PAGE.with_suffix(".json"))
    arguments = parser.parse_args()
    record = Record(arguments.out, COMMAND)
    with tempfile.TemporaryDirectory() as folder:
        run(record, Path(folder), arguments.kills, NUM_FILES, NUM_ROWS)
    arguments.out.with_suffix(".md").write_text(page(record.cells))


def run(record: Record, folder: Path, num_kills: int, num_files: int, num_rows: int) -> None:
    """Kills unfinished runs until there are ``num_kills`` kills."""
    in_child(lambda: prepare(folder, num_files, num_rows))
    # This process loads the modules for all its copies, so that kills hit work instead of imports.
    (folder / "one").mkdir()
    (folder / "one" / "sets.parquet").symlink_to(folder / "sets" / "000.parquet")
    predict(folder, "warm", "one")
    begin = time.monotonic()
    in_child(lambda: predict(folder, "whole"))
    seconds = time.monotonic() - begin
    expected = digests(folder / "whole")
    number = 0
    while len(record.cells) < num_kills:
        kill = len(record.cells)
        moment = float(np.random.default_rng([0, kill]).uniform(0, 2 * seconds / OFTEN))
        out = f"out{number}"
        before = found(folder / out)
        killed = in_child(lambda out=out: predict(folder, out), after=moment)
        after = found(folder / out)
        rewritten = [name for name in before if after.get(name) != before[name]]
        if killed:
            record.add(
                {
                    "kill": kill,
                    "folder": number,
                    "seconds": round(moment, 3),
                    "parts_before": len(before),
                    "parts_after": len(after),
                    "of": len(expected),
                    "lost_or_rewritten": len(rewritten),
                    "unlike_the_whole_run": sum(each != expected[name] for name, each in digests(folder / out).items()),
                }
            )
        if len(after) == len(expected):
            number += 1
    before = found(folder / f"out{number}")
    in_child(lambda: predict(folder, f"out{number}"))
    assert before.items() <= found(folder / f"out{number}").items()
    assert digests(folder / f"out{number}") == expected


def prepare(folder: Path, num_files: int, num_rows: int) -> None:
    """Writes a table, its sets in many files, and a model that samples orders."""
    write_table(folder / "long.parquet", num_rows)
    group([str(folder / "long.parquet")], ["set_id"], ["target"], folder / "sets.parquet")
    table = parquet.read_table(folder / "sets.parquet")
    (folder / "sets").mkdir()
    size = -(-len(table) // num_files)
    for i in range(num_files):
        parquet.write_table(table.slice(i * size, size), folder / "sets" / f"{i:03}.parquet")
    stream = SetStream(folder / "sets" / "000.parquet", y="target", set_id="set_id")
    save(SetRegressor("gru", max_epochs=1, random_state=0, num_permutations=4).fit(stream), folder / "model")


def predict(folder: Path, out: str, sets: str = "sets") -> None:
    """Runs the command in this process."""
    sys.argv = ["janossy", "predict", str(folder / "model"), str(folder / sets), "--out", str(folder / out)]
    app(standalone_mode=False)


def in_child(function: Callable[[], Any], after: float | None = None) -> bool:
    """Runs a function in a copy of this process with all modules. Returns True if it was killed after ``after``."""
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            function()
            os._exit(0)
        finally:
            os._exit(1)
    if after is not None:
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status):
        raise ChildProcessError("a run that was not killed has failed; its error stands above.")
    return os.WIFSIGNALED(status)


def found(out: Path) -> dict[str, tuple[int, int]]:
    """Returns the finished parts, each with the identity and time of its file."""
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in out.glob("part-*.parquet")}


def digests(out: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in out.glob("part-*.parquet")}


def page(cells: list[dict[str, Any]]) -> str:
    """Returns the results as a page."""
    idle = sum(cell["parts_after"] == cell["parts_before"] for cell in cells)
    return (
        f"# {len(cells)} kills of a prediction over many files\n\n"
        f"`{COMMAND}`: `janossy predict --out FOLDER` over {cells[0]['of']} files, a part each, by a recurrence with "
        "random orders, killed\n(SIGKILL) after random times and started again; seeds are fixed. Folders that were "
        "begun: "
        f"{cells[-1]['folder'] + 1}.\nRuns are of one process, a copy of one that has loaded all modules: what is "
        "killed is planning, predicting and writing.\n\n"
        "| | |\n|---|---|\n"
        f"| kills of a run that had not ended | {len(cells)} |\n"
        f"| of these, before a part more was finished | {idle} |\n"
        f"| finished parts that were lost or written again | {sum(cell['lost_or_rewritten'] for cell in cells)} |\n"
        "| finished parts, at any kill, that differ by a bit from those of a run that was never killed | "
        f"{sum(cell['unlike_the_whole_run'] for cell in cells)} |\n\n"
        "A part that was being written when its run was killed is computed again, and nothing else. The last folder is "
        "finished without a kill\nand compared, whole, with the run that was never killed.\n"
    )


if __name__ == "__main__":
    main()
