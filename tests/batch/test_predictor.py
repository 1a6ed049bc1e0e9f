"""SetPredictor: the same predictions in whatever batches, in whatever process."""

import datetime as dt
import pickle
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from janossy.batch import SetPredictor
from janossy.estimators import SetClassifier, SetRegressor, load, save
from janossy.saving import SavedModelError
from janossy.tables import as_sets
from tests.batch.models import STRATEGIES, saved, table

TABLE = table(50, seed=1)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {kind: saved(kind, folder) for kind in STRATEGIES}


def law_same(found: pa.Table, expected: pa.Table) -> None:
    """Checks that rows are the same, except for the rounding of float32."""
    assert found.schema == expected.schema
    for name in expected.column_names:
        one, other = found[name].to_numpy(), expected[name].to_numpy()
        if one.dtype.kind == "f":
            assert np.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True), name
        else:
            assert one.tolist() == other.tolist(), name


@pytest.mark.parametrize("kind", STRATEGIES)
def test_it_predicts_what_the_estimator_predicts(kind, models):
    model, found = load(models[kind]), SetPredictor(models[kind])(TABLE)
    sets = as_sets(TABLE.select(["price", "code", "hour"]))
    mean, error = model.predict(sets, return_std=True)
    assert found["id"] == TABLE["id"] and found["note"] == TABLE["note"]
    if kind == "pair":
        assert np.array_equal(found["prediction_1"], mean[:, 1])
        assert np.array_equal(found["standard_error_1"], error[:, 1]) and error.any()
        return
    assert found["prediction"].to_pylist() == mean.tolist() and np.array_equal(found["standard_error"], error)
    if kind == "classes":
        assert np.array_equal(found["probability_dear"], model.predict_proba(sets)[:, 1])
        assert np.array_equal(found["change_probability"], model.change_probability(sets))


@pytest.mark.parametrize("kind", STRATEGIES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 3), cuts=st.sets(st.integers(0, 50)), order=st.permutations(range(50)))
def test_a_set_s_prediction_does_not_depend_on_its_batch(kind, models, seed, cuts, order):
    predict = SetPredictor(models[kind], seed=seed)
    ends = [0, *sorted(cuts), 50]
    shuffled = TABLE.take(order)
    parts = [predict(shuffled.slice(a, b - a)) for a, b in pairwise(ends)]
    law_same(pa.concat_tables(parts), predict(TABLE).take(order))


def test_the_seed_draws_the_orders(models):
    by_seed = [SetPredictor(models["classes"], seed=seed)(TABLE) for seed in (0, 0, 1)]
    assert by_seed[0] == by_seed[1] != by_seed[2]
    with pytest.raises(AssertionError):
        law_same(by_seed[2], by_seed[0])


OF_A_WORKER = """
import pickle, sys
import janossy.batch.predictor as p
from tests.batch.models import table

read, count = p.load, []
p.load = lambda path: count.append(path) or read(path)
for _ in range(3):
    found = pickle.loads(bytes.fromhex(sys.argv[1]))(table(50, seed=1))
assert len(count) == 1, count
print(found.schema.names, found["probability_dear"][7])
pickle.loads(bytes.fromhex(sys.argv[2]))(table())
"""


def test_it_pickles_as_its_arguments(models):
    predict = SetPredictor(models["classes"], keep=["id"], num_permutations=10)
    pickled = pickle.dumps(predict)
    assert len(pickled) < 1000 and pickle.loads(pickled) == predict
    assert pickle.loads(pickled)(TABLE) == predict(TABLE)


@pytest.mark.only_all
def test_each_process_reads_the_model_once(models, tmp_path):
    predict = SetPredictor(models["classes"], keep=["id"], num_permutations=10)
    pickled = pickle.dumps(predict)
    changed = pickle.dumps(SetPredictor(save(load(models["numbers"]), tmp_path / "model")))
    save(load(models["classes"]), tmp_path / "model", overwrite=True)
    assert SetPredictor(tmp_path / "model").schema(TABLE.schema).names[-1] == "change_probability"
    run = subprocess.run(
        [sys.executable, "-c", OF_A_WORKER, pickled.hex(), changed.hex()], capture_output=True, text=True, timeout=200
    )
    found = predict(TABLE)
    assert run.stdout == f"{found.schema.names} {found['probability_dear'][7]}\n", run.stderr
    assert run.returncode == 1 and "is not the model that was asked for" in run.stderr.splitlines()[-1]


