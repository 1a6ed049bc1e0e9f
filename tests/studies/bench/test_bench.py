"""The bench: cells in a fair order, kept when it is stopped; and a page of nothing but what the files say."""

import random
import re
import tracemalloc
from dataclasses import fields, replace
from functools import partial
from itertools import combinations
from math import inf, sqrt
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import rankdata, studentized_range

from janossy.cli.pages import THEMES, render
from studies.bench import best_rate, data_sets, names
from studies.bench.data_set import DataSet, Fold
from studies.bench.models import BUILT, Task
from studies.bench.names import MODELS
from studies.bench.page import SETTINGS, write_page, write_report
from studies.bench.plots import plots_of
from studies.bench.ranks import critical_difference, groups, largest_comparison, ranks
from studies.bench.scores import of_classes, of_numbers
from studies.bench.settings import Settings
from studies.bench.study import SETS, trials
from studies.bench.summary import read_summaries, summarise, write_summary
from studies.bench.tables import comparison, folds_of, number, paired, rows, shared_sets
from studies.bench.trial import Trial, measure
from studies.runs.results import cell_path, write_json
from studies.runs.run import unfinished
from tests.studies.bench.made import made

QUIET = Console(quiet=True)
COMMITTED = Path(__file__).parents[3] / "docs" / "results" / "sets" / "bench"
QUICK = Settings(auto_seconds=1.0, max_epochs=2)


def a_cell(data="musk1", model="k1", fold=0, score=0.9, tests=("test",), **changes):
    """Returns a result as a run would leave it, without the run."""
    about = {"about": "Made", "task": "classification", "scores": ["accuracy"], "num_folds": 10, "published": {}}
    return {
        "data": data,
        "model": model,
        "fold": fold,
        "config": {},
        "data_set": {**about, "settings": {}},
        "seconds": 1.0,
        "does_not_apply": None,
        "scores": {test: {"accuracy": score} for test in tests},
        "num_train": 90,
        "num_test": 10,
        "num_parameters": 100,
        "num_networks": 5,
        "fit_seconds": 2.0,
        "predict_seconds": 0.1,
        "chosen": {},
        **changes,
    }


def test_names_are_those_of_what_there_is():
    assert tuple(data_sets.LOADERS) == names.DATA and tuple(BUILT) == names.MODELS
    assert {*names.OURS, *names.PEERS} == {*names.MODELS} and {*names.SINGLE} < {*names.OURS}
    assert set(SETTINGS) == {field.name for field in fields(Settings)}


def test_fold_0_of_all_comes_first_and_auto_last_of_it(monkeypatch):
    short = DataSet(**{**vars(made()), "num_folds": 1})
    monkeypatch.setattr("studies.bench.study.load", lambda name, folder: short if name == "musk2" else made())
    found = [trial.place for trial in trials(["musk1", "musk2"], ["auto", "k1", "trees"], 2, QUICK, None)]
    both = [(data, model, 0) for data in ("musk1", "musk2") for model in ("k1", "trees")]
    first = [*both, ("musk1", "auto", 0), ("musk2", "auto", 0)]
    assert found == [*first, *(("musk1", model, 1) for model in ("k1", "trees", "auto"))]


@pytest.mark.parametrize("model", ["k2", "auto", "abmil", "trees"])
def test_a_cell_is_what_its_file_may_hold(tmp_path, monkeypatch, model):
    monkeypatch.setattr("studies.bench.trial.load", lambda name, folder: made())
    parts = []
    trial = Trial("musk1", model, 0, QUICK, None)
    result = trial.run(parts.append)
    assert all(part >= 0 for part in parts) and sum(parts) <= 1 + 1e-9
    assert set(result["scores"]["test"]) == {"accuracy", "AUC"} and result["num_test"] == 4
    assert result["num_parameters"] > 0 and result["fit_seconds"] > 0 and result["predict_seconds"] > 0
    assert "accuracy" in trial.score(result) and (model != "auto" or sum(result["chosen"].values()) == pytest.approx(1))
    write_json(cell_path(tmp_path, *trial.place, "fold"), result)
    results, skipped = SETS.read(tmp_path)
    assert len(results) == 1 and not skipped
    assert unfinished([trial], SETS, [], tmp_path, QUIET) == []
    with pytest.raises(ValueError, match=r"max_epochs=2 there, 3 asked for"):
        unfinished([Trial("musk1", model, 0, Settings(max_epochs=3), None)], SETS, [], tmp_path, QUIET)


