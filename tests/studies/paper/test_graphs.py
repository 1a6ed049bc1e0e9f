"""Vertex classification: the rows of Table 2, training, and the trials of a run."""

import json
from copy import deepcopy
from dataclasses import asdict, replace
from importlib import resources
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from janossy.graph.neighbourhoods import Neighbourhoods
from janossy.graph.sage import GraphSAGE
from studies.paper.graphs import train, trial
from studies.paper.graphs.datasets import NAMES, SIZES, VertexData, load
from studies.paper.graphs.settings import NUM_RUNS, PAPER_ROWS, Row, settings_for
from studies.paper.graphs.study import GRAPHS
from studies.paper.graphs.train import THRESHOLDS, curves, mean_probabilities, micro_f1, train_row
from studies.paper.graphs.trial import NUM_TRAIN, Trial
from studies.runs.run import run_trials, unfinished
from studies.runs.schema import check

TABLES = json.loads((resources.files("studies.paper") / "tables.json").read_text(encoding="utf-8"))
TABLE_10 = TABLES["table_10_graph_trainable_parameters"]
QUIET = Console(quiet=True)


# Rows


@pytest.mark.parametrize(
    ("name", "row", "reads_in_order"),
    [
        ("mean", Row("mean"), False),
        ("gcn", Row("gcn"), False),
        ("max", Row("max"), False),
        ("k2", Row("k2"), False),
        ("k3-all-all", Row("k3"), False),
        ("mean-all-25", Row("mean", None, 25), True),
        ("max-10-25", Row("max", 10, 25), True),
        ("lstm-25-10", Row("lstm", 25, 10), True),
        ("gru-all-all", Row("gru"), True),
        ("lstm-all-3", Row("lstm", None, 3), True),
        ("lstm-3-3-stopped", Row("lstm", 3, 3, stopped=True), True),
        ("mean-stopped", Row("mean", stopped=True), False),
    ],
)
def test_names_of_rows(name, row, reads_in_order):
    assert Row.named(name) == row and row.reads_in_order == reads_in_order


@pytest.mark.parametrize(
    "name",
    [
        *("", "mean\n", "LSTM-3-3", "sum", "all-all", "k", "k0", "k7", "lstm", "gru", "lstm-3", "mean-3", "lstm-3-3-3"),
        *("lstm-0-3", "lstm-3-0", "lstm--3-3", "lstm-03-3", "lstm-3.5-3", "lstm-1٣-3", "lstm-3-3 ", "lstm-none-none"),
        *("lstm-stopped", "stopped", "mean-stopped-stopped", "mean-stopped-3-3", "lstm-3-3stopped"),
    ],
)
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="a row is mean, gcn, max, k2 or k3") as refused:
        Row.named(name)
    assert repr(name) in str(refused.value)


def test_the_papers_rows_and_runs():
    rows = [Row.named(name) for name in PAPER_ROWS]
    printed = TABLES["table_2_micro_f1"]
    assert [(row.aggregation, row.k_1, row.k_2) for row in rows] == [
        (row["f"], *(None if row["f"] == "mean" or row[k] == "all" else row[k] for k in ("k1", "k2")))
        for row in printed
    ]
    assert NUM_RUNS == {"cora": 30, "pubmed": 30, "ppi": 4, "ppi-go": 4}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("row", ["lstm-3-3", "lstm-all-all", "gru-all-10", "mean", "k2", "max-10-25"])
