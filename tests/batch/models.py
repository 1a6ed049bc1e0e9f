"""Saved models, and tables of sets for them."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from janossy.estimators import SetClassifier, SetRegressor, save
from janossy.tables import as_sets

STRATEGIES = {"classes": "gru", "numbers": "k2", "pair": ["gru", "k1"]}
"""The models by name. "classes" and "pair", which has two targets, sample orders; "numbers" is exact."""


def table(num: int = 60, seed: int = 0, most: int = 9) -> pa.Table:
    """Returns sets of up to ``most`` items with a price and a code, a column of the sets, ids, and another column."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, most + 1, num)
    return pa.table(
        {
            "id": [f"set {b}" for b in range(num)],
            "price": pa.array([rng.uniform(1, 9, n).tolist() for n in sizes], pa.list_(pa.float64())),
            "code": pa.array([rng.choice(list("abcd"), n).tolist() for n in sizes], pa.list_(pa.string())),
            "hour": rng.integers(0, 24, num),
            "note": pa.array(rng.normal(size=num), pa.float32()),
        }
    )


def saved(kind: str, folder: Path) -> Path:
    """Returns a model after a short training."""
    rows = table(80)
    sets = as_sets(rows.select(["price", "code", "hour"]))
    totals = np.array([sum(each) for each in rows["price"].to_pylist()])
    settings = {"max_epochs": 2, "validation": 0.3, "random_state": 0}
    if kind == "classes":
        model = SetClassifier(STRATEGIES[kind], **settings).fit(sets, np.where(totals > totals.mean(), "dear", "cheap"))
    else:
        y = totals if kind == "numbers" else np.stack([totals, -totals], 1)
        model = SetRegressor(STRATEGIES[kind], **settings).fit(sets, y)
    return save(model, folder / kind)
