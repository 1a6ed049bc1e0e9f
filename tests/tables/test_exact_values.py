"""Ids, categories and columns as strangers have them: none passes through a float, or is taken for another."""

import datetime as dt
import uuid
import warnings
from collections import Counter, deque
from decimal import Decimal

import awkward as ak
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from janossy.batch import SetPredictor
from janossy.estimators import GroupRows, SetClassifier, SetRegressor, save
from janossy.tables import SetStream, TableEncoder, as_sets
from tests.tables.forms import values_of
from tests.tables.fuzz import check, one_database

LARGE = 10**18
IDS = [LARGE + row // 3 for row in range(300)]


def test_random_tables_are_those_of_plain_python(tmp_path):
    with one_database():
        for seed in range(40):
            check(seed, tmp_path)


@pytest.mark.only_all
@pytest.mark.timeout(3600)
def test_many_random_tables_are_those_of_plain_python(tmp_path):
    with one_database():
        for seed in range(1000, 20_000):
            check(seed, tmp_path)


LARGE_IDS = {
    "decimal128": pa.array(list(map(Decimal, IDS)), pa.decimal128(38, 0)),
    "decimal128 with places": pa.array(list(map(Decimal, IDS)), pa.decimal128(38, 4)),
    "decimal256": pa.array(list(map(Decimal, IDS)), pa.decimal256(60, 0)),
    "uint64": pa.array([2**63 + each for each in IDS], pa.uint64()),
    "pandas Decimal": pd.Series(list(map(Decimal, IDS))),
    "polars Decimal": pl.Series(list(map(Decimal, IDS)), dtype=pl.Decimal(30, 0)),
    "beyond 64 bits": [2**70 + each for each in IDS],
    "beyond 76 digits": [10**80 + each for each in IDS],
    "another byte order": np.array(IDS, ">i8"),
    "nanoseconds": np.array(IDS, "datetime64[ns]"),
    "objects of nanoseconds": [pd.Timestamp(each) for each in IDS],
    "durations": np.array(IDS, "timedelta64[ns]"),
    "UUIDs": [uuid.UUID(int=each) for each in IDS],
    "bytes": np.array([each.to_bytes(8, "big").hex().encode() for each in IDS], "S16"),
    "fixed binary": pa.array([each.to_bytes(8, "big") for each in IDS], pa.binary(8)),
}


@pytest.mark.parametrize("name", LARGE_IDS)
def test_large_ids_stay_apart(name):
    table = {"id": LARGE_IDS[name], "x": np.arange(300.0)}
    sets = as_sets(table, set_id="id")
    assert sets.sizes.tolist() == [3] * 100 and len(set(sets.ids.tolist())) == 100
    code = as_sets({"code": LARGE_IDS[name], "x": np.arange(300.0)}, categorical="code").elements["code"]
    assert len(code.categories) == 100 and TableEncoder().fit(as_sets({"code": LARGE_IDS[name]}, categorical="code"))
    if name not in ("durations", "nanoseconds"):  # as Python has them they lose their last digits
        listed = list(LARGE_IDS[name].to_pylist() if isinstance(LARGE_IDS[name], pa.Array) else LARGE_IDS[name])
        y = dict(zip(listed, [row // 3 for row in range(300)], strict=True))
        assert as_sets(table, y, set_id="id")[1].tolist() == list(range(100))


NULLED = {
    "Arrow": pa.array([2**53, 2**53 + 1, None], pa.int64()),
    "uint64": pa.array([2**64 - 1, 2**64 - 2, None], pa.uint64()),
    "pandas": pd.Series([2**53, 2**53 + 1, None], dtype="Int64"),
    "objects": np.array([2**53, 2**53 + 1, None], dtype=object),
    "polars": pl.Series([2**53, 2**53 + 1, None]),
    "decimal": pa.array([Decimal(2**53), Decimal(2**53 + 1), None]),
    "fractions": pa.array([Decimal("0.10000000000000000001"), Decimal("0.1"), None]),
    "masked": np.ma.masked_array([2**53, 2**53 + 1, 0], [False, False, True]),
}


@pytest.mark.parametrize("name", NULLED)
def test_large_numbers_beside_a_null_are_two_categories(name):
    column = as_sets({"x": NULLED[name]}, categorical="x").elements["x"]
    assert len(column.categories) == 2 and column.values.tolist() == [0, 1, -1]
    chosen = as_sets({"x": NULLED[name], "z": [1, 2, 3]})[[2, 1]].elements["x"].to_kind("categorical", "x")
    assert chosen.values.tolist() == [-1, 0]


def test_a_column_of_the_sets_differs_where_floats_do_not():
    table = {"id": [1, 1], "x": [1, 2], "c": pa.array([Decimal(2**60), Decimal(2**60 + 1)], pa.decimal128(38, 2))}
    with pytest.raises(ValueError, match="one value per set"):
        as_sets(table | {"c": pa.array([Decimal(10) ** 25, Decimal(10) ** 25 + 1])}, set_id="id", set_columns="c")
    with pytest.raises(ValueError, match="one value per set"):
        as_sets(table, set_id="id", set_columns="c")


def test_ids_that_compare_equal_are_one_set():
    assert as_sets({"id": [0.0, -0.0, 1.0], "x": [1, 2, 3]}, set_id="id").sizes.tolist() == [2, 1]
    many = as_sets({"a": [0.0, -0.0], "b": ["x", "x"], "x": [1, 2]}, set_id="a+b")
    assert many.sizes.tolist() == [2]


FRAME = pd.DataFrame(np.arange(12).reshape(3, 4))


@pytest.mark.parametrize("of", [int, np.int64, np.uint8, str])
def test_columns_named_by_integers(of):
    renamed = FRAME[[3, 2, 1, 0]]  # so that no name is its position
    assert list(as_sets(renamed, drop=[of(3)]).elements) == ["2", "1", "0"]
    assert as_sets(renamed, drop=of(3)).elements.keys() == {"0", "1", "2"}
    for given in ([of(2)], of(2)):
        found = as_sets(renamed, categorical=given).elements
        assert [name for name, column in found.items() if column.kind == "categorical"] == ["2"]
    sets, y = as_sets(renamed, of(3), set_id=of(0), set_columns=[of(1)])
    assert sets.ids.tolist() == [0, 4, 8] and y.tolist() == [3, 7, 11] and sets.context.keys() == {"1"}
    assert as_sets(renamed.set_index(0), set_id=of(0)).ids.tolist() == [0, 4, 8]
    assert as_sets({3: [1, 2], 0: [3, 4]}, drop=of(3)).elements.keys() == {"0"}
    assert GroupRows(of(0), drop=[of(3)]).fit_transform(renamed).elements.keys() == {"1", "2"}


@pytest.mark.parametrize("of", [int, np.int64])
def test_columns_of_files_named_by_integers(of, tmp_path):
    table = pa.table({"3": [1.0, 2.0], "0": [5, 6], "1": [0, 1]})
    parquet.write_table(table, tmp_path / "t.parquet")
    stream = SetStream(tmp_path / "t.parquet", of(1), set_id=of(0))
    assert stream.read(0).sets.elements.keys() == {"3"} and stream.read(0).targets.tolist() == [0, 1]
    assert SetStream(tmp_path / "t.parquet", set_id=of(0), drop=of(3)).read(0).sets.elements.keys() == {"1"}


def test_positions_are_of_arrays():
    x = np.arange(6).reshape(2, 3)
    for two in (2, np.int64(2), -1):
        assert [c.kind for c in as_sets(x, categorical=two).elements.values()] == ["numeric", "numeric", "categorical"]
    with pytest.raises(TypeError, match=r"whole numbers; got 2[.]0"):
        as_sets(x, categorical=[2.0])
    with pytest.raises(TypeError, match="got True"):
        as_sets(x, categorical=[True])


def test_a_series_named_as_the_ids_goes_by_id():
    X = pd.DataFrame({"id": [3, 1, 2, 0], "x": [[1.0], [2.0], [3.0], [4.0]]})
    y = pd.Series([0, 10, 20, 30], index=pd.RangeIndex(4, name="id"))
    assert as_sets(X, y, set_id="id")[1].tolist() == [30, 10, 20, 0]
    assert as_sets(X, y.to_frame("y"), set_id="id")[1].tolist() == [30, 10, 20, 0]
    long = pd.DataFrame({"id": [3, 1, 2, 0], "x": [1.0, 2.0, 3.0, 4.0]}, index=[0, 1, 2, 3])
    assert as_sets(long, y, set_id="id")[1].tolist() == [30, 10, 20, 0]
    assert as_sets(long, y.rename_axis(None), set_id="id")[1].tolist() == [0, 10, 20, 30]  # counts the rows
    pairs = long.assign(run=[1, 1, 2, 2])
    turned = pd.Series([1, 2, 3, 4], pd.MultiIndex.from_tuples([(0, 2), (2, 2), (1, 1), (3, 1)], names=["id", "run"]))
    assert as_sets(pairs, turned, set_id="run+id")[1].tolist() == [4, 3, 2, 1]
    indexed = long.set_index("id")
    assert as_sets(indexed, pd.Series([1, 2, 3, 4], indexed.index), set_id="id")[1].tolist() == [1, 2, 3, 4]


class Labelled:
    """An array with names of its dimensions, as xarray's, which gives itself as Arrow in one column."""

    dims = ("row", "column")

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape, self.ndim = values, values.shape, values.ndim

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table({"values": self.values.ravel()}).__arrow_c_stream__(requested_schema)


def test_labelled_arrays_are_arrays():
    x = np.arange(6.0).reshape(3, 2)
    assert as_sets(Labelled(x)).sizes.tolist() == [1, 1, 1] and list(as_sets(Labelled(x)).elements) == ["x0", "x1"]
    assert as_sets([Labelled(x), Labelled(x[:1])]).sizes.tolist() == [3, 1]
    assert as_sets({"a": Labelled(x[:, 0])}).elements["a"].values.tolist() == [0, 2, 4]


def test_the_other_byte_order():
    x = np.arange(6, dtype=">f8").reshape(3, 2)
    assert as_sets(x).elements["x1"].values.tolist() == [1, 3, 5]
    table = as_sets({"id": np.array([7, 7, 3], ">i4"), "code": np.array(["a", "b", "a"], ">U1"),
                     "day": np.array([1, 2, 3], ">M8[D]"),
                     "x": np.array([1.0, 2.0, 3.0], ">f4")}, set_id="id")  # fmt: skip
    assert table.ids.tolist() == [7, 3] and values_of(table.elements["code"]) == ["a", "b", "a"]
    assert table.elements["day"].kind == "date"


def tensors(shape: list[int], num: int) -> pa.Array:
    size = int(np.prod(shape))
    storage = pa.array(np.arange(float(num * size)).reshape(num, size).tolist(), pa.list_(pa.float64(), size))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float64(), shape), storage)


def test_tensors_and_vectors_in_columns():
    vectors = as_sets(pa.table({"x": tensors([2, 3], 2)}))
    assert vectors.sizes.tolist() == [2, 2] and vectors.elements["x1"].values.tolist() == [1, 4, 7, 10]
    assert as_sets(pa.table({"x": tensors([3], 2)})).elements["x"].values.tolist() == [0, 1, 2, 3, 4, 5]
    assert as_sets(pa.table({"x": tensors([2, 3], 3)}).slice(1, 1)).elements["x0"].values.tolist() == [6, 9]
    nested = as_sets({"x": [[[1.0, 2.0], [3.0, 4.0]], []], "y": [1, 0]}, "y")[0]
    assert nested.sizes.tolist() == [2, 0] and nested.elements["x1"].values.tolist() == [2, 4]
    with pytest.raises(TypeError, match="of several lengths, such as 2 and 1"):
        as_sets({"x": [[[1.0, 2.0], [3.0]]]})


@pytest.mark.parametrize("x", [tensors([4, 2], 30), pa.array([[[1.0, 2.0], [3.0, b]] for b in range(30)])])
def test_vectors_through_a_model(x, tmp_path):
    table = pa.table({"id": range(30), "x": x, "y": np.arange(30) % 2})
    model = SetClassifier("k1", max_epochs=1, random_state=0).fit(
        table.drop_columns(["id"]).drop_columns(["y"]), table["y"].to_numpy()
    )
    predictor = SetPredictor(save(model, tmp_path / "model"))
    found = predictor(table)
    assert found.column_names[:2] == ["id", "y"] and found.num_rows == 30
    parquet.write_table(table, tmp_path / "t.parquet")
    assert len(model.predict(tmp_path / "t.parquet")) == 30


def test_sets_counters_and_generators():
    assert values_of(as_sets([{"tea", "milk"}, set()]).elements["x"]) == ["milk", "tea"]
    assert as_sets({"x": [{1, 2}, frozenset()], "y": [1, 0]}, "y")[0].sizes.tolist() == [2, 0]
    counted = as_sets([Counter(tea=2, milk=1), Counter()])
    assert values_of(counted.elements["x"]) == ["milk", "tea", "tea"] and counted.sizes.tolist() == [3, 0]
    assert as_sets(np.full((n, 1), n) for n in range(1, 4)).sizes.tolist() == [1, 2, 3]
    days = [[np.datetime64("2024-01-31")], [np.datetime64("2024-02-01T12:00"), np.datetime64("2024-02-02")]]
    assert as_sets({"x": days}).elements["x"].kind == "date" and as_sets(days).sizes.tolist() == [1, 2]
    iterables = [range(3), deque([4, 5]), iter([6]), {7: 0, 8: 0}.keys(), {"a": 9}.values()]
    assert values_of(as_sets(iterables).elements["x"]) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    arrays = pd.Series([np.ones((2, 3)), np.zeros((1, 3))], index=[5, 6])
    assert as_sets(arrays).sizes.tolist() == as_sets(dict(enumerate(arrays)).values()).sizes.tolist() == [2, 1]
    with pytest.raises(ValueError, match="counts that are whole numbers"):
        as_sets([Counter(a=-1)])
    with pytest.raises(TypeError, match="pass a dict of counts as a Counter"):
        as_sets([{"a": 1}, np.ones(2)])


def test_lists_whose_common_dtype_is_a_float():
    """Whole numbers of uint64 and int64, or beside others: apart, or an error; never one category."""
    long = [[2**63 + 1, 2**63 + 3], [5]]
    for sets in (long, [np.array(long[0], np.uint64), np.array(long[1])]):
        assert as_sets(sets, categorical="x").elements["x"].categories == (2**63 + 1, 2**63 + 3, 5)
    assert values_of(as_sets([[1, 2], [0.5]]).elements["x"]) == [1, 2, 0.5]
    for sets in ([[2**53 + 1, 2**53 + 3], [0.5]], [[2**53 + 1, 0.5]], [[2**63, -1]]):
        with pytest.raises(TypeError, match="expects"):
            as_sets(sets, categorical="x")


def test_positions_are_not_names():
    frame = pd.DataFrame(np.arange(6).reshape(2, 3))
    assert list(as_sets(frame, set_id=0, drop=[2]).elements) == ["1"]
    with pytest.raises(ValueError, match="drop expects names of columns; got the position -1"):
        as_sets(frame, set_id=0, drop=[-1])


def test_the_index_of_a_frame_is_no_feature(tmp_path):
    frame = pd.DataFrame({"x": [[1.0], [2.0]], "y": [0, 1]}, index=[5, 6])
    frame.to_parquet(tmp_path / "t.parquet")
    frame.set_index(pd.Index(["u", "v"], name="when")).to_parquet(tmp_path / "named.parquet")
    for name, index in (("t", "__index_level_0__"), ("named", "when")):
        table = parquet.read_table(tmp_path / f"{name}.parquet")
        assert index in table.column_names
        with pytest.warns(UserWarning, match=f"{index} is the index of a pandas frame, and left out"):
            assert as_sets(table, "y")[0].context == {}
        with pytest.warns(UserWarning, match=f"{index} is the index of a pandas frame, and left out"):
            assert SetStream(tmp_path / f"{name}.parquet", "y").read(0).sets.context == {}
        with warnings.catch_warnings(action="error"):
            assert as_sets(table, "y", set_id=index)[0].ids.tolist() in (["u", "v"], [5, 6])
            assert as_sets(table, "y", set_columns=[index])[0].context.keys() == {index}
    assert as_sets(pl.from_arrow(pa.table({"__index_level_0__": [1, 2]})), set_columns=()).elements.keys() == {
        "__index_level_0__"
    }


def test_codes_of_a_model_and_of_a_table():
    """Numbers for text are refused with a way out; text that spells the numbers of training is these."""
    text = TableEncoder().fit(as_sets({"code": [["A1", "007", "42"]]}))
    with pytest.raises(ValueError, match=r"got numbers, in which 007 and 7 are the same. Read the column as text"):
        text.transform(as_sets({"code": [[7, 42]]}, categorical="code"))
    numbers = TableEncoder().fit(as_sets({"code": [[7, 42]]}, categorical="code"))
    with pytest.warns(UserWarning, match=r"values that are new since training in column 'code' \(2\)"):
        found = numbers.transform(as_sets({"code": [["42", "7", "007", "x"]]}))
    assert found.elements.values[:, 0].tolist() == [2, 1, 0, 0]


def test_dates_where_training_had_numbers():
    encoder = TableEncoder().fit(as_sets({"x": [[1.0, 2.0]]}))
    with pytest.raises(ValueError, match="column 'x' expects numbers, as in training; got dates"):
        encoder.transform(as_sets({"x": [[dt.datetime(2024, 1, 1)]]}))


def test_scikit_learn_around_tables():
    sets = [np.random.default_rng(b).normal(size=(3, 2)) for b in range(12)]
    y = np.arange(12) % 2
    with pytest.raises(TypeError, match="SetTable is not a matrix"):
        BaggingClassifier(SetClassifier("k1", max_epochs=1)).fit(as_sets(sets), y)
    awkward = ak.Array([x.tolist() for x in sets])
    scores = cross_val_score(SetClassifier("k1", max_epochs=1, random_state=0), awkward, y, cv=2)
    assert np.isfinite(scores).all()
    records = ak.Array([{"pt": x[:, 0].tolist()} for x in sets])
    assert as_sets(list(records["pt"])).sizes.tolist() == [3] * 12
    long = pd.DataFrame({"id": np.repeat(np.arange(12), 3), "x": np.arange(36.0)})
    group = GroupRows("id").set_output(transform="pandas")
    assert group.fit_transform(long).shape == (12,)
    pipeline = make_pipeline(GroupRows("id"), FunctionTransformer()).set_output(transform="pandas")
    assert len(pipeline[0].fit_transform(long)) == 12


def test_a_decimal_target_is_whole_numbers_where_it_can_be():
    x = [[1.0], [2.0]]
    assert as_sets({"x": x, "y": [Decimal(10**18), Decimal(10**18 + 1)]}, "y")[1].tolist() == [10**18, 10**18 + 1]
    assert as_sets({"x": x, "y": [Decimal("0.5"), Decimal("1.5")]}, "y")[1].tolist() == [0.5, 1.5]
    assert SetRegressor("k1", max_epochs=1).fit({"x": x * 5}, [Decimal("0.5"), Decimal("1.5")] * 5)


def test_damaged_text_in_files_is_refused(tmp_path):
    text = pa.array(["a", "b"])
    wrong = pa.Array.from_buffers(pa.string(), 2, [None, text.buffers()[1], pa.py_buffer(b"\xff\xfe")])
    parquet.write_table(pa.table({"x": wrong, "id": [1, 2], "y": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"t[.]parquet cannot be read"):
        SetStream(tmp_path / "t.parquet", "y", set_id="id").read(0)
