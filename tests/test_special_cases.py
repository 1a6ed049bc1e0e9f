"""The cases of the theory: DeepSets, relation networks, all permutations, and F_{k−1} ⊂ F_k."""

from itertools import permutations

import pytest
import torch

from janossy import AllPermutations, Canonical, Combinations, JanossyPooling, Ragged, Sampled, TupleMLP, Tuples
from tests.examples import FUNCTIONS, D, distinct_sets, tied_sets
from tests.laws import close, law_parity

pytestmark = pytest.mark.usefixtures("float64")

ANY_LENGTH = [name for name in FUNCTIONS if not FUNCTIONS[name].needs_k]


def test_one_is_deep_sets():
    f = TupleMLP(1, D, (5, 4), out_features=3)
    sets = distinct_sets()
    for b, result in enumerate(JanossyPooling(f, Tuples(1))(sets)):
        close(result, f(sets[b][:, None]).mean(0) if len(sets[b]) else f(torch.zeros(1, 1, D))[0])


@pytest.mark.parametrize("other", [Combinations(1), Canonical()])
def test_deep_sets_three_ways(other):
    f = TupleMLP(1, D, 4)
    sets = distinct_sets((1, 1) if other == Canonical() else (3, 0, 5))
    law_parity(JanossyPooling(f, Tuples(1)), JanossyPooling(f, other), sets)


def test_two_is_a_relation_network():
    f = TupleMLP(2, D, 4)
    sets = distinct_sets((2, 3, 5))
    for b, result in enumerate(JanossyPooling(f, Tuples(2), reduce="sum")(sets)):
        x = sets[b]
        pairs = [torch.stack((x[i], x[j])) for i, j in permutations(range(len(x)), 2)]
        close(result, f(torch.stack(pairs)).sum(0))


@pytest.mark.parametrize("function", ANY_LENGTH)
def test_k_of_the_whole_set_is_all_permutations(function):
    f = FUNCTIONS[function].build(None)
    for k, sets in ((3, distinct_sets((3, 3))), (4, tied_sets((4,)))):
        law_parity(JanossyPooling(f, Tuples(k)), JanossyPooling(f, AllPermutations()), sets)


@pytest.mark.parametrize("k", [2, 3])
def test_smaller_k_is_contained(k):
    """A TupleMLP(k) that ignores its last argument is a TupleMLP(k − 1) on sets of k or more elements (Theorem 2.1)."""
    small, large = TupleMLP(k - 1, D, (5, 4)), TupleMLP(k, D, (5, 4))
    large.load_state_dict(
        {
            name: torch.cat((p, torch.zeros(5, D)), 1) if p.shape[1:] == (D * (k - 1),) else p
            for name, p in small.named_parameters()
        }
    )
    sets = distinct_sets((k, k + 1, 5))
    close(JanossyPooling(large, Tuples(k))(sets), JanossyPooling(small, Tuples(k - 1))(sets))
    torch.nn.init.ones_(large.hidden[0].weight)
    with pytest.raises(AssertionError):
        close(JanossyPooling(large, Tuples(k))(sets), JanossyPooling(small, Tuples(k - 1))(sets))


@pytest.mark.parametrize("function", ANY_LENGTH)
def test_combinations_of_the_whole_set_are_the_canonical_order(function):
    f = FUNCTIONS[function].build(None)
    law_parity(JanossyPooling(f, Combinations(4)), JanossyPooling(f, Canonical()), tied_sets((4, 4)))


def test_a_symmetric_f_needs_one_order():
    def f(x):
        return x.sin().sum(1)

    sets = distinct_sets()
    expected = torch.stack([x.sin().sum(0) for x in sets])
    for orderings in (AllPermutations(), Canonical(), Sampled(3), Sampled(2, seed=1)):
        close(JanossyPooling(f, orderings)(sets), expected)


def test_the_product_needs_k_arguments():
    """The f with which the paper separates F_k from F_{k−1}: the elementary symmetric polynomial by brute force."""
    x = torch.randn(4, 1)
    result = JanossyPooling(lambda rows: rows.prod(1), Combinations(3), reduce="sum")(Ragged.from_sets([x]))
    a, b, c, d = x[:, 0]
    close(result[0, 0], a * b * c + a * b * d + a * c * d + b * c * d)
