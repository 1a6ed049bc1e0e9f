"""Several classes per set, labels and ordered classes: losses against plain sums, and fits that find what is there."""

import warnings
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from scipy.special import expit
from sklearn.utils.multiclass import type_of_target

from janossy.estimators import SetClassifier, load, save
from janossy.estimators.class_codes import classes_of
from janossy.estimators.class_targets import ClassTargets
from janossy.estimators.predictions import prediction_schema, predictions
from janossy.estimators.tasks import Classification
from janossy.tables import SetStream, as_sets
from tests.estimators.test_groups import sets_in_file

QUICK = {"max_epochs": 12, "validation": 0.2, "random_state": 0}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=4), st.integers(0, 999))
def test_a_loss_is_the_mean_of_those_of_each(sizes, seed):
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn(7, sum(sizes), dtype=torch.float64, generator=generator)
    targets = torch.stack([torch.randint(size, (7,), generator=generator) for size in sizes], 1)
    task = Classification(tuple(sizes))
    given_as = targets[:, 0] if len(sizes) == 1 else targets
    expected, right, begin = torch.zeros(7, dtype=torch.float64), 0.0, 0
    for j, size in enumerate(sizes):
        some = outputs[:, begin : begin + size]
        begin += size
        expected += torch.nn.functional.cross_entropy(some, targets[:, j], reduction="none") / len(sizes)
        right += float((some.argmax(1) == targets[:, j]).double().mean()) / len(sizes)
    mean = task.link(1.0)(outputs)
    assert torch.allclose(task.criterion(outputs, given_as), expected)
    assert torch.allclose(task.losses(mean, given_as), expected)
    assert task.score(mean, given_as, torch.ones(7)) == pytest.approx(right)
    assert torch.equal(
        torch.stack([part.sum(1) for part in task.parts(mean)]).round(decimals=9), torch.ones(len(sizes), 7)
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=3), st.integers(1, 200), st.integers(0, 999))
def test_losses_of_few_sets_know_no_certainty_and_surprise_expects_errors(sizes, num_sets, seed):
    generator = torch.Generator().manual_seed(seed)
    task = ClassTargets("columns", [np.arange(size) for size in sizes]).task(False, num_sets)
    outputs = 3 * torch.randn(7, sum(sizes), dtype=torch.float64, generator=generator)
    targets = torch.stack([torch.randint(size, (7,), generator=generator) for size in sizes], 1)
    mean, begin, doubt = task.link(1.0)(outputs), 0, 1 / (num_sets + 2)
    losses, surprise = torch.zeros(2, 7, dtype=torch.float64)
    for j, size in enumerate(sizes):
        right = mean[:, begin : begin + size].gather(1, targets[:, j : j + 1])[:, 0]
        begin += size
        losses -= right.clamp(doubt, 1 - doubt).log() / len(sizes)
        surprise -= ((1 - doubt) * right.log() + doubt * (1 - right).log()) / len(sizes)
    assert torch.allclose(task.losses(mean, targets), losses)
    assert torch.allclose(task.surprise(mean, targets), surprise)
    sure = torch.zeros_like(mean)
    sure[:, 0] = 1.0
    assert task.surprise(sure, targets).isfinite().all()


@pytest.mark.parametrize("num_sets", [4, 40, 2000])
def test_predictions_that_are_all_right_are_least_surprising_if_they_expect_one_error(num_sets):
    task = ClassTargets("one", [np.arange(2)]).task(False, num_sets)
    sure = 1 - torch.logspace(-9, -0.5, 2000, dtype=torch.float64)
    surprise = task.surprise(torch.stack([sure, 1 - sure], 1), torch.zeros(len(sure), dtype=torch.int64))
    assert 1 - sure[surprise.argmin()].item() == pytest.approx(1 / (num_sets + 2), rel=0.02)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.floats(0.5, 20.0), st.integers(0, 999))
