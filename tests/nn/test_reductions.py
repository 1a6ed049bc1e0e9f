"""Several reductions at once, the least and the standard deviation, by brute force from one call of f."""

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from janossy import (
    GRU,
    AllPermutations,
    JanossyNetwork,
    JanossyPooling,
    PaddedNetwork,
    Sampled,
    Stack,
    TupleMLP,
    Tuples,
    predict,
)
from janossy.evaluate.reduce import OF_ROWS
from janossy.orderings import ImportanceSampled
from janossy.saving import load, save
from tests.examples import D, distinct_sets, tied_sets
from tests.laws import close
from tests.oracle import REDUCTIONS

pytestmark = pytest.mark.usefixtures("float64")

SEVERAL = ("mean", "std", "max", "min")
LAYERS = {
    "single": lambda **options: JanossyPooling(nn.Linear(D, 3), Tuples(1), **options),
    "pairs": lambda **options: JanossyPooling(TupleMLP(2, D, 3), Tuples(2), **options),
    "recurrence": lambda **options: JanossyPooling(GRU(D, 3), AllPermutations(), **options),
}


def layer(name, reduce, **options):
    torch.manual_seed(0)
    return LAYERS[name](reduce=reduce, **options)


@pytest.mark.parametrize("make", [distinct_sets, tied_sets])
@pytest.mark.parametrize("name", LAYERS)
def test_by_brute_force(name, make):
    sets = make((3, 0, 1, 4, 3))
    pooling = layer(name, OF_ROWS)
    rows = pooling.rows(sets)
    close(pooling(sets), torch.stack([torch.cat([REDUCTIONS[reduce](x) for reduce in OF_ROWS]) for x in rows]))
    for reduce in OF_ROWS:
        close(layer(name, reduce)(sets), torch.stack([REDUCTIONS[reduce](x) for x in rows]))


@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name):
    sets = distinct_sets((3, 1, 2))
    pooling = layer(name, SEVERAL)
    values = sets.values.clone().requires_grad_()
    assert gradcheck(lambda x: pooling(sets.with_values(x)), values)
    pooling(distinct_sets((0, 1))).sum().backward()  # of one row the deviation is 0, whose root has no slope
    assert all(p.grad is None or p.grad.isfinite().all() for p in pooling.parameters())


def test_a_deviation_of_nan_is_nan():
    sets = distinct_sets((3, 0, 1, 2)).map(lambda x: torch.cat((x[:1] * torch.nan, x[1:])))
    for reduce in ("std", ("std", "mean")):
        found = JanossyPooling(lambda x: x[:, 0], Tuples(1), reduce=reduce)(sets)[:, :D]
        assert found[0].isnan().all() and found[1:].isfinite().all() and found[1:3].eq(0).all()


def test_f_is_called_once():
    calls = []
    pooling = JanossyPooling(lambda x: calls.append(1) or x.sum(1), Tuples(2), reduce=SEVERAL)
    assert pooling(distinct_sets((2, 5, 3))).shape == (3, 4 * D) and len(calls) == 1


def network(seed=0):
    torch.manual_seed(seed)
    return JanossyNetwork(None, JanossyPooling(GRU(D, 3), Sampled(2), reduce=["mean", "std"]), nn.Linear(6, 1))


def test_within_networks(tmp_path):
    sets = distinct_sets((4, 3))
    model, generator = network(), torch.Generator().manual_seed(0)
    assert predict(model, sets, 5, generator=generator).mean.shape == (2, 1)
    loaded = load(save(model, tmp_path / "model"))
    assert loaded.pooling.reduce == ("mean", "std") and "reduce=('mean', 'std')" in repr(model)
    with pytest.raises(RuntimeError, match="reduce"):
        layer("pairs", ("mean", "std")).load_state_dict(layer("pairs", ("std", "mean")).state_dict())
    exact = [JanossyNetwork(None, layer("pairs", SEVERAL), nn.Linear(12, 1)) for _ in range(2)]
    close(Stack(exact)(sets), torch.stack([each(sets) for each in exact]))
    with pytest.raises(ValueError, match=r"PaddedNetwork expects a reduce.*got \('mean', 'std'\)"):
        PaddedNetwork(model)


@pytest.mark.parametrize("reduce", [(), ("mean", "median"), ("mean", None), 3, "meanstd"])
def test_bad_reductions(reduce):
    with pytest.raises(ValueError, match="reduce expects one or several of"):
        layer("pairs", reduce)


def test_rows_that_weigh():
    weighed = ImportanceSampled(2, weights=lambda x: x[:, 0].abs())
    with pytest.raises(ValueError, match=r"weighs its rows.*\('mean', 'std'\)"):
        JanossyPooling(GRU(D, 3), weighed, reduce=("mean", "std"))(distinct_sets((3,)))
