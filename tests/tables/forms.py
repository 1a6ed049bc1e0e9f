"""One batch of sets in every form that as_sets accepts, and a comparison of tables."""

from itertools import accumulate, pairwise

import awkward as ak
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import torch

from janossy import Ragged
from janossy.tables import Column, SetTable


def parts(values: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    return [values[a:b] for a, b in pairwise([0, *accumulate(sizes)])]


def array_of(values: list, kind: pa.DataType) -> pa.Array:
    """Returns Python's values as an Arrow array of this type."""
    if isinstance(kind, pa.DictionaryType):
        return pa.array(values, kind.value_type).dictionary_encode()
    if kind == pa.uuid():  # pyarrow takes Python's from version 24 on
        storage = pa.array([None if each is None else each.bytes for each in values], kind.storage_type)
        return pa.ExtensionArray.from_storage(kind, storage)
    if kind == pa.float16():  # and floats as these
        values = [None if each is None else np.float16(each) for each in values]
    return pa.array(values, kind)


# Forms of elements (N, d), float64.

ARRAYS = {
    "arrays": parts,
    "tensors": lambda x, sizes: [torch.from_numpy(part) for part in parts(x, sizes)],
    "nested lists": lambda x, sizes: [part.tolist() if len(part) else part for part in parts(x, sizes)],
    "object array": lambda x, sizes: objects(parts(x, sizes)),
    "Ragged": lambda x, sizes: Ragged.from_sizes(torch.from_numpy(x), sizes),
    "nested tensor": lambda x, sizes: torch.nested.as_nested_tensor(
        [torch.from_numpy(part) for part in parts(x, sizes)], layout=torch.jagged
    ),
    "awkward": lambda x, sizes: ak.unflatten(ak.from_numpy(x, regulararray=True), sizes),
    "fixed_size_list in list": lambda x, sizes: pa.LargeListArray.from_arrays(
        pa.array([0, *accumulate(sizes)], pa.int64()), pa.FixedSizeListArray.from_arrays(x.ravel(), x.shape[1])
    ),
}


def objects(values: list) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


# Forms of columns of elements and of sets, by name, with None for a missing value.


def lists(elements: dict[str, list], context: dict[str, list], sizes: list[int]) -> dict[str, list]:
    cut = {name: [column[a:b] for a, b in pairwise([0, *accumulate(sizes)])] for name, column in elements.items()}
    return cut | context


def arrow(elements, context, sizes, kind=pa.large_list):
    offsets = pa.array([0, *accumulate(sizes)], pa.int64() if kind is pa.large_list else pa.int32())
    build = pa.LargeListArray if kind is pa.large_list else pa.ListArray
    columns = {name: build.from_arrays(offsets, pa.array(column)) for name, column in elements.items()}
    return pa.table(columns | {name: pa.array(column) for name, column in context.items()})


def structs(elements, context, sizes):
    fields = pa.StructArray.from_arrays([pa.array(column) for column in elements.values()], list(elements))
    offsets = pa.array([0, *accumulate(sizes)], pa.int32())
    items = pa.ListArray.from_arrays(offsets, fields)
    return pa.table({"items": items} | {name: pa.array(column) for name, column in context.items()})


def views(elements, context, sizes):
    starts = pa.array([0, *accumulate(sizes)][:-1], pa.int32())
    columns = {
        name: pa.ListViewArray.from_arrays(starts, pa.array(sizes, pa.int32()), pa.array(column))
        for name, column in elements.items()
    }
    return pa.table(columns | {name: pa.array(column) for name, column in context.items()})


TABLES = {
    "Arrow table": arrow,
    "Arrow list": lambda *args: arrow(*args, kind=pa.list_),
    "Arrow batch": lambda *args: arrow(*args).to_batches()[0],
    "Arrow reader": lambda *args: arrow(*args).to_reader(),
    "Arrow chunks": lambda *args: pa.concat_tables([arrow(*args)[:1], arrow(*args)[1:]]),
    "Arrow slice": lambda *args: pa.concat_tables([arrow(*args)] * 2).combine_chunks()[len(args[2]) :],
    "Arrow list views": views,
    "Arrow structs": structs,
    "pandas": lambda *args: pd.DataFrame(lists(*args)),
    "pandas, as Arrow": lambda *args: arrow(*args).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda *args: pl.from_arrow(arrow(*args)),
    "polars structs": lambda *args: pl.from_arrow(structs(*args)),
    "DuckDB": lambda *args: duckdb.from_arrow(arrow(*args)),
    "DuckDB reader": lambda *args: duckdb.from_arrow(structs(*args)).to_arrow_reader(),
    "DuckDB batches": lambda *args: duckdb.from_arrow(arrow(*args)).to_arrow_reader(1),
    "dict": lists,
    "awkward": lambda *args: ak.from_arrow(arrow(*args)),
    "awkward, chosen from": lambda *args: ak.from_arrow(arrow(*args))[::-1][::-1],
}


def long(elements, context, sizes, ids):
    rows = np.repeat(np.arange(len(sizes)), sizes)
    return (
        {"id": [ids[b] for b in rows]}
        | elements
        | {name: [column[b] for b in rows] for name, column in context.items()}
    )


LONG = {
    "dict": lambda table: table,
    "pandas": pd.DataFrame,
    "pandas by index": lambda table: pd.DataFrame(table).set_index("id"),
    "polars": lambda table: pl.DataFrame(table, strict=False),
    "Arrow": pa.table,
    "Arrow reader": lambda table: pa.table(table).to_reader(1),
    "DuckDB": lambda table: duckdb.from_arrow(pa.table(table)),
}


def values_of(column: Column) -> list:
    """Returns the values of a column, with None for missing ones."""
    pairs = list(zip(column.decoded().tolist(), column.missing(), strict=True))
    assert all(value is None or value != value for value, missing in pairs if missing)
    return [None if missing else value for value, missing in pairs]


def same(a: SetTable, b: SetTable) -> None:
    """Checks that the sets are the same, whatever the codes of categories and the dtypes of numbers."""
    assert isinstance(a, SetTable) and isinstance(b, SetTable)
    assert a.offsets.dtype == b.offsets.dtype == np.int64 and a.offsets.tolist() == b.offsets.tolist()
    for columns, others in ((a.elements, b.elements), (a.context, b.context)):
        assert list(columns) == list(others)
        for name, column in columns.items():
            assert column.kind == others[name].kind
            assert values_of(column) == values_of(others[name])
    assert (a.ids is None) == (b.ids is None)
    assert a.ids is None or a.ids.tolist() == b.ids.tolist()
