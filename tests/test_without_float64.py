"""Devices without float64: predictions, orders and audits on a stand-in for Apple's MPS."""

import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    Combinations,
    Distinct,
    ImportanceSampled,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    TupleProduct,
    Tuples,
    predict,
)
from janossy.estimators.survival import concordance
from janossy.inference import predict_passes, sensitivity
from janossy.nn import ColumnEmbedding, Relations
from janossy.nn.statistics import LinearScores, PooledStatistics, StatisticsNetwork, TreeEnsemble
from janossy.orderings import Learned
from tests.nn.test_statistics import CODES, NUMBERS, blocks
from tests.standin_mps import DEVICE, Mps, OnMps, on_mps
from tests.standin_mps import numbers as raw

SCHEMES = ("designed", "independent", "antithetic", "latin", "stratified", "orthogonal", "sobol")

ORDERINGS = {
    **{scheme: lambda scheme=scheme: Sampled(4, scheme=scheme) for scheme in SCHEMES},
    "one": lambda: Sampled(1),
    "distinct": lambda: Distinct(3, k=2),
    "weighted": lambda: ImportanceSampled(3),
    "squared": lambda: ImportanceSampled(3, k=2, weights="squared_norm"),
    "pairs": lambda: Tuples(2),
}


def sets() -> Ragged:
    return on_mps(Ragged.from_sizes(torch.randn(16, 3), [5, 0, 7, 4]))


def network(orderings) -> JanossyNetwork:
    f = TupleMLP(2, 3, (4, 4)) if orderings.k == 2 else GRU(3, 4)
    return on_mps(JanossyNetwork(None, JanossyPooling(f, orderings), nn.Linear(4, 2)))


def test_the_device_refuses_float64():
    with Mps(), pytest.raises(TypeError, match="float64"):
        sets().values.double()
    with Mps(), pytest.raises(TypeError, match="float64"):
        torch.zeros(2, dtype=torch.float64, device=DEVICE)


@pytest.mark.parametrize("name", ORDERINGS)
def test_predictions_need_no_float64(name):
    net, given = network(ORDERINGS[name]()), sets()
    with Mps():
        found = predict(net, given, 10, link="softmax")
        assert found.mean.cpu().isfinite().all() and found.standard_error.dtype == torch.float32
        assert predict_passes(lambda: net(given), 3, keep_outputs=True).mean.shape == (4, 2)


def test_learned_orders_and_an_audit_need_no_float64():
    learned, given = Learned(on_mps(nn.Linear(3, 1)), num_permutations=3), sets()
    with Mps(), torch.no_grad():
        assert learned.enumerate(given).counts() == [3, 3, 3, 3]
        found = sensitivity(network(Sampled(1)), given, num_swaps=2)
    assert found.within.dtype == torch.float32


RELATIONS = {
    "sorted": lambda: Relations(TupleMLP(2, 3, 4, activation="relu"), evaluate="fused"),
    "by series": lambda: Relations(TupleMLP(2, 3, 4, activation="tanh"), evaluate="spectral"),
    "softplus by series": lambda: Relations(TupleMLP(3, 3, 4, activation="softplus"), evaluate="spectral"),
    "sums": lambda: Relations(TupleMLP(2, 3, (4, 4)), reduce="sum"),
    "products": lambda: Relations(TupleProduct(3, 3, 4)),
}


def there_and_here(layer, given: Ragged):
    """Returns what a layer gives on the device, and on the CPU."""
    with torch.no_grad():
        here = layer(given)
        with Mps():
            there = on_mps(layer)(on_mps(given))
    return (x.values if isinstance(x, Ragged) else x for x in (there, here))


@pytest.mark.parametrize("name", RELATIONS)
def test_relations_need_no_float64(name):
    given = Ragged.from_sizes(torch.randn(154, 3), [80, 0, 70, 4])
    there, here = there_and_here(RELATIONS[name](), given)
    torch.testing.assert_close(raw(there), here, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "softplus", "erf", "sine"])
@pytest.mark.parametrize("orderings", [Tuples(2), Combinations(3)], ids=repr)
def test_series_need_no_float64(activation, orderings):
    layer = JanossyPooling(TupleMLP(orderings.k, 3, 4, activation=activation), orderings, evaluate="spectral")
    there, here = there_and_here(layer, Ragged.from_sizes(torch.randn(154, 3), [80, 0, 70, 4]))
    torch.testing.assert_close(raw(there), here, rtol=1e-4, atol=1e-4)


def test_column_embeddings_need_no_float64():
    amounts, quantiles = [(0, 1.0, 2.0, 0.1)], [(1, [-1.0, 0.0, 0.0, 2.0])]
    layer = ColumnEmbedding((), num_numbers=3, amounts=amounts, quantiles=quantiles, coded=[(2, [-0.5, 0.5])])
    numbers = torch.cat((torch.randn(16, 2), torch.tensor([-0.5, 0.5]).repeat(8)[:, None]), dim=1)
    with torch.no_grad():
        here = layer(numbers)
        with Mps():
            there = on_mps(layer)(OnMps(numbers))
    torch.testing.assert_close(raw(there), here, rtol=1e-4, atol=1e-4)


def encoded(dtype: torch.dtype) -> tuple[Ragged, torch.Tensor]:
    columns = [torch.randint(size, (16, 1)) for size in CODES] + [torch.randn(16, NUMBERS)]
    context = torch.cat((torch.randint(3, (4, 1)), torch.randn(4, 1)), dim=1)
    return Ragged.from_sizes(torch.cat(columns, dim=1).to(dtype), [5, 0, 7, 4]), context


def statistics() -> PooledStatistics:
    found = PooledStatistics(list(blocks().values()), vocabularies=CODES, num_numbers=NUMBERS)
    found.offsets.copy_(torch.tensor([0.1, 1 / 3]))
    return found


def linear(width: int) -> LinearScores:
    scores = LinearScores(width, out_features=2)
    scores.weight.copy_(torch.randn(2, width))
    return scores


def tree(width: int) -> TreeEnsemble:
    trees = TreeEnsemble(width, out_features=2, num_trees=1, num_nodes=1, num_leaves=2)
    trees.below.copy_(torch.tensor([[-1, -2]]))
    trees.threshold.fill_(4.5)
    trees.values.copy_(torch.randn(2, 2))
    return trees


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("scores", [linear, tree])
def test_statistics_are_the_same_without_float64(scores, dtype):
    of_sets, (given, context) = statistics(), encoded(dtype)
    net = StatisticsNetwork(of_sets, scores(of_sets.out_features))
    vectors, here = of_sets(given, context), net(given, context=context)
    with Mps():
        there, its_context = on_mps(given), OnMps(context)
        assert net.to(DEVICE).to("mps") is net
        found, outputs = of_sets(there, its_context), net(there, context=its_context)
    assert found.device == outputs.device == DEVICE
    assert torch.equal(raw(found), vectors) and torch.equal(raw(outputs), here.float())
    assert net.to("meta").statistics.offsets.is_meta


def test_concordance_needs_no_float64():
    given = torch.randn(9), torch.stack((torch.rand(9), torch.ones(9)), dim=1), torch.ones(9)
    with Mps():
        assert concordance(*map(OnMps, given)) == concordance(*given)
