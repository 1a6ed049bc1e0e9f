"""The rates of ``auto`` on a GPU, fitted to its benchmark's cases: ``python -m benchmarks.run auto --device cuda``."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.optimize import nnls

from benchmarks.auto import Case, cases, run
from benchmarks.cuda import timed
from janossy import JanossyPooling
from janossy.evaluate import Evaluator
from janossy.evaluate.cost import Cost, Rates
from janossy.evaluate.gpu import gpu_of

PARTS = {
    "flops": "flops_per_second",
    "bytes": "bytes_per_second",
    "activations": "activations_per_second",
    "launches": "launch",
}
"""The parts that take time, with the rate of each."""


def print_rates(device: str) -> None:
    """Times every case by every evaluator that applies, and prints each evaluator's rates beside the expected ones."""

    def milliseconds(case: Case, evaluator: Evaluator) -> float:
        layer = JanossyPooling(case.f, case.orderings, evaluate=evaluator)
        return timed(lambda: run(layer, case))

    torch.manual_seed(0)
    found = measured(device, milliseconds)
    print(f"{gpu_of(torch.device(device, torch.cuda.current_device()))}, torch {torch.__version__}")
    for name, (costs, seconds) in found.items():
        fitted, off = fit(costs, seconds)
        print(f"{name}: {fitted}, {len(costs)} cases, off by {off:.2f} times in the median; expected {costs[0].rates}")


def measured(
    device: str, milliseconds: Callable[[Case, Evaluator], float]
) -> dict[str, tuple[list[Cost], list[float]]]:
    """Returns the expected costs of each evaluator in the cases to which it applies, with their seconds."""
    found: dict[str, tuple[list[Cost], list[float]]] = defaultdict(lambda: ([], []))
    for case in cases(device):
        for candidate in case.candidates():
            assert candidate.cost is not None
            costs, seconds = found[candidate.evaluator.name]
            costs.append(candidate.cost)
            seconds.append(milliseconds(case, candidate.evaluator) / 1e3)
    return found


def fit(costs: Sequence[Cost], seconds: Sequence[float]) -> tuple[Rates, float]:
    """Returns the rates >= 0 with the least relative error for these times, and their median factor of error."""
    parts = np.array([[*(getattr(cost, part) for part in PARTS), 1.0] for cost in costs]) / np.array(seconds)[:, None]
    scale = np.maximum(parts.max(0), 1e-300)
    each = nnls(parts / scale, np.ones(len(costs)))[0] / scale
    per_second = {rate: 1 / x if x > 0 else float("inf") for rate, x in zip(PARTS.values(), each, strict=False)}
    rates = Rates(**per_second | {"launch": float(each[3]), "overhead": float(each[4])})
    return rates, float(np.exp(np.median(np.abs(np.log(np.maximum(parts @ each, 1e-9))))))
