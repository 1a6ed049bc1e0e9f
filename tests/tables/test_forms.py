"""as_sets: every form of the same sets gives the same table, in memory that it shares with what it was given."""

from itertools import accumulate

import awkward as ak
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from janossy import Ragged
from janossy.tables import Column, SetTable, as_sets
from tests.tables import forms
from tests.tables.forms import same, values_of

sizes = st.lists(st.integers(0, 4), max_size=5).map(lambda drawn: [*drawn, 1])
VALUES = {
    "number": st.floats(-4, 4),
    "whole": st.integers(-3, 3),
    "word": st.sampled_from(["a", "b", "ü", ""]),
    "flag": st.booleans(),
    "day": st.datetimes(),
}
NEVER_MISSING = ("whole", "day")
"""They would become of another dtype."""


@st.composite
def tables(draw):
    """Columns of elements and of sets, and sizes. The last value of each is there, so that its kind is known."""

    def column(name, num):
        values = VALUES[name] if name in NEVER_MISSING else VALUES[name] | st.none()
        return [*draw(st.lists(values, min_size=num - 1, max_size=num - 1)), draw(VALUES[name])]

    drawn = draw(sizes)
    elements = {name: column(name, sum(drawn)) for name in VALUES}
    context = {f"set_{name}": column(name, len(drawn)) for name in VALUES}
    return elements, context, drawn


@pytest.mark.parametrize("form", forms.ARRAYS)
@given(sizes=sizes, d=st.integers(1, 3))
def test_arrays_in_every_form(form, sizes, d):
    x = np.arange(float(sum(sizes) * d)).reshape(-1, d)
    table = as_sets(forms.ARRAYS[form](x, sizes))
    assert table.sizes.tolist() == sizes and not table.context and table.ids is None
    assert list(table.elements) == [f"x{j}" for j in range(d)]
    for j, column in enumerate(table.elements.values()):
        assert column.kind == "numeric" and column.values.tolist() == x[:, j].tolist()


@pytest.mark.parametrize("form", forms.TABLES)
@given(table=tables())
def test_tables_of_lists_in_every_form(form, table):
    elements, context, sizes = table
    found = as_sets(forms.TABLES[form](elements, context, sizes))
    assert found.sizes.tolist() == sizes and found.ids is None
    for columns, expected in ((found.elements, elements), (found.context, context)):
        assert {name: values_of(column) for name, column in columns.items()} == expected
        assert [column.kind for column in columns.values()] == [
            *("numeric", "numeric", "categorical", "boolean", "date")
        ]


@pytest.mark.parametrize("form", forms.LONG)
@given(table=tables(), data=st.data())
def test_a_long_table_is_grouped_in_order_of_first_appearance(form, table, data):
    elements, context, sizes = table
    ids = data.draw(st.sampled_from([list(range(9, 3, -1)), list("cabxyz")]))[: len(sizes)]
    long = forms.long(elements, context, sizes, ids)
    rows = data.draw(st.permutations(range(sum(sizes))))
    long = {name: [column[i] for i in rows] for name, column in long.items()}

    found = as_sets(forms.LONG[form](long), set_id="id", set_columns=list(context))
    order = list(dict.fromkeys(long["id"]))
    assert found.ids.tolist() == order
    for b, name in enumerate(order):
        here = [i for i, other in enumerate(long["id"]) if other == name]
        one = found[b]
        assert one.sizes.tolist() == [len(here)]
        assert {key: values_of(column) for key, column in one.elements.items()} == {
            key: [long[key][i] for i in here] for key in elements
        }
        assert {key: values_of(column) for key, column in one.context.items()} == {
            key: [long[key][here[0]]] for key in context
        }