def test_settings_are_the_papers(name, row):
    full = settings_for(name, Row.named(row), "full")
    is_ppi = name in ("ppi", "ppi-go")
    expected = {"num_batches": None, "epochs": 10} if is_ppi else {"num_batches": 100, "epochs": None}
    expected |= {"batch_size": 512 if is_ppi else 256, "hidden_features": 256, "num_test": None, "preset": "full"}
    is_long = is_ppi and row in ("lstm-all-all", "gru-all-10")
    expected |= {"keep": "last", "precision": "bfloat16" if is_long else "float32"}
    expected |= {"learning_rate": 0.005 if name == "cora" else 0.01}
    all_of_ppi = 100 if is_ppi else None
    k_1, k_2, passes = {
        "lstm-3-3": (3, 3, 20),
        "lstm-all-all": (all_of_ppi, all_of_ppi, 20),
        "gru-all-10": (all_of_ppi, 10, 20),
        "mean": (None, None, 1),
        "k2": (None, None, 1),
        "max-10-25": (10, 25, 20),
    }[row]
    assert asdict(full) == expected | {"k_1": k_1, "k_2": k_2, "num_permutations": passes}
    quick = replace(full, preset="quick", epochs=2) if is_ppi else replace(full, preset="quick")
    assert settings_for(name, Row.named(row), "quick") == quick
    longer = {"epochs": 30} if is_ppi else {"num_batches": 300}
    assert settings_for(name, Row.named(f"{row}-stopped"), "full") == replace(full, keep="best", **longer)
    smoke = settings_for(name, Row.named(row), "smoke")
    assert smoke.num_batches == 2 and smoke.num_test == 100 and smoke.num_permutations == min(passes, 3)


# Training


