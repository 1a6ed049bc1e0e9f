"""Fits to streams and their predictions, on a table and one ten times as long: sets per second, memory, reading.

``python -m benchmarks.scale`` writes results/scale.json and scale.md, and resumes an interrupted run unless ``--anew``.
It is a separate command, because ``benchmarks.run`` times calls within one process, and here memory counts. Each run is
a process with one thread: three runs on the shorter table, one on the longer.

``studies.experiments.scale.table`` makes the tables. Seconds are CPU seconds, as machines are shared. The peak is that
of resident memory, with all libraries.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

from pyarrow import parquet

from janossy.estimators import SetRegressor, load, save
from janossy.estimators.batches import EPOCH_SETS
from janossy.estimators.interrupts import time_by
from janossy.tables import SetStream
from studies.experiments.record import Record
from studies.experiments.scale.table import write_table

RESULTS = Path(__file__).parent / "results"
ROWS = (1_000_000, 10_000_000)
RUNS_OF = (3, 1)
"""The numbers of runs on the shorter table, whose medians are reported, and on the longer table."""

SMALL, LARGE = "256MB", "1GB"
"""The memory that ``janossy group --memory`` gives to DuckDB. The shorter table fits into either."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--rows", type=int, nargs=2, default=ROWS)
    parser.add_argument("--anew", action="store_true", help="measure again what is there")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--folder", type=Path, default=Path("scale-tables"), help="where the tables are made, and stay")
    parser.add_argument("--one", nargs=3, metavar=("WHAT", "SETS", "FOLDER"), help="one run, in this process")
    arguments = parser.parse_args()
    if arguments.one:
        what, sets, folder = arguments.one
        print(json.dumps(RUNS[what](sets, Path(folder))))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.anew:
        (arguments.out / "scale.json").unlink(missing_ok=True)
    record = Record(arguments.out / "scale.json", "python -m benchmarks.scale")
    for key in runs(*arguments.rows):
        if not record.holds(key):
            record.add(key | measured(**key, folder=arguments.folder))
    (arguments.out / "scale.md").write_text(table(record.cells))
    print(table(record.cells))


def runs(short: int, long: int) -> list[dict]:
    """Returns the runs: the command, the rows of the table, the processes, and the number of the run."""
    found = []
    for num_rows, num_runs in zip((short, long), RUNS_OF, strict=True):
        kinds = [("group", 1, SMALL), ("fit", 1, None), ("predict", 1, None)]
        kinds += [("fit", 2, None)] if num_rows == short else [("group", 1, LARGE)]
        for run in range(num_runs):
            for what, processes, memory in kinds:
                key = {"what": what, "num_rows": num_rows, "processes": processes, "run": run}
                found.append(key if memory is None else key | {"memory": memory})
    return found


def measured(what: str, num_rows: int, processes: int, run: int, folder: Path, memory: str | None = None) -> dict:
    """Returns the results of one run. Missing tables are made first."""
    long, sets = folder / f"{num_rows}.parquet", folder / f"{num_rows}-sets.parquet"
    if not long.exists():
        write_table(long, num_rows, shuffle=True)
    load = round(os.getloadavg()[0], 1)
    if memory is not None:
        return {"load": load, **grouped(long, sets, memory)}
    command = [sys.executable, "-m"]
    command += ["torch.distributed.run", "--nproc-per-node", str(processes), "-m"] if processes > 1 else []
    arguments = [*command, "benchmarks.scale", "--one", what, str(sets), str(folder)]
    output = subprocess.run(arguments, check=True, capture_output=True, text=True, env=ONE_THREAD).stdout
    return {"load": load, **json.loads(output.splitlines()[-1])}


ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


def grouped(long: Path, sets: Path, memory: str) -> dict:
    """Runs the command, and returns its times from start to end."""
    sets.unlink(missing_ok=True)
    words = ["group", str(long), "--set-id", "set_id", "--set-columns", "target", "--out", str(sets)]
    program = "from janossy.cli import main; main()"
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", program, *words, "--memory", memory], env=ONE_THREAD)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise ChildProcessError(f"janossy group ended with code {process.returncode}; its error stands above.")
    seconds, num_sets = used.ru_utime + used.ru_stime, parquet.read_metadata(sets).num_rows
    found = {"sets": num_sets, "seconds": round(seconds, 2), "wall": round(time.monotonic() - began, 2)}
    return found | {"peak_mib": round(used.ru_maxrss / 1024), "sets_a_second": round(num_sets / seconds)}


