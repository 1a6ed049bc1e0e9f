import json
from io import StringIO
from itertools import product
from math import isnan
from pathlib import Path

import pytest
from rich.console import Console

from studies.paper.arithmetic.patterns import pattern_checks, print_patterns
from studies.paper.arithmetic.study import ARITHMETIC
from studies.paper.arithmetic.tables import (
    MODELS,
    PAPER_TASKS,
    ROWS,
    Row,
    comparison,
    metric_of,
    our_score,
    paper_parameters,
    paper_score,
    print_comparison,
)
from studies.paper.printed import paper_tables

SHOWN = {task: metric_of(task) for task in PAPER_TASKS}

PRINTED = {
    "table_1_and_3_accuracy": (None, None),
    "table_4_and_5_mean_absolute_error": ("mae", None),
    "table_6_accuracy_embedding_100": (None, 100),
    "table_7_mean_absolute_error_embedding_100": ("mae", 100),
}


def name(row):
    """Returns the model of a row of tables.json, spelled out."""
    f, rho = {"mlp30": f"k{row['k']}", "lstm50": "lstm", "gru80": "gru"}[row["f"]], row["rho"]
    return f"{f}-{ {'linear': 'linear', 'mlp100': 'mlp'}[rho] }"


def cells_of_the_paper(seed=0):
    """Cells whose scores are the paper's own means."""
    return [
        {
            "task": task,
            "model": model,
            "seed": seed,
            "config": {"epochs": 1000, "num_test": 10_000},
            "scores": [
                {
                    "num_permutations": row.num_permutations,
                    SHOWN[task]: paper_score(task, model, row.num_permutations).mean,
                    "mae": paper_score(task, model, row.num_permutations, "mae").mean,
                }
                for row in ROWS
                if row.model == model
            ],
        }
        for task, model in product(SHOWN, MODELS)
    ]


def changed(cells, task, model, *values):
    """Returns the cells with other scores for one of them, in the order of its rows."""
    new = json.loads(json.dumps(cells))
    (cell,) = (cell for cell in new if (cell["task"], cell["model"]) == (task, model))
    for score, value in zip(cell["scores"], values, strict=True):
        score[SHOWN[task]] = value
    return new


def shown(cells, width=100):
    console = Console(width=width, record=True, file=StringIO())
    print_comparison(console, cells)
    return console.export_text()


@pytest.mark.parametrize("table", PRINTED)
def test_every_printed_score_is_found(table):
    metric, embedding = PRINTED[table]
    for row, task in product(paper_tables()[table], SHOWN):
        score = paper_score(task, name(row), row["inference_permutations"], metric, embedding)
        assert (score.mean, score.std) == (row[task]["mean"], row[task]["std"])


def test_every_number_of_parameters_is_found():
    for row in paper_tables()["table_8_trainable_parameters"]:
        assert paper_parameters(name(row), row["embedding_dim"]) == row["trainable_parameters"]
    assert [paper_parameters(f"k{k}-linear") for k in (1, 2, 3)] == [3061, 3061, 3031]


def test_the_rows_are_those_of_table_3():
    printed = paper_tables()["table_1_and_3_accuracy"]
    assert [(row.model, row.num_permutations) for row in ROWS] == [
        (name(row), row["inference_permutations"]) for row in printed
    ]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("sum", "gru-mlp", 7), "no accuracy of 'gru-mlp' with 7 permutations on 'sum'"),
        (("sum", "k1-mlp", None, "rmse"), "no rmse of 'k1-mlp' on 'sum'"),
        (("product", "k1-mlp"), "on 'product'"),
    ],
)
def test_what_the_paper_does_not_print_is_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        paper_score(*asked)
    with pytest.raises(ValueError, match="k4-linear"):
        paper_parameters("k4-linear")


def test_comparison_has_ours_beside_the_papers():
    cells = cells_of_the_paper()
    for metric in (None, "mae"):
        rows = comparison(cells, metric)
        assert [row for row, _ in rows] == list(ROWS)
        for _, pairs in rows:
            assert list(pairs) == list(SHOWN)
            assert all(pair.ours.mean == pair.paper.mean for pair in pairs.values())


def test_the_committed_quick_results_are_near_the_papers():
    results, _ = ARITHMETIC.read(Path(__file__).parents[3] / "docs" / "results" / "arithmetic-quick")
    for (row, pairs), task in product(comparison(results), SHOWN):
        ours, paper = pairs[task].ours.mean, pairs[task].paper.mean
        assert ours <= 2 * paper if metric_of(task) == "rmse" else ours >= paper - 0.05, (row, task)


def test_comparison_leaves_missing_cells_open():
    cells = [cell for cell in cells_of_the_paper() if (cell["task"], cell["model"]) != ("range", "gru-mlp")]
    missing = [
        (task, row.model, row.num_permutations)
        for row, pairs in comparison(cells)
        for task in pairs
        if not pairs[task].ours
    ]
    assert missing == [("range", "gru-mlp", 1), ("range", "gru-mlp", 20)]


