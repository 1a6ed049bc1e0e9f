"""OrderLoss: each estimator's value and gradient against enumeration or a formula; learning with f known; bad input."""

from itertools import permutations

import pytest
import torch
from torch import nn

from janossy import GRU, JanossyNetwork, JanossyPooling, Ragged, Sampled
from janossy.losses.order_loss import FEWEST, OrderLoss
from janossy.orderings import Learned
from tests.examples import D, distinct_sets, generator
from tests.laws import close, law_invariant

pytestmark = pytest.mark.usefixtures("float64")


def network(k=None, h=None, scorer=None):
    torch.manual_seed(1)
    scorer = scorer or nn.Linear(D, 1)
    return JanossyNetwork(h, JanossyPooling(GRU(D, 3), Learned(scorer, k=k)), nn.Linear(3, 1))


def every_order(net, x, y):
    """Returns the loss and the log-probability of each order of one set, by enumeration."""
    scores = net.pooling.orderings.scorer(x)[:, 0]
    k = net.pooling.orderings.k or len(x)
    losses, logs = [], []
    for order in permutations(range(len(x)), k):
        left = list(range(len(x)))
        log_p = torch.zeros(())
        for i in order:
            log_p = log_p + scores[i] - scores[left].logsumexp(0)
            left.remove(i)
        row = x[list(order)]
        losses.append((net.rho(net.pooling.f(row[None]))[0, 0] - y).square())
        logs.append(log_p)
    return torch.stack(losses), torch.stack(logs)


def gradients(net, value):
    return torch.cat([g.flatten() for g in torch.autograd.grad(value, list(net.parameters()))])


@pytest.mark.statistical
@pytest.mark.parametrize("k", [None, 2])
@pytest.mark.parametrize("num_permutations", [2, 4])
def test_the_score_functions_gradient_is_unbiased(num_permutations, k):
    """Within 6 standard errors of the gradient of E_π[loss], which by chance fails once in 10^8 for each parameter."""
    net, (x,) = network(k), distinct_sets((3,))
    losses, logs = every_order(net, x, 0.5)
    exact = gradients(net, (losses * logs.exp()).sum())
    loss, source, sets, y = (
        OrderLoss(num_permutations=num_permutations),
        generator(),
        Ragged.from_sets([x] * 40),
        torch.full((40, 1), 0.5),
    )
    draws = torch.stack([gradients(net, loss(net, sets, y, generator=source)) for _ in range(150)])
    error = (draws.mean(0) - exact).abs()
    assert (error <= 6 * draws.std(0) / 150**0.5 + 1e-12).all()
    scorers = sum(p.numel() for p in net.pooling.orderings.scorer.parameters())
    assert scorers == 3 and exact[-5:-2].abs().max() > 1e-3  # and is not nothing


@pytest.mark.parametrize("estimator", FEWEST)
def test_values_are_those_of_the_losses_alone(estimator):
    """With scores far apart every drawn order is the sorted one."""
    net = network()
    nn.init.constant_(net.pooling.orderings.scorer.weight, 1e4)
    sets, y = distinct_sets(), torch.randn(6, 1)
    expected = (net.eval()(sets) - y).square().mean()
    close(OrderLoss(None, estimator=estimator)(net.train(), sets, y), expected)
    absolute = OrderLoss(nn.L1Loss(reduction="none"), estimator=estimator)
    close(absolute(net, sets, y), (net.eval()(sets) - y).abs().mean())


def test_search_keeps_the_best_order_and_follows_it():
    net, (x,) = network(), distinct_sets((3,))
    y = torch.tensor([[0.5]])
    drawn = Learned(net.pooling.orderings.scorer, num_permutations=3)
    positions = list(drawn.enumerate(Ragged.from_sets([x]), generator(8)).flatten()[0])
    losses, logs = every_order(net, x, 0.5)
    rows = [tuple(row.tolist()) for row in positions]
    places = [list(permutations(range(3))).index(row) for row in rows]
    best = min(places, key=lambda place: losses[place].item())
    value = OrderLoss(None, estimator="search", num_permutations=3)(
        net, Ragged.from_sets([x]), y, generator=generator(8)
    )
    close(value, losses[best])
    close(gradients(net, value), gradients(net, losses[best] - logs[best]))


@pytest.mark.parametrize("k", [None, 2])
def test_straight_through_is_the_drawn_order_with_softsorts_gradient(k):
    net, (x,) = network(k, nn.Linear(D, D)), distinct_sets((3,))
    sets, y, temperature = Ragged.from_sets([x]), torch.tensor([[0.5]]), 0.7
    loss = OrderLoss(None, estimator="straight_through", num_permutations=1, temperature=temperature)
    value = loss(net, sets, y, generator=generator(5))
    order = Learned(net.pooling.orderings.scorer).enumerate(sets, generator(5)).flatten()[0].values
    scores = net.pooling.orderings.scorer(x)[:, 0]
    bits = torch.randint(2**62, (1, 1, 3), generator=generator(5)).double().flatten()
    z = scores - (-torch.log1p(-(bits + 1) / 2**62)).log()
    assert z.argsort(descending=True).tolist() == order.tolist()
    h = net.h(x)
    mixed = torch.stack([(-(z[i] - z).abs() / temperature).softmax(0) @ h.detach() for i in order])
    row = h[order] + mixed - mixed.detach()
    by_hand = (net.rho(net.pooling.f(row[None, : k or 3]))[0, 0] - 0.5).square()
    close(value, by_hand)
    close(gradients(net, value), gradients(net, by_hand))


