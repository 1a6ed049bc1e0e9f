"""Targets, however they are told, come in the order of the sets."""

import warnings
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.sets_to_fit import sets_to_fit
from janossy.estimators import GroupRows
from janossy.tables import as_sets

BY_ID = {
    "dict": lambda ids, y: dict(zip(ids, y, strict=True)),
    "Series": lambda ids, y: pd.Series(y, index=ids),
    "frame by index": lambda ids, y: pd.DataFrame({"label": y}, index=ids),
    "frame": lambda ids, y: pd.DataFrame({"id": ids, "label": y}),
    "frame, its index named": lambda ids, y: pd.DataFrame({"label": y}, index=pd.Index(ids, name="id")),
    "polars": lambda ids, y: pl.DataFrame({"id": ids, "label": y}),
    "Arrow": lambda ids, y: pa.table({"id": ids, "label": y}),
    "dict of columns": lambda ids, y: {"id": ids, "label": y},
}


class ArrayLike:
    """A class that gives itself as an array, without being one."""

    def __init__(self, y):
        self.y = y

    def __array__(self, dtype=None, copy=None):
        return np.array(self.y)


BY_ROW = {
    "array-like": ArrayLike,
    "list": list,
    "array": np.array,
    "tensor": lambda y: torch.tensor(y) if isinstance(y[0], int) else y,
    "Series": pd.Series,
    "polars": pl.Series,
    "Arrow": pa.array,
}
ids = st.lists(st.sampled_from([7, -3, 0, 2**60]), min_size=1, max_size=8)


@pytest.mark.parametrize("form", BY_ID)
@given(ids=ids, words=st.booleans(), data=st.data())
def test_targets_by_id(form, ids, words, data):
    names = [f"n{x}" for x in ids] if words else ids
    order = list(dict.fromkeys(names))
    y = {name: f"label {name}" if words else b for b, name in enumerate(order)}
    told = data.draw(st.permutations(order))
    long = pd.DataFrame({"id": names, "x": np.arange(len(names))})
    sets, found = as_sets(long, BY_ID[form](told, [y[name] for name in told]), set_id="id")
    assert sets.ids.tolist() == order and found.reshape(-1).tolist() == list(y.values())


@pytest.mark.parametrize("form", BY_ROW)
@given(ids=ids, words=st.booleans())
def test_targets_by_row(form, ids, words):
    order = list(dict.fromkeys(ids))
    y = [f"label {x}" if words else order.index(x) for x in ids]
    long = {"id": ids, "x": list(range(len(ids)))}
    for X in (long, pd.DataFrame(long)):
        found = as_sets(X, BY_ROW[form](y), set_id="id")[1]
        assert found.tolist() == [f"label {x}" if words else b for b, x in enumerate(order)]
    whole = as_sets([np.zeros((1, 1))] * len(y), BY_ROW[form](y))[1]
    assert whole.tolist() == y


def test_targets_by_name_leave_the_table():
    long = {"id": [5, 5, 3], "x": [1.0, 2.0, 3.0], "a": [1, 1, 0], "b": ["p", "p", "q"]}
    sets, y = as_sets(long, "b", set_id="id")
    assert list(sets.elements) == ["x", "a"] and y.tolist() == ["p", "q"]
    sets, y = as_sets(long, ["a", "b"], set_id="id")
    assert list(sets.elements) == ["x"] and y.tolist() == [[1, "p"], [0, "q"]]
    sets, y = as_sets({"x": [[1.0], []], "a": [True, False]}, "a")
    assert not sets.context and y.tolist() == [True, False] and y.dtype == bool
    assert as_sets(long, "a", set_id="id", drop=["a", "b", "c"])[1].tolist() == [1, 0]
    # As many words as rows are targets, not names.
    assert as_sets({"a": [1, 2], "b": [3, 4]}, ["a", "b"])[1].tolist() == ["a", "b"]


