"""The weights of every layer: made on a device and in a precision, and drawn anew as they were drawn at first."""

from collections.abc import Callable
from inspect import signature

import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    LSTM,
    RNN,
    JanossyNetwork,
    JanossyPooling,
    Sampled,
    TupleMLP,
    TupleProduct,
    Tuples,
    density,
    functions,
)
from janossy import nn as layers
from janossy.density import (
    Autoregressive,
    CategoricalSizes,
    ExchangeableDensity,
    IidMixture,
    NegativeBinomialSizes,
    Normals,
)
from janossy.functions import BalancedTree, FeaturedMLP, GatedAttention, MinGRU, MonotoneLattice, TupleFeatures
from janossy.nn import (
    BesidePooled,
    CachedMean,
    ColumnEmbedding,
    InducedAttention,
    InnerSets,
    JanossyEquivariant,
    PooledNorm,
    PowerMean,
    Readout,
    Relations,
    Residual,
    SeedAttention,
    SelfAttention,
    SetEncoder,
    SetNorm,
    SlotAttention,
    SoftmaxMean,
)
from janossy.nn.groups import GroupPooling, reversal
from janossy.orderings import AsGiven, Canonical, OrderWeights
from janossy.saving import load, save

D = 4

MADE: dict[str, Callable[..., nn.Module]] = {
    "TupleMLP": lambda **where: TupleMLP(2, D, (5, 3), norm="layer", out_features=2, **where),
    "TupleProduct": lambda **where: TupleProduct(2, D, 3, out_features=2, **where),
    "FeaturedMLP": lambda **where: FeaturedMLP(2, D, (5, 4), features=TupleFeatures(2, D, products=[0]), **where),
    "RNN": lambda **where: RNN(D, 3, **where),
    "GRU": lambda **where: GRU(D, 3, num_layers=2, **where),
    "LSTM": lambda **where: LSTM(D, 3, bidirectional=True, **where),
    "MinGRU": lambda **where: MinGRU(D, 3, **where),
    "BalancedTree": lambda **where: BalancedTree(D, 3, **where),
    "MonotoneLattice": lambda **where: MonotoneLattice(D, 3, increasing=[0], **where),
    "GatedAttention": lambda **where: GatedAttention(nn.Linear(D, 4), in_features=4, **where),
    "SelfAttention": lambda **where: SelfAttention(D, **where),
    "SeedAttention": lambda **where: SeedAttention(D, num_seeds=2, **where),
    "SlotAttention": lambda **where: SlotAttention(D, num_rounds=2, input_features=2, **where),
    "InducedAttention": lambda **where: InducedAttention(D, num_points=2, **where),
    "SetNorm": lambda **where: SetNorm(D, **where),
    "PooledNorm": lambda **where: PooledNorm(D, **where),
    "Autoregressive": lambda **where: Autoregressive(GRU(D, 3, per_position=True), Normals(D), **where),
    "IidMixture": lambda **where: IidMixture(Normals(D), num_components=2, **where),
    "CategoricalSizes": lambda **where: CategoricalSizes(4, **where),
    "NegativeBinomialSizes": NegativeBinomialSizes,
    "Readout": lambda **where: Readout(D, (5,), 2, **where),
    "ColumnEmbedding": lambda **where: ColumnEmbedding([3, 4], num_numbers=1, scaled=True, **where),
}
COMPOSED: dict[str, Callable[[], nn.Module]] = {
    "JanossyPooling": lambda: JanossyPooling(MADE["TupleMLP"](), Tuples(2)),
    "JanossyEquivariant": lambda: JanossyEquivariant(GRU(D, 3, per_position=True), AsGiven()),
    "Relations": lambda: Relations(MADE["TupleMLP"]()),
    "InnerSets": lambda: InnerSets(MADE["TupleMLP"]()),
    "GroupPooling": lambda: GroupPooling(MADE["TupleMLP"](), reversal(2)),
    "OrderWeights": lambda: JanossyPooling(GRU(D, 3), Canonical(key=(0, 1), order_weights=OrderWeights(2))),
    "PowerMean": lambda: JanossyPooling(GRU(D, 3), Sampled(2), reduce=PowerMean(3.0, learn=True)),
    "SoftmaxMean": lambda: JanossyPooling(GRU(D, 3), Sampled(2), reduce=SoftmaxMean(0.5, learn=True)),
    "MultiheadAttention": lambda: JanossyPooling(
        nn.Sequential(nn.TransformerEncoderLayer(D, 2, 6, batch_first=True), nn.Flatten()), Tuples(2)
    ),
    "BesidePooled": lambda: BesidePooled(JanossyPooling(MADE["TupleMLP"](), Tuples(2))),
    "CachedMean": lambda: CachedMean(nn.Linear(D, 3), num_elements=5, out_features=3),
    "ExchangeableDensity": lambda: ExchangeableDensity(MADE["Autoregressive"](), sizes=CategoricalSizes(3)),
    "JanossyNetwork": lambda: JanossyNetwork(
        nn.Linear(D, D),
        JanossyPooling(GRU(D, 3), Sampled(1)),
        nn.Linear(3, 1),
        encoder=SetEncoder([Residual(SelfAttention(D), norm=SetNorm(D))]),
    ),
}


def test_every_layer_with_weights_is_here():
    """Others are made of modules that are given, or have none."""
    without = {"Recurrence", "CachedMean", "PowerMean", "SoftmaxMean"}
    with_device = {
        name
        for room in (functions, layers, density)
        for name in room.__all__
        if isinstance(kind := getattr(room, name), type)
        and issubclass(kind, nn.Module)
        and "device" in signature(kind).parameters
    }
    assert with_device - without == set(MADE)


@pytest.mark.parametrize("name", MADE)
def test_made_on_a_device_in_a_precision(name):
    for where in ({"device": "meta"}, {"dtype": torch.float64}, {"device": "meta", "dtype": torch.bfloat16}):
        weights = [p for p in MADE[name](**where).parameters()]
        assert weights
        assert {p.device.type for p in weights} == {where.get("device", "cpu")}
        assert {p.dtype for p in weights} == {where.get("dtype", torch.float32)}


@pytest.mark.parametrize("name", [*MADE, *COMPOSED])
def test_drawn_anew_by_the_law_of_the_first_draw(name):
    """Every weight that is random changes; all are of the first draw's range and mean."""
    torch.manual_seed(0)
    layer = (MADE | COMPOSED)[name]()
    first = {name: p.detach().clone() for name, p in layer.named_parameters()}
    with torch.no_grad():
        for p in layer.parameters():
            p.fill_(100.0)
    layer.reset_parameters()
    for key, p in layer.named_parameters():
        assert p.abs().max() < 20, key
        if p.numel() > 1:
            is_constant = len(first[key].unique()) == 1
            assert torch.equal(p, first[key]) if is_constant else len(p.unique()) > 1, key


@pytest.mark.parametrize("name", ["MinGRU", "GRU"])
def test_a_network_is_saved_as_before(name, tmp_path):
    network = JanossyNetwork(pooling=JanossyPooling(MADE[name](dtype=torch.float64), Sampled(1)))
    assert next(load(save(network, tmp_path / "network")).parameters()).dtype == torch.float64
