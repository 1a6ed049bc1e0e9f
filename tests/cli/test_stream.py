"""janossy fit --stream: from a long table through group to a model, in one process."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from janossy.estimators import load
from tests.cli.commands import janossy, orders, write

__all__ = ["janossy"]

FIT = ("--stream", "--set-id", "order", "--target", "returned", "--drop", "total", "--strategy", "k1")


@pytest.fixture
def sets(janossy):
    write("orders.parquet", orders(80))
    code, out, _ = janossy(
        "group", "orders.parquet", "--set-id", "order", "--set-columns", "returned,total", "--out", "sets/a.parquet"
    )
    assert code == 0 and out.endswith("wrote sets/a.parquet: 80 sets\n") and "one value in each set: hour" in out
    return janossy


def test_a_fit_of_a_folder(sets):
    command = ("fit", "sets", *FIT, "--max-epochs", "2", "--checkpoint", "saved")
    code, out, err = sets(*command, "--out", "model")
    assert (code, err) == (0, "") and "80 sets, of which the first 80 sets of" in out and "wrote model" in out
    record = json.loads(Path("model/fit.json").read_text())
    assert record["num_sets"] == 80 and record["num_judged"] == 8 and record["task"] == "classification"
    assert record["num_elements"] == len(orders(80)["item"])
    model = load("model")
    assert sorted(model.classes_) == model.classes_.tolist()
    assert sets("predict", "model", "sets/a.parquet", "--out", "told.csv")[0] == 0
    code, _, err = sets(*command, "--out", "again", "--drop", "price")
    assert code == 2 and "saved holds a checkpoint of another fit" in err


def test_few_sets_in_the_first_row_group(janossy):
    """Validation takes a part of all sets."""
    table = orders(40)
    rows = pa.table(table).group_by(["order", "returned", "total"], use_threads=False)
    sets = rows.aggregate([(name, "list") for name in ("item", "price", "hour")])
    parquet.write_table(sets, "sets.parquet", row_group_size=3)
    command = ("--stream", "--target", "returned", "--drop", "order,total", "--strategy", "k1", "--max-epochs", "1")
    code, out, err = janossy("fit", "sets.parquet", *command, "--out", "model")
    assert (code, err) == (0, "") and "40 sets, of which the first 3 sets" in out
    parquet.write_table(sets[:1], "one.parquet")
    code, _, err = janossy("fit", "one.parquet", *command, "--out", "none")
    assert code == 2 and "need 2 sets or more; got 1" in err


def test_values_far_outside_training_are_a_line(janossy):
    """The report predicts the worst sets of validation one by one, and each would warn."""
    table = orders(40)
    table["price"] = [3.0**order for order in table["order"]]
    write("orders.parquet", table)
    options = ("--validation", "0.5", "--max-epochs", "1")
    code, out, err = janossy("fit", "orders.parquet", *FIT, *options, "--out", "model")
    assert (code, err) == (0, "") and out.count("values far outside the range of training in column 'price' (") == 1


def test_several_classes(janossy):
    table = orders(80)
    table["size"] = ["many" if table["order"].count(order) > 3 else "few" for order in table["order"]]
    write("rows.parquet", table)
    command = ("fit", "rows.parquet", *FIT, "--target", "size", "--task", "classification", "--max-epochs", "2")
    code, out, err = janossy(*command, "--balanced", "--out", "model")
    assert (code, err) == (0, "") and "target returned: 2 classes" in out and "target size: 2 classes" in out
    code, out, _ = janossy("predict", "model", "rows.parquet", "--out", "predicted.csv")
    assert code == 0 and "probability_size_many" in out and "'returned' and 'size': accuracy" in out


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "memory"])
def test_groups_and_weights(janossy, stream):
    """One row per element, with a weight per set and a group that is part of the id: no column of the model."""
    table = orders(80)
    table["shop"] = [order // 8 for order in table["order"]]
    table["w"] = [1.0 + order % 3 for order in table["order"]]
    write("rows.parquet", table)
    command = ["order+shop" if word == "order" else word for word in FIT[not stream :]]
    command += ["--groups", "shop", "--weight", "w", "--max-epochs", "2"]
    code, out, err = janossy("fit", "rows.parquet", *command, "--out", "model")
    assert (code, err) == (0, "") and "shop" not in out.partition("target")[0] and " w " not in out
    record = json.loads(Path("model/fit.json").read_text())
    assert record["recipe"]["groups"] == ["shop"] and record["recipe"]["weight"] == ["w"]
    assert record["num_judged"] == 8 if stream else record["num_judged"] == 80
    assert janossy("predict", "model", "rows.parquet", "--out", "predicted.csv")[0] == 0
    table["w"][3] = 7.5
    write("rows.parquet", table)
    code, _, err = janossy("fit", "rows.parquet", *command, "--out", "again")
    assert code == 2 and "column 'w' expects one value per set; got " in err
    code, _, err = janossy(
        "fit", "rows.parquet", *command[:-2], "--drop", "hour", "--weight", "price", "--out", "again"
    )
    assert code == 2 and "column 'price' expects one value per set" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--validation", "5"), "--stream leaves out a part of the sets"),
        (("--target", "nothing"), "has no column 'nothing'"),
        (("--numeric", "item", "--categorical", "item"), "--numeric and --categorical both name 'item'"),
        (("--groups", "shop"), "has no column 'shop'"),
        (("--groups", "hour", "--weight", "hour"), "--weight and --groups both name 'hour'"),
        (("--decimal", ","), "--decimal has no effect with --stream"),
        (("--sheet", "Orders"), "--sheet has no effect with --stream"),
    ],
    ids=["folds", "no such", "twice", "no group", "group and weight", "option of text files", "sheet"],
)
def test_what_is_refused(sets, tmp_path, arguments, message):
    code, _, err = sets("fit", "sets", *FIT, *arguments, "--out", "model")
    assert code == 2 and message in err and err.count("\n") == 1
    assert not (tmp_path / "model").exists()


def test_what_is_of_streams_alone(janossy):
    code, _, err = janossy("fit", "nowhere/*.parquet", *FIT, "--out", "model")
    assert code == 2 and "nowhere/*.parquet holds no file" in err
