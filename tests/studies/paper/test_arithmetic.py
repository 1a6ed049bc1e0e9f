"""The arithmetic tasks: data, models, training and scores."""

import json
from collections import Counter
from dataclasses import replace
from importlib import resources
from itertools import combinations

import pytest
import torch

from janossy import Ragged
from studies.paper.arithmetic import names
from studies.paper.arithmetic.models import MODELS, Model, num_trainable_parameters
from studies.paper.arithmetic.scoring import score
from studies.paper.arithmetic.settings import Settings, settings_for
from studies.paper.arithmetic.study import ARITHMETIC, trials
from studies.paper.arithmetic.tasks import TASKS
from studies.paper.arithmetic.train import train_trial
from studies.runs.schema import check

ORACLES = {
    "sum": sum,
    "range": lambda x: max(x) - min(x),
    "unique_sum": lambda x: sum(set(x)),
    "unique_count": lambda x: len(set(x)),
    "variance": lambda x: sum((a - b) ** 2 for a in x for b in x) / (2 * len(x) ** 2),
}
TINY = Settings(
    "test", "fast", epochs=2, num_train=300, num_validation=50, num_test=70, batch_size=64, num_permutations=3
)


@pytest.mark.parametrize("name", TASKS)
def test_targets_are_the_definition(name):
    x, y = TASKS[name].draw(200, 0)
    expected = [ORACLES[name](row) for row in x.tolist()]
    torch.testing.assert_close(y, torch.tensor(expected, dtype=torch.float32))


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_data_are_uniform_and_a_function_of_the_seed(task):
    x, _ = task.draw(20_000, 3, 0)
    assert x.shape == (20_000, {"sum": 5, "range": 5}.get(task.name, 10))
    counts = torch.bincount(x.flatten(), minlength=task.vocabulary).double()
    assert len(counts) == task.vocabulary
    expected = x.numel() / task.vocabulary
    statistic = ((counts - expected) ** 2 / expected).sum().item()
    dof = task.vocabulary - 1
    assert statistic < dof + 5 * (2 * dof) ** 0.5  # about five standard deviations: fails once in a million seeds
    assert torch.equal(x, task.draw(20_000, 3, 0)[0])
    assert not torch.equal(x, task.draw(20_000, 3, 1)[0])
    assert not torch.equal(x, task.draw(20_000, 4, 0)[0])


def test_parameter_counts_are_table_8():
    tables = json.loads((resources.files("studies.paper") / "tables.json").read_text(encoding="utf-8"))
    rows = tables["table_8_trainable_parameters"]
    assert len(rows) == 14
    for row in rows:
        k = None if row["k"] == "all" else row["k"]
        rho = "mlp" if row["rho"] == "mlp100" else "linear"
        model = Model(row["f"].rstrip("0123456789"), k, rho, row["embedding_dim"])
        network = model.build(TASKS["sum"], "mean", "uniform")
        assert num_trainable_parameters(network) == row["trainable_parameters"], row
        assert k is None or model.num_trained == row["trainable_parameters"], row


def test_the_models_are_table_3_and_the_wide_ones_of_table_6():
    assert (tuple(MODELS), tuple(TASKS)) == (names.MODELS, names.TASKS)
    table_3 = [MODELS[name] for name in names.TABLE_3]
    assert len(table_3) == 10 and {m.embedding for m in table_3} == {100, 50, 33}
    wide = [MODELS[name] for name in names.WIDE]
    assert [(m.k, m.rho, m.embedding) for m in wide] == [(k, rho, 100) for rho in ("linear", "mlp") for k in (2, 3)]


def test_what_reads_a_sum_of_tuples_can_be_smaller():
    task, model = TASKS["variance"], MODELS["k3-mlp"]
    networks = []
    for rho_init in ("xavier", "xavier/sqrt(T)"):
        torch.manual_seed(0)
        networks.append(model.build(task, "sum", "uniform", rho_init))
    as_papers, smaller = (network.state_dict() for network in networks)
    torch.testing.assert_close(smaller["rho.0.weight"] * 120**0.5, as_papers["rho.0.weight"])
    assert all(torch.equal(smaller[key], as_papers[key]) for key in smaller if key != "rho.0.weight")


def test_the_full_preset_is_all_models_in_the_order_of_their_seeds():
    full = trials(list(TASKS), list(MODELS), None, "full", "fast", None)
    assert [trial.seed for trial in full] == sorted(trial.seed for trial in full)
    num = Counter(trial.model for trial in full)
    assert num == {name: 5 * (5 if model.k is None else 15) for name, model in MODELS.items()}
    assert len(trials(["sum"], ["gru-mlp"], 2, "full", "fast", None)) == 2
    assert len(trials(["sum"], list(MODELS), None, "full", "paper", None)) == len(MODELS)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(("reduce", "pooled"), [("mean", torch.mean), ("sum", torch.sum)])