def random_data(name, num=60, degree=4, seed=0) -> VertexData:
    """Returns ``num`` vertices with features and classes like the data set's."""
    generator = torch.Generator().manual_seed(seed)
    _, d, c = SIZES[name]
    edges = torch.randint(num, (2, degree * num), generator=generator)
    x = torch.rand(num, d, generator=generator)
    y = torch.randint(c, (num,), generator=generator)
    if name.startswith("ppi"):
        y = torch.rand(num, c, generator=generator).round()
    order = torch.randperm(num, generator=generator)
    test, validation, rest = order.split([num // 4, num // 4, num - 2 * (num // 4)])
    return VertexData(name, x, y, Neighbourhoods.from_edge_index(edges, num), rest, validation, test)


TINY = replace(
    settings_for("pubmed", Row.named("lstm-3-3"), "smoke"), hidden_features=8, batch_size=10, num_permutations=2
)


def trained(data, row, seed=0, settings=TINY):
    return train_row(data, row, seed, settings, lambda _: None)


@pytest.mark.parametrize("name", ["cora", "pubmed", "ppi", "ppi-go"])
@pytest.mark.parametrize("row", ["mean", "gcn", "lstm-3-3"])
def test_trainable_parameters_are_table_10(name, row):
    """The number is that of "mean" as the released code has it, and of "gcn" by coincidence."""
    short = {"num_batches": 1, "epochs": None, "batch_size": 4, "num_test": 2, "num_permutations": 1}
    settings = replace(settings_for(name, Row.named(row), "full"), **short)
    printed = TABLE_10["mean" if row == "gcn" else row.partition("-")[0]][name.partition("-")[0]]
    assert trained(random_data(name), row, settings=settings)["num_trainable_parameters"] == printed


def f1_by_loops(predicted, actual) -> float:
    """Returns 2 TP / (2 TP + FP + FN) of 0 and 1 (B, c), or 0 without any label or prediction."""
    right = wrong = missed = 0
    for p, a in zip(np.ravel(predicted), np.ravel(actual), strict=True):
        right += bool(p) and bool(a)
        wrong += bool(p) and not a
        missed += bool(a) and not p
    return 2 * right / (2 * right + wrong + missed) if right + wrong + missed else 0.0


labels = st.integers(1, 6).flatmap(
    lambda c: st.lists(
        st.lists(st.tuples(st.sampled_from([0.0, 0.3, 0.5, 0.51, 1.0]), st.booleans()), min_size=c, max_size=c),
        min_size=1,
        max_size=6,
    )
)


@given(labels)
@example([[(0.5, True)]])
@example([[(0.0, False), (0.2, False)]])
def test_micro_f1_of_many_labels_is_the_definition(rows):
    pairs = torch.tensor(rows)
    probabilities, y = pairs[..., 0], pairs[..., 1]
    assert micro_f1(probabilities, y) == pytest.approx(f1_by_loops(probabilities.numpy() > 0.5, y.numpy()))


@given(st.lists(st.tuples(st.integers(0, 3), st.permutations([0.1, 0.2, 0.3, 0.4])), min_size=1, max_size=8))
def test_micro_f1_of_one_class_each_is_the_definition(rows):
    y, probabilities = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    one_hot = np.eye(4)
    expected = f1_by_loops(one_hot[probabilities.argmax(1)], one_hot[y])
    assert micro_f1(torch.tensor(probabilities), torch.tensor(y)) == pytest.approx(expected)


@given(labels, st.sampled_from(THRESHOLDS))
def test_micro_f1_above_a_threshold_is_the_definition(rows, threshold):
    pairs = torch.tensor(rows)
    probabilities, y = pairs[..., 0], pairs[..., 1]
    expected = f1_by_loops(probabilities.numpy() > threshold, y.numpy())
    assert micro_f1(probabilities, y, threshold) == pytest.approx(expected)


class Passes:
    """A model that gives each vertex other logits in each pass."""

    def __init__(self, data, settings):
        generator = torch.Generator().manual_seed(1)
        self.logits = 2 * torch.randn(settings.num_permutations, len(data.x), data.num_classes, generator=generator)
        self.seen = torch.zeros(len(data.x), dtype=torch.int64)
        self.settings, self.training, self.batches = settings, True, []

    def eval(self):
        self.training = False

    def __call__(self, x, graph, batch, k_1, k_2):
        assert not self.training and not torch.is_grad_enabled()
        assert (k_1, k_2) == (self.settings.k_1, self.settings.k_2)
        self.batches.append(len(batch))
        self.seen[batch] += 1
        return self.logits[self.seen[batch] - 1, batch]


@pytest.mark.parametrize("name", ["pubmed", "ppi"])
def test_the_curves_are_of_the_mean_of_the_first_passes(name, monkeypatch):
    monkeypatch.setattr(train, "EVALUATION_BATCH", 7)
    data, settings = random_data(name), replace(TINY, num_permutations=5, k_1=2, k_2=None, num_test=None)
    model = Passes(data, settings)
    found = curves(model, data, settings)
    assert model.seen[data.test].eq(5).all() and model.seen[data.validation].eq(5).all() and model.seen.sum() == 150
    assert max(model.batches) == 7
    assert set(found) == {"validation_curve", "curve"} | ({"loss_curve", "tuned_curve"} if data.multilabel else set())
    logits = model.logits.double()
    probabilities = logits.sigmoid() if data.multilabel else logits.softmax(2)
    for m in range(1, 6):
        mean = sum(probabilities[:m]) / m
        on_validation, y_validation = mean[data.validation], data.y[data.validation]
        on_test, y = mean[data.test], data.y[data.test]
        expected = {"validation_curve": micro_f1(on_validation, y_validation), "curve": micro_f1(on_test, y)}
        if data.multilabel:
            expected["loss_curve"] = -torch.where(y > 0.5, on_test, 1 - on_test).log().mean().item()
            best = max(micro_f1(on_validation, y_validation, t) for t in THRESHOLDS)
            tuned = next(t for t in THRESHOLDS if micro_f1(on_validation, y_validation, t) == best)
            expected["tuned_curve"] = micro_f1(on_test, y, tuned)
        assert {key: values[m - 1] for key, values in found.items()} == pytest.approx(expected, abs=1e-6)
    assert all(len(values) == 5 and len(set(values)) > 1 for values in found.values())


@pytest.mark.parametrize(("name", "row"), [("pubmed", "lstm-3-3"), ("ppi", "mean")])
def test_a_result_is_a_function_of_the_seed(name, row):
    data = random_data(name)
    first = trained(data, row)
    torch.rand(3)  # whatever was drawn before
    again, other = trained(data, row), trained(data, row, seed=1)
    timed = {"seconds", "vertices_per_second"}
    assert {k: v for k, v in first.items() if k not in timed} == {k: v for k, v in again.items() if k not in timed}
    assert other["losses"] != first["losses"]


def test_a_result_says_everything():
    settings = replace(TINY, num_test=None)
    result = json.loads(json.dumps(trained(random_data("pubmed"), "lstm-3-3", 4, settings)))
    check(result | {"versions": {}, "config": result["config"] | {"preset": "smoke"}}, GRAPHS.schema)
    assert (result["dataset"], result["row"], result["seed"]) == ("pubmed", "lstm-3-3", 4)
    assert result["config"] == asdict(settings) | {"optimizer": "Adam"}
    assert len(result["curve"]) == 2 and result["scores"]["test"] == result["curve"][-1]
    assert set(result["scores"]) == {"validation", "test"} and len(result["losses"]) == 2


@pytest.mark.parametrize(("num_test", "expected"), [(9, 9), (None, 15), (100, 15)])
def test_num_test_limits_what_is_scored(num_test, expected):
    data, settings = random_data("pubmed"), replace(TINY, num_test=num_test)
    model = Passes(data, settings)
    curves(model, data, settings)
    assert set(model.batches) == {expected}
    assert model.seen[data.test[:expected]].eq(2).all() and model.seen.sum() == 2 * 2 * expected


def batches_of(monkeypatch, data, **changes):
    """Returns the vertices of every training step."""
    drawn = []

    def spy(graph, vertices, k_1, k_2):
        assert (k_1, k_2) == (TINY.k_1, TINY.k_2)
        drawn.append(vertices)
        return two_hops(graph, vertices, k_1=k_1, k_2=k_2)

    two_hops = train.two_hops
    monkeypatch.setattr(train, "two_hops", spy)
    trained(data, "lstm-3-3", settings=replace(TINY, **changes))
    return drawn


def test_epochs_visit_each_training_vertex_once(monkeypatch):
    data = random_data("pubmed")  # 30 training vertices
    drawn = batches_of(monkeypatch, data, num_batches=None, epochs=3, batch_size=8)
    assert [len(vertices) for vertices in drawn] == [8, 8, 8, 6] * 3
    epochs = [torch.cat(drawn[start : start + 4]) for start in (0, 4, 8)]
    assert all(epoch.sort().values.equal(data.train.sort().values) for epoch in epochs)
    assert not epochs[0].equal(epochs[1]) and not epochs[1].equal(epochs[2]) and not epochs[0].equal(data.train)


def test_random_batches_are_subsets_without_repeats(monkeypatch):
    data = random_data("pubmed")
    drawn = batches_of(monkeypatch, data, num_batches=6, batch_size=12)
    assert len(drawn) == 6
    allowed = set(data.train.tolist())
    chosen = [set(vertices.tolist()) for vertices in drawn]
    assert all(len(vertices) == 12 and vertices <= allowed for vertices in chosen)
    assert len({frozenset(vertices) for vertices in chosen}) == 6
    assert any(a & b for a, b in pairwise(chosen))  # drawn anew, not parts of an epoch


@pytest.mark.parametrize("num_batches", [20, 7])
@pytest.mark.parametrize("keep", ["best", "last"])
def test_the_weights_that_are_best_at_a_look_are_kept(keep, num_batches, monkeypatch):
    scripted = iter([0.2, 0.5, 0.4, 0.5, 0.1, 0.3, 0.5, 0.0, 0.2, 0.1])
    steps, looks = [], []

    def look(model, *_):
        looks.append((len(steps), deepcopy(model.state_dict())))
        return next(scripted)

    monkeypatch.setattr(train, "look", look)
    data, settings = random_data("pubmed"), replace(TINY, num_batches=num_batches, keep=keep)
    torch.manual_seed(0)
    model = GraphSAGE(data.x.shape[1], data.num_classes, aggregation="mean", hidden_features=8)
    losses, _, _ = train.fit(model, data, settings, steps.append)
    assert len(steps) == num_batches and len(losses) == min(num_batches, 10)
    if keep == "last":
        assert looks == []
        return
    assert [step for step, _ in looks] == (list(range(2, 21, 2)) if num_batches == 20 else list(range(1, 8)))
    (best, last), kept = (looks[place][1] for place in (1, -1)), model.state_dict()
    assert all(kept[key].equal(best[key]) for key in kept)
    assert not all(kept[key].equal(last[key]) for key in kept)


def test_a_look_is_the_validation_score(monkeypatch):
    look, looks = train.look, []

    def spy(*arguments):
        looks.append(look(*arguments))
        return looks[-1]

    monkeypatch.setattr(train, "look", spy)
    settings = replace(TINY, num_batches=30, keep="best", num_test=None, num_permutations=1, k_1=None, k_2=None)
    result = trained(planted(), "mean-stopped", settings=settings)
    assert len(looks) == 10 and len(set(looks)) > 1
    assert result["scores"]["validation"] == pytest.approx(max(looks), abs=1e-6)


def planted(rewired=False) -> VertexData:
    """Returns vertices that see the right colour half of the time. Seven of eight neighbours are alike."""
    generator = torch.Generator().manual_seed(5)
    num = 600
    y = torch.arange(num) % 3
    targets = torch.arange(num).repeat_interleave(8)
    others = torch.randint(num // 3, (8 * num,), generator=generator) * 3
    alike = torch.rand(8 * num, generator=generator) < 7 / 8
    sources = others + torch.where(alike, y[targets], torch.randint(3, (8 * num,), generator=generator))
    if rewired:
        sources = sources[torch.randperm(8 * num, generator=generator)]
    wrong = torch.rand(num, generator=generator) < 0.5
    seen = torch.where(wrong, (y + torch.randint(1, 3, (num,), generator=generator)) % 3, y)
    x = torch.nn.functional.one_hot(seen, 3).float()
    test, validation, rest = torch.randperm(num, generator=generator).split([150, 50, 400])
    graph = Neighbourhoods.from_edge_index(torch.stack((sources, targets)), num)
    return VertexData("pubmed", x, y, graph, rest, validation, test)


@pytest.mark.parametrize(("row", "precision"), [("lstm-3-3", None), ("lstm-3-3", "bfloat16"), ("mean", None)])
def test_what_neighbours_say_is_learnt(row, precision):
    """There are three classes; a vertex by itself tells a half of them, as the rewired graph shows."""
    settings = replace(
        settings_for("pubmed", Row.named(row), "full", precision), num_batches=60, hidden_features=64, batch_size=128
    )
    learnt, control = (trained(planted(rewired), row, settings=settings) for rewired in (False, True))
    assert learnt["scores"]["test"] > 0.8 and learnt["losses"][-1] < 0.75 * learnt["losses"][0]
    assert control["scores"]["test"] < 0.65


@pytest.mark.parametrize("row", ["lstm-3-5", "gru-5-3", "lstm-all-all"])
def test_probabilities_in_bfloat16_are_those_of_float32_rounded(row):
    """Steps of bfloat16 are 2⁻⁸ of a number; the networks' outputs are of order one, the probabilities at most that."""
    data = random_data("pubmed", 100)
    torch.manual_seed(0)
    model = GraphSAGE(data.x.shape[1], data.num_classes, aggregation=Row.named(row).aggregation, hidden_features=32)
    found = []
    for precision in ("float32", "bfloat16"):
        torch.manual_seed(1)  # the same neighbours
        settings = replace(settings_for("pubmed", Row.named(row), "smoke", precision), num_permutations=2)
        *_, probabilities = mean_probabilities(model, data, torch.arange(100), settings)
        found.append(probabilities)
    assert 0 < (found[0] - found[1]).abs().max() < 0.02


# Cells


def trial_of(folder, row="mean", seed=0, dataset="cora", **changes) -> Trial:
    settings = settings_for(dataset, Row.named(row), "smoke")
    return Trial(dataset, row, seed, replace(settings, hidden_features=16, **changes), folder)


@pytest.mark.parametrize(
    ("dataset", "changes"),
    [("cora", {}), ("pubmed", {"num_batches": 5}), ("ppi", {"num_batches": None, "epochs": 1, "hidden_features": 2})],
)
def test_progress_adds_up(dataset, changes, monkeypatch):
    data = random_data(dataset, 100)
    repeated = torch.arange(NUM_TRAIN[dataset]) % 100
    monkeypatch.setattr(trial, "load", lambda *_: replace(data, train=repeated))
    one = replace(trial_of(Path(), dataset=dataset), settings=replace(trial_of(Path()).settings, **changes))
    steps = []
    result = one.run(steps.append)
    assert sum(steps) == one.units > 0
    assert one.score(result) == f"micro-F1 {result['scores']['test']:.3f} with 1 permutations"


@pytest.mark.parametrize("keep", ["last", "best"])
def test_a_run_that_was_killed_goes_on_from_its_last_epoch(keep, tmp_path):
    data, checkpoint, steps = random_data("ppi"), tmp_path / "folder" / "run.pt", []
    settings = replace(TINY, num_batches=None, epochs=4, keep=keep)

    def killed(num):
        steps.append(num)
        if len(steps) == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_row(data, "lstm-3-3", 0, settings, killed, checkpoint)
    assert [path.name for path in checkpoint.parent.iterdir()] == ["run.pt"]
    steps = []
    again = train_row(data, "lstm-3-3", 0, settings, steps.append, checkpoint)
    assert steps[0] in (3, 6) and sum(steps) == 12  # three batches per epoch
    times = {"seconds": 0, "vertices_per_second": 0}
    assert again | times == trained(data, "lstm-3-3", settings=settings) | times
    other = replace(settings, learning_rate=1.0)  # its checkpoint would be another's
    expected = trained(data, "lstm-3-3", settings=other) | times
    assert train_row(data, "lstm-3-3", 0, other, steps.append, checkpoint) | times == expected


def test_results_are_written_resumed_and_not_mixed(cora, tmp_path):
    folder = cora[0]
    trials = [trial_of(folder, "lstm-3-3", 1), trial_of(folder)]
    assert unfinished(trials, GRAPHS, [], tmp_path, QUIET) == trials
    (failure,) = run_trials([trials[0], trial_of(tmp_path / "none", dataset="ppi-go")], tmp_path, 1, QUIET)
    assert failure.startswith("ppi-go mean seed 0: FileNotFoundError: PPI-GO expects the file") and "\n" not in failure
    assert unfinished(trials, GRAPHS, [], tmp_path, QUIET) == trials[1:]
    (result,), skipped = GRAPHS.read(tmp_path)
    assert skipped == [] and (tmp_path / "cells" / "cora-lstm-3-3-seed1.json").is_file()
    here = train_row(load("cora", folder, 1), "lstm-3-3", 1, trials[0].settings, lambda _: None)
    assert result["config"] == here["config"] and result["losses"] == pytest.approx(here["losses"], abs=1e-3)
    with pytest.raises(ValueError, match=r"cora lstm-3-3 seed 1 .*num_batches=2 there, 3 asked for.*another --out"):
        unfinished([trial_of(folder, "lstm-3-3", 1, num_batches=3)], GRAPHS, [], tmp_path, QUIET)
    elsewhere = replace(trials[0], folder=tmp_path)
    assert unfinished([elsewhere], GRAPHS, [], tmp_path, QUIET) == []  # where the data are is no setting
