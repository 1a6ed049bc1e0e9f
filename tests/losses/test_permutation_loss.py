"""PermutationLoss and RobbinsMonro: what is estimated, against the enumeration of every permutation."""

import pickle
import re
from itertools import combinations, pairwise, permutations, product
from math import isinf

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from janossy import GRU, AllPermutations, Distinct, ImportanceSampled, JanossyNetwork, JanossyPooling, Ragged, Sampled
from janossy.losses import Estimand, PermutationLoss, RobbinsMonro
from janossy.losses.permutation_loss import OBJECTIVES
from janossy.orderings import RandomOrderings
from janossy.orderings.drawn import Drawn
from janossy.orderings.rows import build_rows
from tests.examples import distinct_sets, generator
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")


def network(out=2, orderings=None):
    torch.manual_seed(3)
    f = GRU(3, 4)
    for parameter in f.parameters():
        parameter.data *= 4  # so that the order matters
    rho = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, out))
    return JanossyNetwork(nn.Linear(2, 3), JanossyPooling(f, orderings or Sampled(1, scheme="independent")), rho)


def all_outputs(net, sets):
    """Returns the outputs of every order of sets of one size: (B, n!, out)."""
    return torch.stack(list(net.rows(sets, orderings=AllPermutations())))


def expectation(loss, outputs, target, draws):
    """Returns the mean of the loss over these draws, tuples of m orders."""
    drawn = outputs[:, torch.tensor(list(draws))]
    return loss.of_outputs(drawn.flatten(0, 1), target.repeat_interleave(drawn.shape[1], 0))


def gradients(net, value):
    return torch.cat([g.flatten() for g in torch.autograd.grad(value, list(net.parameters()), retain_graph=True)])


ORDERS = list(permutations(range(5)))
ANTITHETIC = [(s, ORDERS.index(order[::-1])) for s, order in enumerate(ORDERS)]
"""Each order with its reverse."""


def law_unbiased(loss, objective, draws) -> None:
    """Checks that the loss and its gradient, averaged over samples, are those of the objective of all outputs."""
    net, sets, target = network(), distinct_sets((5, 5)), torch.randn(2, 2, generator=generator())
    outputs = all_outputs(net, sets)
    exact, mean = objective(outputs, target), expectation(loss, outputs, target, draws)
    close(mean, exact, atol=1e-10, rtol=0)
    close(gradients(net, mean), gradients(net, exact), atol=1e-10, rtol=0)


def loss_of_average(outputs, target):
    return mse_loss(outputs.mean(1), target)


def average_of_losses(outputs, target):
    return (outputs - target[:, None]).square().mean()


def distance(outputs, target):
    """Returns D, the mean squared difference of two independent permutations."""
    return (outputs[:, :, None] - outputs[:, None]).square().mean()


EVERY_PAIR = list(product(range(120), repeat=2))


def test_exact_squared_is_unbiased_for_the_loss_of_the_average():
    law_unbiased(PermutationLoss(objective="exact_squared"), loss_of_average, EVERY_PAIR)


@pytest.mark.parametrize("num", [1, 2])
def test_average_loss_is_unbiased_for_the_average_of_losses(num):
    law_unbiased(PermutationLoss(), average_of_losses, product(range(120), repeat=num))


def test_the_penalty_is_unbiased_for_the_distance_of_two_permutations():
    def objective(outputs, target):
        return average_of_losses(outputs, target) + 0.7 * distance(outputs, target)

    law_unbiased(PermutationLoss(penalty=0.7), objective, EVERY_PAIR)


@pytest.mark.parametrize(
    ("loss", "objective", "draws"),
    [
        (PermutationLoss(objective="exact_squared"), loss_of_average, [(s, s) for s in range(120)]),
        (PermutationLoss(objective="exact_squared"), loss_of_average, ANTITHETIC),
        (PermutationLoss(objective="exact_squared"), loss_of_average, list(combinations(range(120), 2))),
        (PermutationLoss(objective="exact_squared"), average_of_losses, EVERY_PAIR),
        (PermutationLoss(), loss_of_average, EVERY_PAIR),
        (PermutationLoss(objective="average_output"), loss_of_average, EVERY_PAIR),
        (PermutationLoss(objective="average_output"), average_of_losses, EVERY_PAIR),
    ],
    ids=["identical", "antithetic", "distinct", "not J̄", "J̄ is not L̄", "average_output is not L̄", "nor J̄"],
)
def test_unbiasedness_can_fail(loss, objective, draws):
    with pytest.raises(AssertionError):
        law_unbiased(loss, objective, draws)