def test_k_ary_models_are_the_released_formula(k, reduce, pooled):
    task = TASKS["variance"]
    network = MODELS[f"k{k}-mlp"].build(task, reduce, "uniform").double()
    x, _ = task.draw(6, 0)
    tuples = torch.tensor([list(combinations(sorted(row), k)) for row in x.tolist()])
    layer = network.pooling.f.hidden[0]
    hidden = torch.tanh(layer(network.h.weight[tuples].flatten(2)))
    torch.testing.assert_close(network(Ragged.from_padded(x)), network.rho(pooled(hidden, 1)))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_initialisation_is_the_papers(model):
    network = model.build(TASKS["sum"], "mean", "uniform")
    assert not network.h.weight.requires_grad
    assert -0.5 <= network.h.weight.min() < -0.4 and 0.4 < network.h.weight.max() <= 0.5
    linears = [m for m in (*network.rho.modules(), *network.pooling.f.modules()) if isinstance(m, torch.nn.Linear)]
    for linear in linears:
        bound = (6 / sum(linear.weight.shape)) ** 0.5
        assert linear.weight.abs().max() <= bound and not linear.bias.any()


@pytest.mark.parametrize("name", ["k2-linear", "gru-mlp"])
def test_training_learns(name):
    settings = replace(TINY, epochs=8, num_train=2000, learning_rates=(1e-2,), standardise=True, schedule="one-cycle")
    epochs = []
    history = train_trial(TASKS["sum"], MODELS[name], 0, settings, epochs.append)["history"]
    assert history[-1]["train_loss"] < 0.5 * history[0]["train_loss"]
    assert sum(epochs) == pytest.approx(settings.epochs)


@pytest.mark.parametrize("name", ["k2-linear", "gru-mlp"])
def test_training_is_a_function_of_the_seed(name):
    first, again, other = (train_trial(TASKS["sum"], MODELS[name], s, TINY, lambda _: None) for s in (0, 0, 1))
    assert again["scores"] == first["scores"] and other["scores"] != first["scores"]


def test_a_result_says_everything():
    result = train_trial(TASKS["variance"], MODELS["lstm-mlp"], 0, TINY, lambda _: None)
    assert [s["num_permutations"] for s in result["scores"]] == [1, 3]
    assert [s["num_permutations"] for s in result["curve"]] == [1, 2, 3]
    assert result["curve"][-1] == result["scores"][-1]
    assert result["num_trainable_parameters"] == 35601
    assert result["config"]["epochs"] == 2 and result["config"]["optimizer"] == "Adam"
    assert len(result["history"]) == 2
    read = json.loads(json.dumps(result))
    assert read["scores"] == result["scores"]
    check(read | {"versions": {}, "config": read["config"] | {"preset": "smoke"}}, ARITHMETIC.schema)


def test_the_learning_rate_is_chosen_on_validation():
    settings = replace(TINY, epochs=4, num_train=1000, learning_rates=(1e-2, 1e-9), standardise=True)
    result = train_trial(TASKS["variance"], MODELS["k1-linear"], 0, settings, lambda _: None)
    assert result["config"]["learning_rate"] == 1e-2


def test_the_best_epoch_is_kept_if_asked():
    wild = replace(
        TINY, epochs=6, learning_rates=(3.0,), standardise=True
    )  # diverges, so that the last is not the best
    best = train_trial(TASKS["variance"], MODELS["k1-mlp"], 0, replace(wild, keep="best"), lambda _: None)
    errors = [entry["rmse"] for entry in best["history"]]
    assert best["kept_epoch"] == max(i for i, e in enumerate(errors, 1) if e == min(errors))
    last = train_trial(TASKS["variance"], MODELS["k1-mlp"], 0, wild, lambda _: None)
    assert last["kept_epoch"] == 6
    assert best["scores"] != last["scores"] or best["kept_epoch"] == 6


def test_scores_are_of_rounded_predictions_of_integer_targets():
    outputs = torch.tensor([[1.2, 1.4, 2.9], [3.0, 3.0, 0.0]])  # means 1.83 and 2; modes of the rounded 1 and 3
    y = torch.tensor([2.0, 3.0])
    integer, real = TASKS["sum"], TASKS["variance"]
    assert score(outputs, y, "mean", integer) == {"accuracy": 0.5, "rmse": pytest.approx(0.5**0.5), "mae": 0.5}
    assert score(outputs, y, "mode", integer) == {"accuracy": 0.5, "rmse": pytest.approx(0.5**0.5), "mae": 0.5}
    assert score(outputs, y, "mode", real) == score(outputs, y, "mode", integer)
    assert score(outputs, y, "mean", real)["mae"] == pytest.approx((2 - 5.5 / 3 + 1) / 2)


def test_protocols_are_the_design():
    task, k2, gru = TASKS["variance"], MODELS["k2-mlp"], MODELS["gru-linear"]
    paper, released = (settings_for(task, k2, "full", protocol) for protocol in ("paper", "released"))
    assert (paper.epochs, paper.reduce, paper.keep, paper.vote, paper.loss) == (2000, "mean", "best", "mean", "task")
    assert paper.learning_rates == (1e-2, 1e-3, 1e-4, 1e-5) and paper.batch_size == 128
    assert settings_for(task, gru, "full", "paper").epochs == 1000
    assert (released.epochs, released.reduce, released.keep) == (1000, "sum", "last")
    assert (released.vote, released.loss, released.batch_size) == ("mode", "l1", 128)
    assert settings_for(task, k2, "quick", "fast", epochs=7).epochs == 7
    assert settings_for(task, k2, "smoke", "paper").num_train == 2000
