"""Sets larger than in training: ``"auto"`` with and without its choice for them, beside a random forest.

    python -m studies.experiments.sets.larger_sets   about half an hour of a core

Sets are generated. Training has 1 to 12 elements, the test 30. Writes docs/results/sets/larger_sets.md.
"""

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import torch
from scipy.special import comb
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline

from janossy.estimators import SetRegressor, SetStatistics
from janossy.estimators.interrupts import time_by
from janossy.estimators.trials import OF_LARGER
from studies.experiments import markdown

NUM_TRAINING, NUM_TEST = 2_000, 500
MOST, LARGER = 12, 30
SEEDS = 3
SECONDS = 60.0
RANKS = 13


@dataclass(frozen=True)
class Target:
    """A number to learn of each set, of ranks of cards or of points of a plane."""

    name: str
    of: Callable[[np.ndarray], float]
    are_ranks: bool = False

    def sets(self, sizes: np.ndarray, source: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
        """Returns sets of these sizes, with their targets."""
        if self.are_ranks:
            sets = [source.integers(0, RANKS, (n, 1)) for n in sizes]
        else:
            sets = [source.normal(size=(n, 2)) for n in sizes]
        return sets, np.array([self.of(x) for x in sets], dtype=float)


def _alike(k: int) -> Callable[[np.ndarray], float]:
    return lambda ranks: float(comb(np.bincount(ranks[:, 0], minlength=RANKS), k).sum())


def _distances(points: np.ndarray) -> np.ndarray:
    return np.linalg.norm(points[:, None] - points, axis=2)[np.triu_indices(len(points), 1)]


TARGETS = (
    Target("the sum of a coordinate's size", lambda x: np.abs(x[:, 0]).sum()),
    Target("pairs of one rank", _alike(2), True),
    Target("pairs of points closer than 1", lambda x: (_distances(x) < 1).sum()),
    Target("the sum of all distances", lambda x: _distances(x).sum()),
    Target("triples of one rank", _alike(3), True),
    Target("different ranks", lambda ranks: len(np.unique(ranks)), True),
    Target("the mean of a coordinate's size", lambda x: np.abs(x[:, 0]).mean()),
)


def scores(target: Target, seed: int) -> tuple[list[float], str, float]:
    """Returns R² of the forest, of the average of ``"auto"``, and of ``"auto"`` on large sets, then of the last two on
    sets as large as in training. With them, what predicts large sets, and the CPU seconds of ``"auto"``.
    """
    source = np.random.default_rng(seed)
    (sets, y), (alike, y_alike) = (
        target.sets(source.integers(1, MOST, num, endpoint=True), source) for num in (NUM_TRAINING, NUM_TEST)
    )
    large, y_large = target.sets(np.full(NUM_TEST, LARGER), source)
    categorical = ["x0"] if target.are_ranks else []
    forest = make_pipeline(SetStatistics(categorical=categorical), RandomForestRegressor(300, random_state=seed))
    forest.fit(sets, y)
    began = time.process_time()
    with time_by(time.process_time):
        auto = SetRegressor(categorical=categorical, time_budget=SECONDS, random_state=seed).fit(sets, y)
    seconds = time.process_time() - began
    average = copy(auto)
    average.ensemble_ = replace(auto.ensemble_, larger=None)
    found = [r2_score(y_large, model.predict(large)) for model in (forest, average, auto)]
    found += [r2_score(y_alike, auto.predict(alike))]
    chosen = [trial.strategy for trial in auto.trials_ if trial.note == OF_LARGER]
    return found, "".join(chosen) or "the average", seconds


def row(target: Target, of_seeds: list[tuple[list[float], str, float]]) -> list[str]:
    """Returns the cells of a target's row: means over seeds, with standard errors."""
    of_each = zip(*(found for found, _, _ in of_seeds), strict=True)
    cells = [f"{fmean(each):.3f} ({stdev(each) / len(each) ** 0.5:.3f})" for each in of_each]
    chosen = [chosen for _, chosen, _ in of_seeds]
    counts = ", ".join(f"{name} {chosen.count(name)}" for name in sorted(set(chosen), key=chosen.index))
    return [target.name, *cells, counts, f"{max(seconds for _, _, seconds in of_seeds):.0f}"]


def page(rows: list[list[str]]) -> str:
    """Returns the rows as a page in Markdown."""
    columns = ["target", "forest", "average of auto", "auto", f"auto, 1 to {MOST}", "chosen by seeds", "CPU seconds"]
    return "\n".join(
        [
            "# Sets larger than in training",
            "",
            f"R² on {NUM_TEST} sets of {LARGER} elements, and of 1 to {MOST} in the fifth column. Training has"
            f" {NUM_TRAINING:,} sets of 1 to {MOST} elements.",
            f"Means over {SEEDS} seeds, with standard errors. Sets are generated: ranks of cards, or normal points of a"
            " plane.",
            "The average is that of `auto` without its choice for larger sets. The forest has 300 trees, on the same",
            f"statistics. `auto` has {SECONDS:.0f} CPU seconds; the last column is the most that a seed took.",
            "",
            markdown.table(columns, rows),
            "`python -m studies.experiments.sets.larger_sets`",
            "",
        ]
    )


def main() -> None:
    """Fits the models to each target, and writes the page."""
    torch.set_num_threads(1)
    rows = []
    for target in TARGETS:
        rows.append(row(target, [scores(target, seed) for seed in range(SEEDS)]))
        print(*rows[-1], flush=True)
    Path("docs/results/sets/larger_sets.md").write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
