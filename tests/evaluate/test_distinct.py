"""Distinct tuples: f sees each once, counts are kept while they hold, and what would not be the same is refused."""

import gc
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from janossy import LSTM, Combinations, JanossyNetwork, JanossyPooling, Ragged, TupleMLP, Tuples
from janossy.evaluate import DistinctTuples, Problem, distinct
from janossy.evaluate.rows import incidence
from tests.evaluate.spy import Spy
from tests.examples import generator
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

VOCABULARY = 5


def layers(f, orderings, **options):
    """Returns a network that evaluates distinct tuples, and one that gathers every tuple."""
    torch.manual_seed(0)
    h = nn.Embedding(VOCABULARY, 2)
    poolings = (JanossyPooling(f, orderings, evaluate=evaluate, **options) for evaluate in ("distinct", "gather"))
    return tuple(JanossyNetwork(h, pooling, None) for pooling in poolings)


def law_as_gathered(networks, sets):
    found = []
    for network in networks:
        result = network(sets)
        weights = torch.linspace(-1, 1, result.numel()).view_as(result)
        wanted = list(network.parameters())
        total = (result * weights).sum() + 0 * wanted[0].sum()  # which no set may need
        found.append([result, *torch.autograd.grad(total, wanted, materialize_grads=True)])
    for got, want in zip(*found, strict=True):
        close(got, want)


@given(data=st.data(), k=st.integers(1, 3), increasing=st.booleans(), counted=st.booleans())
def test_any_ids(data, k, increasing, counted):
    """Sizes, ties and empty sets; codes that are counted, or sorted."""
    sizes = data.draw(st.lists(st.integers(0, 5), max_size=5))
    ids = data.draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=sum(sizes), max_size=sum(sizes)))
    sets = Ragged.from_sizes(torch.tensor(ids, dtype=torch.long), sizes)
    networks = layers(
        TupleMLP(k, 2, (3, 3), out_features=2), Combinations(k, key=lambda x: -x) if increasing else Tuples(k)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incidence, "FEW_CODES", 2**16 if counted else -1)
        law_as_gathered(networks, sets)


def some_sets(num_sets=40, n=6, seed=0):
    return Ragged.from_padded(torch.randint(VOCABULARY, (num_sets, n), generator=generator(seed)))


@pytest.mark.parametrize(("orderings", "num"), [(Combinations(2), 15), (Tuples(2), 25)])
def test_f_sees_each_distinct_tuple_once(orderings, num):
    spy = Spy(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)))
    network, other = layers(spy, orderings)
    result = network(some_sets())
    assert [len(x) for x in spy.seen] == [num]
    close(result, other(some_sets()))


@pytest.fixture
def counted(monkeypatch):
    """Gives the batches whose tuples were counted."""
    seen = []
    count = distinct.distinct_tuples
    monkeypatch.setattr(distinct, "distinct_tuples", lambda *rest: seen.append(rest) or count(*rest))
    return seen


def test_counts_are_kept_for_the_last_few_batches(counted):
    networks = layers(TupleMLP(2, 2, 3), Combinations(2))
    batches = [some_sets(seed=seed) for seed in range(distinct.NUM_KEPT)]
    for _ in range(2):
        for batch in batches:
            law_as_gathered(networks, batch)
    assert len(counted) == distinct.NUM_KEPT
    law_as_gathered(networks, Ragged.from_padded(batches[0].values.view(40, 6).int()))
    assert len(counted) == distinct.NUM_KEPT
    law_as_gathered(networks, some_sets(seed=9))
    law_as_gathered(networks, batches[1])
    assert len(counted) == distinct.NUM_KEPT + 2


def test_ids_that_are_modified_where_they_are_count_anew(counted):
    networks, array = layers(TupleMLP(2, 2, 3), Combinations(2)), some_sets().values.numpy()
    sets = Ragged.from_padded(torch.from_numpy(array).view(40, 6))
    law_as_gathered(networks, sets)
    array[:] = 4 - array
    law_as_gathered(networks, sets)
    assert len(counted) == 2


