"""Sets of sets at the command line, from a CSV file to predictions."""

import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv

from tests.cli.commands import janossy, write  # noqa: F401

FIT = ("fit", "shop.csv", "--set-id", "customer", "--set-id", "order", "--target", "largest")
OPTIONS = ("--strategy", "linear", "--validation", "0.3", "--out", "model")


def shop(num=40):
    """Returns items of orders of customers, in a random order, with the largest total of a customer's orders."""
    rng = np.random.default_rng(0)
    rows = []
    for customer in range(num):
        orders = [rng.exponential(size=rng.integers(1, 4)).round(3) for _ in range(rng.integers(1, 5))]
        largest = round(max(float(order.sum()) for order in orders), 3)
        rows += [(f"c{customer}", i, float(x), largest) for i, order in enumerate(orders) for x in order]
    columns = zip(*(rows[i] for i in rng.permutation(len(rows))), strict=True)
    return dict(zip(("customer", "order", "price", "largest"), map(list, columns), strict=True))


def test_two_ids_from_a_table_to_predictions(janossy):  # noqa: F811
    columns = shop()
    write("shop.csv", columns)
    code, out, error = janossy(*FIT, *OPTIONS)
    assert code == 0, error
    assert "40 sets of" in out and "inner sets, 1 to 4 each" in out
    recipe = json.loads(Path("model/fit.json").read_text())["recipe"]
    assert (recipe["set_id"], recipe["inner_id"]) == (["customer"], ["order"])
    shown = [line.split() for line in janossy("inspect", "model")[1].splitlines()]
    assert ["set", "id", "customer"] in shown and ["inner", "id", "order"] in shown
    write("new.csv", {name: columns[name][::-1] for name in ("order", "price", "customer", "largest")})
    code, out, _ = janossy("predict", "model", "new.csv", "--out", "p.csv")
    found = csv.read_csv("p.csv")
    assert code == 0 and found.column_names == ["customer", "prediction", "standard_error"] and len(found) == 40
    largest = dict(zip(columns["customer"], columns["largest"], strict=True))
    expected = np.array([largest[name] for name in found["customer"].to_pylist()])
    assert np.corrcoef(expected, found["prediction"].to_numpy())[0, 1] > 0.9
    same = {"customer": [f"{name}, Inc." for name in columns["customer"]], "price": columns["price"]}
    write("others.csv", {"client": same["customer"], "number": columns["order"], "price": same["price"]})
    assert (
        janossy("predict", "model", "others.csv", "--set-id", "client", "--set-id", "number", "--out", "q.csv")[0] == 0
    )
    by_id = dict(zip(found["customer"].to_pylist(), found["prediction"].to_pylist(), strict=True))
    others = csv.read_csv("q.csv")
    assert {f"{name}, Inc.": each for name, each in by_id.items()} == pytest.approx(
        dict(zip(others["client"].to_pylist(), others["prediction"].to_pylist(), strict=True))
    )


def test_a_plus_joins_columns_of_one_id(janossy):  # noqa: F811
    write("shop.csv", shop())
    code, out, _ = janossy(*FIT[:3], "customer+order", *FIT[6:], *OPTIONS)
    assert code == 0 and "inner sets" not in out
    assert json.loads(Path("model/fit.json").read_text())["recipe"]["set_id"] == ["customer", "order"]
    code, _, error = janossy(
        "predict", "model", "shop.csv", "--set-id", "customer", "--set-id", "order", "--out", "p.csv"
    )
    assert code == 2 and "expected sets by one id, as in training; got two. Pass --set-id as in training." in error
    group = ("group", "shop.csv", "--set-id", "customer+order", "--set-columns", "largest", "--out", "sets.parquet")
    assert janossy(*group)[0] == 0
    assert janossy("predict", "model", "sets.parquet", "--out", "p.csv")[0] == 0
    assert csv.read_csv("p.csv").column_names[:2] == ["customer", "order"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            (*FIT, "--set-id", "price", *OPTIONS),
            "--set-id expects one id, or two for sets of sets; got customer, order,",
        ),
        ((*FIT[:5], "customer", *FIT[6:], *OPTIONS), "--set-id expects different columns; got 'customer' twice."),
        ((*FIT[:5], "ordr", *FIT[6:], *OPTIONS), "shop.csv has no column 'ordr', which --set-id names."),
        ((*FIT, "--set-columns", "price", *OPTIONS), "A column of the inner sets is read with the elements."),
        (("group", "shop.csv", *FIT[2:6], "--out", "s.parquet"), "write --set-id customer+order."),
        (("group", "shop.csv", *FIT[2:6], "--set-id", "x", "--out", "s.parquet"), "--set-id expects one id, or two"),
    ],
)
def test_what_is_wrong_with_two_ids(janossy, arguments, says):  # noqa: F811
    columns = shop(5)
    write("shop.csv", columns | {"weight": [1.0] * len(columns["price"])})
    code, _, error = janossy(*arguments)
    assert code == 2 and says in error


def test_streams_and_folders_take_one_id(janossy):  # noqa: F811
    write("shop.csv", shop())
    assert janossy(*FIT, *OPTIONS)[0] == 0
    write("shop.parquet", shop())
    code, _, error = janossy("predict", "model", "shop.parquet", "--out", "folder")
    assert code == 2 and "expected a model of sets, one row per set; got one of sets of sets." in error
    code, _, error = janossy("fit", "shop.parquet", "--stream", *FIT[2:], "--out", "other")
    assert code == 2 and "--stream expects one --set-id, as streams hold no sets of sets; got customer, order." in error


def test_an_id_is_no_data_of_the_model(janossy):  # noqa: F811
    columns = shop()
    write("shop.csv", columns)
    assert janossy(*FIT, *OPTIONS)[0] == 0
    code, _, error = janossy(
        "predict", "model", "shop.csv", "--set-id", "customer", "--set-id", "price", "--out", "p.csv"
    )
    assert code == 2 and "--set-id expects columns that the model does not read as data; got 'price'," in error
    hits = [[{"customer": i % 3, "x": 0.5 * i}] for i in range(40)]
    write(
        "hits.parquet", {"customer": [f"c{i}" for i in range(40)], "hits": hits, "y": [float(i % 5) for i in range(40)]}
    )
    one = ("--set-id", "customer", "--target", "y", "--task", "regression", *OPTIONS[:-1], "other")
    assert janossy("fit", "hits.parquet", *one)[0] == 0  # a field of the lists has the name of the id
    assert janossy("predict", "other", "hits.parquet", "--set-id", "customer", "--out", "q.csv")[0] == 0
