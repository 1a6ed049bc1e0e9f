"""save and load: every part comes back as it was; what is not ours is named."""

import copy
import json

import numpy as np
import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    BalancedTree,
    Canonical,
    Combinations,
    Distinct,
    ImportanceSampled,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    Spectral,
    TupleMLP,
    TupleProduct,
    Tuples,
    predict,
)
from janossy.evaluate import EVALUATORS
from janossy.nn import ColumnEmbedding, PooledNorm, Readout, SetEncoder, statistics
from janossy.orderings import Learned, OrderWeights
from janossy.saving import describe, load, rebuild, save, weights
from janossy.saving.parts import KINDS, NAMES
from tests.examples import (
    FUNCTIONS,
    ORDERINGS,
    SET_LAYERS,
    WIDTH,
    Convolution,
    D,
    Transformer,
    build,
    distinct_sets,
    set_layer,
    tying_key,
)

OURS = [name for name in FUNCTIONS if name not in ("transformer", "convolution")]
UNCHANGED = [name for name in SET_LAYERS if set_layer(name).keeps_sizes]
KEYED = [
    name for name, orderings in ORDERINGS.items() if any(map(callable, getattr(orderings, "each_key", (None,))))
] + ["combinations_3_tying_key", *(name for name in ORDERINGS if name.startswith("learned"))]
WEIGHED = [name for name, orderings in ORDERINGS.items() if callable(getattr(orderings, "weights", None))]


def network(f=None, orderings=None, h=None, rho=None, **options) -> JanossyNetwork:
    return JanossyNetwork(h, JanossyPooling(f or GRU(D, 3), orderings or Canonical(), **options), rho)


def law_comes_back(net, path, sets=None, context=None) -> JanossyNetwork:
    """Returns the same parts in evaluation mode, the same weights, the same outputs for the same draws."""
    sets = distinct_sets() if sets is None else sets
    again = load(save(net, path))
    assert repr(again) == repr(net) and not any(module.training for module in again.modules())
    assert repr(again.pooling.orderings) == repr(net.pooling.orderings)  # whose modules are others
    assert again.pooling.choice.asked == net.pooling.choice.asked
    assert again.pooling.memory_budget == net.pooling.memory_budget
    assert again.state_dict().keys() == net.state_dict().keys()
    for name, weight in weights(again).items():
        assert torch.equal(weight, weights(net)[name]) and weight.dtype == weights(net)[name].dtype
    assert [p.requires_grad for p in again.parameters()] == [True] * len(list(net.parameters()))

    def outputs(of):
        torch.default_generator.manual_seed(5)
        return of.eval()(sets, context=context)

    assert torch.equal(outputs(again), outputs(copy.deepcopy(net)))
    assert describe(again) == describe(net)
    return again


@pytest.mark.parametrize("suffix", ["", ".zip"])
@pytest.mark.parametrize("function", OURS)
def test_functions(function, suffix, tmp_path):
    orderings = Tuples(2) if FUNCTIONS[function].needs_k else Sampled(2)
    law_comes_back(network(build(function, 2), orderings, evaluate="gather"), tmp_path / f"model{suffix}")


@pytest.mark.parametrize("ordering", [name for name in ORDERINGS if name not in KEYED + WEIGHED])
def test_orderings(ordering, tmp_path):
    f = TupleMLP(ORDERINGS[ordering].k, D, 3) if getattr(ORDERINGS[ordering], "k", None) else None
    law_comes_back(network(f, ORDERINGS[ordering]), tmp_path / "model")


def test_scorers(tmp_path):
    net = network(orderings=Learned(nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Linear(4, 1)), num_permutations=3))
    again = law_comes_back(net, tmp_path / "model").pooling
    assert again.of_orderings[0] is again.orderings.scorer


def test_keys_and_weights_of_orders(tmp_path):
    net = network(orderings=Canonical(key=(nn.Linear(D, 1), 0), order_weights=OrderWeights(2)))
    nn.init.normal_(net.pooling.orderings.order_weights.logits)
    again = law_comes_back(net, tmp_path / "model").pooling
    assert again.of_orderings[0] is again.orderings.key[0] and again.of_orderings[1] is again.orderings.order_weights


def test_numpy_integers_come_back_as_plain_ones(tmp_path):
    net = network(TupleMLP(np.int64(2), np.int64(D), np.int32(3)), Sampled(np.int64(3), k=2, seed=np.int64(7)))
    again = load(save(net, tmp_path / "model"))
    assert type(again.pooling.orderings.num_permutations) is int and again.pooling.orderings == net.pooling.orderings


