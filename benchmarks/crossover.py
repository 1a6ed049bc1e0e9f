"""Time against set size for enumeration, ``fused`` and ``spectral``, and the size from which each is the fastest.

``python -m benchmarks.crossover`` writes results/crossover.json and docs/crossover.png. One set, H = 32 tanh units,
forward and backward, float32. Each curve ends where a pass takes more than two seconds, or too much memory.
"""

import argparse
import gc
import json
import statistics
import time
from math import perm
from pathlib import Path

import torch

from benchmarks.harness import backward
from janossy import JanossyPooling, Ragged, Spectral, TupleMLP, Tuples
from janossy.evaluate import Fused, Gather
from studies.experiments.record import about_here

SIZES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
EVALUATORS = {"gather (enumeration)": Gather(), "fused": Fused(), "spectral": Spectral(enumerate_up_to=0)}
D, H = 16, 32
LIMIT_SECONDS = 2.0
MAX_GATHERED = 3e6
"""The number of rows above which enumeration is not tried, because it needs gigabytes."""
RESULTS = Path(__file__).parent / "results" / "crossover.json"
PLOT = Path(__file__).parents[1] / "docs" / "crossover.png"


def curve(k: int, evaluator) -> dict[int, float]:
    """Returns the median milliseconds by n."""
    times: dict[int, float] = {}
    pooling = JanossyPooling(TupleMLP(k, D, H), Tuples(k, max_rows=10**9), evaluate=evaluator)
    for n in SIZES:
        if n < k or (isinstance(evaluator, Gather) and perm(n, k) > MAX_GATHERED):
            continue
        sets = Ragged.from_sizes(torch.randn(n, D, requires_grad=True), [n])
        backward(pooling(sets))
        spent: list[float] = []
        while len(spent) < 5 or (sum(spent) < 0.3 and len(spent) < 200):
            start = time.perf_counter()
            backward(pooling(sets))
            spent.append(time.perf_counter() - start)
            if sum(spent) > 5 * LIMIT_SECONDS:
                break
        times[n] = 1e3 * statistics.median(spent)
        gc.collect()
        if times[n] > 1e3 * LIMIT_SECONDS:
            break
        if isinstance(evaluator, Fused) and perm(2 * n, k) * H / 2e9 > LIMIT_SECONDS:
            break
    return times


def crossover(fused: dict[int, float], spectral: dict[int, float]) -> float | None:
    """Returns the n from which spectral is faster, between two measured sizes on logarithmic axes."""
    common = sorted(set(fused) & set(spectral))
    ratios = [fused[n] / spectral[n] for n in common]
    for a, b, low, high in zip(common[:-1], common[1:], ratios[:-1], ratios[1:], strict=True):
        if low <= 1 < high and all(r > 1 for n, r in zip(common, ratios, strict=True) if n >= b):
            share = -torch.tensor(low).log() / (torch.tensor(high).log() - torch.tensor(low).log())
            return float(a * (b / a) ** share)
    return None


def draw(data: dict, path: Path) -> None:
    """Draws the curves on logarithmic axes, with one panel per k."""
    import matplotlib.pyplot as plt  # noqa: PLC0415, needed for the picture only

    figure, axes = plt.subplots(1, len(data["curves"]), figsize=(11, 3.8), sharey=True, layout="constrained")
    colours = {"gather (enumeration)": "#9a9a9a", "fused": "#2f6fb0", "spectral": "#c8552b"}
    for axis, (k, curves) in zip(axes, data["curves"].items(), strict=True):
        for name, times in curves.items():
            n, milliseconds = [int(size) for size in times], list(times.values())
            axis.loglog(n, milliseconds, marker="o", markersize=3, label=name, color=colours[name])
        if data["crossovers"][k]:
            axis.axvline(data["crossovers"][k], color="#444444", linewidth=0.8, linestyle=":")
        axis.set(title=f"k = {k}", xlabel="n, elements of the set", xlim=(3, 1.5e5))
        axis.grid(True, which="major", alpha=0.3)
    axes[0].set_ylabel("milliseconds, forward and backward")
    axes[0].legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measures the curves for k = 2, 3, 4, saves them, and draws them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crossover", description=__doc__)
    parser.add_argument("--draw", action="store_true", help="only draw the committed measurements again")
    if not parser.parse_args().draw:
        torch.manual_seed(0)
        curves = {str(k): {name: curve(k, evaluator) for name, evaluator in EVALUATORS.items()} for k in (2, 3, 4)}
        crossovers = {k: crossover(each["fused"], each["spectral"]) for k, each in curves.items()}
        data = {"about": __doc__, "command": "python -m benchmarks.crossover", **about_here()}
        RESULTS.write_text(json.dumps({**data, "curves": curves, "crossovers": crossovers}, indent=1) + "\n")
    data = json.loads(RESULTS.read_text())
    draw(data, PLOT)
    print(data["crossovers"])


if __name__ == "__main__":
    main()
