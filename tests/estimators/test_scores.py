"""Scores of targets in any form, and targets, weights and orders of classes that a fit must not misread."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet
from sklearn.exceptions import NotFittedError

from janossy.estimators import SetClassifier, SetRegressor, SetStatistics
from tests.estimators.sets import bags, sums

QUICK = {"max_epochs": 1, "validation": 0.25, "random_state": 0}
MASK = np.arange(12) == 3


@pytest.fixture(scope="module")
def columns() -> tuple[SetClassifier, list[np.ndarray], np.ndarray]:
    sets, labels = bags(12)
    y = np.stack([labels, ~labels], 1).astype(int)
    return SetClassifier("k1", **QUICK).fit(sets, y), sets, y


@pytest.fixture(scope="module")
def labels() -> tuple[SetClassifier, list[np.ndarray], list[set[str]]]:
    sets, chosen = bags(12)
    y = [{"a", "b"} if each else {"a"} for each in chosen]
    return SetClassifier("k1", **QUICK).fit(sets, y), sets, y


def test_the_score_of_columns_is_the_fraction_of_rows_that_are_right(columns):
    model, sets, y = columns
    right = (model.predict(sets) == y).all(1)
    forms = y, y.tolist(), pd.DataFrame(y).astype("Int64"), pl.DataFrame(y), torch.tensor(y)
    assert [model.score(sets, each) for each in forms] == [right.mean()] * 5
    weights = np.arange(12.0)
    assert model.score(sets, y, sample_weight=weights) == pytest.approx(np.average(right, weights=weights))


@pytest.mark.parametrize(
    ("y", "shape"),
    [([1, 0], "(2,)"), ([[1, 0]], "(1, 2)"), ([[1]] * 12, "(12, 1)"), ([1] * 12, "(12,)"), ([[1, 0]] * 9, "(9, 2)")],
)
def test_scores_of_columns_broadcast_nothing(columns, y, shape):
    model, sets, _ = columns
    message = re.escape(f"SetClassifier expects y of shape (12, 2) in score, as predict returns; got {shape}.")
    with pytest.raises(ValueError, match=message):
        model.score(sets, np.array(y))


@pytest.mark.parametrize("y", [["a"] * 12, [1] * 12, np.ones((12, 2), int)], ids=["text", "numbers", "flags"])
def test_the_score_of_labels_expects_collections(labels, y):
    model, sets, known = labels
    right = [set(each) == set(said) for each, said in zip(known, model.predict(sets), strict=True)]
    assert model.score(sets, known) == model.score(sets, [sorted(each) for each in known]) == np.mean(right)
    with pytest.raises(ValueError, match="SetClassifier expects a collection of labels for each set in score; got"):
        model.score(sets, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(sets, known[:9])


def test_scores_check_targets_and_weights(columns, labels):
    sets, numbers = sums(12)
    regressor = SetRegressor("k1", **QUICK).fit(sets, numbers)
    one = SetClassifier("k1", **QUICK).fit(sets, numbers > np.median(numbers))
    for model, y in ((regressor, numbers), (one, one.predict(sets)), (columns[0], columns[2]), (labels[0], labels[2])):
        given = labels[1] if model is labels[0] else columns[1] if model is columns[0] else sets
        for weights in (np.zeros(12), np.full(12, np.nan), np.ones(3)):
            with pytest.raises(ValueError, match=r"(?i)sample.?weight|inconsistent"):
                model.score(given, y, sample_weight=weights)
        with pytest.raises(ValueError, match="requires y to be passed"):
            model.score(given, None)
    with pytest.raises(ValueError, match="got none for set 3"):
        columns[0].score(columns[1], np.where(MASK[:, None], np.nan, columns[2]))
    with pytest.raises(
        ValueError, match=re.escape("expects y of shape (12,) in score, as predict returns; got (12, 2)")
    ):
        regressor.score(sets, np.stack([numbers, numbers], 1))
    assert regressor.score(sets, numbers[:, None]) == regressor.score(sets, numbers)


@pytest.mark.parametrize("kind", [SetClassifier, SetRegressor])
def test_masked_targets_and_weights_are_missing(kind):
    """Their data, often a filler such as -999, were read."""
    sets, y = bags(12)
    masked = np.ma.masked_array(y.astype(int), MASK)
    for given in (masked, np.stack([y, ~y], 1).astype(int)):
        given = given if given.ndim == 1 else np.ma.masked_array(given, np.stack([MASK, MASK], 1))
        with (
            warnings.catch_warnings(action="error"),
            pytest.raises(ValueError, match=r"got none for set 3|contains NaN"),
        ):
            kind("k1", **QUICK).fit(sets, given)
    with pytest.raises(ValueError, match=r"sample_weight .* got nan for set 3"):
        kind("k1", **QUICK).fit(sets, y, sample_weight=np.ma.masked_array(np.ones(12), MASK))
    model = kind("k1", **QUICK).fit(sets, np.ma.masked_array(y.astype(int), False))
    with pytest.raises(ValueError, match=r"NaN|got none for set 3"):
        model.score(sets, masked)


@pytest.mark.parametrize("kind", [SetClassifier, SetRegressor])
def test_tensors_with_gradients_are_numbers(kind):
    sets, y = bags(12)
    numbers, weights = (torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in (y, y + 1))
    model = kind("k1", **QUICK).fit(sets, numbers, sample_weight=weights)
    same = kind("k1", **QUICK).fit(sets, y.astype(float), sample_weight=y + 1)
    assert (model.predict(sets) == same.predict(sets)).all()
    assert model.score(sets, numbers, sample_weight=weights) == same.score(sets, y.astype(float), sample_weight=y + 1)


def test_a_class_that_is_nan_is_missing_without_a_warning():
    sets, y = bags(12)
    with warnings.catch_warnings(action="error"), pytest.raises(ValueError, match="got none for set 3"):
        SetClassifier("k1", **QUICK).fit(sets, np.where(MASK, np.nan, y))


def ordered(form: str, grades: list[str], order: list[str]):
    if form == "polars":
        return pl.Series(grades, dtype=pl.Enum(order))
    series = pd.Series(pd.Categorical(grades, categories=order, ordered=True))
    if form == "arrow":
        return pa.Array.from_pandas(series)
    return series.to_frame() if form == "frame" else series


@pytest.mark.filterwarnings("ignore:A column-vector")
@pytest.mark.parametrize("form", ["pandas", "frame", "polars", "arrow"])
def test_ordered_categories_ascend_as_their_classes_do(form):
    """Classes are sorted, so that of low, mid and high the lowest would be high."""
    sets, _ = bags(12)
    model = SetClassifier("k1", ordinal=True, **QUICK)
    with pytest.raises(
        ValueError, match=r"ordinal=True expects .*; got categories in the order \['low', 'mid', 'high'\]"
    ):
        model.fit(sets, ordered(form, ["low", "mid", "high"] * 4, ["none", "low", "mid", "high"]))
    assert model.fit(sets, ordered(form, ["a", "b", "c"] * 4, ["0", "a", "b", "c"])).classes_.tolist() == [
        "a",
        "b",
        "c",
    ]
    other = SetClassifier("k1", **QUICK).fit(sets, ordered(form, ["low", "mid", "high"] * 4, ["low", "mid", "high"]))
    assert other.classes_.tolist() == ["high", "low", "mid"]


@pytest.mark.parametrize("several", [False, True])
def test_balanced_classes_are_counted_without_sets_of_no_weight(several):
    sets, labels = bags(40)
    y = np.stack([labels, labels[::-1]], 1) if several else labels
    weights = np.where(np.arange(40) < 20, 1.0, 0.0)
    y[20:] = True
    model, same = (SetClassifier("k1", class_weight="balanced", **QUICK) for _ in range(2))
    model.fit(sets, y, sample_weight=weights), same.fit(sets[:20], y[:20])
    assert np.array_equal(model.predict_proba(sets), same.predict_proba(sets))


@pytest.mark.parametrize("events", [0.0, 1.0])
def test_survival_expects_an_event(events):
    sets, times = sums(12)
    y = np.stack([np.abs(times), np.where(MASK, events, 0.0)], 1)
    with pytest.raises(ValueError, match="loss='cox' expects an event, 1 in the second column of y; got none"):
        SetRegressor("k1", loss="cox", **QUICK).fit(sets, y, sample_weight=~MASK)


@pytest.mark.parametrize("quantiles", [0.5, None, "a", [None], [[0.1, 0.9]]])
def test_quantiles_that_are_no_levels(quantiles):
    with pytest.raises(ValueError, match="SetRegressor expects quantiles between 0 and 1, ascending; got"):
        SetRegressor("k1", loss="quantile", quantiles=quantiles, **QUICK).fit(*sums(12))


def test_after_a_fit_that_failed_nothing_is_left_of_the_one_before():
    sets, y = bags(12)
    model = SetClassifier("k1", **QUICK).fit(sets, y)
    with pytest.raises(ValueError, match="two classes"):
        model.fit(sets, np.zeros(12))
    with pytest.raises(NotFittedError):
        model.validation_predictions()
    with pytest.raises(NotFittedError):
        next(model.as_of_new_sets())
    assert not hasattr(model, "trials_") and not hasattr(model, "sensitivity_")


def test_ordered_categories_in_files_ascend_as_their_classes_do(tmp_path):
    grades = pa.Array.from_pandas(ordered("pandas", ["low", "mid", "high"] * 4, ["low", "mid", "high"]))
    parquet.write_table(pa.table({"x": [[1.0], [2.0]] * 6, "grade": grades}), tmp_path / "a.parquet")
    model = SetClassifier("k1", ordinal=True, max_epochs=1, random_state=0)
    with pytest.raises(ValueError, match=r"ordinal=True expects .* in the order \['low', 'mid', 'high'\]"):
        model.fit(tmp_path / "a.parquet", "grade")
    assert model.set_params(ordinal=False).fit(tmp_path / "a.parquet", "grade").classes_.tolist() == [
        "high",
        "low",
        "mid",
    ]


def test_survival_in_files_expects_an_event(tmp_path):
    table = pa.table({"x": [[1.0], [2.0]] * 6, "time": np.arange(12.0), "event": [0] * 12})
    parquet.write_table(table, tmp_path / "a.parquet")
    model = SetRegressor("k1", loss="cox", max_epochs=1, random_state=0)
    for y, message in {("time", "event"): "expects an event", ("time",): r"expects y of shape \(B, 2\)"}.items():
        with pytest.raises(ValueError, match=f"loss='cox' {message}"):
            model.fit(tmp_path / "a.parquet", list(y))


@pytest.mark.parametrize("kind", [SetClassifier, SetRegressor])
def test_a_name_is_no_target_of_sets_in_memory(kind):
    sets, y = bags(12)
    message = f"{kind.__name__} expects y with one target per set; got the name 'won'"
    with pytest.raises(ValueError, match=message):
        kind("k1", **QUICK).fit(sets, "won")
    with pytest.raises(ValueError, match=message):
        kind("k1", **QUICK).fit(sets, y).score(sets, "won")


@pytest.mark.parametrize(("given", "error"), [(-1, ValueError), (2.5, TypeError), (None, TypeError)])
def test_the_number_of_categories_is_checked(given, error):
    with pytest.raises(error, match=f"SetStatistics expects max_categories >= 0.*; got max_categories={given}"):
        SetStatistics(max_categories=given).fit([["a"], ["b"]])
