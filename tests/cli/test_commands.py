"""janossy fit, predict and inspect, from files to files."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from janossy.cli.workflow.record import Record
from janossy.estimators import load
from janossy.tables import as_sets
from tests.cli.commands import FIT, changed, janossy, orders, run, write

__all__ = ["janossy"]

NEW = orders(60, seed=1)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Fits two models: "returned", with a recurrence on random orders, and "total", by k = 1."""
    folder = tmp_path_factory.mktemp("models")
    quick = ("--set-id", "order", "--validation", "0.3", "--max-epochs", "3")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write("orders.parquet", orders(120))
        returned = ("--target", "returned", "--drop", "total,hour", "--strategy", "gru", "--out", "returned")
        total = ("--target", "total", "--drop", "returned", "--set-columns", "hour", "--strategy", "k1")
        best = ("--preset", "best", "--time-budget", "2m")
        assert run("fit", "orders.parquet", *quick, *returned, "--preset", "fast") == 0
        assert run("fit", "orders.parquet", *quick, *total, *best, "--out", "models/total") == 0
    return {"returned": folder / "returned", "total": folder / "models" / "total"}


def predictions(name: str) -> pa.Table:
    return parquet.read_table(name)


def test_a_model_is_a_folder_with_a_report_and_nothing_beside_it(fitted):
    for model in fitted.values():
        assert sorted(path.name for path in model.iterdir()) == [
            "fit.json",
            "model.json",
            "model.safetensors",
            "report.html",
        ]
        assert not list(model.parent.glob(".*"))


def test_the_report_is_one_page_that_needs_nothing_else(fitted):
    for name, says in {
        "returned": ("Accuracy", "recall", "confusion", "standard deviation over permutations", "gru", "item"),
        "total": ("Root mean squared error", "Residuals", "the same prediction for every order", "k1", "price", "hour"),
    }.items():
        page = (fitted[name] / "report.html").read_text(encoding="utf-8")
        for words in (
            "Beside baselines",
            "Candidates",
            "Learning curves",
            "Largest errors",
            "janossy fit orders.parquet",
            *says,
        ):
            assert words.lower() in page.lower(), words
        sources = re.findall(r'(?:src|srcset|href|url)\s*[=(]\s*"?([^"\s)]{5})', page)
        assert sources and set(sources) == {"data:"}
        assert page.count("data:image/png;base64,") == page.count("data:")


def test_a_preset_is_a_time_which_the_time_budget_overrules(fitted):
    for name, seconds in {"returned": 30.0, "total": 120.0}.items():
        assert load(fitted[name]).time_budget == seconds


def test_predictions_have_a_row_a_set(fitted, janossy):
    write("new.parquet", NEW)
    code, stdout, stderr = janossy("predict", fitted["returned"], "new.parquet", "--out", "deep/predictions.parquet")
    assert (code, stderr) == (0, "")
    found = predictions("deep/predictions.parquet")
    assert found.column_names == [
        *("order", "prediction", "probability_False", "probability_True", "standard_error", "change_probability"),
    ]
    assert found["order"].to_pylist() == list(range(60))
    no, yes, error, change = (found[name].to_numpy() for name in found.column_names[2:])
    assert np.allclose(no + yes, 1, atol=1e-6)
    assert np.array_equal(found["prediction"].to_numpy(zero_copy_only=False), yes > no)
    sizes = np.bincount(NEW["order"])
    assert (error[sizes > 4] > 0).mean() > 0.5 and (error[sizes <= 3] < 1e-6).all()  # of few all orders are taken
    assert ((change >= 0) & (change <= 1)).all() and change.max() > 0
    accuracy = (
        found["prediction"].to_numpy(zero_copy_only=False) == as_sets(NEW, "returned", set_id="order")[1]
    ).mean()
    assert f"compared with the column 'returned': accuracy {accuracy:.4f}" in stdout


