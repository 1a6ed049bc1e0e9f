from dataclasses import replace

import pytest
import torch
from torch.nn.utils import parameters_to_vector

from janossy import Ragged
from studies.paper.arithmetic.all_at_once import AllAtOnce
from studies.paper.arithmetic.lbfgs import LINE_SEARCH, Descent, GaussNewton
from studies.paper.arithmetic.models import MODELS
from studies.paper.arithmetic.scoring import Scaled
from studies.paper.arithmetic.second_order import FLOOR, Loss, gauss_newton
from studies.paper.arithmetic.settings import Settings
from studies.paper.arithmetic.tasks import TASKS
from studies.paper.arithmetic.train import train_trial

SMALL = Settings(
    "smoke", "fast", 60, num_train=400, num_validation=100, num_test=100, standardise=True,
    optimizer="L-BFGS", learning_rates=(),
)  # fmt: skip


@pytest.mark.parametrize("smoothing", [None, 0.01])
@pytest.mark.parametrize("task", ["sum", "unique_count"])
@pytest.mark.parametrize(
    ("name", "reduce"), [("k1-mlp", "mean"), ("k2-linear", "sum"), ("k3-linear", "mean"), ("k3-mlp-100", "sum")]
)
def test_the_loss_its_gradient_and_the_jacobian_are_the_formulas(task, name, reduce, smoothing):
    torch.manual_seed(0)
    x, y = TASKS[task].draw(6, 0)
    x = torch.cat((x, x[:1])).sort(1).values  # one set twice
    network = MODELS[name].build(TASKS[task], reduce, "normal")
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    start = parameters_to_vector(weights).detach().double()
    scaled = Scaled(network, 250.0, 60.0)
    targets = scaled.scaled(torch.cat((y, y[:1])))
    of, loss = AllAtOnce(network, (x, targets)), Loss(smoothing)
    value, gradient = of.loss_and_gradient(start, loss)
    jacobian, errors = of.jacobian(start, torch.arange(7))

    network.double()
    expected = network(Ragged.from_padded(x))[:, 0] - targets
    rows = [parameters_to_vector(torch.autograd.grad(e, weights, retain_graph=True)) for e in expected]
    exact = torch.stack(rows)
    losses = expected**2 / 2 if smoothing is None else (expected**2 + smoothing**2) ** 0.5 - smoothing
    of_all = parameters_to_vector(torch.autograd.grad(losses.mean(), weights, retain_graph=True))
    assert value == pytest.approx(losses.mean().item(), rel=1e-4)
    torch.testing.assert_close(gradient, of_all, rtol=1e-3, atol=1e-5 * of_all.abs().max().item())
    order = [errors.sub(e).abs().argmin().item() for e in expected.float()]  # sets stand in another order there
    torch.testing.assert_close(errors[order].double(), expected.detach(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(jacobian[order].double(), exact, rtol=1e-3, atol=1e-5 * exact.abs().max().item())

    found = gauss_newton(of, start, loss, 0.5, torch.Generator().manual_seed(0))(gradient)
    weighted = (
        exact * (torch.ones(7) if smoothing is None else (expected**2 + smoothing**2) ** -0.5)[:, None]
    ).detach()
    diagonal = (weighted * exact).detach().mean(0)
    again = weighted.T @ (exact.detach() @ found) / 7 + 0.5 * diagonal.clamp_min(FLOOR * diagonal.mean()) * found
    torch.testing.assert_close(again, gradient, rtol=1e-2, atol=1e-3 * gradient.abs().max().item())


@pytest.mark.parametrize(("m", "p"), [(3, 40), (40, 40), (90, 7), (1, 1)])
@pytest.mark.parametrize("least", [1e-3, 1.0])
def test_the_inverse_is_the_inverse(m, p, least):
    generator = torch.Generator().manual_seed(m + p)
    jacobian = torch.randn(m, p, generator=generator)
    jacobian[:, 0] *= 30
    diagonal = least * (1 + torch.rand(p, generator=generator, dtype=torch.float64))
    x = torch.randn(2, p, generator=generator, dtype=torch.float64)
    exact = torch.linalg.solve(jacobian.double().T @ jacobian.double() + diagonal.diag(), x.T).T
    torch.testing.assert_close(GaussNewton(jacobian, diagonal)(x), exact, rtol=1e-6, atol=1e-6 / least)


def valley(at):
    """Returns Rosenbrock's function of pairs, whose minimum is 0 at 1, and its gradient."""
    at = at.clone().requires_grad_()
    odd, even = at[::2], at[1::2]
    loss = (100 * (even - odd**2) ** 2 + (1 - odd) ** 2).sum()
    return loss.item(), torch.autograd.grad(loss, at)[0]


def flat(p):
    return GaussNewton(torch.zeros(1, p), torch.ones(p, dtype=torch.float64))


def test_descent_reaches_the_minimum():
    descent = Descent(valley, torch.zeros(10, dtype=torch.float64))
    for _ in range(4):
        before = descent.loss
        descent.go(flat(10), 50)
        assert descent.loss <= before
    torch.testing.assert_close(descent.at, torch.ones(10, dtype=torch.float64), rtol=0, atol=1e-6)


def test_the_inverse_hessian_knows_the_last_step():
    """Its product with the last change of the gradient is the last step, whatever it starts from."""
    descent = Descent(valley, torch.full((6,), -0.7, dtype=torch.float64))
    descent.go(flat(6), 12)
    inverse = GaussNewton(torch.randn(4, 6, generator=torch.Generator().manual_seed(0)), torch.ones(6).double())
    step, change = descent.pairs[-1]
    descent.gradient = change
    products = list(inverse(torch.stack([change for _, change in descent.pairs])))
    assert len(products) > 3
    torch.testing.assert_close(descent.direction_of(inverse(change), products), step)


def test_a_round_ends_with_its_evaluations():
    seen = []

    def counted(at):
        seen.append(at)
        return valley(at)

    descent = Descent(counted, torch.zeros(4, dtype=torch.float64))
    descent.go(flat(4), 7)
    assert 8 <= len(seen) <= 8 + LINE_SEARCH
    assert valley(descent.at)[0] == descent.loss


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


def test_it_ends_where_nothing_is_left_to_win():
    """A linear readout of k = 1 does not know a range: its loss stands still long before 2,000 passes."""
    result = train_trial(TASKS["range"], MODELS["k1-linear"], 0, replace(SMALL, epochs=2000), lambda _: None)
    assert result["kept_epoch"] == result["history"][-1]["epoch"] < 1900


def test_training_is_a_function_of_the_seed():
    first, again, other = (
        train_trial(TASKS["range"], MODELS["k1-linear"], seed, SMALL, lambda _: None)["scores"] for seed in (0, 0, 1)
    )
    assert again == first != other