@pytest.mark.parametrize("form", ["Arrow table", "Arrow structs", "pandas", "polars", "dict"])
@given(table=tables(), data=st.data())
def test_choosing_sets_commutes_with_as_sets(form, table, data):
    elements, context, sizes = table
    num = len(sizes)
    chosen = data.draw(st.lists(st.integers(-num, num - 1), min_size=1, max_size=6))
    flags = data.draw(st.lists(st.booleans(), min_size=num, max_size=num))
    cut = data.draw(st.slices(num))
    found = as_sets(forms.TABLES[form](elements, context, sizes))
    for key, rows in (
        *((kind(chosen), chosen) for kind in (list, np.array, torch.tensor)),
        *((kind(flags), [b for b, flag in enumerate(flags) if flag]) for kind in (list, np.array)),
        (cut, range(num)[cut]),
        ((np.array(chosen), ...), chosen),
        (chosen[0], chosen[:1]),
    ):
        offsets = [0, *accumulate(sizes)]
        ends = [(offsets[b % num], offsets[b % num + 1]) for b in rows]
        expected = SetTable(
            np.array([0, *accumulate(end - start for start, end in ends)]),
            {n: c[[i for start, end in ends for i in range(start, end)]] for n, c in found.elements.items()},
            {n: c[list(rows)] for n, c in found.context.items()},
        )
        same(found[key], expected)
        assert len(found[key]) == len(rows) and found[key].shape == (len(rows),)


def test_lists_of_words_and_of_records():
    words = as_sets([["milk", "bread"], [], ["milk"]])
    assert words.sizes.tolist() == [2, 0, 1] and values_of(words.elements["x"]) == ["milk", "bread", "milk"]
    records = as_sets([[{"rank": 3, "suit": "H"}, {"rank": 5, "suit": None}], []])
    assert values_of(records.elements["rank"]) == [3, 5] and values_of(records.elements["suit"]) == ["H", None]


RECORDS = {
    "lists": lambda records: records,
    "objects": lambda records: pd.DataFrame({"items": records}),
    "arrow": lambda records: pa.table({"items": records}),
    "list views": lambda records: pa.table(
        {"items": pa.array(records, pa.list_view(pa.array(records).type.value_type))}
    ),
    "polars": lambda records: pl.DataFrame({"items": records}, strict=False),
}


@pytest.mark.parametrize("form", RECORDS)
@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=5), dropped=st.sampled_from(["tags", "meta", "x", "none"])
)
def test_dropped_fields_are_as_if_they_were_not_there(form, sizes, dropped):
    """At any depth, and lists within lists too, which no column holds."""
    count = iter(range(100))
    whole = [[{"x": next(count), "meta": {"y": 2.5, "tags": ["a"] * j}} for j in range(n)] for n in (*sizes, 3)]
    meta = [[{name: x for name, x in item["meta"].items() if name != "tags"} for item in items] for items in whole]
    without = [
        [{"x": item["x"], "meta": kept} for item, kept in zip(items, each, strict=True)]
        for items, each in zip(whole, meta, strict=True)
    ]
    expected = [[{name: x for name, x in item.items() if name != dropped} for item in items] for items in without]
    same(as_sets(RECORDS[form](whole), drop=["tags", dropped]), as_sets(RECORDS[form](expected)))


@pytest.mark.parametrize(
    "form", [pd.DataFrame, pl.DataFrame, pa.Table.from_pylist, lambda rows: {"s": [row["s"] for row in rows]}]
)
@given(there=st.lists(st.booleans(), min_size=1, max_size=5), drop=st.sampled_from([(), "s.in", "s.in.b", "s.a"]))
def test_structs_are_columns_of_their_fields(form, there, drop):
    """In the order of the fields; with a missing struct, each of its fields is missing."""
    values = [{"a": i, "in": {"b": "xyz"[i % 3]}} if is_there else None for i, is_there in enumerate([True, *there])]
    flat = {"s.a": [x and x["a"] for x in values], "s.in.b": [x and x["in"]["b"] for x in values]}
    kept = {name: column for name, column in flat.items() if not drop or not name.startswith(drop)}
    same(as_sets(form([{"s": x} for x in values]), drop=drop), as_sets(pa.table(kept)))