def test_ordinal_probabilities_are_differences_of_cumulative_ones(num, width, seed):
    outputs = width * torch.randn(5, num - 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    task = Classification((num,), ordinal=True)
    assert task.num_outputs == num - 1
    numbers, found = outputs.numpy(), task.link(1.0)(outputs).numpy()
    above = numbers[:, :1] - np.concatenate([np.zeros((5, 1)), np.logaddexp(0, numbers[:, 1:]).cumsum(1)], 1)
    at_least = np.concatenate([np.ones((5, 1)), expit(above), np.zeros((5, 1))], 1)
    assert found == pytest.approx(at_least[:, :-1] - at_least[:, 1:], abs=1e-12)
    assert (found >= 0).all()
    targets = torch.arange(5) % num
    outputs.requires_grad_()
    loss = task.criterion(outputs, targets)
    assert loss.isfinite().all() and torch.autograd.grad(loss.sum(), outputs)[0].isfinite().all()
    assert torch.allclose(loss.exp(), 1 / task.link(1.0)(outputs)[torch.arange(5), targets], rtol=1e-6)


def bags(num: int = 240) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Returns sets (n, 2), with the sums of their columns 0 and 1."""
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(n, 2)) for n in rng.integers(1, 5, num)]
    return sets, *np.array([each.sum(0) for each in sets]).T


def table_of(model: SetClassifier, sets: list[np.ndarray], names: tuple[str, ...] = ()) -> pa.Table:
    table = predictions(model.predictor_, as_sets(sets), names)
    assert table.schema == prediction_schema(model.predictor_, names)
    return table


def test_columns_of_classes(tmp_path):
    sets, a, b = bags()
    y = pd.DataFrame({"sign": np.where(a > 0, "plus", "minus"), "third": np.digitize(b, [-0.5, 0.5])})
    model = SetClassifier("k1", **QUICK).fit(sets, y)
    said, (sign, third) = model.predict(sets), model.predict_proba(sets)
    assert [each.tolist() for each in model.classes_] == [["minus", "plus"], [0, 1, 2]]
    assert said.shape == (240, 2) and sign.shape == (240, 2) and third.shape == (240, 3)
    assert (said[:, 1] == third.argmax(1)).all() and (said[:, 0] == model.classes_[0][sign.argmax(1)]).all()
    right = said == y.to_numpy()
    assert right.mean() > 0.85 and model.score(sets, y) == pytest.approx(right.all(1).mean())
    assert model.predict(sets[:3], return_std=True)[1].shape == (3, 2)
    assert model.element_importance(sets[:2])[0].shape == (len(sets[0]), 2)
    table = table_of(model, sets[:4], ("sign", "third"))
    assert table.column_names[:4] == [
        "prediction_sign",
        "probability_sign_minus",
        "probability_sign_plus",
        "standard_error_sign",
    ]
    assert table["prediction_third"].to_pylist() == said[:4, 1].tolist()
    again = load(save(model, tmp_path / "model"))
    assert (again.predict(sets) == said).all() and again.task_ == model.task_
    with pytest.raises(AttributeError, match="one class per set"):
        model.change_probability(sets)


@pytest.mark.parametrize("rows", ["lists", "elements"])
def test_columns_of_classes_in_files(tmp_path, rows):
    """Codes and weights are those of the table in memory, and so are classes and probabilities of a model's."""
    sets, a, b = bags()
    classes = {"sign": np.where(a > 0, "plus", "minus"), "third": np.digitize(b, [-0.5, 0.5])}
    if rows == "lists":
        table = pa.table({"x0": [each[:, 0] for each in sets], "x1": [each[:, 1] for each in sets]} | classes)
        options = {}
    else:
        number = np.repeat(np.arange(len(sets)), list(map(len, sets)))
        of_rows = {name: values[number] for name, values in classes.items()}
        table = pa.table({"id": number, "x0": np.concatenate(sets)[:, 0], "x1": np.concatenate(sets)[:, 1]} | of_rows)
        options = {"set_id": "id"}
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    stream = SetStream(tmp_path / "t.parquet", ["sign", "third"], **options)
    model = SetClassifier("k1", class_weight="balanced", **QUICK).fit(stream)
    assert [each.tolist() for each in model.classes_] == [["minus", "plus"], [0, 1, 2]]
    said, (sign, third) = model.predict(stream), model.predict_proba(stream)
    assert (said == pd.DataFrame(classes).to_numpy()).mean() > 0.8
    assert (said[:, 1] == third.argmax(1)).all() and (said[:, 0] == model.classes_[0][sign.argmax(1)]).all()
    targets = model._targets(stream, model.scan_)  # noqa: SLF001
    given = stream.read(0).targets
    of_memory = classes_of(pd.DataFrame(classes).iloc[: len(given)])[2]
    assert torch.equal(targets.encode(given), of_memory)
    counts = [np.array(each) for each in model.scan_.counts]
    expected = np.prod(
        [(sum(n) / (len(n) * n))[codes] for n, codes in zip(counts, of_memory.T.numpy(), strict=True)], 0
    )
    assert targets.weigh(of_memory).numpy() == pytest.approx(expected, rel=1e-5)


def test_columns_of_classes_in_files_are_learnt_by_networks_alone(tmp_path):
    sets, a, b = bags()
    columns = {"x": [each[:, 0] for each in sets], "sign": a > 0, "other": b > 0}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    model = SetClassifier(["linear", "k1"], **QUICK).fit(tmp_path / "t.parquet", ["sign", "other"])
    assert [trial.strategy for trial in model.trials_] == ["k1"]
    with pytest.raises(ValueError, match="several classes per set expects networks in strategy"):
        SetClassifier("linear", **QUICK).fit(tmp_path / "t.parquet", ["sign", "other"])
    parquet.write_table(pa.table(columns).drop(["other"]), tmp_path / "one.parquet")
    one = SetClassifier("linear", **QUICK).fit(tmp_path / "one.parquet", ["sign"])
    assert [trial.strategy for trial in one.trials_] == ["linear"]


def test_a_class_of_validation_sets_alone(tmp_path):
    """It has a code of its own, and no weight of other classes."""
    x = [[float(n)] for n in range(40)]
    for rare in range(40):
        y = ["b" if n == rare else "ac"[n % 2] for n in range(40)]
        parquet.write_table(pa.table({"x": x, "y": y}), tmp_path / "t.parquet")
        model = SetClassifier("k1", max_epochs=1, class_weight="balanced", validation=0.5, random_state=0)
        model.fit(str(tmp_path / "t.parquet"), "y")
        if model.scan_.counts[0][1] == 0:
            break
    assert model.classes_.tolist() == ["a", "b", "c"] and model.scan_.counts[0][1] == 0
    assert model.predict_proba(str(tmp_path / "t.parquet")).shape == (40, 3)


CLASSES = {
    "UUIDs": (UUID(int=1), UUID(int=2)),
    "bytes": (b"a", b"\xff"),
    "decimals": (Decimal(1), Decimal(2)),
    "long decimals": (Decimal(10**30), Decimal(10**30 + 1)),
    "long whole numbers": (2**70, 2**70 + 1),
    "truth values": (True, False),
    "text": ("a", "b"),
}


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("make", [list, lambda y: np.array(y, object), pd.Series], ids=["list", "objects", "Series"])
def test_classes_of_any_type(kind, make):
    y = make([CLASSES[kind][n % 2] for n in range(8)])
    known, given, codes = classes_of(y)
    assert known.kind == "one" and len(known.classes[0]) == 2 and len(set(codes[::2].tolist())) == 1
    assert known.decoded(codes[:, None].numpy()).tolist() == given.tolist() and codes[0] != codes[1]


def test_flags_are_those_of_scikit_learn(tmp_path):
    sets, a, b = bags()
    y = np.stack([a > 0, b > 0, a + b > 1], 1).astype(int)
    model = SetClassifier("k1", class_weight="balanced", **QUICK).fit(sets, y, sample_weight=np.ones(240))
    said, probabilities = model.predict(sets), model.predict_proba(sets)
    assert type_of_target(said) == "multilabel-indicator" and probabilities.shape == (240, 3)
    assert ((probabilities > 0.5) == said).all() and (said == y).mean() > 0.85
    sets_of, out_of_fold = model.validation_predictions()
    assert out_of_fold.shape == (len(sets_of), 3) and 0 < len(sets_of) < 240


FORMS = {
    "sets": list,
    "lists": lambda labels: [sorted(each) for each in labels],
    "Arrow": lambda labels: pa.array([sorted(each) for each in labels]),
    "objects": lambda labels: pd.Series([tuple(each) for each in labels]),
    "tensors": lambda labels: [np.array(sorted(each)) for each in labels],
}


def test_labels_in_any_form_are_the_same():
    rng = np.random.default_rng(0)
    labels = [set(rng.choice(list("abcd"), rng.integers(0, 4)).tolist()) for _ in range(30)]
    for form, make in FORMS.items():
        known, _, codes = classes_of(make(labels))
        assert known.kind == "labels" and known.classes[0].tolist() == list("abcd"), form
        assert [set(each) for each in known.decoded(codes.numpy())] == labels, form
    flags = classes_of(codes.tolist())
    assert flags[0].kind == "columns" and flags[0].are_flags and torch.equal(flags[2], codes)


@pytest.mark.parametrize("strategy", ["k1", "gru"])
def test_labels(tmp_path, strategy):
    sets, a, b = bags()
    labels = [
        {name for name, there in zip("abc", row, strict=True) if there} for row in np.stack([a > 0, b > 0, a > b], 1)
    ]
    model = SetClassifier(strategy, **QUICK | ({"max_epochs": 4} if strategy == "gru" else {})).fit(sets, labels)
    said, probabilities = model.predict(sets), model.predict_proba(sets)
    assert model.classes_.tolist() == ["a", "b", "c"] and probabilities.shape == (240, 3)
    assert [set(each) for each in said] == [set(model.classes_[row > 0.5]) for row in probabilities]
    assert model.score(sets, labels) == np.mean([set(one) == two for one, two in zip(said, labels, strict=True)]) > 0.5
    table = table_of(model, sets[:4])
    assert table.column_names[:3] == ["prediction", "probability_a", "standard_error_a"]
    assert [tuple(each) for each in table["prediction"].to_pylist()] == said[:4].tolist()
    again = load(save(model, tmp_path / "model"))
    assert (again.predict(sets) == said).all() and (again.predict_proba(sets) == probabilities).all()


def test_ordinal_classes(tmp_path):
    sets, a, _ = bags()
    y = np.digitize(a, [-1.5, -0.5, 0.5, 1.5]) + 1
    model = SetClassifier("k1", ordinal=True, **QUICK).fit(sets, y)
    probabilities = model.predict_proba(sets)
    assert probabilities.shape == (240, 5) and probabilities.sum(1) == pytest.approx(np.ones(240), abs=1e-5)
    assert model.score(sets, y) > 0.7 and abs(model.predict(sets) - y).max() <= 2
    again = load(save(model, tmp_path / "model"))
    assert (again.predict_proba(sets) == probabilities).all() and again.task_.ordinal


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({}, [["a", "b"], ["b", "c"]], "may be columns or labels"),
        ({}, [{"a"}, {"a"}], "two labels or more"),
        ({}, [{"a"}, {1}], "labels of one type; got int, str"),
        ({}, np.array([["a", "x"], ["b", "x"]]), "two classes or more in y, column 1; got one class"),
        ({"ordinal": True}, [{"a"}, {"b"}], "one class per set if ordinal=True"),
        ({"ordinal": True, "strategy": "linear"}, [1, 2], "ordinal=True expects networks"),
        ({"strategy": "trees"}, np.array([[0, 1], [1, 0]]), "several classes per set expects networks"),
    ],
)
def test_other_targets(options, y, message):
    y = np.concatenate([y] * 5) if isinstance(y, np.ndarray) else y * 5
    with pytest.raises(ValueError, match=message):
        SetClassifier(**{"strategy": "k1", "max_epochs": 1, **options}).fit([[1.0], [2.0]] * 5, y)


