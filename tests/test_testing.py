"""assert_invariant passes what is invariant, and names what is wrong with what is not."""

import doctest
import re

import pytest
import torch
from torch import nn

import janossy
from janossy import (
    GRU,
    AllPermutations,
    Canonical,
    Combinations,
    JanossyNetwork,
    JanossyPooling,
    PaddedNetwork,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
    predict,
    testing,
)
from janossy.testing import assert_invariant
from tests.examples import distinct_sets, tied_sets


def network(orderings, f=None, rho=None):
    torch.manual_seed(1)
    return JanossyNetwork(None, JanossyPooling(f or TupleMLP(2, 2, 5), orderings, evaluate="gather"), rho)


def padded(seed=2):
    return distinct_sets(seed=seed).to_padded()


def last_state(sets):
    """Returns the last state of a recurrence over each set as given, which depends on the order."""
    torch.manual_seed(1)
    f = GRU(2, 3)
    return torch.cat([f(x[None]) for x in sets])


class BatchNormed(nn.Module):
    """Batch-dependent in training."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(2)

    def forward(self, sets):
        return torch.stack([x.sum(0) for x in sets.with_values(self.norm(sets.values))])


def mean_with_padding(sets):
    """Returns the mean over places, which depends on the largest set of the batch."""
    return sets.to_padded()[0].mean(1)


def mean_of_places(x, mask):
    return x.mean(1)


def mean_of_real(x, mask):
    return x.masked_fill(~mask[..., None], 0).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def sum_of_all_places(x, mask):
    """Sums all places, which is right only if the padding is zero."""
    return x.sum(1)


def draws(sets):
    return torch.stack([x.sum(0) + torch.randn(2) for x in sets])


def draws_a_map(sets):
    """Returns one for all sets, as random features are."""
    return torch.stack([x.sum(0) for x in sets]) @ torch.randn(2, 3)


SAMPLED = network(Sampled(1), GRU(2, 3))

INVARIANT = {
    "tuples": network(Tuples(2)),
    "combinations": network(Combinations(2), rho=nn.Linear(5, 1)),
    "every_permutation": network(AllPermutations(), GRU(2, 3)),
    "canonical": network(Canonical(), GRU(2, 3)),
    "seeded": network(Sampled(2, seed=0), GRU(2, 3)),
    "predicted": lambda sets: predict(SAMPLED, sets, num_permutations=5, seed=0).mean,
    "batch_norm_in_evaluation": BatchNormed().eval(),
    "sizes": lambda sets: sets.offsets.diff(),
}


@pytest.mark.parametrize("sets", [distinct_sets(), tied_sets()], ids=["distinct", "tied"])
@pytest.mark.parametrize("name", INVARIANT)
def test_invariant_models_pass(name, sets):
    assert_invariant(INVARIANT[name], sets)


@pytest.mark.parametrize("model", [PaddedNetwork(network(Tuples(2))), mean_of_real], ids=["network", "mean"])
def test_padded_models_pass(model):
    assert_invariant(model, padded())


NUMBERS = r"the largest difference is [\d.e+-]+, of \S+ and \S+; atol=0\.0001 and rtol=0\.0001 allow"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (last_state, rf"set 0, of 3 elements, permuted by \[2, 1, 0\], is not the same: {NUMBERS}"),
        (BatchNormed().train(), rf"set \d, of \d elements, alone instead of in the batch, is not the same: {NUMBERS}"),
        (mean_with_padding, rf"set 0, of 3 elements, alone .* is not the same: {NUMBERS}"),
        (lambda sets: sets.values.new_full((len(sets), 1), torch.nan), "the largest difference is nan, of nan and nan"),
        (lambda sets: sets.to_padded()[0], r"alone .*, has shape \(3, 2\) and not \(5, 2\)"),
        (lambda sets: torch.stack([x.sum(0) for x in sets]).argsort(0), "alone .* of 0 and 2; .* allow 0"),
    ],
)
def test_models_that_are_not_fail(model, message):
    with pytest.raises(AssertionError, match=message):
        assert_invariant(model, distinct_sets())


@pytest.mark.parametrize(
    ("model", "message"), [(mean_of_places, "alone"), (sum_of_all_places, "with other padding")], ids=["mean", "sum"]
)
def test_padded_models_that_are_not_fail(model, message):
    with pytest.raises(AssertionError, match=message):
        assert_invariant(model, padded())


def test_an_order_that_the_reversal_keeps_is_found():
    def middle(sets):
        return torch.stack([x[1] for x in sets])

    sets = distinct_sets((3, 3))
    with pytest.raises(AssertionError, match=r"permuted by \[(1|\d, [02])"):
        assert_invariant(middle, sets)
    assert_invariant(middle, sets, num_permutations=1)


def test_tolerances():
    def nearly(sets):
        return torch.stack([x.sum(0) for x in sets]) + 1e-3 * sets.values[0, 0]

    sets = distinct_sets((3, 5, 1))
    with pytest.raises(AssertionError):
        assert_invariant(nearly, sets)
    with pytest.raises(AssertionError, match=r"rtol=0 "):
        assert_invariant(nearly, sets, rtol=0)
    assert_invariant(nearly, sets, atol=1e-2)


def test_tolerances_follow_the_dtype():
    def nearly(sets):
        return torch.stack([x.sum(0) for x in sets]) + 1e-6 * sets.values[0, 0]

    sets = distinct_sets((3, 5, 1))
    assert_invariant(nearly, sets)
    with pytest.raises(AssertionError, match="atol=1e-09"):
        assert_invariant(nearly, sets.to(torch.float64))


def test_models_that_draw():
    with pytest.raises(ValueError, match=r"it is random\. Call eval\(\), .* pass seed="):
        assert_invariant(draws_a_map, distinct_sets())
    with pytest.raises(ValueError, match="it is random"):
        assert_invariant(SAMPLED, distinct_sets())
    assert_invariant(draws_a_map, distinct_sets(), seed=0)
    with pytest.raises(AssertionError):
        assert_invariant(draws, distinct_sets(), seed=0)


def test_nothing_is_left_changed():
    model = BatchNormed().train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    with pytest.raises(AssertionError):
        assert_invariant(model, distinct_sets(), seed=0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state) and model.training


@pytest.mark.parametrize(
    ("model", "example", "options", "error", "message"),
    [
        (mean_with_padding, distinct_sets((3,)), {}, ValueError, "two or more sets"),
        (mean_with_padding, distinct_sets((1, 0, 1)), {}, ValueError, "one has different elements"),
        (mean_with_padding, distinct_sets(), {"num_permutations": 0}, ValueError, "got num_permutations=0"),
        (lambda sets: sets, distinct_sets(), {}, ValueError, r"a tensor \(6, …\); got Ragged"),
        (lambda sets: sets.values, distinct_sets(), {}, ValueError, r"a tensor \(6, …\); got \(14, 2\)"),
        (mean_with_padding, list(distinct_sets()), {}, TypeError, "a Ragged, or x and mask in a tuple; got list"),
    ],
)
def test_what_it_does_not_take(model, example, options, error, message):
    with pytest.raises(error, match=message):
        assert_invariant(model, example, **options)


def test_the_documentation():
    for heading in ("Shapes", "Raises", "Example"):
        assert re.search(rf"^ *{heading}:", assert_invariant.__doc__, re.MULTILINE)
    names = {"torch": torch, "nn": nn, "Ragged": Ragged, **{name: getattr(janossy, name) for name in janossy.__all__}}
    for test in doctest.DocTestFinder(recurse=False).find(assert_invariant, module=testing, globs=names):
        assert doctest.DocTestRunner().run(test).failed == 0