def test_a_name_to_drop_is_that_of_a_column_if_there_is_one():
    table = pa.table({"x": [1, 2], "items": [[{"x": 5, "y": 6}], []]})
    assert list(as_sets(table, drop="x").elements) == ["x", "y"]
    with pytest.raises(ValueError, match="drop expects to leave a field of column 'items'"):
        as_sets(table.drop_columns("x"), drop=("x", "y"))


def test_rows_without_lists_are_sets_of_one_element():
    x = np.arange(6.0).reshape(3, 2)
    for form in (
        x,
        torch.from_numpy(x),
        x.astype(object),
        pd.DataFrame(x, columns=["x0", "x1"]),
        {"x0": x[:, 0], "x1": x[:, 1]},
    ):
        same(as_sets(form), as_sets([row[None] for row in x]))


def test_masked_arrays_miss_what_they_mask():
    masked = np.ma.masked_array([[1.0], [2.0]], mask=[[True], [False]])
    assert values_of(as_sets(masked).elements["x0"]) == [None, 2.0]


@pytest.mark.parametrize("dtype", [float, int])
def test_masked_arrays_in_lists_miss_what_they_mask(dtype):
    """Joined arrays held the data under the mask, such as -999."""
    masked, whole = np.ma.masked_equal(np.array([[1, -999], [3, 4]], dtype), -999), np.array([[5.0, 6.0]])
    given = [masked, whole, masked[:0], masked.astype(float)]
    for column, expected in zip("01", ([1, 3, 5, 1, 3], [np.nan, 4, 6, np.nan, 4]), strict=True):
        assert np.array_equal(as_sets(given).elements[f"x{column}"].values, expected, equal_nan=True)
    frame = {"id": ["a", "b", "c", "d"], "v": [each[:, 1] for each in given]}
    assert as_sets(frame, set_id="id").elements["v"].missing().tolist() == [True, False, False, True, False]
    assert as_sets([masked[:, 1] for _ in range(2)]).elements["x"].missing().tolist() == [True, False] * 2


def test_large_whole_numbers_beside_masked_floats():
    sets = as_sets([np.array([2**60 + 1]), np.ma.masked_array([0.5], [True])])
    assert sets.elements["x"].missing().tolist() == [False, True]


