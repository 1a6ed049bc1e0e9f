"""The gain and harm of importance sampling of elements: its variance against that of uniform sampling.

    python -m studies.experiments.sampling.importance [--data ../shared/data] [--out docs/results/sampling]

Writes ``importance.json`` and ``.md``. Variances are exact, over all tuples of k elements of each set. As a check, the
same ratio is then measured through ``JanossyPooling`` with ``ImportanceSampled``. Less than a minute.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import permutations
from pathlib import Path

import torch
from torch import Tensor, nn

from janossy import JanossyPooling, Ragged, TupleMLP, TupleProduct, Tuples
from janossy.orderings.importance import ImportanceSampled, norm, squared_norm
from studies.experiments import markdown
from studies.experiments.sampling.networks import PPI

NUM_SETS = 60
NUM_CALLS = 100
NUM_ROWS = 10
"""The rows of each set in each measured call. Variances are inversely proportional to this number."""

SIZES = {1: 50, 2: 20, 3: 10}
PPI_DEGREES = {1: (30, 100), 2: (15, 25)}
OUT_FEATURES = 30


@dataclass(frozen=True)
class Result:
    """The variance of one row's value, ImportanceSampled over uniform, for each set, and the measured ratio."""

    k: int
    elements: str
    f: str
    weights: str
    uniform: float
    median: float
    tenth: float
    ninetieth: float
    worse: float
    """The share of the sets whose variance rises."""
    median_without_replacement: float
    """The median ratio to uniform rows without common elements that together hold about half of the set."""
    mean: float
    measured: float
    standard_error: float
    num_rows: int


def gaussian(n: int) -> Tensor:
    """Samples standard normal features."""
    return torch.randn(n, 4)


def lognormal(n: int) -> Tensor:
    """Samples features with the directions of ``gaussian``, and norms times exp(1.5 z)."""
    return torch.randn(n, 4) * (1.5 * torch.randn(n, 1)).exp()


def draw(elements: str, k: int, data: Path) -> Ragged:
    """Returns the sets, in float64."""
    torch.manual_seed(0)
    if elements == "PPI-GO":
        graph = PPI(data)
        low, high = PPI_DEGREES[k]
        degrees = graph.offsets.diff()[graph.test]
        vertices = graph.test[(degrees >= low) & (degrees <= high)]
        vertices = vertices[torch.randperm(len(vertices))[:NUM_SETS]]
        neighbours = graph.neighbourhoods(vertices)
        return neighbours.with_values(neighbours.values[:, :50].double())
    make = {"gaussian": gaussian, "lognormal": lognormal}[elements]
    return Ragged.from_sets([make(SIZES[k]) for _ in range(NUM_SETS)])


def function(name: str, k: int, in_features: int) -> nn.Module:
    """Returns the function of this name with initial weights."""
    torch.manual_seed(1)
    if name == "product":
        return TupleProduct(k, in_features, OUT_FEATURES, g=lambda j: nn.Linear(in_features, OUT_FEATURES, bias=False))
    if name == "linear":
        return nn.Sequential(nn.Flatten(), nn.Linear(k * in_features, OUT_FEATURES, bias=False))
    return TupleMLP(k, in_features, OUT_FEATURES, activation="tanh")


@cache
def tuples(n: int, k: int) -> Tensor:
    """Returns all orderings of k of n positions, (T, k)."""
    return torch.tensor(list(permutations(range(n), k)))


@cache
def disjoint(n: int, k: int) -> Tensor:
    """Returns weights of all pairs of tuples that are equal for pairs without a common element, and sum to 1."""
    chosen = torch.nn.functional.one_hot(tuples(n, k), n).sum(1).double()
    pairs = (chosen @ chosen.T == 0).double()
    return pairs / pairs.sum()


def variances(f: nn.Module, x: Tensor, orderings: ImportanceSampled) -> tuple[float, float, float]:
    """Returns E‖y − ȳ‖² of one row, uniform and importance-sampled, and the covariance of two disjoint rows."""
    n, k = len(x), orderings.k
    assert k is not None
    rows = tuples(n, k)
    y = f(x[rows])
    centred = y - y.mean(0)
    w = orderings.weights(x)
    q = ((1 - orderings.uniform) * w / w.sum() + orderings.uniform / n)[rows]
    probability = (q / (1 - q.cumsum(1) + q)).prod(1)
    importance = (y.square().sum(1) / probability).sum() / len(rows) ** 2 - y.mean(0).square().sum()
    covariance = (disjoint(n, k) @ centred * centred).sum()
    return centred.square().sum(1).mean().item(), importance.item(), covariance.item()