@pytest.mark.parametrize("num", [2, 3, 7])
def test_exact_squared_is_the_mean_over_pairs(num):
    outputs, target = torch.randn(4, num, 3), torch.randn(4, 3)
    errors = target[:, None] - outputs
    pairs = [(errors[:, s] * errors[:, t]).mean() for s in range(num) for t in range(num) if s != t]
    close(PermutationLoss(objective="exact_squared").of_outputs(outputs, target), torch.stack(pairs).mean())


def test_exact_squared_keeps_a_small_error_beside_a_large_one():
    outputs = torch.tensor([1e5, 1e-5], dtype=torch.float32).view(1, 2, 1)
    value = PermutationLoss(objective="exact_squared").of_outputs(outputs, torch.zeros(1, 1, dtype=torch.float32))
    assert value == pytest.approx(1, rel=1e-6)
    squares = (outputs.sum() ** 2 - outputs.square().sum()) / 2
    assert squares != pytest.approx(1, rel=1e-1)


@pytest.mark.parametrize("num", [2, 3, 8])
@pytest.mark.parametrize("out", [1, 3])
def test_a_penalty_of_minus_one_half_makes_squared_loss_exact_in_every_draw(num, out):
    penalised = PermutationLoss(nn.MSELoss(reduction="none"), penalty=-0.5)
    exact = PermutationLoss(objective="exact_squared")
    for _ in range(20):
        outputs, target = torch.randn(4, num, out), torch.randn(4, out)
        close(penalised.of_outputs(outputs, target), exact.of_outputs(outputs, target))
    other = PermutationLoss(penalty=-0.25).of_outputs(outputs, target)
    assert abs(other - exact.of_outputs(outputs, target)) > 1e-3


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_penalty_is_the_mean_over_pairs_of_squared_differences(objective):
    outputs, target = torch.randn(4, 5, 3), torch.randn(4, 3)
    pairs = [(outputs[:, s] - outputs[:, t]).square().mean() for s in range(5) for t in range(5) if s != t]
    penalised = PermutationLoss(objective=objective, penalty=0.3).of_outputs(outputs, target)
    close(penalised, PermutationLoss(objective=objective).of_outputs(outputs, target) + 0.3 * torch.stack(pairs).mean())


def labels(outputs):
    return torch.randint(outputs.shape[2], (len(outputs),), generator=generator())


def bits(outputs):
    return torch.rand(len(outputs), outputs.shape[2], generator=generator()).round()


def reals(outputs):
    return torch.randn(len(outputs), *outputs.shape[2:], generator=generator())


CONVEX = {
    "squared": (nn.MSELoss, reals, None),
    "l1": (nn.L1Loss, reals, None),
    "huber": (nn.HuberLoss, reals, None),
    "smooth_l1": (nn.SmoothL1Loss, reals, None),
    "cross_entropy": (nn.CrossEntropyLoss, labels, None),
    "bce_with_logits": (nn.BCEWithLogitsLoss, bits, None),
    "soft_margin": (nn.SoftMarginLoss, lambda outputs: 2 * bits(outputs) - 1, None),
    "multi_margin": (nn.MultiMarginLoss, labels, None),
    "poisson": (nn.PoissonNLLLoss, bits, None),
    "nll_of_softmax": (nn.NLLLoss, labels, "softmax"),
    "cross_entropy_of_softmax": (nn.CrossEntropyLoss, labels, "softmax"),
    "bce_of_sigmoid": (nn.BCEWithLogitsLoss, bits, "sigmoid"),
    "bce_of_function": (nn.BCELoss, bits, torch.sigmoid),
    "nll": (nn.NLLLoss, labels, None),
}
"""Losses convex in the prediction, their targets, and the link that goes before."""

SCORES = {
    None: lambda y: y,
    "softmax": lambda y: y.log_softmax(-1),
    "sigmoid": lambda y: y,
    torch.sigmoid: torch.sigmoid,
}
"""The scores that each link gives the loss for one permutation."""