@pytest.mark.parametrize("kind", STRATEGIES)
def test_all_tables_get_the_same_columns(kind, models):
    predict = SetPredictor(models[kind])
    empty = pa.array([[]] * TABLE.num_rows, pa.list_(pa.null()))
    for each in (
        TABLE.slice(0, 0),
        TABLE.slice(0, 1),
        TABLE.to_batches()[0],
        TABLE.set_column(1, "price", empty).set_column(2, "code", empty),
        TABLE.filter(pc.equal(pc.list_value_length(TABLE["code"]), 0)),
    ):
        assert predict(each).schema == predict.schema(TABLE.schema) and predict(each).num_rows == each.num_rows
    kept = SetPredictor(models[kind], keep=["note"])(TABLE)
    assert kept.column_names[0] == "note" and "id" not in kept.column_names


def test_batches_of_a_stream(models):
    predict = SetPredictor(models["numbers"])
    found = list(predict.batches(iter(TABLE.to_batches(max_chunksize=20))))
    assert [batch.num_rows for batch in found] == [20, 20, 10]
    law_same(pa.Table.from_batches(found), predict(TABLE))


def test_a_column_called_prediction_comes_along(models):
    names = ["prediction" if name == "id" else name for name in TABLE.column_names]
    found = SetPredictor(models["numbers"])(TABLE.rename_columns(names))
    assert found.column_names == ["prediction_", "note", "prediction", "standard_error"]


def test_several_targets_have_names(models):
    found = SetPredictor(models["pair"], targets=["gain", "loss"])(TABLE)
    assert found.column_names[2:] == [
        "prediction_gain",
        "standard_error_gain",
        "prediction_loss",
        "standard_error_loss",
    ]
    with pytest.raises(ValueError, match="a name for each"):
        SetPredictor(models["pair"], targets=["gain"])


def test_structs_in_lists(tmp_path):
    rows = [[{"a": float(n), "b": str(n % 2)} for n in range(b % 4)] for b in range(40)]
    model = SetClassifier("k1", max_epochs=1, random_state=0).fit(pa.table({"items": rows}), np.arange(40) % 2)
    found = SetPredictor(save(model, tmp_path / "model"))(pa.table({"items": rows, "id": range(40)}))
    assert found.column_names[:2] == ["id", "prediction"] and found.num_rows == 40


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.drop_columns("price"), "no column 'price', which the model reads. It has id, code"),
        (lambda t: t.set_column(1, "price", pa.array(range(50))), "janossy group"),
        (lambda t: t.rename_columns(["id", "price", "code", "hour", "id"]), "different names"),
        (lambda t: t.to_pandas(), 'batch_format="pyarrow"'),
        (lambda t: t.set_column(1, "price", pa.array([None, *t["price"].to_pylist()[1:]])), "null in row 0"),
        (lambda t: t.set_column(1, "price", t["price"].combine_chunks()[::-1]), "'price' and 'code' expect lists of"),
    ],
    ids=["lacking", "long", "twice", "pandas", "null", "lengths"],
)
def test_a_wrong_table_is_one_error(change, says, models):
    with pytest.raises((TypeError, ValueError), match=says):
        SetPredictor(models["numbers"])(change(TABLE))


def test_a_model_that_cannot_be_read_is_one_error(models, tmp_path):
    with pytest.raises(SavedModelError, match=r"cannot be read on .*: there is no saved model .* all workers see it"):
        SetPredictor(tmp_path / "none")
    with pytest.raises(TypeError, match="save writes one"):
        SetPredictor(load(models["numbers"]))
    with pytest.raises(TypeError, match="as a list of names"):
        SetPredictor(models["numbers"], keep="id")
    with pytest.raises(ValueError, match="no column 'nobody' to keep"):
        SetPredictor(models["numbers"], keep=["nobody"])(TABLE)


def test_a_zip_is_the_folder_s_model(models, tmp_path):
    zipped = SetPredictor(save(load(models["classes"]), tmp_path / "model.zip"))
    assert zipped.digest == SetPredictor(models["classes"]).digest
    assert zipped(TABLE) == SetPredictor(models["classes"])(TABLE)


def test_dates_where_training_had_numbers(tmp_path):
    """Refused, unless the estimator was told to take the column as numbers."""
    dates = pa.table({"x": [[dt.date(2024, 1, n)] for n in range(1, 21)]})
    days = pa.table({"x": [[float(day.toordinal()) for day in each] for each in dates["x"].to_pylist()]})
    y = np.arange(20.0)
    of_numbers = save(SetRegressor("k1", max_epochs=1, random_state=0).fit(days, y), tmp_path / "numbers")
    with pytest.raises(ValueError, match="'x' expects numbers, as in training; got dates"):
        SetPredictor(of_numbers)(dates)
    told = SetRegressor("k1", numeric="x", max_epochs=1, random_state=0).fit(dates, y)
    found = SetPredictor(save(told, tmp_path / "told"))(dates)["prediction"].to_numpy()
    assert np.array_equal(found, told.predict(dates))
