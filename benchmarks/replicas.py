"""The cost of an epoch of the arithmetic study per replica: in the authors' loop, alone, and in stacks of 5 and 15.

    python -m benchmarks.replicas

On one thread, with the batches of the study: steps of ``first_order``, beside the loop of the benchmark ``step`` on
batches of the same size. Each replica has its own examples, order, permutations and state of Adam. Writes
studies/paper/replicas.json, from which the study's report makes a table.
"""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch

from benchmarks.step import NUM_STEPS, authors, their_steps
from studies.experiments.record import about_here
from studies.paper.arithmetic.first_order import Together
from studies.paper.arithmetic.models import MODELS, Model
from studies.paper.arithmetic.names import TABLE_3
from studies.paper.arithmetic.settings import PROTOCOLS, Settings
from studies.paper.arithmetic.tasks import TASKS, Task
from studies.paper.arithmetic.train import replica

OUT = Path("studies/paper/replicas.json")
STACKS = (1, 5, 15)
NUM_ROUNDS, EPOCH = 7, 100_000
"""The rounds in which ``NUM_STEPS`` are timed, and the number of examples of an epoch."""


def cases() -> list[tuple[Task, Model, int]]:
    """Returns every model of Table 3 on sets of 5 and of 10, with the batches of ``settings``."""
    return [
        (TASKS[task], MODELS[name], 64 if task == "unique_count" and MODELS[name].k in (2, 3) else 256)
        for name in TABLE_3
        for task in ("range", "unique_count")
    ]


def row(task: Task, model: Model, batch_size: int) -> dict:
    """Returns the seconds of an epoch of one replica, for each way; the ways take turns."""
    settings = Settings("quick", "fast", 1, **PROTOCOLS["fast"] | {"batch_size": batch_size, "schedule": "constant"})
    ways = {"plain": (1, plain(task, model, batch_size))}
    ways |= {f"stack of {num}": (num, ours(task, model, settings, num)) for num in STACKS}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(NUM_ROUNDS + 1):
        for way, (num, steps) in ways.items():
            start = time.perf_counter()
            steps()
            if number:  # the first round is a warm-up
                seconds[way].append((time.perf_counter() - start) / num)
    an_epoch = EPOCH / batch_size / NUM_STEPS
    found = {way: round(median(some) * an_epoch, 4) for way, some in seconds.items()}
    return {"model": model.name, "num_integers": task.num_integers, "batch_size": batch_size, **found}


def plain(task: Task, model: Model, batch_size: int) -> Callable[[], object]:
    """Returns the steps of the authors' loop."""
    return their_steps(model, authors(model, model.build(task, "sum", "uniform")), batch_size, task)


def ours(task: Task, model: Model, settings: Settings, num: int) -> Callable[[], object]:
    """Returns a function that runs an epoch of stacked replicas."""
    small = replace(settings, num_train=NUM_STEPS * settings.batch_size, num_validation=1)
    replicas = [replica(task, model, seed, 1e-3, small) for seed in range(num)]
    together = Together(replicas, small, squared=False)
    return lambda: together.epoch(lambda _: None)


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for case in cases():
        rows.append(row(*case))
        print(rows[-1], flush=True)
    data = {"about": __doc__, "command": "python -m benchmarks.replicas", **about_here(), "rows": rows}
    OUT.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