def test_what_is_one_column_stays_one():
    """A column (B, 1) is one class, as scikit-learn has it, with its warning."""
    with pytest.warns(UserWarning, match="column-vector"):
        known, _, codes = classes_of(np.array([["a"], ["b"]]))
    assert known.kind == "one" and codes.tolist() == [0, 1]


@pytest.mark.parametrize("strategy", ["k1", "linear", "trees", "forest"])
def test_many_numbers_as_classes_give_one_warning_of_ours(strategy):
    sets, y = [np.ones((1, 1)) * b for b in range(40)], np.minimum(np.arange(40), 25)
    with pytest.warns(UserWarning) as raised:
        SetClassifier(strategy, max_epochs=1, random_state=0).fit(sets, y)
    assert [str(each.message) for each in raised] == [
        "SetClassifier expects sets that share classes; got 26 different numbers in y for 40 sets. SetRegressor takes "
        "amounts."
    ]
    assert raised[0].filename == __file__


def test_a_table_without_classes_is_refused():
    with pytest.raises(ValueError, match="SetClassifier expects y with a column of classes or more; got none"):
        SetClassifier().fit([np.ones((1, 1))] * 3, np.zeros((3, 0), int))


@pytest.mark.parametrize("y", [[f"name {b}" for b in range(40)], np.arange(40) % 20, [*range(20)]])
def test_other_classes_give_no_warning(y):
    sets = [np.ones((1, 1)) * b for b in range(len(y))]
    with warnings.catch_warnings(action="error"):
        SetClassifier("linear", random_state=0).fit(sets, y)


