"""One bit of a file that is another, at any place: the table is read, or one error names the file."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.grouping import group
from janossy.cli.workflow.reading import read_tables
from janossy.tables import SetStream
from tests.tables.fuzz import one_database

DOORS = {
    "group": lambda file: group([str(file)], ["id"], ["y"], file.with_name("sets.parquet")),
    "stream": lambda file: list(SetStream(file, "y", set_id="id")),
    "fit, predict": lambda file: read_tables([file]),
}


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
@pytest.mark.parametrize("door", DOORS)
def test_a_flipped_bit(tmp_path, door, ending):
    rng, places = np.random.default_rng(0), random.Random(0)
    ids = [f"s{n // 4:03}" for n in range(400)]
    table = pa.table(
        {"id": ids, "x": rng.normal(size=400), "c": rng.choice(list("abc"), 400), "y": np.arange(400) // 4}
    )
    file = Path(tmp_path, f"t{ending}")
    if ending == ".parquet":
        parquet.write_table(table, file, row_group_size=64)
    elif door != "stream":
        with ipc.new_file(str(file), table.schema) as writer:
            writer.write_table(table)
    else:
        pytest.skip("a stream reads Parquet files alone")
    content, num_refused = file.read_bytes(), 0
    with one_database():
        for _ in range(40):
            damaged = bytearray(content)
            damaged[places.randrange(len(damaged))] ^= 1 << places.randrange(8)
            file.write_bytes(damaged)
            file.with_name("sets.parquet").unlink(missing_ok=True)
            try:
                DOORS[door](file)
            except (ValueError, BadArgument) as error:
                assert file.name in str(getattr(error, "message", error))
                num_refused += 1
    assert num_refused > 5