def test_several_targets():
    y = np.arange(4.0).reshape(2, 2)
    for form in (y, torch.from_numpy(y), pd.DataFrame(y), pl.DataFrame(y), {"a": y[:, 0], "b": y[:, 1]}):
        assert as_sets([np.zeros((1, 1))] * 2, form)[1].tolist() == y.tolist()
    assert as_sets([np.zeros((1, 1))] * 2, y[:, :1])[1].shape == (2, 1)


def test_a_set_that_only_the_target_knows_is_empty():
    long = {"id": [5, 5, 3], "x": [1.0, 2.0, 3.0], "store": ["p", "p", "q"], "n": [1, 1, 2]}
    with pytest.warns(UserWarning, match="targets for 2 sets without elements in X, such as set 9: they are taken"):
        sets, y = as_sets(long, {9: 0, 3: 1, 5: 2, 8: 3}, set_id="id", set_columns=["store", "n"])
    assert sets.ids.tolist() == [5, 3, 9, 8] and y.tolist() == [2, 1, 0, 3]
    assert sets.sizes.tolist() == [2, 1, 0, 0]
    assert (
        sets.context["store"].missing().tolist() == sets.context["n"].missing().tolist() == [False, False, True, True]
    )
    with warnings.catch_warnings(action="error"):  # one row per set: a part of the sets that y knows
        sets, y = as_sets({"id": [5, 3], "x": [[1.0], []]}, {3: 1, 5: 2, 8: 3}, set_id="id")
    assert len(sets) == 2 and y.tolist() == [2, 1]


SEVERAL = {
    "dict": lambda ids, y: dict(zip(ids, y, strict=True)),
    "Series": lambda ids, y: pd.Series(y, index=pd.MultiIndex.from_tuples(ids)),
    "Arrow": lambda ids, y: pa.table({"event": [e for _, e in ids], "label": y, "run": [r for r, _ in ids]}),
}


@pytest.mark.parametrize(
    "ids", [[date(2024, 1, 1), date(2024, 1, 2)], ["2024-01-01", "2024-01-02"]], ids=["days", "text"]
)
def test_targets_by_day(ids):
    table = {"day": [ids[1], ids[0], ids[1]], "x": [1.0, 2.0, 3.0]}
    assert as_sets(table, dict(zip(ids, [5, 6], strict=True)), set_id="day")[1].tolist() == [6, 5]


def test_targets_by_ids_with_nanoseconds():
    ids = np.array([3, 1_000_000_007], "datetime64[ns]")
    table = pd.DataFrame({"at": ids[[1, 0, 1]], "x": [1.0, 2.0, 3.0]})
    assert as_sets(table, pd.DataFrame({"at": ids, "y": [5, 6]}), set_id="at")[1].tolist() == [6, 5]
    with pytest.warns(UserWarning, match="1 sets without elements"):
        sets, y = as_sets(table, pd.Series([5, 6, 7], index=pd.DatetimeIndex([*ids, ids[0] + 1])), set_id="at")
    assert y.tolist() == [6, 5, 7] and (sets.ids == [*ids[::-1], ids[0] + 1]).all()


def test_a_frame_of_targets_with_the_index_of_x():
    """One row per element. The index is named like the id, as it was made from it."""
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "a": [0, 0, 1], "b": [5, 5, 6]}, index=pd.Index([7, 7, 3], name="id"))
    for y in (frame[["a", "b"]], frame[["a"]]):
        found = as_sets(frame[["x"]], y, set_id="id")[1]
        assert found.reshape(2, -1).tolist() == y.drop_duplicates().to_numpy().tolist()


def test_dropped_columns_that_y_names_are_the_targets():
    long = {"event": [1, 1, 2], "x": [1.0, 2.0, 3.0], "a": [0, 0, 1], "b": [5, 5, 6]}
    sets, y = as_sets(long, ["a", "b"], set_id="event", drop=["a", "b"])
    assert y.tolist() == [[0, 5], [1, 6]] and list(sets.elements) == ["x"]
    assert GroupRows("event", drop=["a", "b"]).target(long, ["a", "b"]).tolist() == y.tolist()
    words, named = as_sets({"x": [[1.0], [2.0]], "a": ["p", "q"], "b": [3, 4]}, ["a", "b"], drop=["a", "b"])
    assert named.tolist() == ["a", "b"] and not words.context  # as many words as rows are data


