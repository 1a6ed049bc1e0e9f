"""Fits to streams and their predictions, of a table and of one ten times as long: sets a second, memory, reading.

``python -m benchmarks.scale`` writes results/scale.json and scale.md; rows that are there are not measured again.
Tables are of ``benchmarks.scale_table``, grouped by ``janossy group``. Each run is a process of its own, of one thread.
Seconds are of the processor, as machines are shared; the peak is of resident memory, with all libraries.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.scale_table import write_table
from experiments.record import Record
from janossy.estimators import SetRegressor, SetStream, load, save
from janossy.estimators.batches import EPOCH_SETS
from janossy.estimators.clock import time_by
from janossy.workflow.grouping import group

RESULTS = Path(__file__).parent / "results"
ROWS = (1_000_000, 10_000_000)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--rows", type=int, nargs=2, default=ROWS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--folder", type=Path, default=Path("scale-tables"), help="where the tables are made, and stay")
    parser.add_argument("--one", nargs=3, metavar=("WHAT", "SETS", "FOLDER"), help="one run, in this process")
    arguments = parser.parse_args()
    if arguments.one:
        what, sets, folder = arguments.one
        print(json.dumps(RUNS[what](sets, Path(folder))))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    record = Record(arguments.out / "scale.json", "python -m benchmarks.scale")
    for what, num_rows, processes in runs(*arguments.rows):
        key = {"what": what, "num_rows": num_rows, "processes": processes}
        if not record.holds(key):
            record.add(key | measured(what, num_rows, processes, arguments.folder))
    (arguments.out / "scale.md").write_text(table(record.cells))
    print(table(record.cells))


def runs(short: int, long: int) -> list[tuple[str, int, int]]:
    """What is run, on tables of how many rows, by how many processes."""
    one = [(what, num_rows, 1) for num_rows in (short, long) for what in ("group", "fit", "predict")]
    return [*one[:4], ("fit", short, 2), *one[4:]]


def measured(what: str, num_rows: int, processes: int, folder: Path) -> dict:
    """One run, on tables that are made where they are not there."""
    long, sets = folder / f"{num_rows}.parquet", folder / f"{num_rows}-sets.parquet"
    if not long.exists():
        write_table(long, num_rows, shuffle=True)
    command = [sys.executable, "-m"]
    command += ["torch.distributed.run", "--nproc-per-node", str(processes), "-m"] if processes > 1 else []
    arguments = [*command, "benchmarks.scale", "--one", what, str(long if what == "group" else sets), str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    output = subprocess.run(arguments, check=True, capture_output=True, text=True, env=environment).stdout
    return json.loads(output.splitlines()[-1])


def _group(long: str, folder: Path) -> dict:
    began = _now()
    num_sets = group([long], ["set_id"], ["target"], Path(long.replace(".parquet", "-sets.parquet")), "1GB")
    return _found(num_sets, began)


def _fit(sets: str, folder: Path) -> dict:
    stream = SetStream(sets, "target", set_id="set_id")
    began = _now()
    with time_by(time.process_time):
        model = SetRegressor("k1", max_epochs=1, batch_size=256, random_state=0, time_budget=None).fit(stream)
    num = min(len(stream) - len(model.left_out_.sets), EPOCH_SETS)
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


RUNS = {"group": _group, "fit": _fit, "predict": _predict}


def _now() -> tuple[float, float]:
    return time.process_time(), time.monotonic()


def _found(num_sets: int, began: tuple[float, float]) -> dict:
    seconds, wall = (now - then for now, then in zip(_now(), began, strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"sets": num_sets, "seconds": round(seconds, 2), "wall": round(wall, 2), "peak_mib": round(peak)}
    return found | {"sets_a_second": round(num_sets / seconds)}


TITLES = {"group": "janossy group", "fit": "fit of k1, an epoch", "predict": "predict"}


def table(cells: list[dict]) -> str:
    """The rows as Markdown, and how the longer table's memory compares."""
    lines = ["Fits to streams and their predictions", "", "`python -m benchmarks.scale`, seconds of the processor.", ""]
    lines += ["| | rows | processes | sets a second | first pass, sets a second | reading | seconds, wall | peak MiB |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for cell in sorted(cells, key=lambda cell: (list(TITLES).index(cell["what"]), cell["processes"], cell["num_rows"])):
        reading = f"{cell['reading_share']:.1%}" if "reading_share" in cell else ""
        scanned = f"{cell['scanned_a_second']:,}" if "scanned_a_second" in cell else ""
        of_run = f"| {TITLES[cell['what']]} | {cell['num_rows']:,} | {cell['processes']} | {cell['sets_a_second']:,} "
        lines.append(f"{of_run}| {scanned} | {reading} | {cell['wall']:.0f} | {cell['peak_mib']:,} |")
    for what, title in TITLES.items():
        peaks = [cell["peak_mib"] for cell in cells if cell["what"] == what and cell["processes"] == 1]
        if len(peaks) == 2:
            lines += ["", f"{title}: the longer table's peak is {peaks[1] / peaks[0]:.2f} times the shorter's."]
    return "\n".join(lines) + "\n"


BILLION, CORES = 10**9, 16
"""The plan of docs/scale.md: so many sets, on machines of so many cores."""


def plan(cells: list[dict]) -> str:
    """What a billion sets take, by the rates of the longest table that was measured, as Markdown."""
    longest: dict[str, dict] = {}
    for cell in sorted((cell for cell in cells if cell["processes"] == 1), key=lambda cell: cell["num_rows"]):
        longest[cell["what"]] = cell
    rates = {"group": longest["group"]["sets_a_second"], "first pass": longest["fit"]["scanned_a_second"]}
    rates |= {"a pass of training": longest["fit"]["sets_a_second"], "predict": longest["predict"]["sets_a_second"]}
    lines = ["| | sets a second and core | core hours | on one machine, hours | on ten |", "|---|---|---|---|---|"]
    for name, rate in rates.items():
        hours = BILLION / rate / 3600
        alone = name == "group"
        ten = "one machine" if alone else f"{hours / CORES / 10:.1f}"
        one = f"{hours:.1f}" if alone else f"{hours / CORES:.1f}"
        lines.append(f"| {name} | {rate:,} | {hours:.1f} | {one} | {ten} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