def law_jensen(bound, loss_of_one, loss_of_mean, outputs, target) -> list:
    """Checks that J̄ >= E[average_output of m] >= L̄, falling with m, over all samples of m orders."""
    orders = range(outputs.shape[1])
    means = [expectation(bound, outputs, target, product(orders, repeat=m)) for m in (2, 3, 4)]
    values = torch.stack([loss_of_one(outputs, target), *means, loss_of_mean(outputs, target)])
    assert (values.diff() <= 1e-12).all(), values
    return values


@pytest.mark.parametrize("name", CONVEX)
def test_a_convex_loss_of_the_average_of_m_falls_from_the_average_loss_to_that_of_the_average(name):
    kind, targets, link = CONVEX[name]
    loss = kind(reduction="none")
    net = network(3)
    net.rho[2].weight.data *= 8  # spreads the outputs, so that the kinks are met
    outputs = all_outputs(net, distinct_sets((3, 3, 3, 3))).detach()
    target = targets(outputs)
    bound = PermutationLoss(loss, objective="average_output", link=link)

    def average_loss(outputs, target):
        return torch.stack([loss(SCORES[link](y), target).mean() for y in outputs.unbind(1)]).mean()

    def loss_of_average(outputs, target):
        if link == "softmax":
            average = outputs.softmax(-1).mean(1).log()
        elif link == "sigmoid":
            average = outputs.sigmoid().mean(1).logit()
        else:
            average = SCORES[link](outputs).mean(1)
        return loss(average, target).mean()

    values = law_jensen(bound, average_loss, loss_of_average, outputs, target)
    if name not in ("nll", "l1"):  # linear in the prediction, at least between its kinks
        assert (values.diff() < -1e-6).all()
    close(bound.of_outputs(outputs, target), values[-1])


def test_jensen_can_fail():
    net = network(3)
    outputs = all_outputs(net, distinct_sets((3, 3))).detach()

    def root(y, target):  # concave
        return (y - target).abs().sqrt()

    with pytest.raises(AssertionError):
        law_jensen(
            PermutationLoss(root, objective="average_output"),
            lambda y, t: root(y, t[:, None]).mean(),
            lambda y, t: root(y.mean(1), t).mean(),
            outputs,
            torch.full((2, 3), 9.0),
        )


TORCH_LOSSES = {
    **{name: (kind(reduction="none"), targets) for name, (kind, targets, link) in CONVEX.items() if link is None},
    "weighted_cross_entropy": (nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 3.0]), reduction="none"), labels),
    "smoothed_cross_entropy": (nn.CrossEntropyLoss(label_smoothing=0.1, reduction="none"), labels),
    "cross_entropy_of_probabilities": (nn.CrossEntropyLoss(reduction="none"), lambda y: reals(y).softmax(-1)),
    "kl_div": (nn.KLDivLoss(reduction="none"), lambda y: reals(y).softmax(-1)),
    "function": (lambda y, target: mse_loss(y, target, reduction="none"), reals),
    "function_of_labels": (lambda y, target: cross_entropy(y, target, reduction="none"), labels),
    "one_number_a_set": (lambda y, target: (y - target).norm(dim=1), reals),
}


@pytest.mark.parametrize("name", TORCH_LOSSES)
def test_every_loss_is_that_of_one_permutation_at_a_time(name):
    loss, targets = TORCH_LOSSES[name]
    loss = loss.double() if isinstance(loss, nn.Module) else loss
    outputs = torch.randn(5, 4, 3, generator=generator(1), requires_grad=True)
    target = targets(outputs.detach())
    one_at_a_time = torch.stack([loss(y, target) for y in outputs.unbind(1)], 1)
    close(PermutationLoss(loss).of_outputs(outputs, target), one_at_a_time.mean())
    averaged = PermutationLoss(loss, objective="average_output").of_outputs(outputs, target)
    close(averaged, loss(outputs.mean(1), target).mean())


@pytest.mark.parametrize("name", TORCH_LOSSES)
def test_the_losses_of_no_sets(name):
    loss, targets = TORCH_LOSSES[name]
    loss = loss.double() if isinstance(loss, nn.Module) else loss
    outputs = torch.randn(5, 4, 3, generator=generator(1))
    target = targets(outputs)
    each = PermutationLoss(loss).each(outputs, target)
    close(each.mean(), PermutationLoss(loss).of_outputs(outputs, target))
    assert PermutationLoss(loss).each(outputs[:0], target[:0]).shape == (0, 4)


