"""The values in bags of categories that suit each classical learner, by folds of the training parts of tables.

    python -m studies.experiments.sets.bags FOLDER   about ten minutes of a core

FOLDER holds a folder per table, as for ``studies.experiments.anytime``. Writes docs/results/sets/bags.md.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from janossy.estimators import SetClassifier, SetRegressor
from janossy.tables import SetTable
from studies.experiments import markdown
from studies.experiments.anytime.page import TUNED_ON
from studies.experiments.anytime.tables import SOURCES, read

FOLDS = 5
MOST_SETS = 4_000
"""The most sets of a table. Of larger ones this many are drawn."""

SCHEMES = ("count", "fraction", "share")
LEARNERS: dict[str, dict[str, Any]] = {
    "linear": {"strategy": "linear"},
    "boosting": {"strategy": "trees", "compact": True},
    "random forest": {"strategy": "forest", "compact": True},
    "extra trees": {"strategy": "forest", "compact": True, "extra": True},
}


def scores(sets: SetTable, y: np.ndarray, is_class: bool) -> list[str]:
    """Returns the number of sets, and the score out of fold of each learner with each scheme; "" without amounts."""
    if len(y) > MOST_SETS:
        some = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST_SETS])
        sets, y = sets[some], y[some]
    kind: Any = SetClassifier if is_class else SetRegressor
    has_amounts = any(column.kind == "numeric" for column in sets.elements.values())
    found = [f"{len(y):,}"]
    for learner in LEARNERS.values():
        for scheme in SCHEMES:
            if scheme == "share" and not has_amounts:
                found.append("")
                continue
            model = kind(strategy=learner | {"scheme": scheme}, validation=FOLDS, random_state=0).fit(sets, y)
            found.append(f"{model.trials_[0].score:.3f}")
    return found


def page(rows: dict[str, list[str]]) -> str:
    """Returns the scores as a page in Markdown."""
    columns = ["table", "sets", *(f"{learner}, {scheme}" for learner in LEARNERS for scheme in SCHEMES)]
    return "\n".join(
        [
            "# Counts, fractions or shares in bags of categories",
            "",
            f"R², or accuracy, out of fold ({FOLDS} folds) on the training parts of tables of the",
            "[anytime study](../../anytime.md). A count is the number of elements of a category. A fraction is that",
            "number over the size. A share is the sum of an amount over the elements of the category, over the sum of",
            "all elements. Learners on counts and fractions also read sums of amounts by category, and moments and",
            "quantiles of numbers. Linear learners read pairs and combinations too. With shares there are only these,",
            f"the size, and the sums of numbers. One seed. Of larger tables {MOST_SETS:,} sets were drawn.",
            "",
            markdown.table(columns, ([name, *found] for name, found in rows.items())),
            "`python -m studies.experiments.sets.bags FOLDER`",
            "",
        ]
    )


def main() -> None:
    """Fits the learners to each table, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # about categories that training lacks
    rows: dict[str, list[str]] = {}
    for name in TUNED_ON:
        sets, y = read(folder, name, "train")
        if any(column.kind == "categorical" for column in sets.elements.values()):
            with threadpool_limits(1):
                rows[name] = scores(sets, y, SOURCES[name].is_class)
            print(name, *rows[name], flush=True)
    Path("docs/results/sets/bags.md").write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
