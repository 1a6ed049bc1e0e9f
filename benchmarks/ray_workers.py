"""``janossy predict --engine ray --workers 2`` against the same two workers as plain processes.

``python -m benchmarks.ray_workers`` writes results/ray_workers.json and .md. It is a separate command, because
``benchmarks.run`` times calls within one process, and each side here has several. Both sides start their workers, which
read the model and predict a batch. That is the start, which is reported. Then they take turns: a round is 100,000 sets
per worker, from Parquet to Parquet. CPU seconds are those of the workers, of the main process, and of Ray's processes.
"""

import argparse
import json
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import ray
from pyarrow import parquet

from janossy.batch import SetPredictor, workers, workers_on_ray
from janossy.cli.workflow.grouping import group
from janossy.cli.workflow.predicting_parts import FilePart, parts
from janossy.estimators import SetRegressor, save
from janossy.tables import SetStream
from janossy.tables.files import open_files
from studies.experiments.record import about_here
from studies.experiments.scale.table import write_table

RESULTS = Path(__file__).parent / "results"
COMMAND = "python -m benchmarks.ray_workers"
STRATEGY = "k1"
"""The strategy with the least time per set, so that the overhead of Ray is the largest part."""

WORKERS, SETS = 2, 100_000
PLAIN, RAY = "plain processes", "Ray's actors"
SIDES = {PLAIN: workers.work, RAY: workers_on_ray.work}


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sets", type=int, default=SETS, help="of each worker in a round")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    began = time.monotonic()
    # Otherwise Ray's workers would have niceness 15, and wait for other programs of this machine.
    os.environ |= {"RAY_worker_niceness": "0", "RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1"}
    ray.init("local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    ray_itself = time.monotonic() - began
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), arguments.sets, arguments.rounds)
    data = {"command": COMMAND, **about_here(), "ray": ray.__version__, "strategy": STRATEGY, "workers": WORKERS}
    data |= {"sets": arguments.sets, "ray_itself": round(ray_itself, 2), **found}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "ray_workers.json").write_text(json.dumps(data, indent=1) + "\n")
    (arguments.out / "ray_workers.md").write_text(page(data))
    print(page(data))


def measured(folder: Path, num_sets: int, num_rounds: int) -> dict[str, Any]:
    """Returns the start of each side, and its rounds. The first side of a round alternates."""
    prepare(folder, num_sets)
    sides = {name: Side(work, folder / name.replace(" ", "-"), num_rounds) for name, work in SIDES.items()}
    starts, rounds = {}, []
    for name, side in sides.items():
        side.begin(folder)
        starts[name] = round(side.start, 2)
        print(name, starts[name], flush=True)
    for number in range(num_rounds):
        order = list(sides) if number % 2 == 0 else list(sides)[::-1]
        load = round(os.getloadavg()[0], 1)
        rounds.append({"load": load, **{name: sides[name].round(number) for name in order}})
        print(rounds[-1], flush=True)
    for side in sides.values():
        side.check(num_sets)
    return {"starts": starts, "rounds": rounds}


def prepare(folder: Path, num_sets: int) -> None:
    """Writes a file of ``num_sets`` sets for each worker, and a model after a short training."""
    write_table(folder / "long.parquet", round(WORKERS * num_sets * 10.2) + 20_000)
    group([str(folder / "long.parquet")], ["set_id"], ["target"], folder / "grouped.parquet")
    table = parquet.read_table(folder / "grouped.parquet")
    (folder / "sets").mkdir()
    for number in range(WORKERS):
        some = table.slice(number * num_sets, num_sets)
        assert len(some) == num_sets
        parquet.write_table(some, folder / "sets" / f"{number}.parquet", row_group_size=2**13)
    parquet.write_table(table.slice(0, 2000), folder / "few.parquet")
    stream = SetStream(folder / "few.parquet", "target", set_id="set_id")
    save(SetRegressor(STRATEGY, max_epochs=1, random_state=0).fit(stream), folder / "model")


@dataclass(frozen=True)
class InTurn:
    """A job in its turn: a part of a round, or the wait for that round, in which the first one loads the model."""

    number: int
    of: FilePart
    go: Path | None
    turn: int

    @property
    def cost(self) -> float:
        return -self.turn

    def run(self, progress: Callable[[float], None]) -> None:
        if self.go is None:
            self.of.run(progress)
            return
        if self.number == 0:
            self.of.predictor(next(self.of.fragment.to_batches(self.of.schema, batch_size=4096)))
        self.go.with_name(f"{self.go.name}-{self.turn}").touch()
        while not self.go.exists():
            time.sleep(0.005)