@pytest.mark.parametrize("y", [np.array([7.0, 8.0, 9.0]), np.ones((3, 2))])
def test_masked_targets_are_missing(y):
    with pytest.raises(ValueError, match="y expects a target for every set; got none for set 1"):
        as_sets(
            [[1.0], [2.0], [3.0]], np.ma.masked_array(y, np.arange(3 * (y.size // 3)).reshape(y.shape) == y.size // 3)
        )


def test_structured_arrays_are_tables():
    hits = np.array([(7, 1.0), (7, 2.0), (3, 4.0)], dtype=[("event", "i8"), ("energy", "f8")])
    table = as_sets(hits, set_id="event")
    assert table.ids.tolist() == [7, 3] and values_of(table.elements["energy"]) == [1.0, 2.0, 4.0]
    same(as_sets([hits[:2], hits[2:]]), as_sets({"event": [[7, 7], [3]], "energy": [[1.0, 2.0], [4.0]]}))


def test_ids_of_a_table_of_lists():
    table = as_sets({"name": ["a", "b"], "x": [[1.0], []], "y": [0, 1]}, "y", set_id="name")[0]
    assert table.ids.tolist() == ["a", "b"] and not table.context
    assert as_sets({"name": ["a", "b"], "x": [[1.0], []], "z": [0, 1]}, set_columns="name").context.keys() == {"name"}


X = np.arange(8.0).reshape(4, 2)
SHARING = {
    "array": (X, lambda: X),
    "Ragged": (X, lambda: Ragged.from_sizes(torch.from_numpy(X), [3, 0, 1])),
    "a sorted long frame": (X, lambda: pd.DataFrame(X, columns=["a", "b"], copy=False).assign(id=[5, 5, 3, 3])),
    "a sorted long polars frame": (None, lambda: pl.DataFrame({"a": X[:, 0], "id": [5, 5, 3, 3]})),
    "Arrow lists": (None, lambda: pa.table({"a": pa.array([[1.0], [2.0, 3.0]])})),
    "Arrow fixed lists": (None, lambda: pa.table({"a": pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2))})),
    "polars lists": (None, lambda: pl.DataFrame({"a": [[1.0], [2.0, 3.0]]})),
    "awkward": (None, lambda: ak.Array([{"a": [1.0]}, {"a": [2.0, 3.0]}])),
    "structs": (None, lambda: pa.table({"s": pa.array([[{"a": 1.0}], [{"a": 2.0}]])})),
}


def buffer_of(x) -> int:
    """Returns the address at which the values of its column, or first array, begin."""
    if isinstance(x, pl.DataFrame):
        x = x.to_arrow()
    if isinstance(x, ak.Array):
        return x.layout.contents[0].content.data.ctypes.data
    values = x.column(0).chunk(0)
    while pa.types.is_nested(values.type):
        values = values.field(0) if pa.types.is_struct(values.type) else values.values
    return values.buffers()[1].address


@pytest.mark.parametrize("form", SHARING)
def test_numbers_are_not_copied(form):
    array, make = SHARING[form]
    x = make()
    table = as_sets(x, set_id="id" if "long" in form else None)
    values = next(iter(table.elements.values())).values
    if array is not None:
        assert np.shares_memory(values, array)
    else:
        assert values.ctypes.data == buffer_of(x)
    part = next(iter(table[:1].elements.values())).values
    assert np.shares_memory(part, values)


def test_repr():
    table = as_sets({"pt": [[1.0, 2.0], []], "kind": [["mu", "e"], []], "run": [1, 2]})
    assert repr(table) == (
        "SetTable(2 sets of 0 to 2 elements, 2 in all\n"
        "  elements: pt numeric, kind categorical (2)\n"
        "  sets: run numeric)"
    )
    assert repr(table[:0]).startswith("SetTable(0 sets of 0 elements, 0 in all")


def test_kinds_can_be_overruled():
    table = {"code": [[1, 2], [1]], "text": [["1.5", "2"], [None]], "day": [3, 4]}
    found = as_sets(table, numeric="text", categorical=["code", "day"])
    assert found.elements["code"].kind == found.context["day"].kind == "categorical"
    assert found.elements["code"].categories == (1, 2)
    assert values_of(found.elements["text"]) == [1.5, 2.0, None]
    same(as_sets(as_sets(table), numeric="text", categorical=["code", "day"]), found)
    assert as_sets([np.ones((2, 2))], categorical=[-1]).elements["x1"].kind == "categorical"
    days = as_sets([np.array(["2020-01-02", "NaT"], "datetime64[D]")])
    assert values_of(as_sets(days, numeric="x").elements["x"]) == [18263.0, None]
    assert as_sets(days, categorical="x").elements["x"].categories == ("2020-01-02T00:00:00.000000",)


def test_same_can_fail():
    one = as_sets({"a": [[1.0], [2.0]], "b": [0, 1]})
    for other in (
        as_sets({"a": [[1.0], [3.0]], "b": [0, 1]}),
        as_sets({"a": [[1.0, 2.0], []], "b": [0, 1]}),
        as_sets({"a": [[1.0], [None]], "b": [0, 1]}),
        as_sets({"a": [[1.0], [2.0]], "b": ["0", "1"]}),
        as_sets({"a": [[1.0], [2.0]]}),
    ):
        with pytest.raises(AssertionError):
            same(one, other)


def test_a_table_made_by_hand_is_checked():
    with pytest.raises(ValueError, match=r"columns of 3 elements and of 2 sets.*got 2 values in 'a'"):
        SetTable(np.array([0, 1, 3]), {"a": Column("numeric", np.zeros(2))}, {})
