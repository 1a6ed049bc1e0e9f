"""Dates, times and durations as targets: one refusal for all of their forms, in memory and in files."""

from datetime import date, time, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from janossy.estimators import SetClassifier, SetRegressor

DAYS = np.datetime64("2024-01-01") + np.arange(10) % 2
SPANS = DAYS - np.datetime64("2023-12-31")
SETS = [np.ones((1 + b % 3, 1)) for b in range(10)]

FORMS = {
    "days": DAYS,
    "nanoseconds": DAYS.astype("M8[ns]"),
    "durations": SPANS,
    "a list": list(DAYS),
    "dates": DAYS.tolist(),
    "objects": DAYS.astype(object),
    "a missing one first": [None, *DAYS.tolist()[1:]],
    "not a time": np.where(np.arange(10) == 3, np.datetime64("NaT"), DAYS),
    "timestamps": [pd.Timestamp(day) for day in DAYS],
    "timedeltas": [timedelta(days=1), timedelta(days=2)] * 5,
    "times": [time(1), time(2)] * 5,
    "matrix": np.stack([DAYS, DAYS], 1),
    "pandas": pd.Series(DAYS),
    "pandas, with a zone": pd.Series(DAYS).dt.tz_localize("UTC"),
    "pandas, of Arrow": pd.Series(DAYS).astype("date32[pyarrow]"),
    "pandas, durations": pd.Series(SPANS),
    "pandas, categories": pd.Series(DAYS).astype("category"),
    "pandas, periods": pd.Series(DAYS).dt.to_period("D"),
    "frame": pd.DataFrame({"a": DAYS, "b": np.arange(10) % 2}),
    "polars": pl.Series(DAYS),
    "polars, a frame": pl.DataFrame({"a": DAYS, "b": np.arange(10) % 2}),
    "Arrow": pa.array(DAYS),
    "Arrow, chunks": pa.chunked_array([pa.array(DAYS)]),
    "Arrow, durations": pa.array(SPANS.astype("m8[s]")),
    "Arrow, a table": pa.table({"a": DAYS}),
    "Arrow, a table of numbers too": pa.table({"a": DAYS, "b": np.arange(10) % 2}),
}


@pytest.mark.parametrize("name", FORMS)
def test_dates_are_no_numbers(name):
    with pytest.raises(ValueError, match=r"^SetRegressor expects numbers in y; got .* Convert them to .* days\.$"):
        SetRegressor("linear").fit(SETS, FORMS[name])


@pytest.mark.parametrize("name", FORMS)
def test_dates_are_no_classes(name):
    with pytest.raises(ValueError, match=r"^SetClassifier expects .* booleans in y; got .* Convert them to text\.$"):
        SetClassifier("linear").fit(SETS, FORMS[name])


def test_dates_are_no_labels():
    with pytest.raises(ValueError, match="SetClassifier expects classes that are text"):
        SetClassifier("k1").fit(SETS, [{date(2024, 1, 1)}, {date(2024, 1, 2)}] * 5)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (SetRegressor, "SetRegressor expects numbers"),
        (SetClassifier, "SetClassifier expects cl"),
    ],
)
def test_dates_in_files(tmp_path, kind, message, several):
    file, columns = tmp_path / "sets.parquet", {"at": DAYS, "class": ["a", "b"] * 5, "number": np.arange(10) % 2}
    parquet.write_table(pa.table({"x": [each[:, 0] for each in SETS]} | columns), file)
    y = ["number" if kind is SetRegressor else "class", "at"] if several else "at"
    message = "y expects numbers or text in several columns; got dates in 'at'" if several else message
    with pytest.raises(ValueError, match=message):
        kind("k1", validation=0.2).fit(file, y)


def test_a_score_on_dates():
    model = SetRegressor("linear").fit(SETS, np.arange(10.0))
    with pytest.raises(ValueError, match="SetRegressor expects numbers in y"):
        model.score(SETS, DAYS)