def test_seeds_are_averaged():
    cells = [
        cell
        for seed, value in enumerate((0.2, 0.3, 0.7))
        for cell in changed(cells_of_the_paper(seed), "range", "k3-linear", value)
    ]
    score = our_score(cells, "range", Row("k3-linear", None))
    assert score.mean == pytest.approx(0.4)
    assert score.std == pytest.approx(0.07**0.5)
    assert str(score) == "0.400 (0.265)"


@pytest.mark.parametrize("value", [float("nan"), None])
def test_a_diverged_run_is_nan(value):
    score = our_score(changed(cells_of_the_paper(), "range", "k3-linear", value), "range", Row("k3-linear", None))
    assert isnan(score.mean)
    assert str(score) == "NaN"


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_printed_comparison_is_whole_at_every_width(width):
    cells = changed(cells_of_the_paper(), "variance", "k1-linear", 123.456)
    text = shown(cells, width)
    assert "…" not in text
    assert all(len(line) <= width for line in text.splitlines())
    for number in ("123.46", "119.05", "0.42", "0.360"):
        assert number in text
    for task in SHOWN:
        assert task.replace("_", " ") in text


def test_the_printed_comparison_of_100_columns_is_one_table():
    assert shown(cells_of_the_paper(), 100).count("k = 1      linear") == 1


def test_the_printed_comparison_of_nothing_is_nothing():
    assert shown([]) == ""


def test_the_printed_comparison_shows_a_dash_for_a_missing_cell_and_only_tasks_that_were_run():
    text = shown([cell for cell in cells_of_the_paper() if cell["task"] == "variance" and cell["model"] != "k2-mlp"])
    assert "range" not in text
    (line,) = (line for line in text.splitlines() if line.split()[:4] == ["k", "=", "2", "MLP"])
    assert line.split()[4:6] == ["–", "3.49"]


def test_every_pattern_holds_in_the_paper():
    checks = pattern_checks(cells_of_the_paper())
    assert len(checks) == 14
    assert {check.verdict for check in checks} == {"holds"}


BROKEN = [
    ("range", "k3-linear", (0.05,), "accuracy on range rises with k"),
    ("unique_sum", "k2-linear", (0.5,), "accuracy on unique sum rises with k"),
    ("unique_count", "k1-linear", (float("nan"),), "accuracy on unique count rises with k"),
    ("range", "k1-mlp", (0.89,), "An MLP as ρ lifts k = 1"),
    ("variance", "k1-mlp", (0.39,), "at the top on variance"),
    ("sum", "gru-linear", (0.9, 0.88), "20 permutations do no worse than 1 on sum"),
    ("variance", "lstm-linear", (1.65, 1.75), "20 permutations do no worse than 1 on variance"),
    ("range", "lstm-mlp", (float("nan"), float("nan")), "20 permutations do no worse than 1 on range"),
]


@pytest.mark.parametrize(("task", "model", "values", "sentence"), BROKEN)
def test_a_broken_pattern_does_not_hold(task, model, values, sentence):
    failing = [c for c in pattern_checks(changed(cells_of_the_paper(), task, model, *values)) if c.holds is False]
    assert [sentence in check.sentence for check in failing] == [True]


def test_recurrent_models_below_the_top_do_not_hold():
    cells = cells_of_the_paper()
    for model in ("lstm-linear", "gru-linear", "lstm-mlp", "gru-mlp"):
        cells = changed(cells, "sum", model, 0.97, 0.98)
    assert [c.sentence for c in pattern_checks(cells) if c.holds is False] == [
        "LSTM and GRU are at the top on sum: accuracy within 0.01 of, or above, the best k-ary model's."
    ]


def test_a_loss_within_the_sampling_noise_is_no_loss():
    """At accuracy 0.9 and 10,000 examples two standard errors are 0.0085; with 500 examples 0.038."""
    cells = changed(cells_of_the_paper(), "range", "gru-mlp", 0.900, 0.893)
    assert all(check.holds for check in pattern_checks(cells))
    cells = changed(cells_of_the_paper(), "range", "gru-mlp", 0.91, 0.88)
    assert not all(check.holds for check in pattern_checks(cells))
    for cell in cells:
        cell["config"]["num_test"] = 500
    assert all(check.holds for check in pattern_checks(cells))


def test_a_pattern_without_its_cells_is_undecided():
    assert {check.verdict for check in pattern_checks([])} == {"not enough cells"}
    without = [cell for cell in cells_of_the_paper() if cell["model"] != "k2-linear"]
    undecided = [check.sentence for check in pattern_checks(without) if check.holds is None]
    assert len(undecided) == 3 + len(SHOWN)


def test_printed_patterns_show_the_numbers_of_those_that_fail():
    console = Console(width=100, record=True, file=StringIO())
    print_patterns(console, changed(cells_of_the_paper(), "range", "k1-mlp", 0.123))
    text = console.export_text()
    assert text.count("does not hold") == 1
    assert "MLP: 0.123, after 1000 epochs" in text
    assert "0.040" in text
