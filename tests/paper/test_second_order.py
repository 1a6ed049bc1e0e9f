from dataclasses import replace

import pytest
import torch
from torch.nn.utils import parameters_to_vector

from janossy import Ragged
from janossy.paper.arithmetic.models import MODELS
from janossy.paper.arithmetic.scoring import Scaled
from janossy.paper.arithmetic.second_order import LINE_SEARCH, SAMPLE, _Problem
from janossy.paper.arithmetic.settings import Settings
from janossy.paper.arithmetic.tasks import TASKS
from janossy.paper.arithmetic.train import train_trial

SMALL = Settings(
    "smoke", "fast", 60, num_train=400, num_validation=100, num_test=100, standardise=True,
    optimizer="L-BFGS", learning_rates=(),
)  # fmt: skip


def problem(name: str, reduce: str, num: int = 6) -> tuple[_Problem, Scaled]:
    torch.manual_seed(0)
    task = TASKS["sum"]
    x, y = task.draw(num, 0)
    scaled = Scaled(MODELS[name].build(task, reduce, "uniform"), 250.0, 60.0)
    return _Problem(scaled, (x, y)), scaled


@pytest.mark.parametrize("smoothing", [None, 0.01])
@pytest.mark.parametrize(("name", "reduce"), [("k1-mlp", "mean"), ("k2-linear", "sum"), ("k3-mlp", "mean")])
def test_the_loss_its_gradient_and_the_matrix_are_the_formulas(name, reduce, smoothing):
    of, scaled = problem(name, reduce)
    of.smoothing = smoothing
    network = scaled.network.double()
    errors = network(Ragged.from_padded(of.x))[:, 0] - of.targets
    rows = [parameters_to_vector(torch.autograd.grad(e, of.weights, retain_graph=True)) for e in errors]
    jacobian = torch.stack(rows)
    if smoothing is None:
        losses, slopes, weights = errors**2 / 2, errors, torch.ones(6)
    else:
        roots = (errors**2 + smoothing**2) ** 0.5
        losses, slopes, weights = roots - smoothing, errors / roots, 1 / roots
    exact = ((jacobian.T * weights) @ jacobian / 6).detach()
    gradient = (slopes @ jacobian / 6).detach()
    start = parameters_to_vector(of.weights).detach()

    of.network.float()
    matrix = of._gauss_newton(torch.arange(6), damping=0.0)
    torch.testing.assert_close(matrix, exact, rtol=1e-3, atol=1e-5 * exact.diagonal().mean().item())
    damped = of._gauss_newton(torch.arange(6), damping=0.5)
    ratio = (damped.diagonal() / matrix.diagonal())[exact.diagonal() > exact.diagonal().mean()]
    torch.testing.assert_close(ratio, torch.full_like(ratio, 1.5))
    loss, found = of._loss_and_gradient(start)
    assert loss == pytest.approx(losses.mean().item(), rel=1e-4)
    torch.testing.assert_close(found, gradient, rtol=1e-3, atol=1e-5)


def test_a_part_of_the_examples_is_a_part_of_an_epoch():
    of, scaled = problem("k2-linear", "sum", num=8)
    some = torch.tensor([1, 5])
    with torch.no_grad():
        errors = scaled.network(Ragged.from_padded(of.x))[:, 0] - of.targets
    of.see(some)
    loss, _ = of._loss_and_gradient(parameters_to_vector(of.weights).detach().double())
    assert loss == pytest.approx((errors[some] ** 2 / 2).mean().item(), rel=1e-4)
    parts = []
    of.descend(torch.arange(8), 1.0, 4, parts.append)
    assert set(parts) == {0.25} and of.passes == pytest.approx(sum(parts))


def test_all_is_learnt_that_the_model_can_learn():
    """A sum is k = 1's: the loss falls to nothing, where Adam's in as many epochs does not."""
    passes = []
    settings = replace(SMALL, epochs=100)
    result = train_trial(TASKS["sum"], MODELS["k1-linear"], 0, settings, passes.append)
    adam = replace(settings, optimizer="Adam", learning_rates=(1e-2,), epochs=10)
    other = train_trial(TASKS["sum"], MODELS["k1-linear"], 0, adam, lambda _: None)
    assert result["history"][-1]["train_loss"] < 1e-2 * other["history"][-1]["train_loss"]
    assert settings.epochs <= sum(passes) <= settings.epochs + 2 * LINE_SEARCH
    assert result["config"]["learning_rate"] is None and result["config"]["optimizer"] == "L-BFGS"


def test_training_is_a_function_of_the_seed():
    assert SMALL.num_train < SAMPLE
    first, again, other = (
        train_trial(TASKS["range"], MODELS["k1-linear"], seed, SMALL, lambda _: None)["scores"] for seed in (0, 0, 1)
    )
    assert again == first != other