@pytest.mark.parametrize(
    ("model", "settings", "reason"),
    [
        ("trees-raw", QUICK, "sets differ in size"),
        ("set-transformer", Settings(most_attended=2), "the largest set has 5 elements"),
        ("k3", Settings(most_copied=2), "there are 3 columns"),
        ("told", QUICK, "nothing is known of the columns"),
    ],
)
def test_a_model_that_does_not_apply_says_why(model, settings, reason):
    cell = measure(made(), model, 0, settings, lambda units: None)
    assert reason in cell.does_not_apply and cell.scores == {}


@pytest.mark.parametrize(("most", "exact"), [(0, False), (10**6, True)])
def test_many_tuples_are_drawn_also_for_predictions(most, exact):
    task = Task(made(), made().fold(0).train.sets, Settings(pairs_a_set=most), 0, lambda told: None)
    assert BUILT["k2"].build(task).strategy == {"exact": exact, "strategy": "k2"}


def test_peers_are_fitted_at_the_learning_rate_that_suits(monkeypatch):
    """One rate is too large for anything to be learnt."""
    monkeypatch.setattr(best_rate, "RATES", (1e4, 1e-2))
    cell = measure(made(), "deepsets", 0, replace(QUICK, max_epochs=20), lambda units: None)
    assert cell.chosen == {"learning rate 0.01": 1.0} and cell.num_parameters > 0
    monkeypatch.setattr(best_rate, "RATES", (1e30,))
    with pytest.raises(FloatingPointError, match="training expects finite losses"):
        measure(made(), "deepsets", 0, QUICK, lambda units: None)


def test_several_tests_are_scored_each():
    whole = made()

    def fold(number):
        of_whole = whole.fold(number)
        return Fold(of_whole.train, {f"size {n}": of_whole.tests["test"] for n in (5, 10)})

    cell = measure(DataSet(**{**vars(whole), "fold": fold}), "trees", 0, QUICK, lambda units: None)
    assert set(cell.scores) == {"size 5", "size 10"} and cell.num_test == 8


def test_scores_by_hand():
    classes = np.array([3, 5, 7])
    probabilities = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.5, 0.4, 0.1], [0.1, 0.2, 0.7]])
    found = of_classes(
        ("accuracy", "balanced accuracy", "recall of 5", "log loss"), np.array([3, 5, 5, 7]), probabilities, classes
    )
    assert found == pytest.approx(
        {
            "accuracy": 0.75,
            "balanced accuracy": (1 + 0.5 + 1) / 3,
            "recall of 5": 0.5,
            "log loss": -np.log([0.8, 0.7, 0.4, 0.7]).mean(),
        }
    )
    two = of_classes(("AUC",), np.array([0, 1, 1]), np.array([[0.6, 0.4], [0.7, 0.3], [0.1, 0.9]]), np.array([0, 1]))
    assert two == {"AUC": 0.5}
    assert of_numbers(("RMSE", "MAE", "accuracy of rounded"), np.array([1.0, 2.0]), np.array([1.4, 5.0])) == {
        "RMSE": pytest.approx(sqrt((0.16 + 9) / 2)),
        "MAE": pytest.approx(1.7),
        "accuracy of rounded": 0.5,
    }
    with pytest.raises(ValueError, match=r"a classification's scores are .*; got 'RMSE'"):
        of_classes(("RMSE",), np.array([0, 1]), np.eye(2), np.array([0, 1]))
    with pytest.raises(ValueError, match=r"a regression's scores are .*; got AUC"):
        of_numbers(("AUC",), np.zeros(2), np.zeros(2))