def _fit(sets: str, folder: Path) -> dict:
    stream = SetStream(sets, "target", set_id="set_id")
    began = _now()
    with time_by(time.process_time):
        model = SetRegressor("k1", max_epochs=1, batch_size=256, random_state=0, time_budget=None).fit(stream)
    num = min(len(stream) - len(model.validation_sets_.sets), EPOCH_SETS)
    if not (folder / "model").exists():
        save(model, folder / "model")
    seconds = model.seconds_
    found = _found(num, began) | {name: round(each, 2) for name, each in seconds.items()}
    found |= {"scanned_a_second": round(len(stream) / seconds["scan"])}
    found["sets_a_second"] = round(num / seconds["training"])
    return found | {"reading_share": round(seconds["reading"] / seconds["training"], 4)}


def _predict(sets: str, folder: Path) -> dict:
    model, stream = load(folder / "model"), SetStream(sets, drop=["target"], set_id="set_id")
    began = _now()
    predicted = model.predict(stream)
    found = _found(len(predicted), began)
    reading = _now()
    for _ in stream:
        pass
    return found | {"reading_share": round((_now()[0] - reading[0]) / found["seconds"], 4)}


RUNS = {"fit": _fit, "predict": _predict}


def _now() -> tuple[float, float]:
    return time.process_time(), time.monotonic()


def _found(num_sets: int, began: tuple[float, float]) -> dict:
    seconds, wall = (now - then for now, then in zip(_now(), began, strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"sets": num_sets, "seconds": round(seconds, 2), "wall": round(wall, 2), "peak_mib": round(peak)}
    return found | {"sets_a_second": round(num_sets / seconds)}


TITLES = {"group": "janossy group", "fit": "fit of k1, an epoch", "predict": "predict"}


def medians(cells: list[dict]) -> list[dict]:
    """Returns one entry per kind of run, with medians and the number of runs."""
    kinds = defaultdict(list)
    for cell in cells:
        kinds[cell["what"], cell["processes"], cell["num_rows"], cell.get("memory", "")].append(cell)
    found = []
    for key in sorted(kinds, key=lambda key: (list(TITLES).index(key[0]), *key[1:3], -len(key[3]))):
        of_kind = kinds[key]
        numbers = {name for name, value in of_kind[0].items() if isinstance(value, int | float)}
        found.append(of_kind[0] | {name: median(cell[name] for cell in of_kind) for name in numbers})
        found[-1]["runs"] = len(of_kind)
    return found


def table(cells: list[dict]) -> str:
    """Returns the rows as Markdown, with a comparison of the memory for the longer table."""
    rows = medians(cells)
    lines = ["Fits to streams and their predictions", "", "`python -m benchmarks.scale`, seconds of the processor"]
    lines[-1] += ", medians; of `janossy group` with all that it loads. The load is that of the machine as a run began."
    lines += [
        "",
        "| | rows | processes | sets a second | first pass, sets a second | reading | seconds, wall | peak MiB ",
    ]
    lines[-1] += "| load | runs |"
    lines += ["|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        reading = f"{row['reading_share']:.1%}" if "reading_share" in row else ""
        scanned = f"{row['scanned_a_second']:,.0f}" if "scanned_a_second" in row else ""
        title = TITLES[row["what"]] + (f", --memory {row['memory']}" if "memory" in row else "")
        of_row = f"| {title} | {row['num_rows']:,} | {row['processes']} | {row['sets_a_second']:,.0f} "
        of_row += f"| {scanned} | {reading} | {row['wall']:.0f} | {row['peak_mib']:,.0f} "
        lines.append(f"{of_row}| {row['load']:.1f} | {row['runs']} |")
    for what, title in TITLES.items():
        peaks = [row["peak_mib"] for row in rows if row["what"] == what and row["processes"] == 1]
        if len(peaks) >= 2 and what != "group":
            lines += ["", f"{title}: the longer table's peak is {peaks[1] / peaks[0]:.2f} times the shorter's."]
    return "\n".join(lines) + "\n"


BILLION, CORES = 10**9, 16
"""The plan of docs/scale.md: the number of sets, and the cores of each machine."""


def plan(cells: list[dict]) -> str:
    """Returns the cost of a billion sets as Markdown, at the rates of the longest measured table."""
    longest = {row["what"]: row for row in medians(cells) if row["processes"] == 1}
    rates = {"group": longest["group"]["sets_a_second"], "first pass": longest["fit"]["scanned_a_second"]}
    rates |= {"one pass of training": longest["fit"]["sets_a_second"], "predict": longest["predict"]["sets_a_second"]}
    lines = ["| step | sets per second and core | core hours | on one machine, hours | on ten |"]
    lines.append("|---|---|---|---|---|")
    for name, rate in rates.items():
        hours = BILLION / rate / 3600
        alone = name == "group"
        ten = "one machine" if alone else f"{hours / CORES / 10:.1f}"
        one = f"{hours:.1f}" if alone else f"{hours / CORES:.1f}"
        lines.append(f"| {name} | {rate:,.0f} | {hours:.1f} | {one} | {ten} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
