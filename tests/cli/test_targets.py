"""Targets of other forms, from tables to predictions: several classes, labels, ordered classes, times with events."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from tests.cli.commands import janossy, write  # noqa: F401

OPTIONS = ("--strategy", "k1", "--max-epochs", "8", "--validation", "2", "--out", "model")


def baskets(num: int = 60) -> dict[str, list]:
    """Returns rows of elements, and targets of all forms per set."""
    rng = np.random.default_rng(0)
    rows: dict[str, list] = {
        name: [] for name in ("basket", "amount", "kind", "size", "grade", "labels", "days", "died")
    }
    for basket in range(num):
        amounts = rng.normal(size=rng.integers(1, 4)).round(3)
        total = float(amounts.sum())
        labels = [name for name, there in {"low": total < 0, "many": len(amounts) > 1}.items() if there]
        of_set = {
            "kind": "plus" if total > 0 else "minus",
            "size": len(amounts),
            "grade": int(np.digitize(total, [-0.5, 0.5])),
            "labels": labels,
            "days": round(float(np.exp(-total) * rng.exponential()), 3),
            "died": bool(rng.random() < 0.8),
        }
        for amount in amounts:
            for name, value in {"basket": basket, "amount": float(amount), **of_set}.items():
                rows[name].append(value)
    return rows


def only(*kept: str) -> dict[str, list]:
    rows = baskets()
    return {name: rows[name] for name in ("basket", "amount", *kept)}


def walk(janossy, name: str, *options: str) -> tuple[str, pa.Table, str, str]:  # noqa: F811
    """Fits, predicts and inspects: what fit says, the predictions, what predict says, what inspect says."""
    code, said, error = janossy("fit", name, "--set-id", "basket", *options, *OPTIONS)
    assert code == 0, error
    code, compared, error = janossy("predict", "model", name, "--out", "out.parquet")
    assert code == 0, error
    code, shown, error = janossy("inspect", "model")
    assert code == 0, error
    page = Path("model/report.html").read_text()
    assert "Scores" in page and "Candidates" in page
    return said, parquet.read_table("out.parquet"), compared, shown


def scores() -> dict[str, float]:
    return json.loads(Path("model/fit.json").read_text())["scores"]


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_several_classes(janossy, name):  # noqa: F811
    write(name, only("kind", "size"))
    said, table, compared, shown = walk(
        janossy, name, "--target", "kind", "--target", "size", "--task", "classification"
    )
    assert "target kind: 2 classes" in said and "target size: 3 classes" in said
    assert list(scores())[:3] == ["accuracy", "all right", "accuracy of kind"]
    assert {"prediction_kind", "probability_kind_plus", "prediction_size", "probability_size_3"} <= set(
        table.column_names
    )
    assert "compared with the columns 'kind' and 'size': accuracy" in compared
    assert "classes of kind" in shown
    page = Path("model/report.html").read_text()
    assert "Per class of kind" in page and "Per class of size" in page and "Confusion matrix of kind" in page


def test_labels(janossy):  # noqa: F811
    write("t.parquet", only("labels"))
    said, table, compared, shown = walk(janossy, "t.parquet", "--target", "labels")
    assert "target labels: 2 labels, because it holds lists of labels" in said
    assert list(scores())[:2] == ["accuracy", "all right"] and "accuracy of many" in scores()
    assert table["prediction"].type == pa.list_(pa.string()) and "probability_many" in table.column_names
    assert "compared with the column 'labels': accuracy" in compared and "low, many" in shown
    right = [set(one) == set(two) for one, two in zip(table["prediction"].to_pylist(), _of_sets("labels"), strict=True)]
    assert f"all right {np.mean(right):.4f}" in compared
    assert janossy("predict", "model", "t.parquet", "--out", "out.csv")[0] == 0
    texts = csv.read_csv("out.csv")["prediction"].to_pylist()
    assert [json.loads(text) for text in texts] == table["prediction"].to_pylist()


def _of_sets(name: str) -> list:
    rows = baskets()
    return list(dict(zip(rows["basket"], rows[name], strict=True)).values())


def test_labels_differ_within_a_set(janossy):  # noqa: F811
    rows = only("labels")
    rows["labels"] = [["low"], *rows["labels"][1:-1], ["other"]]
    rows["basket"] = [0] * len(rows["basket"])
    write("t.parquet", rows)
    code, _, error = janossy("fit", "t.parquet", "--set-id", "basket", "--target", "labels", *OPTIONS)
    assert code == 2 and "the target 'labels' differs within a set" in error


def test_ordered_classes(janossy):  # noqa: F811
    write("t.csv", only("grade"))
    _, table, compared, _ = walk(janossy, "t.csv", "--target", "grade", "--ordinal")
    assert {"prediction", "probability_0", "probability_2", "change_probability"} <= set(table.column_names)
    assert "accuracy" in compared


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_times_with_events(janossy, name):  # noqa: F811
    write(name, only("days", "died"))
    said, table, compared, _ = walk(janossy, name, "--target", "days", "--event", "died")
    assert list(scores()) == ["concordance"] and "concordance" in said and scores()["concordance"] > 0.6
    assert table.column_names == ["basket", "prediction", "standard_error"]
    assert "compared with the column 'days': concordance" in compared
    assert "always the same hazard" in Path("model/report.html").read_text()