def test_differences_are_paired_over_the_folds_that_both_have():
    scores = {"k1": (0.5, 0.6, 0.9), "auto": (0.7, 0.7)}
    cells = [a_cell(model=model, fold=fold, score=x) for model, of in scores.items() for fold, x in enumerate(of)]
    (summary,) = summarise(cells)
    difference = paired(summary, "auto", "k1")
    assert difference.mean == pytest.approx(0.15) and difference.error == pytest.approx(0.05 * sqrt(1 + 2 / 9))
    found = comparison(summary)
    assert (found.single, found.peer, found.num_folds, found.verdict) == ("k1", None, 2, "at or above it")
    summary["data_set"]["scores"] = ["RMSE"]
    for of_model in summary["models"].values():
        of_model["scores"] = {"test": {"RMSE": of_model["scores"]["test"]["accuracy"]}}
    assert paired(summary, "auto", "k1").mean == pytest.approx(-0.15)
    assert comparison(summary).verdict == "below it"


def of_scores(scores):
    """Returns the summary of these scores by model and fold."""
    cells = [a_cell(model=model, fold=fold, score=x) for model, of in scores.items() for fold, x in enumerate(of)]
    return summarise(cells)[0]


def test_a_model_of_few_folds_is_not_the_best_by_them():
    summary = of_scores(
        {"k1": (0.9, 0.5, 0.5), "k2": (0.8, 0.7, 0.7), "k3": (1.0,), "trees": (0.6, 0.6, 0.6), "abmil": (0.9,)}
    )
    assert (comparison(summary).ours, comparison(summary).peer) == ("k2", "trees")
    assert [row.model for row in rows(summary) if row.best] == ["k2"]
    summary = of_scores({"k1": (0.5, 0.5, 0.5), "k2": (0.8, 0.7), "k3": (1.0,)})  # two are more than half of three
    assert comparison(summary).ours == "k2"
    summary = of_scores({"k1": (0.5, 0.9), "k2": (0.8, 0.7), "k3": (1.0,)})  # one is not more than half of two
    assert comparison(summary).ours == "k2"
    summary = of_scores({"k1": (0.9,), "k2": (0.8,), "trees": (0.6,)})
    assert comparison(summary).ours == "k1" and [row.model for row in rows(summary) if row.best] == ["k1"]


def test_models_with_one_fold_do_not_decide_by_their_number():
    """Most models have one fold: their median is one."""
    once = {model: (0.5,) for model in ("max", "sum", "attention", "induced", "deepsets", "abmil", "pyg-lstm")}
    summary = of_scores({"gru": (0.9, 0.5, 0.5), "k2": (0.8, 0.7, 0.7), "trees": (0.6, 0.6, 0.6), **once})
    assert (comparison(summary).ours, comparison(summary).single) == ("k2", "k2")
    assert [row.model for row in rows(summary) if row.best] == ["k2"]


def test_the_best_are_compared_on_the_folds_that_they_share():
    summary = of_scores({"k1": (0.6, 0.7, 0.9), "k2": (0.7, 0.7), "trees": (0.5, 0.5, 0.5)})
    assert comparison(summary).ours == "k2"  # k1's mean over three folds is larger, but not over two
    assert [row.model for row in rows(summary) if row.best] == ["k2"]


def test_models_ahead_on_few_folds_are_listed():
    summary = of_scores({"k2": (0.8, 0.7, 0.7), "k3": (0.9,), "sum": (0.8,), "trees": (0.6, 0.6, 0.6), "abmil": (1.0,)})
    assert comparison(summary).ahead == [("k3", pytest.approx(0.1), 1), ("abmil", pytest.approx(0.2), 1)]


def test_errors_of_cross_validation_count_the_sets_that_folds_share():
    """Nadeau and Bengio, 2003: (1/n + test sets/training sets) times the variance."""
    scores = np.random.default_rng(0).random(30)
    cells = [a_cell("musk1", "k1", fold, x) for fold, x in enumerate(scores)]
    for num_folds, overlap in ((30, 1 / 9), (10, 1 / 9), (3, 0)):
        (summary,) = summarise(cells)
        summary["data_set"]["num_folds"] = num_folds
        error = np.sqrt((1 / 30 + overlap) * scores.var(ddof=1))
        assert rows(summary)[0].scores["accuracy"].error == pytest.approx(error)
        summary["models"]["k2"] = summary["models"]["k1"] | {"scores": {"test": {"accuracy": [0.0] * 30}}}
        assert paired(summary, "k1", "k2").error == pytest.approx(error)


def test_the_committed_data_sets_of_ten_folds_are_cross_validated():
    found = {summary["name"] for summary in read_summaries(COMMITTED) if shared_sets(summary)}
    mil = {"elephant", "corel-dogs", "birds", "breast", "protein", "web"}
    assert found == {"musk1", "musk2", "freesolv", *mil}