class Side:
    """Workers that run round after round on request."""

    def __init__(self, work: Callable[..., Iterator[Any]], folder: Path, num_rounds: int) -> None:
        self.work, self.folder, self.num_rounds = work, folder, num_rounds

    def begin(self, of: Path) -> None:
        """Starts the workers. They have loaded the model when this ends."""
        jobs: list[InTurn] = []
        self.goes, self.num_parts = [], 0
        predictor = SetPredictor(of / "model", keep=["set_id"])
        for number in range(self.num_rounds):
            out, go = self.folder / f"{number}", self.folder / f"go-{number}"
            out.mkdir(parents=True)
            planned = parts(open_files([of / "sets"]), predictor, out)
            planned.sort(key=lambda part: -part.num_rows)
            jobs += [InTurn(number, planned[0], go, len(jobs) + i) for i in range(WORKERS)]
            jobs += [InTurn(number, part, None, len(jobs) + i) for i, part in enumerate(planned)]
            self.goes.append(go)
            self.num_parts = len(planned)
        # Workers end when nothing is left, which is not part of the last round.
        self.goes.append(self.folder / "go-home")
        jobs += [InTurn(self.num_rounds, planned[0], self.goes[-1], len(jobs) + i) for i in range(WORKERS)]
        began = time.monotonic()
        self.events = self.work(jobs, WORKERS)
        for _ in range(WORKERS):
            assert next(self.events).kind == "started"
        while len(list(self.folder.glob("go-0-*"))) < WORKERS:
            time.sleep(0.005)
        self.start = time.monotonic() - began

    def round(self, number: int) -> dict[str, float]:
        """Returns the wall-clock and CPU seconds of a round."""
        used, began = processors(), time.monotonic()
        self.goes[number].touch()
        left = self.num_parts
        while left:
            event = next(self.events)
            assert event.kind != "failed", event.value
            left -= event.kind == "done" and event.job.go is None
        seconds = time.monotonic() - began
        return {"seconds": round(seconds, 3), "processors": round(processors() - used, 2)}

    def check(self, num_sets: int) -> None:
        """Raises an AssertionError unless every round has reported all sets, and ends the workers."""
        self.goes[-1].touch()
        for _ in self.events:
            pass
        for number in range(self.num_rounds):
            files = (self.folder / f"{number}").glob("part-*.parquet")
            assert sum(parquet.read_metadata(file).num_rows for file in files) == WORKERS * num_sets


def processors() -> float:
    """Returns the CPU seconds of this process and its descendants. The other side waits meanwhile."""
    here, total = psutil.Process(), 0.0
    for process in [here, *here.children(recursive=True)]:
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def page(data: dict[str, Any]) -> str:
    """Returns the medians as Markdown, with the overhead of Ray over plain processes, in pairs of one round."""
    machine, rounds = data["machine"], data["rounds"]
    lines = ["# Two of Ray's workers, two plain processes", ""]
    lines += [
        f"`{data['command']}` on {machine['cpu']}, {machine['cores']} cores, Ray {data['ray']}, "
        f"{data['finished'][:10]}: `janossy predict`",
        f"of `{data['strategy']}`, {data['sets']:,} sets a worker in each of {len(rounds)} rounds, in which both sides "
        "take their turn.",
        "Medians, quartiles in parentheses. Load of the machine, others' and ours: "
        f"{statistics.median(row['load'] for row in rounds):.1f}.",
        "",
        "| | sets a second | seconds | seconds of processors | start, seconds |",
        "|---|---|---|---|---|",
    ]
    for side in SIDES:
        seconds, processors_ = ([row[side][name] for row in rounds] for name in ("seconds", "processors"))
        rate = data["sets"] * data["workers"] / statistics.median(seconds)
        line = f"| {side} | {rate:,.0f} | {_quartiles(seconds, '.2f')} | {_quartiles(processors_, '.2f')} "
        lines.append(f"{line}| {data['starts'][side]:.1f} |")
    more = [_quartiles([row[RAY][name] / row[PLAIN][name] - 1 for row in rounds], "+.1%") for name in rounds[0][RAY]]
    lines.append(f"| Ray more than plain, in pairs | | {more[0]} | {more[1]} | |")
    lines += ["", f"Ray itself starts in {data['ray_itself']:.1f} seconds, before its workers do."]
    return "\n".join(lines) + "\n"


def _quartiles(numbers: list[float], how: str) -> str:
    low, middle, high = statistics.quantiles(numbers, n=4)
    return f"{middle:{how}} ({low:{how}}, {high:{how}})"


if __name__ == "__main__":
    main()
