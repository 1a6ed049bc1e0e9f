"""Threads of a fit: ``python -m benchmarks.threads`` measures fits by the number that is chosen, by one and by all.

Every fit runs three times in a process of its own, after a short one that is not counted; the medians are given.
Batches of few elements are trained by one thread unless ``num_threads`` says otherwise. More threads would wait for
each other, and use CPU seconds as they wait. The loss grows with the number of cores, and with other work on them.

The second table is of the learners of scikit-learn that ``"linear"`` and ``"trees"`` fit, by one thread of BLAS or
OpenMP and by all. Each is fitted alone, and beside a process that keeps one core busy. ``"linear"`` uses one thread for
logistic regression, and ``"trees"`` for tables of up to a million numbers.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

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

LEARNERS = {
    "logistic regression, 1,000 × 50, 2 classes": ("blas", 1_000, 50, 2),
    "logistic regression, 2,000 × 300, 2 classes": ("blas", 2_000, 300, 2),
    "logistic regression, 17,000 × 93, 10 classes": ("blas", 17_000, 93, 10),
    "logistic regression, 17,000 × 1,000, 10 classes": ("blas", 17_000, 1_000, 10),
    "boosting, 1,000 × 50, 2 classes": ("openmp", 1_000, 50, 2),
    "boosting, 4,000 × 100, 2 classes": ("openmp", 4_000, 100, 2),
    "boosting, 17,000 × 30, 2 classes": ("openmp", 17_000, 30, 2),
    "boosting, 17,000 × 300, 2 classes": ("openmp", 17_000, 300, 2),
}
"""Each learner: the library whose threads it uses, and the rows, columns and classes of its table."""

BUSY = "while True: pass"


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
    learners = {beside: learner_times(busy=beside == "busy") for beside in ("alone", "busy")}
    data = {"about": __doc__, "command": "python -m benchmarks.threads", **about_here(), "fits": found}
    data["learners"] = learners
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


def learner_times(*, busy: bool) -> dict[str, dict[str, list[float]]]:
    """Returns the medians of CPU seconds and seconds of each learner, by one thread and by all, fitted in turn."""
    beside = subprocess.Popen([sys.executable, "-c", BUSY]) if busy else None
    try:
        return {name: _learner(name) for name in LEARNERS}
    finally:
        if beside is not None:
            beside.kill()


def _learner(name: str) -> dict[str, list[float]]:
    library, num_rows, num_columns, num_classes = LEARNERS[name]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, num_columns))
    y = (x[:, :5].sum(1) + rng.normal(size=num_rows)).argsort().argsort() * num_classes // num_rows
    times: dict[str, list[tuple[float, float]]] = {"1": [], "all": []}
    for _ in range(REPEATS):
        for choice, each in times.items():
            model = LogisticRegression(C=0.01) if library == "blas" else HistGradientBoostingClassifier(max_iter=20)
            with threadpool_limits(1 if choice == "1" else os.cpu_count(), library):
                start, began = process_time(), perf_counter()
                model.fit(x, y)
                each.append((process_time() - start, perf_counter() - began))
    print(name, times, flush=True)
    return {choice: [median(values) for values in zip(*each, strict=True)] for choice, each in times.items()}


def table(data: dict) -> str:
    """Returns the two tables of a record as Markdown."""
    header = ["fit", "chosen", "CPU s, chosen", "one", "all", "seconds, chosen", "one", "all"]
    rows = [
        [name, f"{by['chosen'][0]:.0f}", *(f"{by[choice][i]:.2f}" for i in (1, 2) for choice in CHOICES)]
        for name, by in data["fits"].items()
    ]
    of_learners = [
        [name, beside, *(f"{by[choice][i]:.2f}" for i in (0, 1) for choice in ("1", "all"))]
        for beside, found in data["learners"].items()
        for name, by in found.items()
    ]
    second = ["learner", "machine", "CPU s, one", "all", "seconds, one", "all"]
    tables = [markdown.table(header, rows), markdown.table(second, of_learners)]
    return "\n".join([data["about"].strip(), "", origin(data), "", *tables])


def _in_a_process(name: str, choice: str) -> list[float]:
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    command = [sys.executable, "-m", "benchmarks.threads", "--one", name, choice]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