def test_outputs_of_other_shapes():
    loss = PermutationLoss(nn.CrossEntropyLoss(reduction="none"))
    outputs, target = torch.randn(5, 4, 3, 2), torch.randint(3, (5, 2))
    close(
        loss.of_outputs(outputs, target),
        torch.stack([cross_entropy(y, target) for y in outputs.unbind(1)]).mean(),
    )
    numbers = torch.randn(5, 4)
    close(PermutationLoss().of_outputs(numbers, torch.zeros(5)), numbers.square().mean())


@pytest.mark.parametrize(
    ("link", "kind", "target"),
    [("softmax", nn.NLLLoss, torch.tensor([1])), ("sigmoid", nn.BCEWithLogitsLoss, torch.tensor([[1.0, 0, 0]]))],
)
def test_sure_and_wrong_has_a_finite_loss_and_a_gradient(link, kind, target):
    logits = torch.tensor([[[-300.0, -300, 300], [-200, -300, 300]]], dtype=torch.float32, requires_grad=True)
    loss = PermutationLoss(kind(reduction="none"), objective="average_output", link=link).of_outputs(logits, target)
    loss.backward()
    assert loss.isfinite() and loss > 100
    assert logits.softmax(-1).mean(1).log()[0, 1].isinf() and logits.sigmoid().mean(1).logit()[0, 0].isinf()
    assert logits.grad.isfinite().all() and logits.grad.abs().max() > 0.1


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("k", [None, 2])
def test_forward_is_of_outputs_of_fresh_permutations(objective, k):
    net = network(orderings=Sampled(1, k=k, scheme="independent"))
    sets, target = distinct_sets((5, 0, 1, 4, 4)), torch.randn(5, 2)
    loss = PermutationLoss(objective=objective, num_permutations=3)
    rows = net.rows(sets, orderings=Sampled(3, k=k, scheme="independent"), generator=generator())
    value = loss(net, sets, target, generator=generator())
    close(value, loss.of_outputs(rows.values.unflatten(0, (5, 3)), target))
    assert gradients(net, value).isfinite().all()
    assert loss(net, sets, target) != loss(net, sets, target)


def test_context_goes_with_its_set():
    net, sets, context = network(), distinct_sets((5, 0, 1, 4, 4)), torch.arange(10.0).view(5, 2)
    net.rho, target = nn.Bilinear(4, 2, 2), torch.randn(5, 2)
    value = PermutationLoss(num_permutations=3)(net, sets, target, context=context, generator=generator())
    rows = net.rows(sets, Sampled(3, scheme="independent"), context=context, generator=generator())
    close(value, PermutationLoss(num_permutations=3).of_outputs(rows.values.unflatten(0, (5, 3)), target))


def test_one_permutation_is_pi_sgd():
    net, sets, target = network(), distinct_sets((5, 4, 4)), torch.randn(3, 2)
    value = PermutationLoss()(net, sets, target, generator=generator())
    close(value, mse_loss(net(sets, generator=generator()), target))


class Rotations(RandomOrderings):
    """Random cyclic rotations of each set, a pair of opposite ones to a block: a random ordering of a user's own."""

    block = None

    def __init__(self, num_permutations=1, pairs=True):
        self.num_permutations, self.pairs = num_permutations, pairs

    def num_rows(self, n):
        return self.num_permutations

    def row_length(self, n):
        return n

    def blocks(self, n):
        size = 2 if self.pairs else 1
        return [min(size, self.num_permutations - begin) for begin in range(0, self.num_permutations, size)]

    def redrawn(self, num_permutations, *, block=None, seed=None):
        return Rotations(num_permutations, self.pairs and block != 1)

    def enumerate(self, keys, generator=None):
        def rotations(n, num_sets):
            shifts = torch.randint(max(1, n), (num_sets, self.num_permutations, 1), generator=generator)
            if self.pairs:
                shifts[:, 1::2] = shifts[:, : self.num_permutations - 1 : 2] + n // 2
            return (torch.arange(n) + shifts) % max(1, n)

        return build_rows(keys, rotations)