@torch.no_grad()
def compare(k: int, elements: str, name: str, sets: Ragged, weights: str, uniform: float, seed: int) -> Result:
    """Returns one row of the table."""
    f = function(name, k, sets.values.shape[1])
    orderings = ImportanceSampled(NUM_ROWS, k=k, weights=weights_named(weights, f), uniform=uniform)
    found = torch.tensor([variances(f, x, orderings) for x in sets])
    by_chance, by_importance, covariance = found.T
    ratios = by_importance / by_chance
    num_rows = torch.tensor([-(-n // (2 * k)) for n in sets.sizes])
    without = by_importance / (by_chance + (num_rows - 1) * covariance)
    exact = JanossyPooling(f, Tuples(k))(sets)
    pooling, generator = JanossyPooling(f, orderings), torch.Generator().manual_seed(seed)
    errors = torch.stack([(pooling(sets, generator=generator) - exact).square().sum(1) for _ in range(NUM_CALLS)])
    measured = (errors * NUM_ROWS / by_chance).mean(1)
    tenth, median, ninetieth = ratios.quantile(torch.tensor([0.1, 0.5, 0.9])).tolist()
    return Result(
        k,
        elements,
        name,
        weights,
        uniform,
        median,
        tenth,
        ninetieth,
        (ratios > 1).double().mean().item(),
        without.median().item(),
        ratios.mean().item(),
        measured.mean().item(),
        measured.std().item() / NUM_CALLS**0.5,
        NUM_CALLS * NUM_ROWS * len(sets),
    )


def weights_named(name: str, f: nn.Module) -> Callable[[Tensor], Tensor]:
    """Returns the weights of a row of the table."""
    given: dict[str, Callable[[Tensor], Tensor]] = {
        "‖h‖²": squared_norm,
        "‖h‖": norm,
        "1 + ‖h‖": lambda x: 1 + norm(x),
        "‖f(h)‖": lambda x: norm(f(x[:, None])),
    }
    return given[name]


def cases(data: Path) -> list[Result]:
    """Returns all rows of the table; those of PPI-GO only if its data exist."""
    results: list[Result] = []
    graph = ["PPI-GO"] if (data / "ppi" / "ppi.npz").exists() else []
    for k in SIZES:
        for elements in ["gaussian", "lognormal", *(graph if k in PPI_DEGREES else [])]:
            sets = draw(elements, k, data)
            for name in ("linear", "TupleMLP") if k == 1 else ("product", "TupleMLP"):
                chosen = [(weights, 0.1) for weights in ("‖h‖²", "‖h‖")]
                chosen += [("‖h‖²", 0.01), ("‖h‖", 0.01), ("‖f(h)‖", 0.0)] if k == 1 else [("1 + ‖h‖", 0.1)]
                results += [
                    compare(k, elements, name, sets, *choice, len(results) + i) for i, choice in enumerate(chosen)
                ]
    return results


def table(results: Sequence[Result]) -> str:
    """Returns the results as Markdown."""
    sizes = ", ".join(f"{n} (k = {k})" for k, n in SIZES.items())
    degrees = ", ".join(f"{low} to {high} (k = {k})" for k, (low, high) in PPI_DEGREES.items())
    lines = [
        "# Importance sampling of elements\n",
        "Variance of `ImportanceSampled` over that of as many uniform rows: below 1 it gains, above 1 it loses.",
        f"Exact, by all k-tuples: the median over {NUM_SETS} sets [10 to 90 %], and the share of sets where it loses.",
        "Uniform rows are drawn independently; without replacement, no two have a common element, and they hold about",
        "half of the set. Then the mean over the sets, exact, and measured through `JanossyPooling` ± one standard",
        f"error, from {NUM_CALLS * NUM_ROWS * NUM_SETS:,} rows each, {NUM_ROWS} a set and call. Where ratios are far",
        "above 1, few rows carry the variance: the measured ratio is then mostly too low, and so is its error.\n",
        f"Sets of {sizes} elements of 4 features; lognormal: directions as gaussian, norms",
        f"times exp(1.5 z). PPI-GO: the 50 features of each neighbour of a vertex, {degrees} of them.",
        f"f has {OUT_FEATURES} outputs and is untrained: linear in h, a product of k such, or TupleMLP with tanh and",
        "biases. The best weights for k = 1 are ‖f(h)‖, which need all of f.\n",
    ]
    header = ["k", "elements", "f", "weights", "uniform", "ratio", "loses, %", "without replacement", "mean ratio"]
    rows = []
    for r in results:
        name = [r.k, r.elements, r.f, r.weights, f"{r.uniform:g}"]
        exact = [f"{r.median:.2f} [{r.tenth:.2f}–{r.ninetieth:.2f}]", f"{100 * r.worse:.0f}"]
        means = [f"{r.mean:.3g}", f"{r.measured:.3g} ± {r.standard_error:.2g}"]
        rows.append([*name, *exact, f"{r.median_without_replacement:.2f}", *means])
    return "\n".join([*lines, markdown.table([*header, "measured"], rows, "|" + " --- |" * 10)])


def main() -> None:
    """Measures all cases, and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/results/sampling"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    start = time.perf_counter()
    results = cases(options.data)
    options.out.mkdir(parents=True, exist_ok=True)
    found = {"results": [asdict(result) for result in results], "seconds": time.perf_counter() - start}
    (options.out / "importance.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    (options.out / "importance.md").write_text(table(results), encoding="utf-8")


if __name__ == "__main__":
    main()
