"""Prediction changes nothing: weights, modes, orderings and torch's random numbers are afterwards as before."""

from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from janossy import (
    GRU,
    AllPermutations,
    Canonical,
    Distinct,
    ImportanceSampled,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    Stack,
    TupleMLP,
    Tuples,
    predict,
)
from janossy.estimators import SetClassifier, SetRegressor
from janossy.inference import evaluating
from janossy.orderings import Learned


def learned() -> Learned:
    return Learned(nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5), nn.Linear(2, 1)))


ORDERINGS = {
    "permutations": lambda: Sampled(1),
    "groups": lambda: Sampled(3),
    "ends": lambda: Sampled(1, exact_last=2),
    "tuples": lambda: Distinct(4, k=2),
    "weighted": lambda: ImportanceSampled(4, k=2),
    "learned": learned,
    "all pairs": lambda: Tuples(2),
    "all": lambda: AllPermutations(),
    "sorted": lambda: Canonical(),
}


def network(orderings) -> JanossyNetwork:
    f = TupleMLP(2, 4, 6) if getattr(orderings, "k", None) == 2 else GRU(4, 6)
    h = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    return JanossyNetwork(h, JanossyPooling(f, orderings), nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 2)))


def seen(module: nn.Module, *others: nn.Module) -> tuple:
    """Returns the state that prediction must leave alone."""
    modules = [inner for outer in (module, *others) for inner in outer.modules()]
    orderings = [(m.orderings, id(m.orderings), m.orderings_train) for m in modules if isinstance(m, JanossyPooling)]
    weights = [deepcopy(outer.state_dict()) for outer in (module, *others)]
    return [m.training for m in modules], orderings, weights, torch.get_rng_state()


def law_untouched(before: tuple, after: tuple) -> None:
    modes, orderings, weights, state = before
    assert after[0] == modes and after[1] == orderings and torch.equal(after[3], state)
    for old, new in zip(weights, after[2], strict=True):
        assert old.keys() == new.keys() and all(torch.equal(old[name], new[name]) for name in old)


@pytest.mark.parametrize("name", ORDERINGS)
@settings(max_examples=6, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any),
    modes=st.sampled_from(["train", "eval", "mixed"]),
    seed=st.integers(0, 3),
    options=st.fixed_dictionaries(
        {}, optional={"link": st.just("softmax"), "batch_size": st.integers(1, 3), "keep_outputs": st.just(True)}
    ),
)
def test_a_network(name, sizes, modes, seed, options):
    net = network(ORDERINGS[name]()).train(modes != "eval")
    if modes == "mixed":
        net.h.eval()
    given_ones = ORDERINGS[name]()
    sets = Ragged.from_sizes(torch.randn(sum(sizes), 2), sizes)
    others = [given_ones.scorer] if name == "learned" else []
    before = seen(net, *others)
    for orderings in (None, given_ones):
        predict(net, sets, orderings=orderings, generator=torch.Generator().manual_seed(seed), **options)
        if name != "weighted":  # which takes no seed
            predict(net, sets, orderings=orderings, seed=seed, **options)
    law_untouched(before, seen(net, *others))


def test_a_network_whose_prediction_fails():
    net = network(Sampled(1))
    net.rho = nn.Linear(5, 2)
    sets = Ragged.from_sizes(torch.randn(5, 2), (5,))
    before = seen(net)
    with pytest.raises(RuntimeError):
        predict(net, sets, seed=0)
    law_untouched(before, seen(net))


def test_a_stack():
    stack = Stack([network(Sampled(1)) for _ in range(2)]).train()
    sets = Ragged.from_sizes(torch.randn(12, 2), (5, 7))
    before = seen(stack)
    predict(stack, sets, seed=0)
    law_untouched(before, seen(stack))
    assert all(member.training for member in stack.members())


@pytest.mark.parametrize("modes", ["train", "eval", "mixed"])
@pytest.mark.parametrize("wrap", [lambda stack: stack, nn.Sequential], ids=["stack", "wrapper"])
def test_the_members_of_a_stack(modes, wrap):
    stack = Stack([network(Sampled(1)) for _ in range(2)]).train(modes != "eval")
    if modes == "mixed":
        stack.members()[0].h.eval()
    sets = Ragged.from_sizes(torch.randn(12, 2), (5, 7))
    before = seen(*stack.members())
    with evaluating(wrap(stack)):
        assert not any(module.training for member in stack.members() for module in member.modules())
    law_untouched(before, seen(*stack.members()))
    stack.explain(sets)
    law_untouched(before, seen(*stack.members()))


@pytest.mark.parametrize("estimator", [SetClassifier, SetRegressor])
@pytest.mark.parametrize("strategy", ["gru", "k2"])
def test_an_estimator(estimator, strategy):
    generator = torch.Generator().manual_seed(0)
    sets = [torch.randn(int(n), 2, generator=generator).numpy() for n in torch.arange(40) % 6 + 1]
    y = [len(x) > 3 for x in sets] if estimator is SetClassifier else [float(len(x)) for x in sets]
    model = estimator(strategy, max_epochs=1, validation=0.3, random_state=0).fit(sets, y)
    networks = nn.ModuleList(model.ensemble_.networks)
    networks[0].train()
    before = seen(networks)
    model.predict(sets, return_std=True)
    model.element_importance(sets[:5])
    law_untouched(before, seen(networks))
