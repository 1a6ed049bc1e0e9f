"""The value of forms of numbers: superconductors, whose elements are fractions of a formula, in each form of amounts.

    python -m studies.experiments.sets.amounts FOLDER   minutes on one core

FOLDER holds train.parquet and test.parquet of SuperCon (Stanev et al., 2018): one row per element of a material, with
its fraction, and the critical temperature. Writes docs/results/sets/amounts.md.
"""

import argparse
import warnings
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import torch
from pyarrow import parquet

from janossy.estimators import SetRegressor
from janossy.estimators.strategies import AMOUNTS
from janossy.tables import as_sets
from studies.experiments import markdown

SEEDS = (0, 1, 2)
NUM_SETS = 3_000
"""The number of training materials. The test has all materials that the source left out."""

EPOCHS = 40


def measured(folder: Path) -> dict[str, list[float]]:
    """Returns the R² on the test sets for each form and seed."""
    (train, targets), (test, wanted) = (
        as_sets(parquet.read_table(folder / f"{part}.parquet"), "Tc", set_id="material", drop="formula")
        for part in ("train", "test")
    )
    chosen = np.random.default_rng(0).permutation(len(train))[:NUM_SETS]
    found: dict[str, list[float]] = {amounts: [] for amounts in AMOUNTS}
    for amounts, scores in found.items():
        for seed in SEEDS:
            strategy = {"strategy": "k1", "amounts": amounts}
            model = SetRegressor(strategy, max_epochs=EPOCHS, validation=0.15, random_state=seed)
            scores.append(model.fit(train[chosen], targets[chosen]).score(test, wanted))
    return found


def page(found: Mapping[str, list[float]]) -> str:
    """Returns the table as Markdown."""
    rows = [
        [name, f"{mean(x):.3f}", f"{stdev(x):.3f}", f"{mean(x) - mean(found['raw']):+.3f}"] for name, x in found.items()
    ]
    return "\n".join(
        [
            "# Forms of numbers",
            "",
            f"R² of critical temperatures on the test sets of SuperCon, by `k1` from {NUM_SETS:,} materials,",
            f"{EPOCHS} epochs, {len(SEEDS)} seeds, all in one run.",
            "An element of a set is a chemical one with its fraction.",
            "",
            markdown.table(["amounts", "R²", "standard deviation over seeds", "beside raw"], rows),
            "`python -m studies.experiments.sets.amounts FOLDER`",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # about elements that training lacks
    found = measured(parser.parse_args().folder)
    Path("docs/results/sets/amounts.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
