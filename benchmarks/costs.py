"""The costs that ``auto`` expects, beside measured ones: ``python -m benchmarks.costs``.

Forward and backward, float32: the grid of benchmarks/auto.py, and k = 1 and pairs on sets of different sizes. Each
evaluator that applies runs each case on one thread and on two, unless it is expected to take more than 0.1 s. The
fastest of three runs is compared with the seconds that ``explain`` gives. The goal is a factor of two, either way.
"""

import json
import statistics
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.auto import cases
from benchmarks.harness import about_here, backward
from janossy import JanossyPooling, Ragged, TupleMLP, Tuples
from janossy.evaluate import Evaluator, Problem, candidates
from janossy.evaluate.problem import Function
from janossy.orderings import Orderings

RESULTS = Path(__file__).parent / "results"
MAX_SECONDS = 0.1
RUNS = 3


class Measured(NamedTuple):
    """The seconds of one evaluator for one case."""

    case: str
    evaluator: str
    num_threads: int
    predicted: float
    seconds: float

    @property
    def ratio(self) -> float:
        """The predicted time, relative to the measured one."""
        return self.predicted / self.seconds


def main() -> None:
    """Measures all cases, prints the table and writes it as results/costs.json and .md."""
    torch.manual_seed(0)
    before = torch.get_num_threads()
    found = []
    for num_threads in (1, 2):
        torch.set_num_threads(num_threads)
        found += list(measured(num_threads))
    torch.set_num_threads(before)
    rows = [each._asdict() for each in found]
    data = {"about": __doc__, "command": "python -m benchmarks.costs", **about_here(), "rows": rows}
    (RESULTS / "costs.json").write_text(json.dumps(data, indent=1) + "\n")
    (RESULTS / "costs.md").write_text(table(data))
    print(table(data))


def measured(num_threads: int) -> Iterator[Measured]:
    """Yields every case with every evaluator that applies and is not expected to take too long."""
    for name, f, orderings, sets in _cases():
        for candidate in candidates(Problem(f, orderings, sets)):
            if candidate.cost is None or candidate.cost.seconds > MAX_SECONDS:
                continue
            seconds = _fastest(f, orderings, candidate.evaluator, sets)
            yield Measured(name, candidate.evaluator.name, num_threads, candidate.cost.seconds, seconds)


def table(data: dict) -> str:
    """Returns a record as Markdown: one line per evaluator and number of threads, and one per case that is far off."""
    versions = data["versions"]
    found = sorted((Measured(**row) for row in data["rows"]), key=lambda x: (x.evaluator, x.num_threads))
    near = sum(0.5 <= each.ratio <= 2 for each in found)
    lines = [
        data["about"].strip(),
        "",
        f"`{data['command']}` on {data['machine']['cpu']}, {data['machine']['cores']} cores, "
        f"Python {versions['python']}, torch {versions['torch']}, {data['finished'][:10]}. "
        f"Within a factor of two: {near} of {len(found)}.",
        "",
        "| evaluator | threads | cases | within a factor of two | predicted / measured, median | lowest | highest |",
        "|---|---|---|---|---|---|---|",
    ]
    for (evaluator, num_threads), group in groupby(found, key=lambda x: (x.evaluator, x.num_threads)):
        ratios = sorted(each.ratio for each in group)
        inside = sum(0.5 <= ratio <= 2 for ratio in ratios)
        spread = f"{statistics.median(ratios):.2f} | {ratios[0]:.2f} | {ratios[-1]:.2f}"
        lines.append(f"| {evaluator} | {num_threads} | {len(ratios)} | {inside} | {spread} |")
    lines += ["", "| further off | evaluator | threads | predicted, ms | measured, ms |", "|---|---|---|---|---|"]
    for each in sorted(found, key=lambda x: x.ratio):
        if not 0.5 <= each.ratio <= 2:
            times = f"{1e3 * each.predicted:.2f} | {1e3 * each.seconds:.2f}"
            lines.append(f"| {each.case} | {each.evaluator} | {each.num_threads} | {times} |")
    return "\n".join(lines) + "\n"


def _cases() -> Iterator[tuple[str, Function, Orderings, Ragged]]:
    for case in cases("cpu"):
        yield case.name, case.f, case.orderings, Ragged.from_padded(case.x)
    mixed = torch.randint(1, 40, (128,)).tolist()
    sets = Ragged.from_sizes(torch.randn(sum(mixed), 16, requires_grad=True), mixed)
    plain = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    of_sizes = "B=128 n=1…39 d=16"
    yield f"{of_sizes} k=1 plain module of 2 layers", plain, Tuples(1), sets
    yield f"{of_sizes} H=64,64 k=1 relu", TupleMLP(1, 16, (64, 64), activation="relu"), Tuples(1), sets
    yield f"{of_sizes} H=32 k=2 tanh", TupleMLP(2, 16, 32), Tuples(2), sets
    yield f"{of_sizes} H=32,32 k=2 tanh", TupleMLP(2, 16, (32, 32)), Tuples(2), sets


def _fastest(f: Function, orderings: Orderings, evaluator: Evaluator, sets: Ragged) -> float:
    layer = JanossyPooling(f, orderings, evaluate=evaluator)
    run: Callable[[], Tensor] = lambda: backward(layer(sets))  # noqa: E731
    run()
    seconds = []
    for _ in range(RUNS):
        start = perf_counter()
        run()
        seconds.append(perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
