"""Theorem 2.1: the product that k-ary pooling with a linear ρ fits, and (k−1)-ary pooling cannot.

    python -m studies.experiments.theory.staircase [--seeds 2]

Elements are uniform on [0, 2]. The target of a set of n is the mean of the products over its k-tuples. The part of it
that (k−1)-ary poolings cannot fit is known (``least_error``), whatever their f. Writes staircase.json, .md and .png;
resumes an interrupted run.
"""

import argparse
import time
from itertools import product
from math import comb
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from janossy import JanossyNetwork, JanossyPooling, Ragged, TupleProduct, Tuples
from studies.experiments import markdown
from studies.experiments.record import Record

COMMAND = "python -m studies.experiments.theory.staircase"
KS = (1, 2, 3, 4)
SIZE = 6
"""The size of the larger sets. The proof's sets have k elements."""
LOW, HIGH = 0.0, 2.0
RANK, BATCH, STEPS, RATE = 32, 256, 1000, 1e-2
NUM_NODES = 5


def target(x: Tensor, k: int) -> Tensor:
    """Returns the mean of Π_j x_{i_j} over the k-tuples of each set (B, n), exactly, by a product of the library."""
    products = TupleProduct(k, 1, 1, g=[nn.Identity() for _ in range(k)]).to(x.dtype)
    return JanossyPooling(products, Tuples(k), evaluate="permanent")(Ragged.from_padded(x[..., None]))


def least_error(k: int, n: int) -> float:
    """Returns the least mean squared error of any (k−1)-ary pooling with linear ρ: σ^{2k} / C(n, k).

    Write x = μ + z. In the mean of products, the terms in fewer than k of the z are (k−1)-ary. The mean of Π_j z_{i_j}
    over tuples is orthogonal to every function of k − 1 elements, and so to their means. Its second moment is the
    error.
    """
    return ((HIGH - LOW) ** 2 / 12) ** k / comb(n, k)


def variance(k: int, n: int) -> float:
    """Returns the target's variance: σ^{2j} μ^{2(k−j)} C(k, j)² / C(n, j) for the terms in j of the z."""
    sigma, mu = (HIGH - LOW) ** 2 / 12, (HIGH + LOW) / 2
    return sum(comb(k, j) ** 2 / comb(n, j) * sigma**j * mu ** (2 * (k - j)) for j in range(1, k + 1))