def test_predictions_are_those_of_the_estimator(fitted, janossy):
    write("new.csv", {name: NEW[name] for name in ("item", "price", "order")})
    code, stdout, _ = janossy("predict", fitted["returned"], "new.csv", "--out", "out.csv")
    assert code == 0 and "compared" not in stdout
    model = load(fitted["returned"])
    sets = as_sets({name: NEW[name] for name in ("item", "price", "order")}, set_id="order")
    expected = model.predict_proba(sets)
    found = csv.read_csv("out.csv")
    assert np.allclose(found["probability_True"].to_numpy(), expected[:, 1], atol=1e-6)


def test_the_form_and_order_of_a_table_do_not_matter(fitted, janossy):
    """Rows of a set anywhere, columns in any order, several files, one row per set with lists: the same predictions."""
    table = pa.table(NEW).drop_columns(["returned", "total"])
    write("long.parquet", table)
    rows = np.random.default_rng(0).permutation(len(table))
    write("a.csv", table.take(rows[:50]))
    write("b.csv", table.take(rows[50:]).select(["hour", "price", "order", "item"]))
    lists = table.group_by("order", use_threads=False).aggregate(
        [("item", "list"), ("price", "list"), ("hour", "first")]
    )
    write("lists.parquet", lists.rename_columns(["order", "item", "price", "hour"]))
    found = {}
    for form, files in {"long": ["long.parquet"], "parts": ["a.csv", "b.csv"], "lists": ["lists.parquet"]}.items():
        assert janossy("predict", fitted["total"], *files, "--out", f"{form}.feather")[0] == 0
        columns = feather.read_table(f"{form}.feather")
        assert columns.column_names == ["order", "prediction", "standard_error"]
        assert (columns["standard_error"].to_numpy() == 0).all()
        order = np.argsort(columns["order"].to_numpy(), kind="stable")
        found[form] = columns["prediction"].to_numpy()[order]
    assert np.allclose(found["long"], found["parts"], atol=1e-4)
    assert np.allclose(found["long"], found["lists"], atol=1e-4)
    nameless = write("nameless.parquet", parquet.read_table("lists.parquet").drop_columns(["order"]))
    assert janossy("predict", fitted["total"], nameless, "--out", "nameless.csv")[0] == 0
    assert np.allclose(csv.read_csv("nameless.csv")["prediction"].to_numpy(), found["lists"], atol=1e-4)


def test_a_target_of_other_values_is_not_compared(fitted, janossy):
    write("new.parquet", {**NEW, "returned": [str(value) for value in NEW["returned"]]})
    code, stdout, _ = janossy("predict", fitted["returned"], "new.parquet", "--out", "out.csv")
    assert code == 0 and "column 'returned': it holds other values than in training, as " in stdout


def test_more_permutations_have_less_error(fitted, janossy):
    write("new.parquet", NEW)
    errors = []
    for num in (5, 80):
        out = f"{num}.parquet"
        assert janossy("predict", fitted["returned"], "new.parquet", "--out", out, "--num-permutations", num)[0] == 0
        errors.append(predictions(out)["standard_error"].to_numpy().mean())
    assert errors[1] < 0.6 * errors[0]


