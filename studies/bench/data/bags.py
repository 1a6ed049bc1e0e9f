"""Files of multi-instance learning: one row per instance, with its bag's label, its bag's number, and its features."""

from pathlib import Path
from typing import IO

import numpy as np
from pyarrow import csv

from janossy.tables import Column, SetTable
from studies.bench.data_set import Sample


def read_bags(file: Path | IO[bytes]) -> np.ndarray:
    """Returns the rows of a comma-separated file without a header, (N, 2 + d): label, bag, features."""
    table = csv.read_csv(file, read_options=csv.ReadOptions(autogenerate_column_names=True, block_size=1 << 24))
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


def sample_of_bags(rows: np.ndarray, name: str) -> Sample:
    """Returns bags as sets, in the order of the file.

    Raises: ValueError if the rows of a bag are not consecutive, or have several labels.
    """
    labels, bags = rows[:, 0].astype(np.int64), rows[:, 1]
    first = np.flatnonzero(np.r_[True, bags[1:] != bags[:-1]])
    offsets = np.r_[first, len(rows)]
    targets = labels[first]
    if len(np.unique(bags)) != len(first) or (np.repeat(targets, np.diff(offsets)) != labels).any():
        raise ValueError(f"{name} expects the instances of a bag together and with one label; got others.")
    features = np.ascontiguousarray(rows[:, 2:].T, np.float32)
    columns = {f"f{i + 1}": Column("numeric", feature) for i, feature in enumerate(features)}
    return Sample(SetTable(offsets, columns, {}), targets)