OWN = [
    Sampled(),
    Sampled(7, k=2),
    Sampled(3, exact_last=2),
    Sampled(exact_last=2),
    Distinct(1),
    Distinct(3),
    ImportanceSampled(1),
    ImportanceSampled(3),
    Rotations(),
    Rotations(2),
]


@pytest.mark.parametrize(
    ("options", "independent"),
    [
        ({}, False),
        ({"objective": "average_output"}, False),
        ({"objective": "exact_squared"}, True),
        ({"penalty": 0.1}, True),
        ({"objective": "average_output", "penalty": 0.1}, True),
    ],
)
@pytest.mark.parametrize("orderings", OWN, ids=lambda orderings: re.sub(r" at 0x\w+", "", str(orderings)))
def test_a_draw_is_what_the_network_averages(orderings, options, independent):
    """By hand: the network over the rows of each draw by itself; drawn together only where nothing is the worse."""
    net, sets, target = network(orderings=orderings), distinct_sets((5, 0, 1, 4)), torch.randn(4, 2)
    loss = PermutationLoss(**{"num_permutations": 4, **options})
    source = generator()
    if orderings.num_permutations == 1 and isinf(orderings.population(3)):
        drawn = orderings.redrawn(4, block=1 if independent else None)
        outputs = each_draw(net, sets, drawn.enumerate(sets, source))
    else:
        outputs = torch.stack([net(sets, generator=source) for _ in range(4)], 1)
    close(loss(net, sets, target, generator=generator()), loss.of_outputs(outputs, target))


def each_draw(net, sets, rows):
    """Returns the outputs of four draws whose rows come one behind the other."""
    y = net.pooling.rows(net.elements(sets), Drawn(rows, sets.sizes)).values
    y = y if rows.weights() is None else y * rows.weights()
    pooled = [part.unflatten(0, (4, -1)).mean(1) for part in y.split(rows.counts())]
    return torch.stack([net.rho(part) for part in pooled])


@pytest.mark.statistical
@pytest.mark.parametrize(
    "orderings",
    [Sampled(2), Sampled(exact_last=2), Distinct(1), ImportanceSampled(2), Rotations()],
    ids=["sampled", "exact_last", "distinct", "importance", "rotations"],
)
def test_the_exact_squared_loss_is_that_of_the_mean_over_draws(orderings):
    """At the mean over many draws L̄ is 0: that of 4,000 is, within 6 standard errors; fails once in 10^8 seeds."""
    net, sets = network(orderings=orderings), distinct_sets((4,))
    many = Ragged.cat([sets] * 4000)
    with torch.no_grad():
        drawn = net(Ragged.cat([sets] * 40_000), generator=generator(9))
        target = drawn.mean(0).expand(4000, 2)
        outputs = torch.stack([net(many, generator=generator(seed)) for seed in (1, 2)], 1)
        each = (outputs - target[:, None]).prod(1).mean(1)
        value = PermutationLoss(objective="exact_squared")(net, many, target, generator=generator())
    bound = 6 * (each.std() / 4000**0.5 + drawn.var(0).mean() / 40_000)
    assert value.abs() < bound < average_of_losses(outputs, target) / 2


def test_a_network_that_draws_without_declaring_it_is_refused():
    class Silent(Rotations):
        draws = None

    net = network()
    net.pooling.orderings = Silent()
    with pytest.raises(TypeError, match=r"PermutationLoss expects orderings that declare whether they draw"):
        PermutationLoss()(net, distinct_sets((3,)), torch.zeros(1, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_permutations": 2.0}, "an integer; got num_permutations=2.0"),
        ({"num_permutations": True}, "an integer; got num_permutations=True"),
        ({"penalty": "x"}, "a number as penalty; got penalty='x'"),
        ({"loss": 3}, "a function as loss, or None; got loss=3"),
        ({"objective": None}, "an objective among .* got None"),
        ({"link": 3}, "a link among .* got 3"),
    ],
)
def test_arguments_of_another_type(arguments, message):
    with pytest.raises(TypeError, match=message):
        PermutationLoss(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": JanossyPooling(GRU(2, 3), Sampled())}, "expects a JanossyNetwork; got JanossyPooling"),
        ({"sets": torch.zeros(2, 2)}, "PermutationLoss expects a Ragged"),
        ({"target": 3.0}, "a tensor as target; got float"),
        ({"generator": 3}, "a torch.Generator as generator; got 3"),
    ],
)
def test_inputs_of_another_type(change, message):
    given = {
        "network": network(),
        "sets": distinct_sets((3,)),
        "target": torch.zeros(1, 2),
        "generator": None,
        **change,
    }
    with pytest.raises(TypeError, match=message):
        PermutationLoss()(given["network"], given["sets"], given["target"], generator=given["generator"])