@pytest.mark.parametrize("evaluator", [*EVALUATORS, Spectral(tolerance=1e-7, enumerate_up_to=3)], ids=repr)
def test_evaluators(evaluator, tmp_path):
    again = load(save(network(evaluate=evaluator), tmp_path / "model"))
    assert again.pooling.choice.asked == evaluator


MODULES = {
    "sequential": nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Sequential(), nn.Linear(4, 2)),
    "activations": nn.Sequential(
        nn.LeakyReLU(0.3), nn.ELU(2.0), nn.GELU("tanh"), nn.SiLU(), nn.Sigmoid(), nn.Softplus(2.0), nn.Tanh()
    ),
    "norms": nn.Sequential(
        nn.LayerNorm(3), nn.LayerNorm([3], elementwise_affine=False), nn.LayerNorm(3, bias=False), nn.BatchNorm1d(3),
        nn.BatchNorm1d(3, affine=False, momentum=None), PooledNorm(3, eps=1e-3), nn.Dropout(0.3), nn.Flatten(),
        nn.Identity(),
    ),
    "readout": Readout(3, (5, 4), 2, first=PooledNorm(3), activation="gelu", dropout=0.2),
    "linear readout": Readout(3, (), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_modules(name, tmp_path):
    net = network(rho=MODULES[name], h=nn.Sequential(nn.Linear(D, D), nn.Tanh()))
    for _ in range(3):
        net.train()(distinct_sets())  # running statistics
    law_comes_back(net, tmp_path / "model")


def test_columns_and_context(tmp_path):
    h = ColumnEmbedding([4, 3], num_numbers=1, scaled=True)
    rho = Readout(5, 4, 2, embed=ColumnEmbedding([3], num_numbers=2, embedding_features=2))
    f, some = TupleMLP(2, h.out_features + 1, 5), Distinct(3, k=2)
    net = network(f, Tuples(2), h, rho, append_size="log", largest_size=1, memory_budget=10**6, orderings_train=some)
    assert load(save(net, tmp_path / "first")).pooling.orderings_train == some
    table = torch.tensor([[1.0, 2.0, 0.5], [3.0, 0.0, -1.0], [2.0, 2.0, 0.0]])
    law_comes_back(net, tmp_path / "model", Ragged.from_sizes(table, [2, 0, 1]), torch.ones(3, 3))


def test_embeddings_and_bilinear(tmp_path):
    sets = Ragged.from_sets([torch.tensor([3, 1]), torch.tensor([5])])
    net = network(h=nn.Embedding(9, D, padding_idx=2, max_norm=1.5), rho=nn.Bilinear(3, 2, 4))
    law_comes_back(net, tmp_path / "model", sets, torch.ones(2, 2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_precision_is_kept(dtype, tmp_path):
    net = network(rho=nn.BatchNorm1d(3)).to(dtype)
    again = load(save(net, tmp_path / "model"))
    assert again.rho.running_mean.dtype == dtype and again.rho.num_batches_tracked.dtype == torch.int64
    assert again.pooling.f.weight_ih_l0.dtype == dtype


def test_what_is_loaded_trains(tmp_path):
    net = load(save(network(rho=nn.Linear(3, 1)), tmp_path / "model"))
    net.train()(distinct_sets()).sum().backward()
    assert all(p.grad is not None and p.is_leaf for p in net.parameters())
    before = weights(net)["rho.weight"].clone()
    torch.optim.SGD(net.parameters(), lr=1.0).step()
    assert not torch.equal(weights(net)["rho.weight"], before)
    assert torch.equal(load(tmp_path / "model").rho.weight, before)


def test_a_description_is_json_and_rebuilds_without_files():
    net = network(build("featured_mlp", 2), Tuples(2))
    description = json.loads(json.dumps(describe(net)))
    again = rebuild(description, weights(net))
    assert torch.equal(predict(again, distinct_sets()).mean, predict(net, distinct_sets()).mean)


def test_every_part_is_tested():
    """By the examples above: a part that nobody saves may be wrong."""
    nets = [network(build(function, 2), Tuples(2)) for function in OURS]
    nets += [network(orderings=orderings) for name, orderings in ORDERINGS.items() if name not in KEYED + WEIGHED]
    nets += [network(rho=module) for module in MODULES.values()]
    nets += [network(evaluate=evaluator) for evaluator in EVALUATORS]
    nets += [network(h=ColumnEmbedding([3], num_numbers=0)), network(h=nn.Embedding(3, 2), rho=nn.Bilinear(3, 2, 4))]
    f = TupleMLP(1, 2 * WIDTH, 3)
    nets += [network(orderings=ImportanceSampled(2)), network(orderings=Canonical())]
    nets += [network(orderings=Canonical(order_weights=OrderWeights(1))), network(orderings=Learned(nn.ReLU()))]
    nets += [JanossyNetwork(None, network().pooling, None, encoder=SetEncoder([set_layer(name)])) for name in UNCHANGED]
    nets += [JanossyNetwork(pooling=JanossyPooling(f, Tuples(1)), encoder=set_layer("encoder_of_seeds"))]
    pooling = JanossyPooling(TupleMLP(1, WIDTH, 3), Tuples(1))
    nets += [JanossyNetwork(pooling=pooling, encoder=set_layer("slot_attention"))]
    text = json.dumps([describe(net) for net in nets])
    # AttentionMean is saved by tests/estimators/test_strategies.py, statistics by tests/nn/test_statistics.py, the
    # reductions by tests/nn/test_own_reductions.py, InnerSets by tests/nn/test_inner_sets.py.
    elsewhere = {"AttentionMean", "InnerSets", "PowerMean", "Quantile", "SoftmaxMean", *statistics.__all__}
    assert {name for name in KINDS if "." not in name and f'"part": "{name}"' not in text} <= elsewhere
    assert len(NAMES) == len(KINDS)


# What cannot be saved.


class Mine(nn.Module):
    def forward(self, x):
        return x


class MyMLP(TupleMLP):
    def forward(self, x):
        return 2 * super().forward(x)


def changed(f, name, module):
    f.set_submodule(name, module)
    return f


def hooked():
    net = network()
    net.pooling.f.register_forward_hook(lambda *_: None)
    return net


def overridden():
    net = network()
    net.rho.forward = lambda x: 2 * x
    return net


def tied():
    layer = nn.Linear(3, 3)
    return network(rho=nn.Sequential(layer, layer))


class Mean:
    name = "mean"

    def why_not_applicable(self, problem):
        return None

    def cost(self, problem):
        return None


REFUSED = {
    "rho": (
        lambda: network(rho=nn.Sequential(nn.ReLU(), Mine())),
        r"got network.rho.modules\[1\], of type Mine, which",
    ),
    "h": (lambda: network(h=Mine()), "got network.h, of type Mine"),
    "f": (lambda: network(Transformer()), "got network.pooling.f, of type Transformer"),
    "another f": (lambda: network(Convolution()), "network.pooling.f, of type Convolution"),
    "a function as f": (lambda: network(lambda x: x.sum(1)), "got network.pooling.f, of type function"),
    "a subclass": (lambda: network(MyMLP(2, D, 3), Tuples(2)), "network.pooling.f, of type MyMLP"),
    "a key": (lambda: network(orderings=Combinations(2, key=tying_key)), "pooling.orderings.key, of type function"),
    "a module as key": (lambda: network(orderings=Canonical(key=(0, Mine()))), r"orderings.key\[1\], of type Mine"),
    "weights": (lambda: network(orderings=ImportanceSampled(2, weights=tying_key)), "orderings.weights, of type funct"),
    "an evaluator": (lambda: network(evaluate=Mean()), "network.pooling.evaluate, of type Mean"),
    "torch's part that is none": (lambda: network(rho=nn.Softmax(1)), "network.rho, of type Softmax"),
    "a layer within f": (
        lambda: network(changed(TupleMLP(2, D, 3), "hidden.0", Mine()), Tuples(2)),
        "network.pooling.f.hidden.0, of type Mine",
    ),
    "another layer within f": (
        lambda: network(changed(TupleMLP(2, D, 3), "hidden.0", nn.Linear(2 * D, 3, bias=False)), Tuples(2)),
        "weights as the parts of a network make them",
    ),
    "a combine": (lambda: network(BalancedTree(D, 3, combine=Mine())), "network.pooling.f.combine, of type Mine"),
    "a factor": (
        lambda: network(TupleProduct(2, D, 3, g=[nn.Linear(D, 3), Mine()]), Tuples(2)),
        r"pooling.f.g\[1\], of type Mine",
    ),
    "a hook": (hooked, "a network without hooks, which are code; got one"),
    "a forward of its own": (overridden, "network.rho, of type Identity, which is unknown or was changed"),
    "ties": (tied, "share no memory; got rho.0.weight and rho.1.weight|weights as the parts"),
    "names": (lambda: network(rho=named()), "network.rho.a, of type ReLU"),
}


def named():
    layers = nn.Sequential()
    layers.add_module("a", nn.ReLU())
    return layers


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_ours_is_named_and_nothing_is_written(case, tmp_path):
    build_network, message = REFUSED[case]
    net = build_network()
    with pytest.raises(ValueError, match=message) as caught:
        save(net, tmp_path / "model")
    assert "torch.save" in str(caught.value) or "clone" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_what_is_no_network():
    with pytest.raises(TypeError, match=r"janossy.saving expects a JanossyNetwork; got Linear"):
        describe(nn.Linear(2, 3))
