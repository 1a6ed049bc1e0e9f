"""Quantiles, power means and softmax-weighted means: by brute force, with gradients, learnt, saved."""

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from janossy import GRU, AllPermutations, JanossyNetwork, JanossyPooling, Ragged, Sampled, TupleMLP, Tuples
from janossy.nn import PowerMean, Quantile, SoftmaxMean
from janossy.saving import load, save
from tests.examples import D, distinct_sets, tied_sets
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

BY_HAND = {
    "lowest": (lambda: Quantile(0), lambda x: x.amin(0)),
    "median": (lambda: Quantile(), lambda x: x.quantile(0.5, dim=0)),
    "0.9-quantile": (lambda: Quantile(0.9), lambda x: x.quantile(0.9, dim=0)),
    "root mean square": (lambda: PowerMean(), lambda x: x.clamp(min=1e-7).square().mean(0).sqrt()),
    "harmonic mean": (lambda: PowerMean(-1, learn=True), lambda x: 1 / (1 / x.clamp(min=1e-7)).mean(0)),
    "softmax": (lambda: SoftmaxMean(2.5, learn=True), lambda x: (x * (2.5 * x).softmax(0)).sum(0)),
    "softmin": (lambda: SoftmaxMean(-3), lambda x: (x * (-3 * x).softmax(0)).sum(0)),
}
LAYERS = {
    "single": lambda reduce: JanossyPooling(nn.Sequential(nn.Linear(D, 3), nn.Sigmoid()), Tuples(1), reduce=reduce),
    "pairs": lambda reduce: JanossyPooling(TupleMLP(2, D, 3, activation="softplus"), Tuples(2), reduce=reduce),
    "recurrence": lambda reduce: JanossyPooling(GRU(D, 3), AllPermutations(), reduce=reduce),
}


@pytest.mark.parametrize("make", [distinct_sets, tied_sets])
@pytest.mark.parametrize("name", LAYERS)
def test_by_brute_force(name, make):
    sets = make((3, 0, 1, 4, 3))
    torch.manual_seed(0)
    layer = LAYERS[name](("mean", *(reduction() for reduction, _ in BY_HAND.values())))
    rows = layer.rows(sets)
    expected = [torch.cat([x.mean(0), *(by_hand(x) for _, by_hand in BY_HAND.values())]) for x in rows]
    close(layer(sets), torch.stack(expected))
    alone = LAYERS[name](Quantile(0.9))
    alone.f.load_state_dict(layer.f.state_dict())
    close(alone(sets), torch.stack([x.quantile(0.9, dim=0) for x in rows]))


def test_quantiles_of_nan_and_infinity():
    """Quantiles at a whole rank are a value, whatever the next one is; NaN is of no rank, as in ``torch.quantile``."""
    x = torch.tensor([[2.0, torch.nan], [torch.inf, 1.0], [1.0, 2.0], [torch.inf, 3.0]])
    rows = Ragged.from_sizes(x.requires_grad_(), [3, 1])
    for q, expected in ((0, 1.0), (0.5, 2.0), (1, torch.inf)):
        found = Quantile(q)(rows)
        assert found[0, 0] == expected and found[0, 1].isnan() and found[1].tolist() == [torch.inf, 3]
        (slopes,) = torch.autograd.grad(found[:, 0].sum(), x)
        assert slopes[:, 0].tolist() == [float(value == expected) for value in x[:3, 0]] + [1]


@pytest.mark.parametrize("reduction", BY_HAND)
def test_gradients(reduction):
    reduce = BY_HAND[reduction][0]()
    x = torch.rand(7, 2, requires_grad=True)
    numbers = list(reduce.parameters())
    assert gradcheck(lambda x, *_: reduce(Ragged.from_sizes(x, [4, 1, 2])), (x, *numbers))


def test_numbers_that_are_learnt_are_the_layer_s_and_are_saved(tmp_path):
    reduce = ("mean", SoftmaxMean(0.5, learn=True), PowerMean(3), Quantile(0.25))
    network = JanossyNetwork(pooling=LAYERS["pairs"](reduce))
    sets, optimizer = distinct_sets((3, 4)), torch.optim.SGD(network.parameters(), lr=0.1)
    network(sets).sum().backward()
    optimizer.step()
    assert reduce[1].t.item() != 0.5
    loaded = load(save(network, tmp_path / "network"))
    close(loaded(sets), network(sets), atol=0, rtol=0)
    assert "reduce=('mean', SoftmaxMean(t=0.5, learn=True), PowerMean(p=3), Quantile(q=0.25))" in repr(loaded)
    with pytest.raises(RuntimeError, match="reduce"):
        network.pooling.load_state_dict(LAYERS["pairs"](("mean", SoftmaxMean(learn=True), "max")).state_dict())


def test_in_evaluation_all_orders_of_small_sets_are_reduced():
    layer, sets = JanossyPooling(GRU(D, 3), Sampled(6), reduce=Quantile(0.3)).eval(), distinct_sets((3, 3))
    close(layer(sets), layer(sets, AllPermutations()))


def test_half_precision():
    rows = Ragged.from_sizes(torch.rand(5, 2, dtype=torch.bfloat16), [3, 2])
    for reduction, by_hand in BY_HAND.values():
        result = reduction()(rows)
        expected = torch.stack([by_hand(x.double()) for x in rows])
        close(result.double(), expected, atol=0.02, rtol=0.02)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quantile(1.5), r"Quantile expects q as a number in \[0, 1\]; got 1.5"),
        (lambda: Quantile("median"), "got 'median'"),
        (lambda: PowerMean(0), "p as a number other than 0; got 0"),
        (lambda: PowerMean(float("inf")), "PowerMean expects p as a finite number; got inf"),
        (lambda: SoftmaxMean(None), "SoftmaxMean expects t as a finite number; got None"),
        (lambda: LAYERS["pairs"](("mean", nn.ReLU())), r"PowerMean\(p\), SoftmaxMean\(t\); got \('mean', ReLU"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
    with pytest.raises(TypeError, match="PowerMean expects learn as True or False; got 1"):
        PowerMean(learn=1)