@pytest.mark.statistical
@pytest.mark.parametrize("objective", ["average_loss", "exact_squared"])
def test_draws_are_unbiased(objective):
    """The mean of 4000 draws is within five standard errors of the enumeration: fails once in 10^6 seeds."""
    net, sets = network(), distinct_sets((4,))
    outputs = all_outputs(net, sets).detach()
    target = outputs.mean(1)  # where L̄ = 0, and J̄ is all variance
    draws = list(product(range(24), repeat=2))
    loss = PermutationLoss(objective=objective, num_permutations=2)
    each = torch.stack([loss.of_outputs(outputs[:, list(draw)], target) for draw in draws])
    exact = (loss_of_average if objective == "exact_squared" else average_of_losses)(outputs, target)
    value = loss(net, Ragged.cat([sets] * 4000), target.expand(4000, 2), generator=generator())
    assert abs(value - exact) < 5 * each.std() / 4000**0.5
    assert abs(average_of_losses(outputs, target) - loss_of_average(outputs, target)) > 15 * each.std() / 4000**0.5


def test_estimates():
    assert PermutationLoss().estimates == OBJECTIVES["average_loss"]
    said = {name: PermutationLoss(objective=name).estimates for name in OBJECTIVES}
    assert {name: (e.of, e.unbiased) for name, e in said.items()} == {
        "average_loss": ("J̄", True),
        "exact_squared": ("L̄", True),
        "average_output": ("L̄", False),
    }
    penalised = PermutationLoss(penalty=-0.5).estimates
    assert isinstance(penalised, Estimand) and penalised.of == "J̄ − 0.5·D" and penalised.unbiased
    assert "− 0.5 times the mean squared difference" in penalised.text
    shown = repr(PermutationLoss(nn.NLLLoss(reduction="none"), objective="average_output", penalty=2, link="softmax"))
    assert "penalty=2, link='softmax', estimates L̄ + 2·D (biased)" in shown
    assert "estimates J̄ (unbiased)" in repr(PermutationLoss())


def test_numbers_of_permutations():
    assert PermutationLoss().num_permutations == 1
    assert PermutationLoss(penalty=1).num_permutations == 2
    assert PermutationLoss(objective="exact_squared", num_permutations=5).num_permutations == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "mean"}, "an objective among 'average_loss', 'exact_squared', 'average_output'; got 'mean'"),
        ({"loss": nn.MSELoss()}, r"reduction='none'; got MSELoss\(\), of 'mean'"),
        ({"loss": nn.L1Loss(reduction="none"), "objective": "exact_squared"}, r"loss=None, squared loss; got L1Loss"),
        ({"loss": mse_loss, "objective": "exact_squared"}, "loss=None, squared loss; got"),
        ({"num_permutations": 0}, "'average_loss' expects num_permutations >= 1; got 0"),
        ({"num_permutations": 1, "penalty": 1.0}, "with a penalty expects num_permutations >= 2; got 1"),
        ({"num_permutations": 1, "objective": "exact_squared"}, "num_permutations >= 2; got 1"),
        ({"num_permutations": 1, "objective": "average_output"}, "num_permutations >= 2; got 1"),
        ({"objective": "average_output", "link": "relu"}, "a link among None, 'sigmoid', 'softmax' or a function"),
        ({"link": "softmax"}, "link belongs to objective='average_output'; got 'average_loss'"),
        (
            {"loss": nn.BCELoss(reduction="none"), "objective": "average_output", "link": "sigmoid"},
            "use BCEWithLogitsLoss",
        ),
        ({"penalty": float("nan")}, "a finite penalty; got nan"),
    ],
)
def test_errors_when_made(arguments, message):
    with pytest.raises(ValueError, match=message):
        PermutationLoss(**arguments)


