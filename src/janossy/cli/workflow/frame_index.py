"""The index of a data frame in a file: a first column without a name, whose whole numbers rise from row to row.

pandas writes such a column by default, and so does R.
"""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from janossy.cli.workflow.text_types import WHOLE

INDEX = "Unnamed: 0"
"""The name by which pandas reads the column, and by which options may name it."""


class Rising:
    """Tells if a column of text, which comes in batches, holds whole numbers, each larger than the one before."""

    def __init__(self, names: Sequence[str]) -> None:
        """``names``: those of all columns. The first must be empty, and another not."""
        self.holds = not names[0] and any(names)
        self._last: int | None = None

    def add(self, values: pa.Array | pa.ChunkedArray) -> None:
        if not self.holds or len(values) == 0:
            return
        if values.null_count or not pc.all(pc.match_substring_regex(values, WHOLE)).as_py():
            self.holds = False
            return
        numbers = values.cast(pa.int64()).to_numpy()
        rise = np.diff(numbers, prepend=[] if self._last is None else [self._last])
        self.holds = bool((rise > 0).all())
        self._last = int(numbers[-1])


def are_rising(cells: Sequence[object]) -> bool:
    """Returns True for the cells of such a column in a workbook."""
    return all(type(cell) is int for cell in cells) and bool((np.diff(np.array(cells, np.float64)) > 0).all())


def with_index(table: pa.Table) -> pa.Table:
    """Returns the table with its column ``INDEX`` marked as pandas marks it in other formats."""
    return table.replace_schema_metadata({"pandas": json.dumps({"index_columns": [INDEX]})})
