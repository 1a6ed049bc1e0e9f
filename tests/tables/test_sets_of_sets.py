"""Sets of sets from tables of two ids, by brute force."""

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from janossy.estimators import GroupRows
from janossy.tables import SetStream, TableEncoder, as_sets

FORMS = {
    "dict": lambda columns: columns,
    "pandas": pd.DataFrame,
    "pandas index": lambda columns: pd.DataFrame(columns).set_index(["customer", "order"]),
    "polars": pl.DataFrame,
    "Arrow": pa.table,
}

IDS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), min_size=1, max_size=12)


def as_nested(sets):
    """Returns the elements as a set of sets of sets, by id: {id: {frozenset of rows}}."""
    found = {}
    for each in sets:
        inner = {}
        for row, number in zip(each.elements["x"].values.tolist(), each.inner.tolist(), strict=True):
            inner.setdefault(number, []).append(row)
        assert sorted(inner) == list(range(len(inner))) and each.num_inner.tolist() == [len(inner)]
        found[each.ids[0]] = {frozenset(rows) for rows in inner.values()}
    return found


@pytest.mark.parametrize("form", FORMS)
@given(ids=IDS, order=st.randoms())
def test_two_ids_make_sets_of_sets(form, ids, order):
    """An inner set is a distinct pair of ids; the order of the rows does not matter."""
    rows = list(range(len(ids)))
    order.shuffle(rows)
    table = {"customer": [ids[i][0] for i in rows], "order": [ids[i][1] for i in rows], "x": rows}
    sets = as_sets(FORMS[form](table), set_id=["customer", "order"])
    expected = {
        customer: {frozenset(i for i, each in enumerate(ids) if each == pair) for pair in ids if pair[0] == customer}
        for customer, _ in ids
    }
    assert as_nested(sets) == expected and list(sets.elements) == ["x"]
    assert as_nested(sets[::-1]) == expected
    again = GroupRows(["customer", "order"]).fit_transform(FORMS[form](table))
    assert as_nested(again) == expected


@given(ids=IDS, data=st.data())
def test_each_level_may_have_an_id_of_several_columns(ids, data):
    more = data.draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=len(ids), max_size=len(ids)))
    table = {"a": [a for a, _ in ids], "b": [b for _, b in ids], "c": [c for c, _ in more], "d": [d for _, d in more]}
    sets = as_sets(table | {"x": list(range(len(ids)))}, set_id=["a+c", "b+d"])
    expected = {}
    for i, ((a, b), (c, d)) in enumerate(zip(ids, more, strict=True)):
        expected.setdefault((a, c), {}).setdefault((b, d), set()).add(i)
    assert as_nested(sets) == {name: set(map(frozenset, inner.values())) for name, inner in expected.items()}


def test_a_column_may_have_a_plus_in_its_name():
    table = {"a+b": [1, 1, 2], "a": [1, 2, 3], "x": [0, 1, 2]}
    sets = as_sets(table, set_id="a+b")
    assert sets.ids.tolist() == [1, 2] and list(sets.elements) == ["a", "x"]
    assert as_sets({"a": [1, 1], "b": [1, 2], "x": [0, 1]}, set_id="a+b").ids.tolist() == [(1, 1), (1, 2)]


def test_targets_are_of_the_outer_sets():
    table = {"customer": [2, 1, 2, 2], "order": [7, 7, 7, 8], "x": [0, 1, 2, 3], "y": [5, 6, 5, 5], "age": [3, 4, 3, 3]}
    sets, y = as_sets(table, "y", set_id=["customer", "order"], set_columns="age")
    assert sets.ids.tolist() == [2, 1] and y.tolist() == [5, 6] and sets.context["age"].values.tolist() == [3, 4]
    assert sets.inner.tolist() == [0, 0, 1, 0]
    assert repr(sets).startswith("SetTable(2 sets of 1 to 2 inner sets, 1 to 3 elements, 4 in all")
    assert repr(sets[[1]]).startswith("SetTable(1 set of 1 inner set, 1 element, 1 in all")
    del table["y"]
    with pytest.warns(UserWarning, match="targets for 1 sets without elements"):
        sets, y = as_sets(table, {1: 6, 2: 5, 3: 9}, set_id=["customer", "order"], set_columns="age")
    assert y.tolist() == [5, 6, 9] and sets.num_inner.tolist() == [2, 1, 0]


TABLE = {"a": [1, 1, 2], "b": ["p", "q", "p"], "x": [1.0, 2.0, 3.0], "y": [0, 1, 1]}


@pytest.mark.parametrize(
    ("table", "options", "says"),
    [
        ({"b": ["p", None, "p"]}, {}, r"set_id='b' expects an id in every row; got none in row 1\."),
        ({}, {"set_id": ["a", "c"]}, r"set_id expects the name of a column; got 'c'\."),
        ({}, {"set_id": ["a", "a"]}, "set_id expects different columns; got 'a' twice"),
        ({}, {"set_id": ["a", "b", "x"]}, r"one id, or two .*; got 3: a, b, x\. .* write 'a\+b\+x'"),
        ({}, {"y": "y"}, r"column 'y' expects one value per set; .* set_id='a\+b'"),
        ({}, {"set_columns": "y"}, "A column of the inner sets is read with the elements"),
        ({"y": [0.0, 0.0, None]}, {"y": "y"}, "expects a target for every set; got none for set 2, in row 2"),
        ({}, {"y": {(1, "p"): 0, (1, "q"): 1, (2, "p"): 1}}, r"per set, by a; got targets by a, b\..* set_id='a\+b'"),
        ({}, {"y": {"b": ["p", "q"], "a": [1, 2], "y": [0, 1]}}, r"per set, by a; got targets by a, b\."),
        ({"x": [[1.0], [2.0], [3.0]]}, {}, "one id for a table with lists, whose rows are sets; got a, b"),
    ],
)
def test_what_is_wrong_with_two_ids(table, options, says):
    options = {"set_id": ["a", "b"]} | options
    with pytest.raises(ValueError, match=says):
        as_sets(TABLE | table, options.pop("y", None), **options)


def test_streams_take_one_id(tmp_path):
    pa.parquet.write_table(pa.table(TABLE), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"SetStream expects one id.*got a, b\..*write 'a\+b'"):
        SetStream(tmp_path, set_id=["a", "b"])


def test_the_encoder_appends_the_numbers_of_inner_sets():
    sets = as_sets(TABLE, set_id=["a", "b"])
    encoder = TableEncoder().fit(sets)
    values = encoder.transform(sets).elements.values
    assert values[:, -1].tolist() == [0, 1, 0] and values.shape[1] == encoder.element_layout.width == 3
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.state())))
    assert np.array_equal(again.transform(sets).elements.values, values)
    flat = as_sets(TABLE, set_id="a", drop="b")
    with pytest.raises(ValueError, match="expects sets of sets, by two ids, as in training; got one"):
        encoder.transform(flat)
    with warnings.catch_warnings(action="ignore"), pytest.raises(ValueError, match="expects sets by one id"):
        TableEncoder().fit(flat).transform(sets)