@pytest.mark.parametrize("dtype", ["boolean", "bool[pyarrow]", "Int64", "int64[pyarrow]", "UInt8"])
def test_nullable_classes_of_pandas_stay_what_they_are(dtype):
    whole = [2**60 + 1, 2**60, 5] if dtype.lower().startswith("int64") else [1, 0, 0]
    y = pd.Series(whole).astype(dtype)
    known, _, codes = classes_of(y)
    assert known.classes[0].tolist() == sorted(set(y.tolist()))
    assert known.classes[0].dtype == (bool if "bool" in dtype else np.int64)
    assert [known.classes[0].tolist()[code] for code in codes] == y.tolist()
    with pytest.raises(ValueError, match="y expects a target for every set; got none for set 1"):
        classes_of(y.where([True, False, True]))


@pytest.mark.parametrize("given", ["even", 2.0, {"no such class": 2.0}])
@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "stream"])
def test_other_class_weights_are_refused(tmp_path, given, in_memory):
    sets, y = [np.ones((1, 1)) * b for b in range(10)], ["ja", "nein"] * 5
    model = SetClassifier("k1", max_epochs=1, class_weight=given)
    message = r"class_weight expects (None, 'balanced' or a dict|classes of y, \['ja', 'nein'\])"
    with pytest.raises(ValueError, match=f"{message}; got"):
        model.fit(sets, y) if in_memory else model.fit(sets_in_file(tmp_path, sets, y=y), "y")