class Constant(nn.Module):
    """0-ary pooling: the same output for every set."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(1))

    def forward(self, sets: Ragged) -> Tensor:
        return self.value.expand(len(sets), 1)


def network(arity: int, rho: str) -> nn.Module:
    """Returns ρ of the mean of products of linear factors, over all tuples of ``arity`` elements.

    These networks contain the target for k elements, and its best approximation for k − 1: a polynomial of that degree.
    """
    if arity == 0:
        return Constant()
    readout = nn.Linear(RANK, 1) if rho == "linear" else nn.Sequential(nn.Linear(RANK, 64), nn.Tanh(), nn.Linear(64, 1))
    return JanossyNetwork(None, JanossyPooling(TupleProduct(arity, 1, RANK), Tuples(arity)), readout)


def draw(num_sets: int, n: int, generator: torch.Generator) -> Tensor:
    return LOW + (HIGH - LOW) * torch.rand(num_sets, n, generator=generator)


def as_sets(x: Tensor) -> Ragged:
    return Ragged.from_padded(x[..., None] - (HIGH + LOW) / 2)


def nodes(n: int) -> tuple[Tensor, Tensor]:
    """Returns sets of n with weights, by which means over all sets are exact for polynomials (Gauss and Legendre).

    Random test sets would not suffice, because products have heavy tails.
    """
    points, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    of_sets = torch.tensor(list(product((points + 1) / 2 * (HIGH - LOW) + LOW, repeat=n)))
    return of_sets, torch.tensor(list(product(weights / 2, repeat=n))).prod(1)


def fit(k: int, n: int, arity: int, rho: str, seed: int, steps: int = STEPS) -> dict:
    """Returns the mean squared error over all sets of a network that is trained on new sets at every step."""
    start = time.perf_counter()
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    model = network(arity, rho)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        x = draw(BATCH, n, generator)
        optimizer.zero_grad()
        (model(as_sets(x)) - target(x, k)).square().mean().backward()
        optimizer.step()
        schedule.step()
    model = model.double()
    with torch.no_grad():
        x, weights = nodes(n)
        found = {"mse": ((model(as_sets(x)) - target(x, k))[:, 0].square() * weights).sum().item()}
        if n == k:
            found["alternating"] = alternating(model, k)
    return found | {"seconds": time.perf_counter() - start}


def alternating(model: nn.Module, k: int) -> float:
    """Returns Σ (−1)^{number of LOWs} y(c) over the corners c of {LOW, HIGH}^k, in float64.

    It is 0 for a sum of functions of k − 1 elements, and (HIGH − LOW)^k for the product. The largest error of such a
    sum at a corner is therefore at least ((HIGH − LOW)/2)^k. This is the quotient of the proof that cannot be 1, as a
    number.
    """
    corners = torch.tensor(list(product((LOW, HIGH), repeat=k)), dtype=torch.float64)
    signs = torch.where(corners == LOW, -1.0, 1.0).prod(1)
    values = model(as_sets(corners))[:, 0]
    return (signs * values).sum().item()


def cells(seeds: int) -> list[dict]:
    """Returns the keys of the fits."""
    found = []
    for seed, k in product(range(seeds), KS):
        for n in dict.fromkeys((k, SIZE)):
            for arity, rho in ((k, "linear"), (k - 1, "linear"), *([(k - 1, "mlp")] if k > 1 and n == SIZE else [])):
                found.append({"k": k, "n": n, "arity": arity, "rho": rho, "seed": seed})
    return found


def table(records: list[dict]) -> str:
    """Returns mean squared errors as means over seeds (smallest–largest)."""
    header = ["target", "sets of", "variance", "k-ary", "(k−1)-ary", "its least", "ratio", "(k−1)-ary, MLP as ρ"]
    rows = []
    for k in KS:
        for n in dict.fromkeys((k, SIZE)):

            def of(arity: int, rho: str, k: int = k, n: int = n) -> list[float]:
                wanted = {"k": k, "n": n, "arity": arity, "rho": rho}
                return [cell["mse"] for cell in records if wanted.items() <= cell.items()]

            lower = of(k - 1, "linear")
            least = least_error(k, n)
            row = [f"product of {k}", n, f"{variance(k, n):.3g}", _range(of(k, "linear")), _range(lower)]
            rows.append([*row, f"{least:.3g}", f"{sum(lower) / len(lower) / least:.3f}", _range(of(k - 1, "mlp"))])
    return markdown.table(header, rows, "|---|" + "---:|" * 7)


def alternating_table(records: list[dict]) -> str:
    """Returns the table of the proof's identity on the trained networks."""
    rows = []
    for k in KS:
        row = [[c["alternating"] for c in records if (c["k"], c["n"], c["arity"]) == (k, k, a)] for a in (k, k - 1)]
        largest = max(map(abs, row[1]))
        size = "0" if largest == 0 else f"at most {largest:.0e} in size"
        rows.append([k, f"{(HIGH - LOW) ** k:.0f}", f"{min(row[0]):.2f} to {max(row[0]):.2f}", size])
    return markdown.table(["k", "of the product", "k-ary", "(k−1)-ary"], rows, "|---:|---:|---:|---:|")


def _range(values: list[float]) -> str:
    if not values:
        return ""
    return f"{sum(values) / len(values):.2g} ({min(values):.2g}–{max(values):.2g})"


def plot(records: list[dict], path: Path) -> None:
    """Draws one panel for sets of k elements and one for sets of six."""
    import matplotlib.pyplot as plt  # noqa: PLC0415, needed for the picture only

    figure, panels = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
    kinds = (
        ("k-ary, linear ρ", 0, "linear", "#2b83c6", "o", -0.08),
        ("(k−1)-ary, linear ρ", 1, "linear", "#d55e00", "s", 0.0),
        ("(k−1)-ary, MLP as ρ", 1, "mlp", "#009e73", "^", 0.08),
    )
    for panel, (title, size) in zip(panels, (("sets of k elements", None), (f"sets of {SIZE}", SIZE)), strict=True):
        least = [least_error(k, size or k) for k in KS]
        panel.plot(KS, least, color="#d55e00", label="least error of (k−1)-ary, by the proof", linewidth=1.2)
        panel.plot(
            KS, [variance(k, size or k) for k in KS], color="#8a8f98", linestyle=":", label="variance of the target"
        )
        for name, lower, rho, colour, marker, shift in kinds:
            some = [
                c for c in records if c["n"] == (size or c["k"]) and c["arity"] == c["k"] - lower and c["rho"] == rho
            ]
            if some:
                panel.scatter(
                    [c["k"] + shift for c in some], [c["mse"] for c in some], s=26, color=colour, marker=marker,
                    label=name, zorder=3,
                )  # fmt: skip
        panel.set(title=f"Products of k, {title}", xlabel="k", yscale="log", xticks=KS)
        panel.grid(True, axis="y", color="#e6e8eb")
    panels[0].set_ylabel("mean squared error")
    panels[1].legend(fontsize=8.5, frameon=False)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    """Fits the missing cells, and writes table and figure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs/results/theory"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = Record(options.out / "staircase.json", COMMAND)
    for key in cells(options.seeds):
        if not record.holds(key):
            record.add({**key, **fit(**key)})
            print(record.cells[-1], flush=True)
    (options.out / "staircase.md").write_text(table(record.cells) + "\n" + alternating_table(record.cells))
    plot(record.cells, options.out / "staircase.png")


if __name__ == "__main__":
    main()
