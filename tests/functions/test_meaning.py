"""The meaning of weights in a state: another function's does not load in silence, and old ones do."""

import copy
import io

import numpy as np
import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    AllPermutations,
    Canonical,
    Combinations,
    ImportanceSampled,
    JanossyNetwork,
    JanossyPooling,
    Sampled,
    TupleMLP,
    Tuples,
)
from tests.examples import FITTING, FUNCTIONS, ORDERINGS, D, distinct_sets, pooling, weight_by_sign
from tests.laws import pooled

pytestmark = pytest.mark.usefixtures("float64")


def saved(module):
    """Returns its state, as it comes back from a file."""
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def pool(orderings, reduce="mean"):
    return JanossyPooling(GRU(D, 3), orderings, reduce=reduce)


def negated(x):
    return -x


DIFFERENT = {
    "activation": (TupleMLP(2, 2, 3, activation="relu"), TupleMLP(2, 2, 3), "activation='tanh'", "activation='relu'"),
    "k of the same shapes": (TupleMLP(3, 2, 4), TupleMLP(2, 3, 4), "k=2", "k=3"),
    "orderings": (pool(Combinations(2)), pool(Tuples(2)), "orderings='all orderings'", "orderings='Combinations'"),
    "k of the orderings": (pool(Tuples(3)), pool(Tuples(2)), "k=2", "k=3"),
    "the key": (pool(Canonical(key=negated)), pool(Canonical()), "key=None", "key='negated'"),
    "reduce": (pool(Tuples(2), "sum"), pool(Tuples(2)), "reduce='mean'", "reduce='sum'"),
    "within a network": (
        JanossyNetwork(None, JanossyPooling(TupleMLP(2, 2, 3, activation="relu"), Tuples(2)), nn.Linear(3, 1)),
        JanossyNetwork(None, JanossyPooling(TupleMLP(2, 2, 3), Tuples(2)), nn.Linear(3, 1)),
        r"pooling\.f has activation='tanh'",
        "activation='relu'",
    ),
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("case", DIFFERENT)
def test_another_meaning_is_refused(case, strict):
    """Though every weight fits."""
    theirs, ours, here, there = DIFFERENT[case]
    assert {n: p.shape for n, p in theirs.named_parameters()} == {n: p.shape for n, p in ours.named_parameters()}
    with pytest.raises(RuntimeError, match=rf"{here}, and the state is of {there}.*Build the module as it was saved"):
        ours.load_state_dict(saved(theirs), strict=strict)


ALIKE = {
    "more permutations": (Sampled(1), Sampled(20, seed=0)),
    "another scheme": (Sampled(4), Sampled(4, scheme="antithetic")),
    "their limits": (Tuples(2, max_rows=5), Tuples(2)),
    "more by importance": (ImportanceSampled(2, weights=weight_by_sign), ImportanceSampled(9, weights=weight_by_sign)),
}


@pytest.mark.parametrize("case", ALIKE)
def test_the_same_mean_otherwise_drawn_loads(case):
    first, second = (pool(orderings) for orderings in ALIKE[case])
    second.load_state_dict(saved(first))
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(("ordering", "function"), FITTING)
@pytest.mark.cover(1)  # rows know no f, and f no orderings
def test_every_layer_comes_back(ordering, function):
    """From a file, from a deep copy, and entry by entry as a clone, a half or on the way through another device."""
    layer, sets = pooling(ordering, function), distinct_sets((3, 0, 2))
    expected = pooled(layer, sets)
    state = layer.state_dict()
    states = [saved(layer), copy.deepcopy(state), {name: entry.detach().clone().cpu() for name, entry in state.items()}]
    for each in states:
        fresh = pooling(ordering, function)
        for parameter in fresh.parameters():
            nn.init.zeros_(parameter)
        fresh.load_state_dict(each)
        assert torch.equal(pooled(fresh, sets), expected)


def test_entries_are_tensors():
    """Whatever shards, averages or rounds a state expects tensors."""
    for function in FUNCTIONS:
        state = pooling("tuples_2", function).state_dict()
        assert all(isinstance(entry, torch.Tensor) for entry in state.values())
    layer = JanossyPooling(TupleMLP(2, D, 3), Tuples(2))
    rounded = {name: entry.to(torch.float32) for name, entry in layer.state_dict().items()}
    layer.load_state_dict(rounded)
    relu = JanossyPooling(TupleMLP(2, D, 3, activation="relu"), Tuples(2))
    with pytest.raises(RuntimeError, match="activation='relu', and the state is of activation='tanh'"):
        relu.load_state_dict(rounded)


def test_a_state_from_before_loads():
    layer = JanossyPooling(TupleMLP(2, D, 3), Tuples(2))
    old = {name: entry + 1 for name, entry in layer.state_dict().items() if "extra_state" not in name}
    assert len(old) == 2
    layer.load_state_dict(old)
    assert torch.equal(layer.f.hidden[0].bias, old["f.hidden.0.bias"])


@pytest.mark.parametrize("junk", [torch.zeros(3), torch.zeros(2, 2), torch.tensor([91, 93], dtype=torch.uint8), "?"])
def test_an_extra_state_that_is_not_ours_says_nothing(junk):
    f = TupleMLP(2, D, 3)
    f.load_state_dict({**f.state_dict(), "_extra_state": junk})


def test_a_missing_weight_is_still_an_error():
    f = TupleMLP(2, D, 3)
    with pytest.raises(RuntimeError, match=r"Missing key.*hidden\.0\.bias"):
        f.load_state_dict({name: entry for name, entry in f.state_dict().items() if "bias" not in name})


def test_integers_of_numpy():
    f = TupleMLP(np.int64(2), D, np.int32(3))
    layer = JanossyPooling(f, Tuples(np.int64(2)))
    fresh = JanossyPooling(TupleMLP(2, D, 3), Tuples(2))
    fresh.load_state_dict(saved(layer))


def test_whatever_the_default_device():
    with torch.device("meta"):
        state = TupleMLP(2, D, 3, activation="relu").state_dict()
    assert state["_extra_state"].device.type == "cpu"
    with pytest.raises(RuntimeError, match="the state is of activation='relu'"):
        TupleMLP(2, D, 3).load_state_dict(state)


def test_every_ordering_says_what_it_averages():
    said = {name: pool(orderings).meaning() for name, orderings in ORDERINGS.items()}
    assert said["canonical"] != said["canonical_tying_key"] != said["all_permutations"]
    assert said["sampled_1"] == said["sampled_4"] == said["sampled_4_seeded"]
    assert pool(AllPermutations()).meaning()["reduce"] == "mean"
