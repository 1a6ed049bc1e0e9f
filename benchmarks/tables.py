"""The cost of making sets from a table: from rows in any order to numbers that a network reads.

"As numbers" groups rows by id, in the order in which ids first appear. A column of text becomes codes, and four columns
of numbers are standardised, all fitted on the same rows. "Chosen" selects sets in another order, as for a split or an
epoch.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import polars as pl
import torch
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from torch import Tensor

from benchmarks.harness import Row
from janossy import Ragged
from janossy.tables import TableEncoder, as_sets

NUMBERS = ["pt", "eta", "phi", "mass"]


def rows() -> Iterator[Row]:
    """Yields a long table of pandas, one of polars, and sets chosen from a Ragged."""
    yield long_row(100_000)
    yield long_row(100_000, pl.from_pandas)
    yield chosen_row(100_000)


def long_table(num_sets: int, rows_a_set: int = 10) -> pd.DataFrame:
    """Returns ten rows per set on average, in no order."""
    random = np.random.default_rng(0)
    num = num_sets * rows_a_set
    columns = {"event": random.permutation(np.arange(num) % num_sets * 7)}
    columns |= {name: random.normal(10.0, 3.0, num) for name in NUMBERS}
    return pd.DataFrame(columns | {"kind": np.array(["muon", "electron", "jet", "photon"])[random.integers(0, 4, num)]})


def long_row(num_sets: int, library=lambda table: table) -> Row:
    """Returns the row of as_sets and TableEncoder against pandas' factorize, numpy's argsort and scikit-learn."""
    frame = long_table(num_sets)
    table = library(frame)

    def ours() -> Tensor:
        return TableEncoder().fit_transform(as_sets(table, set_id="event")).elements.values

    def reference() -> Tensor:
        order = np.argsort(pd.factorize(frame["event"])[0], kind="stable")
        encoders = make_column_transformer((OrdinalEncoder(), ["kind"]), (StandardScaler(), NUMBERS))
        values = encoders.fit_transform(frame.iloc[order]).astype(np.float32)
        values[:, 0] += 1
        return torch.from_numpy(values)

    kind = type(table).__module__.partition(".")[0]
    name = f"a long table of {kind}, {len(frame)} rows of {num_sets} sets, as numbers, against pandas and sklearn"
    return Row(name, ours, reference)


def chosen_row(num_sets: int) -> Row:
    """Returns the row of indexing a Ragged against indexing an existing list of tensors."""
    sizes = np.random.default_rng(0).integers(0, 21, num_sets)
    sets = Ragged.from_sizes(torch.randn(int(sizes.sum()), 4), sizes.tolist())
    parts, chosen = sets.to_sets(), np.random.default_rng(1).permutation(num_sets)
    name = f"{num_sets} sets of 0 to 20 elements, chosen in another order, against a list of tensors"
    return Row(name, lambda: sets[chosen].values, lambda: torch.cat([parts[b] for b in chosen]))