@pytest.mark.parametrize(
    ("loss", "orderings", "target", "message"),
    [
        (None, AllPermutations(), (3, 2), r"Sampled; got AllPermutations.*Use loss\(network\(sets\), target\)"),
        (None, Sampled(seed=0), (3, 2), "got seed=0, which fixes them. Drop the seed"),
        (None, Sampled(), (4, 2), r"one target per set, \(B, \*any\); got \(3, 2, 2\) and \(4, 2\)"),
        (None, Sampled(), (3, 1), r"the shape of the predictions, \(6, 2\); got \(6, 1\), which would be broadcast"),
        (mse_loss, Sampled(), (3, 2), r"one number for each prediction.*got \(\). Use reduction='none'"),
        (lambda y, target: y[:, None] - target, Sampled(), (3, 2), r"predictions \(6, 2\).*got \(6, 6, 2\)"),
    ],
)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_errors_of_use(loss, orderings, target, message):
    with pytest.raises(ValueError, match=message):
        PermutationLoss(loss, num_permutations=2)(
            network(orderings=orderings), distinct_sets((4, 3, 1)), torch.zeros(target)
        )


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_target_is_not_broadcast(objective):
    outputs = torch.randn(3, 2, 1)
    with pytest.raises(ValueError, match="PermutationLoss expects"):
        PermutationLoss(objective=objective).of_outputs(outputs, torch.zeros(3))


def schedule_of(rate=0.1, **options):
    optimizer = torch.optim.SGD([{"params": [torch.zeros(1)]}, {"params": [torch.zeros(1)], "lr": 2 * rate}], lr=rate)
    return optimizer, RobbinsMonro(optimizer, **options)


def steps(optimizer, schedule, num):
    rates = []
    for _ in range(num):
        rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    return torch.tensor(rates)


@pytest.mark.parametrize("power", [0.6, 1.0])
def test_the_rates(power):
    rates = steps(*schedule_of(tau=7, power=power), 50)
    expected = 0.1 / (1 + torch.arange(50) / 7) ** power
    close(rates, torch.stack((expected, 2 * expected), 1))


def law_robbins_monro(schedule) -> None:
    """Checks sums over t from N to 2N as N doubles: Σ η does not shrink, and Σ η² does, by a factor below 1."""

    def rates(start, stop):
        for schedule.last_epoch in range(start, stop):
            yield schedule.get_lr()[0]

    blocks = [torch.tensor(list(rates(2**i, 2 ** (i + 1)))) for i in range(8, 15)]
    sums, squares = [b.sum().item() for b in blocks], [b.square().sum().item() for b in blocks]
    assert all(b >= 0.999 * a for a, b in pairwise(sums)), "the sum of the rates converges"
    assert all(b < 0.995 * a for a, b in pairwise(squares)), "the sum of their squares diverges"


@pytest.mark.parametrize("power", [0.51, 0.75, 1.0])
def test_the_sum_of_the_rates_diverges_and_that_of_their_squares_converges(power):
    law_robbins_monro(schedule_of(tau=1, power=power)[1])


@pytest.mark.parametrize(("power", "message"), [(0.5, "squares diverges"), (1.1, "rates converges")])
def test_robbins_monro_can_fail(power, message):
    schedule = schedule_of(tau=1)[1]
    schedule.power = power
    with pytest.raises(AssertionError, match=message):
        law_robbins_monro(schedule)


@pytest.mark.parametrize("through", [lambda state: state, lambda state: pickle.loads(pickle.dumps(state))])
def test_the_state_goes_round(through):
    optimizer, schedule = schedule_of(tau=5, power=0.8)
    steps(optimizer, schedule, 20)
    states = through((optimizer.state_dict(), schedule.state_dict()))
    expected = steps(optimizer, schedule, 10)
    other, resumed = schedule_of(rate=0.3, tau=50)
    other.load_state_dict(states[0])
    resumed.load_state_dict(states[1])
    close(steps(other, resumed, 10), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tau": 0}, "a finite tau > 0; got 0"),
        ({"tau": float("inf")}, "a finite tau > 0; got inf"),
        ({"power": 0.5}, "1/2 < power <= 1; got 0.5: the rates would leave noise that does not die out"),
        ({"power": 1.5}, "1/2 < power <= 1; got 1.5: the rates would stop short"),
        ({"power": float("nan")}, "1/2 < power <= 1; got nan"),
    ],
)
def test_errors_of_the_schedule(arguments, message):
    with pytest.raises(ValueError, match=message):
        schedule_of(**arguments)
