"""The value of categories encoded by targets, beside bags of categories: generated baskets, and tables of a folder.

    python -m studies.experiments.sets.target_encoding FOLDER   about ten minutes of a core

FOLDER holds a folder per table, as for ``studies.experiments.anytime``; only training parts are read. A quarter of the
sets is the test. Writes docs/results/sets/target_encoding.md.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from janossy.estimators import SetClassifier, SetRegressor
from janossy.estimators.candidates import TARGETS
from janossy.estimators.classical import choosing
from janossy.tables import SetTable, as_sets
from studies.experiments import markdown
from studies.experiments.anytime.tables import read

TABLES = ("movies", "spam")
BASKETS = (
    ("mean", 50, False),
    ("mean", 500, False),
    ("mean", 500, True),
    ("mean", 5_000, False),
    ("user", 500, False),
)
"""Generated tables: the kind, the number of items or users, and True for two classes."""

NUM_SETS = 3_000
FOLDS = 3
BAGS: list[Any] = ["linear", {"strategy": "trees", "compact": True}]
ENCODED: list[Any] = [{"strategy": each.strategy, **each.settings} for each in TARGETS]
"""The learners of both averages, and those of the second one alone."""


def baskets(kind: str, num: int, is_class: bool) -> tuple[SetTable, np.ndarray]:
    """Returns sets of 3 to 20 items, the r-th of which is drawn with probability 1 / r up to a factor.

    The target is the mean of the items' effects, or the effect of the set's user, with noise of half its standard
    deviation; or two classes by a logistic function of it.
    """
    source = np.random.default_rng(0)
    num_items = 50 if kind == "user" else num
    share = 1 / np.arange(1, num_items + 1)
    items = [source.choice(num_items, n, p=share / share.sum()) for n in source.integers(3, 21, NUM_SETS)]
    effects = source.normal(size=num)
    table: dict[str, Any] = {"item": [[f"i{i}" for i in each] for each in items]}
    if kind == "user":
        users = source.integers(0, num, NUM_SETS)
        table["user"], y = [f"u{i}" for i in users], effects[users]
    else:
        y = np.array([effects[each].mean() for each in items])
    y = (y - y.mean()) / y.std()
    if is_class:
        return as_sets(table), np.where(source.random(NUM_SETS) < 1 / (1 + np.exp(-2.5 * y)), "yes", "no")
    return as_sets(table), y + 0.5 * source.normal(size=NUM_SETS)


def row(name: str, sets: SetTable, y: np.ndarray) -> list[str]:
    """Returns the cells of a table's row: scores out of fold of each learner, and on the test of both averages."""
    kind: Any = SetRegressor if y.dtype.kind == "f" else SetClassifier
    test = np.random.default_rng(0).permutation(len(y)) < len(y) // 4
    found, out_of_fold, seconds = [], [], []
    for strategy in (BAGS, [*BAGS, *ENCODED]):
        began = time.process_time()
        model = kind(strategy, validation=FOLDS, random_state=0).fit(sets[~test], y[~test])
        seconds.append(time.process_time() - began)
        found.append(model.score(sets[test], y[test]))
        out_of_fold = [f"{trial.score:.3f}" for trial in model.trials_]
    return [name, f"{len(y):,}", *out_of_fold, *(f"{score:.3f}" for score in found), f"{seconds[1] - seconds[0]:.1f}"]


def page(rows: list[list[str]]) -> str:
    """Returns the rows as a page in Markdown."""
    learners = ["linear", "trees", *(f"{each.strategy}, targets" for each in TARGETS)]
    columns = ["target or table", "sets", *learners, "average of bags", "average of all", "more CPU seconds"]
    return "\n".join(
        [
            "# Categories encoded by targets",
            "",
            f"R², or accuracy. The learners' scores are out of fold ({FOLDS} folds). They choose both averages,",
            "which are scored on a quarter of the sets that was held out. Trees on bags read compact statistics.",
            "Columns of any number of categories are encoded here. In `auto`, those with 512 or more are, and columns",
            "of sets with 64 or more.",
            "",
            markdown.table(columns, rows),
            "Mean and user are generated, with this number of items, or of users. The other names are those of",
            "`studies/experiments/anytime/tables.py`, of which only training parts are read.",
            "",
            "`python -m studies.experiments.sets.target_encoding FOLDER`",
            "",
        ]
    )


def main() -> None:
    """Fits both averages to each table, and writes the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # about categories that training lacks
    rows = []
    with mock.patch.object(choosing, "MANY_CATEGORIES", 0):
        for kind, num, is_class in BASKETS:
            name = f"{kind}, {num:,}{', two classes' if is_class else ''}"
            rows.append(row(name, *baskets(kind, num, is_class)))
            print(*rows[-1], flush=True)
        for name in TABLES:
            rows.append(row(name, *read(folder, name, "train")))
            print(*rows[-1], flush=True)
    Path("docs/results/sets/target_encoding.md").write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
