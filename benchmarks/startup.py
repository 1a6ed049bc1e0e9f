"""Start-up: ``python -m benchmarks.startup`` measures whole commands, each in a new process, as a user waits for them.

Models are of one strategy each, five networks or learners of five folds. ``fit`` is ended when it has printed its
first score. CPU seconds are those of the process, on one thread. All bytecode is compiled before, as in an
installation. If other processes keep the machine busy, the median wait is long, and the shortest one is that of a
machine of one's own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks.harness import about_here, origin

RESULTS = Path(__file__).parent / "results"
JANOSSY = ("-c", "from janossy.cli import main; main()")

MODELS = {"k1": ("--max-epochs", "5"), "gru": ("--max-epochs", "2"), "trees": (), "forest": ()}
"""Strategies of the models that predict, with options of their fits."""

FIRST_SCORE = "round 1"
"""The text of a line with a candidate's score."""


def main() -> None:
    """Measures all commands, prints the table and writes it as results/startup.json and .md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="runs of each command, in turn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        commands = prepared(Path(folder))
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for run in range(-1, options.runs):
            for name, (arguments, until) in commands.items():
                seconds = waited(arguments, until, Path(folder))
                if run >= 0:  # the first one compiles bytecode
                    found[name].append(seconds)
    rows = {
        name: {"cpu": median(cpu for cpu, _ in each), "wall": median(wall for _, wall in each), "runs": each}
        for name, each in found.items()
    }
    data = {"about": __doc__, "command": "python -m benchmarks.startup", **about_here(), "seconds": rows}
    (RESULTS / "startup.json").write_text(json.dumps(data, indent=1) + "\n")
    (RESULTS / "startup.md").write_text(table(data))
    print(table(data))


def prepared(folder: Path) -> dict[str, tuple[Sequence[str], str]]:
    """Writes tables and models. Returns the arguments of Python for each command, and the text that ends it early."""
    for name, num in (("many", 1_000), ("few", 450)):
        csv.write_csv(sets(num), folder / f"{name}.csv")
    few, many = str(folder / "few.csv"), str(folder / "many.csv")
    fit = (*JANOSSY, "fit", many, "--set-id", "order", "--target", "total")
    for strategy, options in MODELS.items():
        waited((*fit, "--strategy", strategy, *options, "--out", str(folder / strategy)), "", folder)
    predicted = str(folder / "predicted.csv")
    commands: dict[str, tuple[Sequence[str], str]] = {
        "`janossy --help`": ((*JANOSSY, "--help"), ""),
        "`janossy inspect`": ((*JANOSSY, "inspect", str(folder / "k1")), ""),
        **{
            f"`janossy predict`, 450 sets, {strategy}": (
                (*JANOSSY, "predict", str(folder / strategy), few, "--out", predicted),
                "",
            )
            for strategy in MODELS
        },
        "`janossy fit`, 1,000 sets, until its first score": ((*fit, "--out", str(folder / "fitted")), FIRST_SCORE),
        '`python -c "import torch"`': (("-c", "import torch"), ""),
        '`python -c "import sklearn.ensemble"`': (("-c", "import sklearn.ensemble"), ""),
    }
    return commands


def sets(num: int) -> pa.Table:
    """Returns orders of 1 to 20 items with a price and a kind, one row per item, and a total of the order."""
    source = np.random.default_rng(0)
    sizes = source.integers(1, 21, num)
    prices, kinds = source.lognormal(size=sizes.sum()), source.integers(0, 12, sizes.sum())
    totals = np.add.reduceat(prices * (kinds > 3), np.cumsum(sizes) - sizes)
    names = np.array([f"kind {kind}" for kind in range(12)])
    return pa.table(
        {
            "order": np.repeat(np.arange(num), sizes),
            "price": prices,
            "kind": names[kinds],
            "total": np.repeat(totals + source.normal(size=num), sizes),
        }
    )


def waited(arguments: Sequence[str], until: str, folder: Path) -> tuple[float, float]:
    """Returns the CPU and wall-clock seconds of a new Python, until it ends or prints a line with ``until``.

    Raises: RuntimeError if it fails.
    """
    (folder / "predicted.csv").unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "OMP_NUM_THREADS": "1"}
    began = perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    there = bool(until) and any(until in line for line in process.stdout)
    if there:
        process.kill()
    else:
        process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if there != bool(until) or (process.returncode and not there):
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}.")
    return used.ru_utime + used.ru_stime, wall


def table(data: dict) -> str:
    """Returns a record as Markdown."""
    return "\n".join(_lines(data)) + "\n"


def _lines(data: dict) -> Iterator[str]:
    num = len(next(iter(data["seconds"].values()))["runs"])
    yield from (data["about"].strip(), "", f"{origin(data)} Medians of {num} runs in turn.", "")
    yield from ("| command | CPU seconds | seconds of waiting | the shortest wait |", "|---|---:|---:|---:|")
    for name, row in data["seconds"].items():
        yield f"| {name} | {row['cpu']:.2f} | {row['wall']:.2f} | {min(wall for _, wall in row['runs']):.2f} |"


if __name__ == "__main__":
    main()