def test_inspect_is_one_screen(fitted, janossy):
    code, stdout, stderr = janossy("inspect", fitted["total"])
    assert (code, stderr) == (0, "") and len(stdout.splitlines()) <= 24
    for words in ("regression of 'total'", "120 sets of 1 to 7 elements", "item (4 categories)", "price (numeric)",
                  "hour (numeric)", "k1", "R²", "janossy 0", "torch 2", "weights"):  # fmt: skip
        assert words in stdout, words


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ({**NEW, "price": None}, (), "new.parquet has no column 'price', which the model names. It has order, item,"),
        (changed(NEW, "price", 3, float("inf")), (), "new.parquet, row 4: column 'price' is infinite."),
        ({**NEW, "price": ["x"] * len(NEW["price"])}, (), "new.parquet, row 1: column 'price' is numeric, but here"),
        (NEW, ("--set-id", "id"), "new.parquet has no column 'id', which --set-id names."),
        (NEW, ("--out", "new.parquet"), "new.parquet exists. Give another --out"),
        (NEW, ("--out", "predictions.xlsx"), "--out expects a file in .parquet, .csv, .arrow, .feather"),
        (NEW, ("--num-permutations", "0"), "--num-permutations"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_wrong_with_tables_to_predict(columns, options, says, fitted, janossy):
    write("new.parquet", {name: values for name, values in columns.items() if values is not None})
    code, _, stderr = janossy("predict", fitted["returned"], "new.parquet", "--out", "predictions.parquet", *options)
    assert says in stderr and stderr.count("\n") == 1 and code == 2
    assert [path.name for path in Path().iterdir()] == ["new.parquet"]


def test_what_is_no_model(fitted, janossy):
    write("new.parquet", NEW)
    for model, says in {
        "nowhere": "there is no model nowhere",
        "new.parquet": "new.parquet is not a model, or is damaged. Give the --out of a janossy fit.",
        "empty": "empty",
        "cut": "cut",
        "edited": "edited/fit.json is damaged: recipe.set_id: Expected `array`, got `int`.",
    }.items():
        if model == "empty":
            Path(model).mkdir()
        elif model in ("cut", "edited"):
            shutil.copytree(fitted["returned"], model)
        if model == "cut":
            tensors = Path(model) / "model.safetensors"
            tensors.write_bytes(tensors.read_bytes()[:-100])
        if model == "edited":
            record = json.loads((Path(model) / "fit.json").read_text(encoding="utf-8"))
            record["recipe"]["set_id"] = 3
            (Path(model) / "fit.json").write_text(json.dumps(record), encoding="utf-8")
        for command in (("inspect", model), ("predict", model, "new.parquet", "--out", "out.csv")):
            code, _, stderr = janossy(*command)
            assert says in stderr and stderr.count("\n") == 1 and code == 2, (model, stderr)
            assert not Path("out.csv").exists()


def test_a_record_is_bound_to_its_model(fitted, janossy):
    """Every changed digit or letter of fit.json, and that of another model, is refused."""
    write("new.parquet", NEW)
    shutil.copytree(fitted["returned"], "model")
    file = Path("model/fit.json")
    whole = file.read_bytes()
    changes = {b'"order"': b'"hours"', b'"smallest": 1': b'"smallest": 2', b'"classification"': b'"regression"'}
    for old, new in changes.items():
        assert old in whole
        file.write_bytes(whole.replace(old, new, 1))
        code, _, stderr = janossy("predict", "model", "new.parquet", "--out", "out.csv")
        assert code == 2 and "its values are not those that were written" in stderr, old
    shutil.copy(Path(fitted["total"]) / "fit.json", file)
    code, _, stderr = janossy("inspect", "model")
    assert code == 2 and "model/fit.json is damaged: it was written with another model." in stderr


def test_a_record_of_many_files_is_read_again(fitted, tmp_path):
    model = shutil.copytree(fitted["returned"], tmp_path / "model")
    many = replace(Record.read(model), files=("a" * 100,) * 12_000, command="janossy fit " + "a" * 1_200_000)
    (model / "fit.json").write_bytes(many.to_json())
    assert Record.read(model).files == many.files


def test_names_that_are_not_utf8(janossy):
    out = os.fsdecode(b"caf\xe9")
    write("orders.csv", orders(40))
    assert janossy(*FIT, "--out", out)[0] == 0
    assert Record.read(Path(out)).command.endswith("caf\\udce9'")


def test_values_far_outside_training_are_told(fitted, janossy):
    write("new.parquet", changed(changed(NEW, "price", 0, 1e6), "price", 1, -1e6))
    command = ("predict", fitted["total"], "new.parquet", "--out")
    code, stdout, _ = janossy(*command, "a.csv")
    assert code == 0 and "values far outside the range of training in column 'price' (2): " in stdout
    assert "far_values" not in csv.read_csv("a.csv").column_names
    assert janossy(*command, "b.csv", "--mark-far")[0] == 0
    told = csv.read_csv("b.csv")["far_values"].to_numpy()
    assert told[NEW["order"][0]] + told[NEW["order"][1]] >= 2 and told.sum() == 2
    write("new.parquet", NEW)
    assert "far outside" not in janossy(*command, "c.csv")[1]


def test_help_and_quantiles(janossy, drawn):
    code, stdout, stderr = janossy()
    assert (code, stderr) == (0, "") and "Commands:" in stdout and len(stdout.splitlines()) > 8
    write("new.parquet", {**NEW, "returned": ["$_$" if each else "$" for each in NEW["returned"]]})
    fit = ("fit", "new.parquet", "--set-id", "order", "--strategy", "k1", "--max-epochs", "2", "--drop")
    code, stdout, _ = janossy(*fit, "returned", "--target", "total", "--quantiles", "0.1,0.5,0.9", "--out", "q")
    assert code == 0 and "part between the quantiles 0.1 and 0.9" in stdout
    assert janossy("predict", "q", "new.parquet", "--out", "out.parquet")[0] == 0
    found = predictions("out.parquet")
    assert found.column_names[1:] == ["prediction", "standard_error", *(f"quantile_{x}" for x in (0.1, 0.5, 0.9))]
    assert (found["quantile_0.1"].to_numpy() <= found["quantile_0.9"].to_numpy()).all()
    assert found["prediction"].equals(found["quantile_0.5"])
    # Names that are no mathematics, in plots.
    assert janossy(*fit, "total", "--target", "returned", "--out", "names")[0] == 0
    for wrong, says in {"1,2": "--quantiles expects levels between 0 and 1", "x": "--quantiles expects levels"}.items():
        code, _, stderr = janossy(*fit, "returned", "--target", "total", "--quantiles", wrong, "--out", "r")
        assert code == 2 and says in stderr


def test_values_that_training_had_not_are_told(fitted, janossy):
    write("new.parquet", changed(NEW, "item", 0, "zebra"))
    code, stdout, _ = janossy("predict", fitted["total"], "new.parquet", "--out", "out.csv")
    assert code == 0 and "values that are new since training in column 'item' (1): " in stdout


def test_too_little_time_is_an_error(janossy):
    write("orders.csv", orders())
    code, _, stderr = janossy(*FIT, "--time-budget", "0.001s", "--out", "model")
    assert code == 2 and "--time-budget was over before the first step" in stderr and not Path("model").exists()
    code, stdout, stderr = janossy(*FIT, "--strategy", "auto", "--time-budget", "0.001s", "--out", "model")
    assert (code, stderr) == (0, "") and "linear, after" in stdout and Path("model/report.html").exists()


@pytest.mark.parametrize(("when", "left"), [("save", ["orders.csv"]), ("report", ["model", "orders.csv"])])
def test_a_full_disk_leaves_nothing_or_a_model_without_report(when, left, janossy, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    write("orders.csv", orders())
    owner = "report" if when == "report" else "fitting"
    monkeypatch.setattr(f"janossy.cli.workflow.{owner}.{when}", full)
    code, _, stderr = janossy(*FIT, "--max-epochs", "1", "--out", "model")
    assert code == 1 and "No space left on device" in stderr and stderr.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == left
    if when == "report":
        assert run("predict", "model", "orders.csv", "--out", "out.csv") == 0


def test_training_that_diverges_is_one_line(janossy, monkeypatch):
    def diverged(*arguments, **options):
        raise FloatingPointError("training expects finite losses; got train_loss = nan after epoch 1.")

    write("orders.csv", orders())
    monkeypatch.setattr("janossy.estimators.trainer.Training", diverged)
    code, _, stderr = janossy(*FIT, "--out", "model")
    assert code == 1 and stderr == "janossy: training expects finite losses; got train_loss = nan after epoch 1.\n"
    assert [path.name for path in Path().iterdir()] == ["orders.csv"]


def test_several_targets(janossy):
    columns = orders(60)
    columns["hour"] = [float(hour) for hour in columns["hour"]]
    write("orders.parquet", columns)
    options = ("--set-id", "order", "--target", "total", "--target", "hour", "--drop", "returned", "--strategy", "gru")
    code, stdout, _ = janossy(
        "fit", "orders.parquet", *options, "--max-epochs", "2", "--validation", "0.4", "--out", "m"
    )
    assert code == 0 and "target total: numbers from" in stdout and "target hour: numbers from 0 to 23" in stdout
    scores = json.loads(Path("m/fit.json").read_text(encoding="utf-8"))["scores"]
    assert scores["R²"] == pytest.approx((scores["R² of total"] + scores["R² of hour"]) / 2)
    page = Path("m/report.html").read_text(encoding="utf-8")
    for words in ("prediction of total", "prediction of hour", "total 1", "The elements are those that matter to hour"):
        assert words in page, words
    code, stdout, _ = janossy("predict", "m", "orders.parquet", "--out", "out.parquet")
    found = predictions("out.parquet")
    assert found.column_names == [
        *("order", "prediction_total", "standard_error_total", "prediction_hour", "standard_error_hour"),
    ]
    model, sets = load("m"), as_sets({name: columns[name] for name in ("order", "item", "price")}, set_id="order")
    mean, error = model.predict(sets, return_std=True)
    for j, name in enumerate(("total", "hour")):
        assert np.allclose(found[f"prediction_{name}"].to_numpy(), mean[:, j], rtol=1e-5)
        assert np.allclose(found[f"standard_error_{name}"].to_numpy(), error[:, j], rtol=1e-4)
    assert "compared with the columns 'total' and 'hour': R² " in stdout and "R² of hour" in stdout
    write("total.parquet", {name: columns[name] for name in ("order", "item", "price", "total")})
    code, stdout, _ = janossy("predict", "m", "total.parquet", "--out", "again.parquet")
    assert code == 0 and "compared" not in stdout
    assert "regression of 'total', 'hour'" in janossy("inspect", "m")[1]


def ids_of(name: str, columns: dict, *options: str, model: Path) -> pa.Table:
    """Returns the columns of ids that predict writes, for a table whose sets have these, each of two elements."""
    assert run("predict", model, write_ids(name, columns), "--out", "out.parquet", *options) == 0
    table = predictions("out.parquet")
    Path("out.parquet").unlink()
    return table.select(table.column_names[: len(columns)])


def write_ids(name: str, columns: dict) -> Path:
    num = len(next(iter(columns.values())))
    rest = {"item": ["a", "b"] * num, "price": [1.0, 2.5] * num, "hour": [hour for hour in range(num) for _ in "12"]}
    rows = np.arange(num).repeat(2)
    return write(name, pa.table({n: pa.array(c).take(pa.array(rows)) for n, c in columns.items()} | rest))


WORDS = ["1001", "7b", "A3", "007", "NA", "1e5", "true", "2024-01-05", *map(str, range(100, 130))]


@pytest.mark.parametrize(
    ("name", "ids", "expected"),
    [
        ("t.csv", WORDS, pa.array(WORDS)),
        ("t.parquet", WORDS, pa.array(WORDS)),
        ("t.csv", ["10", "7", "-3", "0"], pa.array([10, 7, -3, 0])),
        ("t.csv", ["10", "07"], pa.array(["10", "07"])),
        ("t.csv", ["1.0", "2.0"], pa.array(["1.0", "2.0"])),
        ("t.csv", ["9" * 30, "8"], pa.array(["9" * 30, "8"])),
        ("t.parquet", pa.array([3, 1], pa.int16()), pa.array([3, 1], pa.int16())),
        ("t.parquet", pa.array([19000, 3], pa.date32()), pa.array([19000, 3], pa.date32())),
        ("t.parquet", pa.array(["u", "é"]).dictionary_encode(), pa.array(["u", "é"])),
    ],
)
def test_ids_are_as_the_table_has_them(name, ids, expected, fitted, janossy):
    found = ids_of(name, {"order": ids}, model=fitted["total"])["order"].combine_chunks()
    found = found.dictionary_decode() if isinstance(found, pa.DictionaryArray) else found
    assert found.to_pylist() == expected.to_pylist()
    assert found.type == expected.type or {found.type, expected.type} == {pa.large_string(), pa.string()}


def test_ids_that_csv_has_no_type_for_are_text(fitted, janossy):
    ids = [UUID(int=3), UUID(int=5)]
    for name, column, expected in (
        ("a.parquet", pa.array([each.bytes for each in ids], pa.uuid()), list(map(str, ids))),
        ("b.parquet", pa.array([b"\xff", b"x"]), ["\\xff", "x"]),
    ):
        write_ids(name, {"order": column})
        assert janossy("predict", fitted["total"], name, "--out", f"{name}.csv")[0] == 0
        assert csv.read_csv(f"{name}.csv")["order"].to_pylist() == expected


def test_ids_of_several_columns_and_of_several_files(fitted, janossy):
    model, both = fitted["total"], ("--set-id", "run+event")
    ids = {"run": pa.array([2, 1, 2], pa.int8()), "event": ["b", "b", "1"]}
    found = ids_of("t.parquet", ids, *both, model=model)
    assert found.to_pydict() == {"run": [2, 1, 2], "event": ["b", "b", "1"]} and found["run"].type == pa.int8()
    assert ids_of("u.csv", ids, *both, model=model).to_pydict() == found.to_pydict()
    # Of a Parquet file and a CSV file, in which an id is text: 7 and "7" are one set.
    write_ids("a.parquet", {"order": [7, 8]})
    write_ids("b.csv", {"order": ["7", "8", "x"]})
    assert run("predict", model, "a.parquet", "b.csv", "--out", "o.parquet") == 0
    assert predictions("o.parquet")["order"].to_pylist() == ["7", "8", "x"]


def test_ids_stay_text_as_in_training(janossy):
    columns = orders()
    columns["order"] = [f"{order:03}" if order % 2 else f"x{order}" for order in columns["order"]]
    write("orders.csv", columns)
    assert janossy(*FIT, "--validation", "0.3", "--out", "model")[0] == 0
    for name in ("new.csv", "new.parquet"):
        write(name, {**NEW, "order": NEW["order"]})
        assert janossy("predict", "model", name, "--out", f"{name}.parquet")[0] == 0
        assert predictions(f"{name}.parquet")["order"].to_pylist() == list(map(str, range(60)))


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst", "lz4"])
def test_compressed_csv(ending, fitted, janossy):
    write("new.csv", NEW)
    codec = {"gz": "gzip", "zst": "zstd"}.get(ending, ending)
    with pa.output_stream(f"again.csv.{ending}", compression=codec) as file:
        file.write(Path("new.csv").read_bytes())
    for name in ("new.csv", f"again.csv.{ending}"):
        assert janossy("predict", fitted["total"], name, "--out", f"{name}.parquet")[0] == 0
    assert predictions("new.csv.parquet") == predictions(f"again.csv.{ending}.parquet")


def test_csv_of_other_makers(fitted, janossy):
    """A byte order mark, semicolons, CRLF, empty lines, spaces in the header, quoted line ends and quotes in text."""
    rows = ["1;a;2.5;3", '1;"b\nb";1.5;3', "", '2;5" pipe;0.5;4', '2;"say ""a""";0.5;4', "3;a;;5"]
    Path("new.csv").write_bytes("\r\n".join(["\ufefforder; item ;price;hour ", *rows]).encode())
    assert janossy("predict", fitted["total"], "new.csv", "--out", "out.csv")[0] == 0
    assert csv.read_csv("out.csv")["order"].to_pylist() == [1, 2, 3]