MIXED = {
    "text and numbers": (["a", 1], "one type.*got str and, in row 1, 1"),
    "text and booleans": ([True, "a"], "one type.*got bool and, in row 1, 'a'"),
    "text and NaN": (["a", np.nan], "a target for every set; got none for set 1"),
    "text and None": (["a", None], "a target for every set; got none for set 1"),
}


@pytest.mark.parametrize("form", [list, tuple, lambda y: np.array(y, object), lambda y: np.array([y, y], object).T])
@pytest.mark.parametrize("name", MIXED)
def test_classes_of_several_types_do_not_become_text(name, form):
    y, message = MIXED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        classes_of(form(y * 5))


@pytest.mark.parametrize("y", [[1, 2.0], [Decimal(1), 2], [np.int8(1), 2.0]])
def test_numbers_of_several_types_are_numbers(y):
    known, _, codes = classes_of(np.array(y, object))
    assert known.classes[0].tolist() == [1, 2] and codes.tolist() == [0, 1]


def test_numbers_of_several_types_that_floats_would_merge_are_refused():
    with pytest.raises(TypeError, match=r"one type.*got Decimal and, in row 1, 9007199254740993"):
        classes_of(np.array([Decimal("0.5"), 2**53 + 1, 2**53], object))


@pytest.mark.parametrize("frame", [pa.table, pl.DataFrame])
def test_columns_of_classes_in_frames_of_other_libraries(frame):
    known, _, codes = classes_of(frame({"a": ["x", "y"], "b": [2, 1]}))
    assert [each.tolist() for each in known.classes] == [["x", "y"], [1, 2]] and codes.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("y", ["amount", ["class", "amount"]])
def test_amounts_in_files_are_no_classes(tmp_path, y):
    sets, a, _ = bags(20)
    table = {"x": [each[:, 0] for each in sets], "amount": a, "class": ["a", "b"] * 10}
    parquet.write_table(pa.table(table), tmp_path / "sets.parquet")
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        SetClassifier("k1", **QUICK).fit(tmp_path / "sets.parquet", y)


@pytest.mark.parametrize("other", [[0.5, 1.5, 2.5], np.array([-1, 2, 3])])
def test_whole_numbers_that_merge_beside_other_targets_give_a_warning(other):
    large = np.array([2**60, 2**60 + 1, 1], np.uint64)
    table = {"x": [[1], [2], [3]], "large": large, "other": other}
    with pytest.warns(UserWarning, match="column 'large' holds targets with more digits than float64 has"):
        as_sets(table, ["large", "other"])


def test_text_and_bytes_are_text_in_any_order():
    known, _, codes = classes_of(np.array(["a", b"b", "a"], object))
    assert known.classes[0].tolist() == ["a", "b"] and codes.tolist() == [0, 1, 0]


def test_decimals_in_columns_of_classes_are_numbers():
    y = np.array([[Decimal("1.0"), "a"], [Decimal(2), "b"]], object)
    assert classes_of(y)[0].classes[0].tolist() == [1, 2]


def test_a_missing_label_is_refused():
    with pytest.raises(ValueError, match="labels that are text or numbers; got nan"):
        classes_of([{1.0}, {2.0, float("nan")}])
