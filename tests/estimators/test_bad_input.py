"""Errors of as_sets: one message each, with what was expected, what came, and where."""

import warnings

import awkward as ak
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy.sparse import csr_array, dok_matrix

from janossy import Ragged
from janossy.estimators import SetClassifier
from janossy.tables import as_sets

LONG = {"id": [1, 1, 2], "x": [0.5, 1.0, 2.0], "store": ["a", "b", "a"], "label": [0, 1, 1]}
LISTS = {"pt": [[1.0], [2.0, 3.0]], "label": [0, 1]}


def long(y=None, **options):
    return as_sets(LONG, y, **{"set_id": "id"} | options)


ERRORS = {
    # Forms
    "nothing": (lambda: as_sets(None), TypeError, "a list of arrays, a Ragged, a table.*got NoneType. Convert it"),
    "text": (lambda: as_sets("abc"), TypeError, "got str"),
    "lazy": (lambda: as_sets(pl.DataFrame(LISTS).lazy()), TypeError, r"got LazyFrame. Convert it \(collect\(\)"),
    "groups": (
        lambda: as_sets(pd.DataFrame(LONG).groupby("id")),
        TypeError,
        r"a table; got its groups, a DataFrameGroupBy. Give the table itself: as_sets\(table, set_id='name'\)",
    ),
    "groups of polars": (lambda: as_sets(pl.DataFrame(LONG).group_by("id")), TypeError, "got its groups, a GroupBy"),
    "no sets": (lambda: as_sets([]), ValueError, "one set or more; got none"),
    "no rows": (lambda: as_sets(pd.DataFrame(LONG)[:0], set_id="id"), ValueError, "one set or more; got none"),
    "no rows of lists": (lambda: as_sets(pa.table(LISTS)[:0]), ValueError, "one set or more; got none"),
    "no table": (lambda: as_sets({}), ValueError, r"one column or more; got 0 feature\(s\)"),
    "no features": (
        lambda: as_sets(np.ones((3, 0))),
        ValueError,
        r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1",
    ),
    "one dimension": (lambda: as_sets(np.ones(3)), ValueError, r"got shape \(3,\). Reshape your data"),
    "three dimensions": (
        lambda: as_sets(np.ones((2, 3, 1))),
        ValueError,
        r"got shape \(2, 3, 1\), maybe padded. Pass Ragged",
    ),
    "sparse": (lambda: as_sets(csr_array((2, 2))), TypeError, "dense elements; got a sparse csr_array"),
    "sparse, and a dict": (lambda: as_sets(dok_matrix((2, 2))), TypeError, "dense elements; got a sparse dok_matrix"),
    "complex": (lambda: as_sets(np.ones((2, 2), complex)), ValueError, "Complex data not supported: column 'x0'"),
    "objects": (
        lambda: as_sets(np.array([[1.0], [{}]], object)),
        TypeError,
        "'x0'.*a string or a number.*in row 1, {}",
    ),
    "mixed": (lambda: as_sets(pd.DataFrame({"a": [1, "b"]})), TypeError, "'a'.*one type.*got int and, in row 1, 'b'"),
    "Ragged of matrices": (lambda: as_sets(Ragged.from_sets([torch.ones(1, 2, 3)])), ValueError, r"features \(2, 3\)"),
    "sparse column": (
        lambda: as_sets(pd.DataFrame({"a": pd.arrays.SparseArray([0, 1.0])})),
        TypeError,
        "'a' expects what Arrow can hold; got Series.*Arrow says",
    ),
    # Lists of sets
    "features": (lambda: as_sets([np.ones((2, 3)), np.ones((2, 2))]), ValueError, r"\(n, 3\).*\(2, 2\) as set 1"),
    "dimensions": (lambda: as_sets([np.ones((2, 3)), np.ones(3)]), ValueError, r"\(n, 3\).*shape \(3,\) as set 1"),
    "four dimensions": (lambda: as_sets([np.ones((2, 3, 1))]), ValueError, r"\(n, d\), or \(n,\).*as set 0"),
    "numbers": (lambda: as_sets([1.0, 2.0]), TypeError, "each set as an array.*got float as set 0"),
    "frames": (lambda: as_sets([pd.DataFrame(LONG)]), TypeError, "got DataFrame as set 0. Join tables.*with set_id="),
    "uneven": (lambda: as_sets([[[1.0, 2.0], [3.0]]]), TypeError, "lists within them.* with two ids"),
    "kinds": (lambda: as_sets([np.ones(2), np.array(["a"])]), TypeError, "one kind, float64.*got <U1 in set 1"),
    "words and numbers": (lambda: as_sets([["a"], [1.0]]), TypeError, "elements of one kind.*Arrow says"),
    # Columns of lists
    "not in step": (
        lambda: as_sets({"a": [[1], [2, 3]], "b": [[1], [2]]}),
        ValueError,
        "'a' and 'b' expect lists of one length.*got 2 and 1 in row 1",
    ),
    "not in step, as Arrow": (
        lambda: as_sets(pa.table({"a": [[1], [2, 3]], "b": [[1, 2], [2]]})),
        ValueError,
        "'a' and 'b' expect.*got 1 and 2 in row 0",
    ),
    "null list": (lambda: as_sets(pa.table({"a": [[1], None]})), ValueError, "'a' expects a list.*null in row 1"),
    "None list": (lambda: as_sets({"a": [[1], None]}), ValueError, "'a' expects a list.*null in row 1"),
    "pandas null list": (lambda: as_sets(pd.DataFrame({"a": [None, [1]]})), ValueError, "'a' expects.*null in row 0"),
    "awkward null list": (lambda: as_sets(ak.Array([[1], None])), ValueError, "'x' expects a list.*null in row 1"),
    "nested": (
        lambda: as_sets(pa.table({"a": [[[1], [1, 2]]]})),
        TypeError,
        "column 'a' expects lists of numbers.*lists within",
    ),
    "nested in structs": (
        lambda: as_sets(pa.table({"a": [[{"b": [1]}, {"b": [1, 2]}]]})),
        TypeError,
        "column 'b'.*lists within",
    ),
    "nested awkward": (lambda: as_sets(ak.Array([[[[1]]]])), TypeError, "column 'x'.*lists within"),
    "map of a set": (
        lambda: as_sets(pa.table({"a": pa.array([[("b", 1)]], pa.map_(pa.string(), pa.int64()))})),
        TypeError,
        "column 'a' expects.*got a map",
    ),
    "one name, pandas": (lambda: as_sets(pd.DataFrame(X, columns=["a", "a"])), ValueError, "two called 'a'. Rename"),
    "one name, Arrow": (lambda: as_sets(pa.table([[1], [2]], names=["a", "a"])), ValueError, "two called 'a'"),
    "one name, lists": (
        lambda: as_sets(pa.table({"s": [[{"a": 1}]], "a": [1]})),
        ValueError,
        "two called 'a'. Rename one",
    ),
    "one name, expanded": (
        lambda: as_sets(pa.table({"a": pa.array([[[1]]], pa.list_(pa.list_(pa.int8(), 1))), "a0": [[2]]})),
        ValueError,
        "two called 'a0'",
    ),
    "lengths": (lambda: as_sets({"a": [1, 2], "b": [1]}), ValueError, "one length; got 2 rows of 'a' and 1 of 'b'"),
    "a matrix as column": (lambda: as_sets({"a": np.ones((2, 2))}), TypeError, r"column 'a'.*shape \(2, 2\)"),
    "a number as column": (lambda: as_sets({"a": 3}), TypeError, "column 'a' expects an array, a list"),
    # Long tables
    "unknown id": (lambda: long(set_id="event"), ValueError, "set_id expects.*got 'event'. X has id, x, store, label"),
    "missing id": (
        lambda: as_sets(LONG | {"id": [1.0, float("nan"), 2.0]}, set_id="id"),
        ValueError,
        "set_id='id' expects an id in every row; got none in row 1",
    ),
    "null id": (lambda: as_sets(LONG | {"id": ["a", "b", None]}, set_id="id"), ValueError, "got none in row 2"),
    "ids as lists": (lambda: as_sets(LISTS, set_id="pt"), TypeError, "set_id='pt' expects a column of numbers"),
    "an id twice": (
        lambda: as_sets(LISTS | {"id": [4, 4]}, set_id="id"),
        ValueError,
        "set_id='id' expects a different id in each row.*got 4 twice, first in row 0",
    ),
    "id of arrays": (lambda: as_sets([X], set_id="id"), TypeError, "set_id and set_columns expect X to be a table"),
    "set column": (
        lambda: long(set_columns="store"),
        ValueError,
        "'store' expects one value per set; got 'a' in row 0 and 'b' in row 1, both of set 1",
    ),
    "unknown set column": (lambda: long(set_columns=["shop"]), ValueError, "set_columns expects.*got 'shop'"),
    "only set columns": (
        lambda: as_sets({"id": [1], "a": [1]}, set_id="id", set_columns="a"),
        ValueError,
        "a column of the elements",
    ),
    # Kinds
    "text as number": (
        lambda: as_sets(LONG | {"x": ["1", "2", "n/a"]}, set_id="id", numeric="x"),
        ValueError,
        "'x' is numeric, and expects numbers; got the text 'n/a' in row 2",
    ),
    "text as number in lists": (
        lambda: as_sets({"id": ["p", "q"], "x": [["1"], ["2", "?"]]}, set_id="id", numeric="x"),
        ValueError,
        "'x' is numeric.*got the text '[?]' in element 1 of set q",
    ),
    "unknown kind": (lambda: long(numeric="y"), ValueError, "numeric expects the name of a column; got 'y'"),
    "position": (
        lambda: as_sets([X], categorical=[2]),
        ValueError,
        "categorical expects the name.*got '2'. X has x0, x1",
    ),
    "both kinds": (lambda: long(numeric="x", categorical="x"), ValueError, "expect different columns; got 'x' in both"),
    "infinite category": (
        lambda: as_sets([np.array([np.inf])], categorical=0),
        ValueError,
        "'x' expects categories.*inf",
    ),
    # Targets
    "unknown y": (lambda: long("y"), ValueError, "y expects the name of a column; got 'y'"),
    "y of no table": (lambda: as_sets([X], "y"), TypeError, "X is not a table.*got 'y'"),
    "y differs": (
        lambda: long("label"),
        ValueError,
        "'label' expects one value per set; got 0 in row 0 and 1 in row 1, both of set 1",
    ),
    "y by row differs": (
        lambda: long([0, 1, 1]),
        ValueError,
        "'y' expects one value per set; got 0 in row 0 and 1 in row 1, both of set 1",
    ),
    "y of another length": (lambda: long([0, 1]), ValueError, "one target per row of X, which has 3; got 2"),
    "y of lists' length": (lambda: as_sets(LISTS, [0]), ValueError, "one target per set of X, which has 2; got 1"),
    "y lacks an id": (lambda: long({1: 0}), ValueError, "a target for every set; got none for set 2"),
    "y of other ids": (lambda: long(pd.Series([0, 1], ["1", "2"])), ValueError, "got none for set 1"),
    "y has an id twice": (lambda: long(pd.Series([0, 1], [1, 1])), ValueError, "got two for set 1. Drop one"),
    "y is missing": (lambda: long({1: 0.0, 2: None}), ValueError, "got none for set 2"),
    "y is NaN": (lambda: as_sets(LISTS, [0.0, np.nan]), ValueError, "got none for set 1"),
    "y of lists": (lambda: as_sets(LISTS, "pt"), TypeError, "y expects one value per set; got lists in 'pt'"),
    "y of ids only": (lambda: long(pd.DataFrame({"id": [1, 2]})), ValueError, "a column of targets beside that of ids"),
    "y of nothing": (lambda: as_sets(LISTS, 3), TypeError, "column 'y' expects an array"),
    # The table
    "sets out of range": (lambda: as_sets(LISTS)[[2]], IndexError, "from -2 to 1; got 2 to 2"),
    "flags": (lambda: as_sets(LISTS)[[True]], IndexError, "2 sets needs one flag per set"),
    "column by name": (lambda: as_sets(LISTS)["pt"], TypeError, "got 'pt'. Its columns are in .elements"),
}
X = np.ones((2, 2))


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    bad, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message) as raised, warnings.catch_warnings(action="error"):
        bad()
    text = str(raised.value)
    assert "\n" not in text and len(text) < 400


def test_a_list_of_words_is_no_set():
    """It would name files; the error says how to write sets of words."""
    model = SetClassifier("k1", max_epochs=1).fit([["tea"], ["milk", "tea"]] * 5, [0, 1] * 5)
    for use in (model.predict, lambda words: model.fit(words, "y")):
        with pytest.raises(FileNotFoundError, match=r"sets of words are lists: \[\['tea'\]\]"):
            use(["tea", "milk"])
    assert len(model.predict([["tea"]])) == 1