def test_what_is_nearly_one_is_not_shown_as_one():
    assert [number(x) for x in (0.9, 0.99967, 1.0, -0.5, 1234.5)] == ["0.900", "0.99967", "1.000", "-0.500", "1,234"]


def test_a_fold_that_diverged_does_not_count():
    (summary,) = summarise([a_cell(fold=0, score=None), a_cell(fold=1, score=0.5)])
    assert folds_of(summary, "k1") == {1: 0.5}


def test_ranks_by_their_definitions():
    rng = np.random.default_rng(0)
    models, data = ("k1", "max", "abmil", "trees"), ("musk1", "musk2", "elephant", "birds", "web")
    scores = rng.random((len(data), len(models), 2)).round(2)
    cells = [
        a_cell(name, model, fold, scores[i, j, fold])
        for i, name in enumerate(data)
        for j, model in enumerate(models)
        for fold in range(2)
    ]
    cells += [a_cell("musk1", "gru"), a_cell("musk1", "k1", fold=2, score=0.0)]
    found = ranks(summarise(cells))
    mean_ranks = rankdata(-scores.mean(2), axis=1).mean(0)
    assert found.mean_ranks == pytest.approx(dict(zip(models, mean_ranks, strict=True)))
    assert (
        found.skipped_models == ["gru"]
        and found.skipped_data == []
        and list(found.mean_ranks.values()) == sorted(mean_ranks)
    )
    num, k = len(data), len(models)
    friedman = 12 * num / (k * (k + 1)) * (np.square(mean_ranks).sum() - k * (k + 1) ** 2 / 4)
    assert found.statistic == pytest.approx(friedman)
    assert ranks(summarise(cells)[:1]) is None
    without = [cell for cell in cells if (cell["data"], cell["model"]) != ("web", "trees")]
    assert ranks(summarise(without)).skipped_data == ["web"]  # 4 × 4 × 2 folds are more than 3 × 5 × 2
    once = [a_cell(name, "gru") for name in data]
    assert ranks(summarise(cells[:-2] + once)).skipped_models == ["gru"]  # 5 × 5 × 1 are fewer than 4 × 5 × 2
    assert ranks(summarise([cell for cell in cells[:-2] if cell["fold"] == 0] + once)).skipped_models == []
    assert ranks(summarise([cell for cell in cells if cell["model"] in models[:2]])) is None