@pytest.mark.parametrize(
    "orderings", [Combinations(2, key=lambda x: -x), Tuples(3), Tuples(2)], ids=["key", "k3", "k2"]
)
def test_other_orderings_count_anew(orderings):
    network, other = layers(TupleMLP(2, 2, 3), Combinations(2))
    network(some_sets())
    network.pooling.orderings = other.pooling.orderings = orderings
    if orderings.k == 2:
        law_as_gathered((network, other), some_sets())


def test_counts_go_with_their_function():
    def num_tensors():
        gc.collect()
        return sum(type(each) is torch.Tensor for each in gc.get_objects())

    sets = some_sets()
    network, _ = layers(TupleMLP(2, 2, 3), Combinations(2))
    before = num_tensors()
    network(sets).sum().backward()
    assert num_tensors() > before
    del network, _
    assert num_tensors() <= before


def test_counted_in_inference_and_used_in_training():
    networks = layers(TupleMLP(2, 2, 3), Combinations(2))
    with torch.inference_mode():
        networks[0](some_sets())
    law_as_gathered(networks, some_sets())


def test_transforms_of_torch_func():
    """A gradient for each of several weights, and a derivative in a direction."""
    networks = layers(TupleMLP(2, 2, 3), Combinations(2))
    found = []
    for network in networks:
        elements = network.elements(some_sets())

        def run(weight, network=network, elements=elements):
            weights = {"hidden.0.weight": weight}
            f = lambda x: torch.func.functional_call(network.pooling.f, weights, (x,))  # noqa: E731
            options = {"memory_budget": 2**30, "table": elements.table}
            problem = Problem(f, Combinations(2), elements.places, **options)
            return network.pooling.choice.asked(problem).square().sum()

        several = torch.randn(3, 3, 4, generator=generator())
        found.append([
            torch.func.vmap(torch.func.grad(run))(several),
            torch.func.jvp(run, (several[0],), (several[1],))[1],
        ])  # fmt: skip
    for got, want in zip(*found, strict=True):
        close(got, want)


def test_explain_says_how_many():
    network, _ = layers(TupleMLP(2, 2, 3), Combinations(2))
    says = network.explain(some_sets())
    assert says.startswith("distinct (as asked): 600 rows")
    assert "15 distinct tuples, which occur 600 times" in says


REFUSED = {
    "max": (TupleMLP(2, 2, 3), {"reduce": "max"}, "it computes the mean and the sum, and no rows for reduce='max'"),
    "dropout": (nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Dropout()), {}, "Sequential is random or mixes rows"),
    "batch norm": (nn.Sequential(nn.Flatten(), nn.BatchNorm1d(4)), {}, "Sequential is random or mixes rows"),
    "dropout of a recurrence": (LSTM(2, 3, num_layers=2, dropout=0.5), {}, "LSTM is random or mixes rows"),
    "memory": (
        TupleMLP(2, 2, 3),
        {"memory_budget": 1000},
        "counting 600 tuples takes more than the memory budget, 1000 bytes",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    f, options, why = REFUSED[case]
    network, _ = layers(f, Combinations(2), **options)
    with pytest.raises(ValueError, match=f"^evaluate=distinct does not apply: {re.escape(why)}.*; use evaluate='auto'"):
        network(some_sets())


def test_too_many_tuples_to_number():
    problem = Problem(TupleMLP(40, 2, 3), Tuples(40), some_sets(1, 2), table=torch.randn(VOCABULARY, 2))
    assert DistinctTuples().why_not_applicable(problem) == "5 elements have too many 40-tuples to number them"


@pytest.mark.parametrize("wrong", [VOCABULARY, -1])
def test_ids_that_the_embedding_has_not(wrong):
    network, _ = layers(TupleMLP(2, 2, 3), Combinations(2))
    sets = some_sets()
    sets.values[3] = wrong
    with pytest.raises(ValueError, match=rf"^h, an Embedding, expects ids from 0 to 4; got {wrong}\. Give it more"):
        network(sets)
