"""The sensitivity of a trained recurrence to parts of an order: the model for which the designs are made.

    python -m studies.experiments.sampling.covariance

The networks are GRUs and LSTMs of range and variance, seeds 0 and 1. y_π is the output minus its mean over
permutations. E[y_π·y_π′] is regressed on the kernels of the components of ``studies.experiments.sampling.designs``,
each 1 at π = π′. Coefficients are not negative. Writes covariance.json and covariance.md.

The designs were made for ``SHARES``: means over these networks of an earlier fit. Its components also had "first two"
and "neighbours in either order" (0.00 and 0.01 of the variance).
"""

import numpy as np
import torch
from scipy.optimize import nnls

from janossy import Sampled
from janossy.orderings.drawn import Drawn
from studies.experiments import markdown
from studies.experiments.record import Record
from studies.experiments.sampling.designs import SHARES, bounds, vectors_of
from studies.experiments.sampling.networks import ARITHMETIC, FUNCTIONS, Trained, load, parser

NUM_SETS, NUM_PERMUTATIONS, NUM_PAIRS = 200, 200, 60


@torch.no_grad()
def shares(trained: Trained) -> dict[str, float]:
    """Returns each component's share of the variance over permutations, and what the model leaves unexplained."""
    torch.manual_seed(4)
    sets, n = trained.sets, trained.sets.sizes[0]
    rows = Sampled(NUM_PERMUTATIONS, scheme="independent").enumerate(sets)
    outputs = trained.network.rows(sets, orderings=Drawn(rows, sets.sizes)).values
    y = outputs.unflatten(0, (NUM_SETS, -1)).double().numpy()[:, :, 0]
    y = y - y.mean(1, keepdims=True)
    y = y / (y.var() * NUM_PERMUTATIONS / (NUM_PERMUTATIONS - 1)) ** 0.5
    orders = rows.buckets[0].local.numpy()
    gram, right = np.zeros((len(SHARES), len(SHARES))), np.zeros(len(SHARES))
    starts = bounds(n)
    for some_orders, some_y in zip(orders, y, strict=True):
        vectors = vectors_of(some_orders, np.ones(len(SHARES)))
        for shift in range(1, NUM_PAIRS + 1):
            products = vectors * np.roll(vectors, shift, axis=0)
            kernels = np.add.reduceat(products, starts[:-1], axis=1)
            gram += kernels.T @ kernels
            # Minus their own mean, m outputs of one set correlate by -1 / (m - 1).
            right += kernels.T @ (some_y * np.roll(some_y, shift) + 1 / (NUM_PERMUTATIONS - 1))
    root = np.linalg.cholesky(gram + 1e-9 * np.trace(gram) * np.eye(len(gram)))
    found, _ = nnls(root.T, np.linalg.solve(root, right))
    return dict(zip(SHARES, found.round(4).tolist(), strict=True)) | {"unexplained": round(1 - found.sum(), 4)}


def table(cells: list[dict]) -> str:
    """Returns the shares of each network, their mean, and those for which the designs were made."""
    names = [f"{c['task']} {c['function'].upper()} {c['seed']}" for c in cells]
    rows = []
    for component in cells[0]["shares"]:
        row = [c["shares"][component] for c in cells]
        design = SHARES.get(component, 1 - sum(SHARES.values()))
        rows.append([component, *(f"{x:.2f}" for x in [*row, np.mean(row), design])])
    return markdown.table(["component", *names, "mean", "designs"], rows)


def main() -> None:
    """Fits the missing cells, and writes the table."""
    options = parser(__doc__).parse_args()
    record = Record(options.out / "covariance.json", "python -m studies.experiments.sampling.covariance")
    for task in ARITHMETIC:
        for function in FUNCTIONS:
            for seed in (0, 1):
                key = {"task": task, "function": function, "seed": seed}
                if not record.holds(key):
                    trained = load(task, function, seed, NUM_SETS, options.networks, options.data)
                    record.add({**key, "shares": shares(trained)})
    (options.out / "covariance.md").write_text(table(record.cells))


if __name__ == "__main__":
    main()
