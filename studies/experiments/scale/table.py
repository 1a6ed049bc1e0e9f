"""Tables of any length for measurements of scale: ``python -m studies.experiments.scale.table ROWS OUT.parquet``.

One row per element. Sizes of sets follow a power law, P(n) ~ n^-1.75 from 1 to 1000, with mean 9.7. Each chunk has its
own seed. The longer of two tables with one seed therefore begins with the shorter (except its last set), and memory
does not grow with the table.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

CHUNK = 2**17
"""The rows that are made, and written as a row group, together."""

LARGEST, EXPONENT = 1000, 1.75
KINDS = ("electron", "jet", "muon", "photon")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.experiments.scale.table", description=__doc__)
    parser.add_argument("num_rows", type=int, metavar="ROWS")
    parser.add_argument("out", type=Path, metavar="OUT.parquet")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shuffle", action="store_true", help="rows of a chunk in no order")
    arguments = parser.parse_args()
    num_sets = write_table(arguments.out, arguments.num_rows, arguments.seed, arguments.shuffle)
    print(f"wrote {arguments.out}: {arguments.num_rows:,} rows, {num_sets:,} sets")


def write_table(out: Path, num_rows: int, seed: int = 0, shuffle: bool = False) -> int:
    """Writes ``num_rows`` rows, sorted by the column set_id unless shuffled. Returns the number of their sets."""
    num_sets, writer = 0, None
    for table, sets in chunks(num_rows, seed, shuffle):
        writer = writer or parquet.ParquetWriter(out, table.schema)
        writer.write_table(table)
        num_sets += sets
    if writer is not None:
        writer.close()
    return num_sets


def chunks(num_rows: int, seed: int, shuffle: bool = False) -> Iterator[tuple[pa.Table, int]]:
    """Yields pieces of the table with whole sets, and the number of sets in each."""
    sizes_law = np.arange(1, LARGEST + 1) ** -EXPONENT
    sizes_law /= sizes_law.sum()
    first_id = 0
    for number, begin in enumerate(range(0, num_rows, CHUNK)):
        random = np.random.default_rng([seed, number])
        num = min(CHUNK, num_rows - begin)
        ends = np.cumsum(random.choice(LARGEST, CHUNK, p=sizes_law) + 1)
        starts = np.concatenate(([0], ends[ends < num]))
        owners = np.repeat(np.arange(len(starts)), np.diff(starts, append=num))
        x, y = random.normal(size=(2, CHUNK))[:, :num]
        kind = random.integers(0, len(KINDS), CHUNK)[:num]
        sums = np.add.reduceat(np.where(kind == 1, x * y, y), starts)
        target = (sums / np.sqrt(np.bincount(owners)))[owners]
        table = pa.table(
            {
                "set_id": owners + first_id,
                "x": x.astype(np.float32),
                "y": y.astype(np.float32),
                "kind": pa.DictionaryArray.from_arrays(kind.astype(np.int8), list(KINDS)).cast(pa.string()),
                "target": target.astype(np.float32),
            }
        )
        first_id += len(starts)
        yield table.take(random.permutation(num)) if shuffle else table, len(starts)


if __name__ == "__main__":
    main()