def folds_only(has):
    """Returns summaries of these folds, by data set and model."""
    return [
        {
            "name": str(i),
            "data_set": {"scores": ["accuracy"]},
            "models": {
                m: {"folds": folds, "scores": {"test": {"accuracy": [0.5] * len(folds)}}} for m, folds in of.items()
            },
        }
        for i, of in enumerate(has)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_the_compared_models_and_data_have_the_most_fits(seed):
    rng = random.Random(seed)
    models = rng.sample(MODELS, 5)
    has = [{m: [fold for fold in range(3) if rng.random() < 0.6] for m in models} for _ in range(4)]

    def fits(some):
        of_data = [len(set.intersection(*(set(of[m]) for m in some))) for of in has]
        return len(some) * sum(of_data) if np.count_nonzero(of_data) >= 2 else 0

    most = max(fits(some) for num in (3, 4, 5) for some in combinations(models, num))
    compared, _ = largest_comparison(folds_only(has))
    assert (fits(compared) if compared else 0) == most


def test_the_largest_comparison_of_all_models_takes_little_memory():
    """Rows of all sets of models took 4 GB."""
    rng = random.Random(0)
    summaries = folds_only([{m: range(rng.choice((1, 3, 10))) for m in MODELS} for _ in range(16)])
    tracemalloc.start()
    compared, chosen = largest_comparison(summaries)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(compared) >= 3 and len(chosen) == 16
    assert peak < 50e6


def test_nemenyis_difference_is_that_of_the_printed_table():
    """Demšar, 2006, Table 5: q at 5 % of 2, 5 and 10 classifiers."""
    for k, q in ((2, 1.960), (5, 2.728), (10, 3.164)):
        assert critical_difference(k, 14) == pytest.approx(q * sqrt(k * (k + 1) / (6 * 14)), rel=1e-3)
    assert studentized_range.ppf(0.95, 5, inf) / sqrt(2) == pytest.approx(2.728, abs=1e-3)
    assert groups([1.0, 1.5, 3.0, 3.2, 9.0], 1.75) == [(0, 1), (1, 3)]


def without_images(page: str) -> str:
    return re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", page)


def some_cells():
    data, models = ("musk1", "musk2", "elephant"), ("k1", "gru", "abmil", "trees", "auto")
    for i, name in enumerate(data):
        tests = ("size 5", "size 20") if name == "elephant" else ("test",)
        for j, model in enumerate(models):
            for fold in range(2):
                yield a_cell(name, model, fold, round(0.5 + 0.03 * i + 0.05 * j + 0.01 * fold * j, 3), tests)
    yield a_cell("musk1", "trees-raw", 0, scores={}, does_not_apply="sets differ in size")


def drawn_only(plot, theme):
    plot(THEMES[theme])
    return theme.encode()


def test_the_page_is_made_of_the_summaries_and_of_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr("studies.runs.page.render", drawn_only)
    paths = write_report(tmp_path, [*some_cells()], [])
    assert {path.name for path in paths} == {
        *(f"{name}.json" for name in ("musk1", "musk2", "elephant")),
        *("report.md", "report.html", "scores.png", "ranks.png", "by-size.png"),
    }
    text, html = ((tmp_path / name).read_text(encoding="utf-8") for name in ("report.md", "report.html"))
    assert "trees-raw was not run: sets differ in size." in text and "Friedman" in text and "size 5" not in text
    assert "| k1 | 0.500 (0.000) |" in text and "**auto**" in text and html.count("data:image/png") == 6
    again = tmp_path / "again"
    again.mkdir()
    for summary in read_summaries(tmp_path):
        write_summary(again, summary)
    write_page(again)
    for path in paths:
        assert (again / path.name).read_bytes() == path.read_bytes(), path.name


def test_the_budget_is_that_of_auto_whatever_was_run_later(tmp_path, monkeypatch):
    monkeypatch.setattr("studies.runs.page.render", drawn_only)
    auto = {"model": "auto", "config": {"auto_seconds": 90.0}, "chosen": {"k1": 1.0}, "finished": "2026-01-01"}
    write_report(tmp_path, [a_cell(**auto), a_cell(config={"auto_seconds": 600.0}, finished="2026-01-02")], [])
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "What auto averaged, within 90 CPU seconds, by mean weight: k1 1.00." in text
    assert "| time budget of auto, in CPU seconds | 90.0 |" in text


def test_plots_are_pictures():
    summaries = summarise([*some_cells()])
    found = plots_of(summaries)
    assert list(found) == ["scores", "ranks", "by-size"] and list(plots_of(summaries[:1])) == ["scores"]
    assert all(render(partial(plot, summaries), "dark").startswith(b"\x89PNG") for plot in found.values())


@pytest.mark.parametrize("damage", ["{", '{"name": "musk1"}', "[]"])
def test_a_damaged_summary_is_named(tmp_path, damage):
    (tmp_path / "musk1.json").write_text(damage)
    with pytest.raises(ValueError, match=r"musk1\.json "):
        write_page(tmp_path)
    with pytest.raises(ValueError, match="holds no summary of a data set"):
        write_page(tmp_path / "empty")


@pytest.mark.skipif(not COMMITTED.is_dir(), reason="no results of the bench are committed yet")
def test_the_committed_page_is_that_of_the_committed_results(tmp_path, monkeypatch):
    monkeypatch.setattr("studies.runs.page.render", drawn_only)
    for path in COMMITTED.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    write_page(tmp_path)
    for name in ("report.md", "report.html"):
        ours, theirs = ((folder / name).read_text(encoding="utf-8") for folder in (tmp_path, COMMITTED))
        assert without_images(ours) == without_images(theirs)
    summaries = read_summaries(COMMITTED)
    assert {path.stem for path in COMMITTED.glob("*.json")} == {summary["name"] for summary in summaries}
    assert all(
        len(of_test[score]) == len(of_model["folds"])
        for summary in summaries
        for of_model in summary["models"].values()
        for of_test in of_model["scores"].values()
        for score in summary["data_set"]["scores"]
    )