@pytest.mark.parametrize("k", [None, 2])
@pytest.mark.parametrize("estimator", FEWEST)
def test_sets_of_many_sizes_with_a_context(estimator, k):
    class Rho(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 2)

        def forward(self, pooled, context):
            return self.linear(torch.cat((pooled, context), 1))

    torch.manual_seed(0)
    net = JanossyNetwork(nn.Linear(D, D), JanossyPooling(GRU(D, 3), Learned(nn.Linear(D, 1), k=k)), Rho())
    sets, context, y = distinct_sets(), torch.randn(6, 1), torch.randn(6, 2)
    value = OrderLoss(None, estimator=estimator, num_permutations=3)(
        net, sets, y, context=context, generator=generator()
    )
    value.backward()
    assert value.isfinite() and all(p.grad.isfinite().all() for p in net.parameters())
    assert net.pooling.orderings.scorer.weight.grad.abs().max() > 1e-8


WEIGHTS = torch.tensor([[1.0], [0.5], [-0.25], [-1.0]])


class Weighted(nn.Module):
    """a_(1) + a_(2)/2 − a_(3)/4 − a_(4) of rows of (a, b)."""

    def forward(self, rows):
        return rows[:, :, 0] @ WEIGHTS[: rows.shape[1]].to(rows.dtype)


@pytest.mark.parametrize("estimator", FEWEST)
def test_learns_the_order_of_the_hidden_coordinate_from_that_of_the_other(estimator):
    """With f known: the paper's two coordinates (Section 2.1), falling in b; before, falling in a."""
    torch.manual_seed(0)
    scorer = nn.Linear(2, 1, bias=False)
    scorer.weight.data = torch.tensor([[1.0, 0.0]])
    net = JanossyNetwork(None, JanossyPooling(Weighted(), Learned(scorer)), None)
    loss = OrderLoss(None, estimator=estimator, temperature=0.3)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.2)

    def batch(num):
        x = torch.rand(num, 4, 2) * 2 - 1
        falling = x[..., 0].gather(1, x[..., 1].argsort(1, descending=True))
        return Ragged.from_sizes(x.flatten(0, 1), [4] * num), falling @ WEIGHTS.double()

    for _ in range(120):
        sets, y = batch(48)
        optimizer.zero_grad()
        loss(net, sets, y).backward()
        optimizer.step()
    a, b = scorer.weight.detach()[0].tolist()
    assert b > 2 and abs(a) < b / 10
    sets, y = batch(200)
    assert (net.eval()(sets) - y).square().mean() < 0.05 * y.var()
    law_invariant(net.pooling, sets)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: OrderLoss(None, estimator="reinforce"),
            ValueError,
            "expects an estimator among 'score', .*; got 'reinforce'",
        ),
        (lambda: OrderLoss(None, estimator=3), TypeError, "expects an estimator among .*; got 3"),
        (
            lambda: OrderLoss(num_permutations=1),
            ValueError,
            "expects num_permutations >= 2 of estimator='score'; got num_permutations=1",
        ),
        (
            lambda: OrderLoss(None, estimator="search", num_permutations=2.0),
            TypeError,
            "an integer; got num_permutations=2.0",
        ),
        (lambda: OrderLoss(temperature=0.0), ValueError, "expects a temperature > 0; got temperature=0.0"),
        (lambda: OrderLoss(temperature="warm"), TypeError, "expects a number as temperature; got"),
        (lambda: OrderLoss(nn.L1Loss()), ValueError, "expects a loss with reduction='none'"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("estimator", FEWEST)
def test_no_sets(estimator):
    """The mean over no sets is NaN, as that of torch's losses."""
    net = network()
    loss = OrderLoss(estimator=estimator)(net, distinct_sets((3,))[:0], torch.zeros(0, 1))
    assert loss.shape == () and loss.isnan()


def test_bad_input():
    sets, y = distinct_sets((3, 2)), torch.zeros(2, 1)
    with pytest.raises(TypeError, match=r"expects a network whose orderings are Learned\(scorer\); got Sampled"):
        OrderLoss()(JanossyNetwork(None, JanossyPooling(GRU(D, 3), Sampled()), nn.Linear(3, 1)), sets, y)
    with pytest.raises(ValueError, match="expects a target of the shape of the predictions"):
        OrderLoss()(network(), sets, torch.zeros(2))
    with pytest.raises(TypeError, match="OrderLoss expects a tensor as target; got list"):
        OrderLoss()(network(), sets, [0.0, 0.0])
    broken = network(scorer=nn.Linear(D, 1))
    nn.init.constant_(broken.pooling.orderings.scorer.weight, torch.nan)
    for estimator in FEWEST:
        with pytest.raises(ValueError, match="Learned expects finite scores; got nan for element 0"):
            OrderLoss(None, estimator=estimator)(broken, sets, y)
    numbers = Ragged.from_sets([torch.tensor([1.0, 2.0])])
    plain = JanossyNetwork(None, JanossyPooling(lambda x: x.sum(1)[:, None], Learned(lambda x: x)), None)
    with pytest.raises(ValueError, match=r"straight_through' mixes vectors \(N, d\), after h; got \(2,\)"):
        OrderLoss(None, estimator="straight_through")(plain, numbers, torch.zeros(1, 1))
