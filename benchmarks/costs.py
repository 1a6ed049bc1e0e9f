"""The costs that ``auto`` expects, beside measured ones: ``python -m benchmarks.costs``.

Forward and backward, float32. The grid is that of benchmarks/auto.py, with k = 1 and pairs on sets of different sizes.
The drawn cases are random, and no rate was fitted to them. Each evaluator that applies runs each case on one thread and
on two, unless it is expected to take more than 0.1 s. The fastest of three runs is compared with the seconds that
``explain`` gives. The goal is a factor of two, either way.

``python -m benchmarks.costs --fit`` fits the rates to the grid's rows of the table that is there. Each group of
evaluators has an overhead, that of the quickest call, and three speeds. The speeds are the same for any number of
threads.
"""

import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import least_squares
from torch import Tensor, nn

from benchmarks.auto import cases
from benchmarks.harness import about_here, backward, origin
from janossy import GRU, LSTM, Canonical, JanossyPooling, Ragged, Sampled, TupleMLP, Tuples
from janossy.evaluate import Evaluator, Problem, candidates
from janossy.evaluate.cost import Cost
from janossy.evaluate.problem import Function
from janossy.orderings import Orderings

RESULTS = Path(__file__).parent / "results"
MAX_SECONDS = 0.1
RUNS = 3
NUM_DRAWN = 40
DRAWN = "drawn: "
"""The beginning of the names of cases that no rate is fitted to."""

GROUPS = [
    ("fused",),
    ("spectral",),
    ("projected", "distinct"),
    ("gather", "elementwise"),
    ("packed", "shared_prefixes"),
]
"""Evaluators that share their rates."""

LIMITS = {
    "flops_per_second": (1e8, 1e11),
    "bytes_per_second": (1e8, 5e10),
    "activations_per_second": (1e7, 1e10),
}


class Measured(NamedTuple):
    """The seconds of one evaluator for one case."""

    case: str
    evaluator: str
    num_threads: int
    predicted: float
    seconds: float

    @property
    def is_drawn(self) -> bool:
        return self.case.startswith(DRAWN)

    @property
    def is_near(self) -> bool:
        return 0.5 <= self.ratio <= 2

    @property
    def ratio(self) -> float:
        """The predicted time, relative to the measured one."""
        return self.predicted / self.seconds


def main() -> None:
    """Measures all cases, prints the table and writes it as results/costs.json and .md; or fits the rates to it."""
    if sys.argv[1:] == ["--fit"]:
        print_fits()
        return
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


def print_fits() -> None:
    """Prints the rates of each group that explain the last table best, and how far off they are."""
    torch.manual_seed(0)
    costs = {
        (name, each.evaluator.name): each.cost
        for name, f, orderings, sets in _cases()
        for each in candidates(Problem(f, orderings, sets))
    }
    rows = [Measured(**row) for row in json.loads((RESULTS / "costs.json").read_text())["rows"]]
    found = [each for each in rows if not each.is_drawn]
    for group in GROUPS:
        rows = [each for each in found if each.evaluator in group]
        print(group, *fit([costs[each.case, each.evaluator] for each in rows], [each.seconds for each in rows]))


def fit(costs: Sequence[Cost], seconds: Sequence[float]) -> tuple[dict[str, float], str]:
    """Returns the rates that explain these times best, by the fourth powers of errors in logarithms; and the errors."""
    work = np.array([[each.flops, each.bytes, each.activations] for each in costs])
    calls, low, high = np.array([each.calls for each in costs]), *np.log(list(zip(*LIMITS.values(), strict=True)))
    overhead = max(0.0, float(np.min(np.array(seconds) - calls)))  # of the call with the least to do

    def off(rates: np.ndarray) -> np.ndarray:
        return np.log((overhead + calls + work @ np.exp(-rates)) / seconds)

    near = least_squares(off, (low + high) / 2, bounds=(low, high)).x
    rates = least_squares(lambda x: off(x) ** 2, near, bounds=(low, high)).x
    ratios = np.exp(off(rates))
    inside = np.count_nonzero((ratios >= 0.5) & (ratios <= 2))
    said = f"{inside} of {len(ratios)} within a factor of two, {ratios.min():.2f} to {ratios.max():.2f}"
    speeds = dict(zip(LIMITS, np.exp(rates), strict=True))
    return {name: float(f"{x:.2g}") for name, x in {"overhead": overhead, **speeds}.items()}, said


def table(data: dict) -> str:
    """Returns a record as Markdown: one line per evaluator and number of threads, and one per case that is far off."""
    found = sorted((Measured(**row) for row in data["rows"]), key=lambda x: (x.evaluator, x.num_threads))
    counts = []
    for kind in (False, True):
        of_kind = [each.is_near for each in found if each.is_drawn == kind]
        counts.append(f"{sum(of_kind)} of {len(of_kind)} {'drawn cases' if kind else 'of the grid'}")
    lines = [
        data["about"].strip(),
        "",
        f"{origin(data)} Within a factor of two: {', '.join(counts)}.",
        "",
        "| evaluator | threads | cases | within a factor of two | predicted / measured, median | lowest | highest |",
        "|---|---|---|---|---|---|---|",
    ]
    for (evaluator, num_threads), group in groupby(found, key=lambda x: (x.evaluator, x.num_threads)):
        of_group = list(group)
        ratios, inside = sorted(each.ratio for each in of_group), sum(each.is_near for each in of_group)
        spread = f"{statistics.median(ratios):.2f} | {ratios[0]:.2f} | {ratios[-1]:.2f}"
        lines.append(f"| {evaluator} | {num_threads} | {len(ratios)} | {inside} | {spread} |")
    lines += ["", "| further off | evaluator | threads | predicted, ms | measured, ms |", "|---|---|---|---|---|"]
    for each in sorted(found, key=lambda x: x.ratio):
        if not each.is_near:
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
    draw = np.random.default_rng(1)
    for _ in range(NUM_DRAWN):
        yield _drawn(draw)


def _drawn(draw: np.random.Generator) -> tuple[str, Function, Orderings, Ragged]:
    """Returns a random case: up to 256 sets of about 200 elements or fewer, equal or not, and 4 to 128 features."""
    mean, d, H = (_log_uniform(draw, low, high) for low, high in ((2, 200), (4, 128), (8, 128)))
    num_sets = _log_uniform(draw, 1, max(2, min(256, 10_000 // mean)))
    is_equal = draw.random() < 0.5
    sizes = [mean] * num_sets if is_equal else draw.integers(1, 2 * mean, num_sets).tolist()
    sets = Ragged.from_sizes(torch.randn(sum(sizes), d, requires_grad=True), sizes)
    named = f"{DRAWN}B={num_sets} n={mean if is_equal else f'1…{2 * mean - 1}'} d={d}"
    if draw.random() < 0.3:
        f = (GRU, LSTM)[draw.integers(2)](d, H)
        orderings = (Canonical(), Sampled(_log_uniform(draw, 1, 8), seed=0))[draw.integers(2)]
        return f"{named} {type(f).__name__}({d}, {H}) {orderings}", f, orderings, sets
    k, activation = int(draw.integers(1, 4)), str(draw.choice(["tanh", "relu", "gelu", "silu"]))
    hidden = (H,) * int(draw.integers(1, 3))
    return f"{named} H={hidden} k={k} {activation}", TupleMLP(k, d, hidden, activation=activation), Tuples(k), sets


def _log_uniform(draw: np.random.Generator, low: int, high: int) -> int:
    return int(np.exp(draw.uniform(np.log(low), np.log(high))))


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
