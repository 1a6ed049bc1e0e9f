"""Designs of permutations that are sampled together, with the smallest variance of the mean, by simulated annealing.

    python -m studies.experiments.sampling.designs

Writes src/janossy/orderings/designs.json: for each number of elements up to 16, designs of several sizes. The scheme
"designed" names the elements at random, which makes each permutation uniform. A design decides only how the
permutations of one sample relate to each other.

A design suits networks for which the covariance of f(h_π) and f(h_π′) is a mixture of the components below. It is a
function of the permutation that leads from π to π′. ``studies.experiments.sampling.covariance`` fits the components'
shares to trained GRUs and LSTMs. The variance of a design's mean is then the squared length of its mean feature vector.
"""

import argparse
import json
from pathlib import Path

import numba
import numpy as np

SHARES = {
    "which of two elements comes first": 0.368,
    "distance of two elements": 0.035,
    "product of two elements' places": 0.031,
    "two elements among the last three": 0.026,
    "place, degree 2": 0.118,
    "place, degree 3": 0.057,
    "place, degree 4": 0.010,
    "place": 0.017,
    "the last two elements": 0.227,
    "direct neighbours": 0.027,
    "next but one": 0.019,
}
"""The shares of the variance over permutations: rounded means of what ``covariance`` finds for seeds 0 and 1."""

MAX_ELEMENTS = 16
SIZES = (4, 6, 8, 10, 12, 16, 20, 32)
FILE = Path(__file__).parents[3] / "src" / "janossy" / "orderings" / "designs.json"


def bounds(n: int) -> np.ndarray:
    """Returns the bounds of each component's features."""
    return np.cumsum([0] + [n * (n - 1) // 2] * 4 + [n] * 3 + [n * n] * 4)


def positions(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns orthonormal polynomials of the place (n, 5), and four functions (n, n) of two places.

    Polynomials are 0 if n is too small. Each function has mean 0 and sum of squares 1 over pairs of places.
    """
    t = np.linspace(-1, 1, n)
    polynomials = np.zeros((n, 5))
    polynomials[:, : min(n, 5)] = np.linalg.qr(t[:, None] ** np.arange(min(n, 5)))[0]
    i, j = np.indices((n, n))
    late = (np.minimum(i, j) >= n - 3).astype(float)
    pairs = [np.sign(j - i), abs(i - j), polynomials[i, 1] * polynomials[j, 1], late]
    above = np.triu_indices(n, 1)
    scaled = []
    for f in pairs:
        f = f - (0 if f is pairs[0] else f[above].mean() if n > 1 else 0)
        scaled.append(f / max(np.sqrt((f[above] ** 2).sum()), 1e-9))
    return polynomials, np.array(scaled)


@numba.njit(cache=True)
def features(order, polynomials, pairs, starts, shares, out):
    """Writes the features of one order of n elements. Their inner products are the covariance of two orders."""
    n = len(order)
    place = np.empty(n, np.int64)
    for j in range(n):
        place[order[j]] = j
    c = 0
    for a in range(n):
        for b in range(a + 1, n):
            for p in range(4):
                out[starts[p] + c] = np.sqrt(shares[p]) * pairs[p, place[a], place[b]]
            c += 1
    few = max(1, n * (n - 1))
    for a in range(n):
        for p in range(3):
            out[starts[4 + p] + a] = np.sqrt(shares[4 + p]) * polynomials[place[a], 2 + p]
        for b in range(n):
            c = a * n + b
            behind = place[b] - place[a]
            out[starts[7] + c] = np.sqrt(shares[7] / max(1, n - 1)) * ((place[a] == b) - 1 / n)
            last = (place[a] == n - 2 and place[b] == n - 1) - 1 / few
            next_one = (behind == 1) - 1 / n
            next_but_one = (behind == 2) - (n - 2) / few
            inside = a != b
            out[starts[8] + c] = np.sqrt(shares[8] / max(1e-9, 1 - 1 / few)) * last * inside
            out[starts[9] + c] = np.sqrt(shares[9] / max(1e-9, (n - 1) * (1 - 1 / n))) * next_one * inside
            out[starts[10] + c] = np.sqrt(shares[10] / max(1, n - 2)) * next_but_one * inside


@numba.njit(cache=True)
def anneal(rows, polynomials, pairs, starts, shares, steps, seed):
    """Exchanges two elements of a row at a time, to reduce the length of the sum of all rows' features."""
    np.random.seed(seed)
    m, n = rows.shape
    vectors = np.zeros((m, starts[-1]))
    for r in range(m):
        features(rows[r], polynomials, pairs, starts, shares, vectors[r])
    total = vectors.sum(0)
    length = (total * total).sum()
    best, best_rows = length, rows.copy()
    change = np.zeros(starts[-1])
    for step in range(steps):
        temperature = 0.3 * (1 - step / steps) ** 2
        r, i, j = np.random.randint(m), np.random.randint(n), np.random.randint(n)
        if i == j:
            continue
        rows[r, i], rows[r, j] = rows[r, j], rows[r, i]
        features(rows[r], polynomials, pairs, starts, shares, change)
        longer = 0.0
        for c in range(len(change)):
            change[c] -= vectors[r, c]
            longer += change[c] * (2 * total[c] + change[c])
        if longer < 0 or np.random.random() < np.exp(-longer / max(temperature, 1e-12)):
            for c in range(len(change)):
                total[c] += change[c]
                vectors[r, c] += change[c]
            length += longer
            if length < best - 1e-12:
                best = length
                best_rows[:] = rows
        else:
            rows[r, i], rows[r, j] = rows[r, j], rows[r, i]
    return best_rows


def vectors_of(rows: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Returns the features of permutations (m, n)."""
    n = rows.shape[1]
    polynomials, pairs = positions(n)
    found = np.zeros((len(rows), bounds(n)[-1]))
    for row, vector in zip(rows, found, strict=True):
        features(row, polynomials, pairs, bounds(n), shares, vector)
    return found


def design(n: int, size: int, steps: int, seed: int) -> np.ndarray:
    """Returns permutations (size, n), ordered so that the means of the first few of them also vary little."""
    shares = np.array(list(SHARES.values()))
    rng = np.random.default_rng((seed, n, size))
    start = np.argsort(rng.random((size, n)), axis=1)
    rows = anneal(start, *positions(n), bounds(n), shares, steps, int(rng.integers(2**31)))
    gram = (vectors := vectors_of(rows, shares)) @ vectors.T
    chosen = [0]
    while len(chosen) < size:
        left = [r for r in range(size) if r not in chosen]
        chosen.append(min(left, key=lambda r: gram[r, chosen].sum()))
    return np.argsort(rows[chosen[0]])[rows[chosen]]  # the first one is the identity


def variance(rows: np.ndarray) -> float:
    """Returns the variance of the mean of f over these rows, relative to independent rows.

    The unexplained share is not included.
    """
    total = vectors_of(rows, np.array(list(SHARES.values()))).sum(0)
    return float(total @ total) / len(rows)


def main() -> None:
    """Finds all designs, each the best of several annealing runs, and writes them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    designs = {}
    for n in range(2, MAX_ELEMENTS + 1):
        found = [min((design(n, m, options.steps, s) for s in range(options.runs)), key=variance) for m in SIZES]
        print(n, *(f"{m}: {variance(rows):.3f}" for m, rows in zip(SIZES, found, strict=True)), flush=True)
        designs[n] = {len(rows): " ".join("".join(f"{x:x}" for x in row) for row in rows) for rows in found}
    FILE.write_text(json.dumps(designs, indent=0) + "\n")


if __name__ == "__main__":
    main()
