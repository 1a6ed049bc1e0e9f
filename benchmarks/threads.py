"""Threads of a fit: ``python -m benchmarks.threads`` measures fits by the number that is chosen, by one and by all.

Every fit runs three times in a process of its own, after a short one that is not counted; the medians are given.
Batches of few elements are trained by one thread unless ``num_threads`` says otherwise. More threads would wait for
each other, and use CPU seconds as they wait. The loss grows with the number of cores, and with other work on them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np

from benchmarks.harness import about_here, origin
from janossy.estimators import SetRegressor
from studies.experiments import markdown

RESULTS = Path(__file__).parent / "results"

FITS = {
    "300 sets of 5, k1": ("k1", 300, 5, 40),
    "300 sets of 5, k2": ("k2", 300, 5, 20),
    "300 sets of 5, gru": ("gru", 300, 5, 5),
    "256 sets of 1,000, k1": ("k1", 256, 1000, 4),
}
"""Each fit: its strategy, the number and size of its sets, and its epochs."""

CHOICES = ("chosen", "1", "all")
REPEATS = 3


def main() -> None:
    """Measure all fits, print the table and write it as results/threads.json and .md."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(sys.argv[2], sys.argv[3])))
        return
    found: dict[str, dict[str, list[float]]] = {}
    for name in FITS:
        found[name] = {}
        for choice in CHOICES:
            found[name][choice] = _in_a_process(name, choice)
            print(name, choice, found[name][choice], flush=True)
    data = {"about": __doc__, "command": "python -m benchmarks.threads", **about_here(), "fits": found}
    (RESULTS / "threads.json").write_text(json.dumps(data, indent=1) + "\n")
    (RESULTS / "threads.md").write_text(table(data))
    print(table(data))


def one(name: str, choice: str) -> list[float]:
    """Returns the threads, and the medians of CPU seconds and seconds of several fits."""
    strategy, num_sets, size, epochs = FITS[name]
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(size, 4)).astype(np.float32) for _ in range(num_sets)]
    targets = [float(each.max()) for each in sets]
    num = {"chosen": None, "1": 1, "all": os.cpu_count()}[choice]

    def fit(max_epochs: int) -> SetRegressor:
        model = SetRegressor(
            strategy, max_epochs=max_epochs, patience=max_epochs, validation=0.2, num_threads=num, random_state=0
        )
        return model.fit(sets, targets)

    fit(1)
    cpu, seconds = [], []
    for _ in range(REPEATS):
        start, began = process_time(), perf_counter()
        model = fit(epochs)
        cpu.append(process_time() - start)
        seconds.append(perf_counter() - began)
    return [model.num_threads_, median(cpu), median(seconds)]


def table(data: dict) -> str:
    """A record as Markdown."""
    header = ["fit", "chosen", "CPU s, chosen", "one", "all", "seconds, chosen", "one", "all"]
    rows = [
        [name, f"{by['chosen'][0]:.0f}", *(f"{by[choice][i]:.2f}" for i in (1, 2) for choice in CHOICES)]
        for name, by in data["fits"].items()
    ]
    return "\n".join([data["about"].strip(), "", origin(data), "", markdown.table(header, rows)])


def _in_a_process(name: str, choice: str) -> list[float]:
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    command = [sys.executable, "-m", "benchmarks.threads", "--one", name, choice]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