@pytest.mark.parametrize("form", SEVERAL)
@given(ids=st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab")), min_size=1, max_size=9), data=st.data())
def test_ids_of_several_columns(form, ids, data):
    """A set is a distinct tuple, by brute force; targets by id, one of which has a set without elements."""
    order = list(dict.fromkeys(ids))
    x = np.arange(len(ids))
    long = {"run": [r for r, _ in ids], "event": [e for _, e in ids], "x": x}
    told = data.draw(st.permutations([*order, (9, "z")]))
    y = [len(told) - told.index(each) for each in told]
    with warnings.catch_warnings(action="ignore"):
        sets, found = as_sets(long, SEVERAL[form](told, y), set_id="run+event")
    assert list(sets.elements) == ["x"] and sets.ids.tolist() == [*order, (9, "z")]
    assert found.tolist() == [y[told.index(each)] for each in sets.ids]
    for each, name in zip(sets, sets.ids, strict=True):
        assert each.ids.tolist() == [name]
        assert each.elements["x"].values.tolist() == [i for i in x if ids[i] == name]
    again = GroupRows("run+event").fit_transform(pd.DataFrame(long).set_index(["run", "event"]))
    assert again.ids.tolist() == order and again.sizes.tolist() == sets.sizes.tolist()[:-1]
    rows = pl.DataFrame(long).group_by("run", "event", maintain_order=True).agg("x")
    of_rows = as_sets(rows, set_id="run+event")
    assert of_rows.ids.tolist() == order and of_rows.elements["x"].values.tolist() == sets.elements["x"].values.tolist()


def test_ids_of_several_columns_are_as_many_as_there_are_pairs():
    """With a product of the columns' counts beyond 32 bits, in which NumPy 1 would compute it."""
    a = np.arange(2**16 + 1)
    assert len(as_sets({"a": a, "b": a % 2**16, "x": a}, set_id="a+b")) == len(a)


def test_what_is_wrong_with_ids_of_several_columns():
    long = {"run": [1, 1, 2], "event": ["a", "a", None], "x": [1.0, 2.0, 3.0], "y": [0, 1, 1]}
    with pytest.raises(ValueError, match=r"set_id='event' expects an id in every row; got none in row 2\."):
        as_sets(long, set_id="run+event")
    long["event"] = ["a", "a", "b"]
    with pytest.raises(ValueError, match=r"set_id expects the name of a column; got 'evnt'\."):
        as_sets(long, set_id="run+evnt")
    with pytest.raises(ValueError, match=r"got 0 in row 0 and 1 in row 1, both of set \(1, a\)\."):
        as_sets(long, "y", set_id="run+event")
    with pytest.raises(ValueError, match=r"got none for set \(2, b\)\."):
        as_sets(long, {(1, "a"): 1}, set_id="run+event")
    lists = {"run": [1, 1], "event": ["a", "a"], "x": [[1.0], [2.0]]}
    with pytest.raises(
        ValueError, match=r"set_id='run\+event' expects a different id .* got \(1, a\) twice, first in row 0"
    ):
        as_sets(lists, set_id="run+event")


def test_long_decimals_as_targets_are_said_or_stay_apart(tmp_path):
    """Numbers are floats, of which two may be equal; classes are text."""
    long = [Decimal(10**29), Decimal(10**29 + 1)]
    table = pa.table({"x": [[1.0], [2.0]] * 2, "y": pa.array(long * 2, pa.decimal128(38, 0))})
    with pytest.warns(UserWarning, match="'y' holds targets with more digits than float64 has"):
        as_sets(table, "y")
    parquet.write_table(table, tmp_path / "t.parquet")
    found = sets_to_fit([tmp_path / "t.parquet"], Recipe(target=("y",)), "classification")
    assert found.targets is not None and found.targets.tolist() == [str(x) for x in long] * 2
