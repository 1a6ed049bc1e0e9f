"""Layers from sets to sets: their definitions by brute force, and the laws of sets; networks with an encoder."""

import copy
from itertools import permutations
from math import log, log1p

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import prune

from janossy import (
    GRU,
    AllPermutations,
    Canonical,
    JanossyNetwork,
    JanossyPooling,
    PaddedNetwork,
    Ragged,
    Sampled,
    Stack,
    TupleMLP,
    TupleProduct,
    Tuples,
    export_onnx,
    predict,
)
from janossy import nn as layers
from janossy.evaluate import Spectral
from janossy.evaluate.tuples import relation_means
from janossy.evaluate.tuples import relations as module
from janossy.nn.encoder import pair_bias
from janossy.nn.encoder.padding import Padding
from janossy.saving import describe, rebuild, weights
from tests.examples import SET_LAYERS, SIZES, WIDTH, distinct_sets, generator, set_layer, tied_sets
from tests.laws import close, law_gradients, value_and_gradients
from tests.oracle import REDUCTIONS

pytestmark = pytest.mark.usefixtures("float64")

LAYERS = [name for name in SET_LAYERS if name != "equivariant"]  # which has tests of its own
PADDED = [name for name in LAYERS if not name.startswith(("beside_pooled", "relations"))]


# Definitions: of one set x (n, d), without a batch, a mask or torch's attention.


def attention(heads, queries, keys, bias=None):
    """Returns each query's mean of the values, weighed by softmax(q·k/√c + bias), head by head; zero over no keys."""
    q, k, v = (
        nn.functional.linear(x, *part)
        for x, *part in zip(
            (queries, keys, keys), heads.project.weight.chunk(3), heads.project.bias.chunk(3), strict=True
        )
    )
    width = heads.in_features // heads.num_heads
    rows = []
    for i, query in enumerate(q):
        of_heads = []
        for h in range(heads.num_heads):
            part = slice(h * width, (h + 1) * width)
            of_pairs = [0.0] * len(k) if bias is None else [bias(i, j)[h] for j in range(len(k))]
            scores = [(query[part] @ k[j][part] / width**0.5 + of_pairs[j]).exp() for j in range(len(k))]
            weighted = [s / sum(scores) * value[part] for s, value in zip(scores, v, strict=True)]
            of_heads.append(sum(weighted, torch.zeros(width)))
        rows.append(heads.out(torch.cat(of_heads)))
    return torch.stack(rows) if rows else queries


def competition(heads, slots, elements):
    """Returns what each slot reads if every element divides a weight of 1 among them, head by head."""
    q, k, v = (
        nn.functional.linear(x, *part)
        for x, *part in zip(
            (slots, elements, elements), heads.project.weight.chunk(3), heads.project.bias.chunk(3), strict=True
        )
    )
    width, found = heads.in_features // heads.num_heads, torch.zeros(len(slots), heads.in_features)
    for h in range(heads.num_heads):
        part, total = slice(h * width, (h + 1) * width), torch.zeros(len(slots), 1)
        read = torch.zeros(len(slots), width)
        for key, value in zip(k[:, part], v[:, part], strict=True):
            scores = torch.stack([(query @ key / width**0.5).exp() for query in q[:, part]])
            share = (scores / scores.sum())[:, None]
            total, read = total + share, read + share * value
        found = torch.cat((found[:, : part.start], read / total.clamp(min=1e-30), found[:, part.stop :]), 1)
    return heads.out(found)


def moments(queries, keys, x):
    """Returns log(share), mean and log(σ) of x in each slot, which divide the elements by their scores."""
    scores = [torch.stack([query @ key / len(key) ** 0.5 for query in queries]).softmax(0) for key in keys]
    if not scores:  # an empty set is like elements at 0 that no slot takes
        scores, x = [0 * queries[:, 0]], x.new_zeros(1, x.shape[1])
    found = []
    for taken in torch.stack(scores).T:
        share = taken.mean().clamp_min(1e-6)
        mean = (taken[:, None] * x).mean(0) / share
        variance = (taken[:, None] * (x - mean) ** 2).mean(0) / share
        found.append(torch.cat((share.log()[None], mean, (variance + 1e-4).log() / 2)))
    return torch.stack(found)


def relations(layer, x):
    """Returns f of every tuple that begins with the element, filled with zeros and then reduced."""
    found, filled = [], nn.functional.pad(x, (0, 0, 0, layer.k))  # zeros behind the elements
    for i in range(len(x)):
        others = [j for j in range(len(x)) if j != i]
        tuples = [
            (i, *rest, *range(len(x), len(x) + layer.k)) for rest in permutations(others, min(layer.k, len(x)) - 1)
        ]
        found.append(REDUCTIONS[layer.reduce](layer.f(torch.stack([filled[list(each[: layer.k])] for each in tuples]))))
    return torch.stack(found) if found else layer.f(filled[None, : layer.k])[:0]


def defined(layer, x, inputs=None):
    """Returns the layer's result for one set x (n, d), in an encoder that was given ``inputs`` for it."""
    inputs = x if inputs is None else inputs
    if isinstance(layer, layers.SelfAttention) and layer.bias is not None:
        return attention(layer.heads, x, x, lambda i, j: layer.bias(inputs[[i, j]][None])[0])
    if isinstance(layer, layers.SelfAttention):
        return attention(layer.heads, x, x)
    if isinstance(layer, layers.SeedAttention):
        return layer.seeds + attention(layer.heads, layer.seeds, x)
    if isinstance(layer, layers.SlotAttention):
        slots, read = layer.slots, layer.moments
        for number, each in enumerate(layer.rounds):
            slots = slots + competition(each.heads, each.norm(slots), layer.norm(x))
            slots = defined(each.feed_forward, defined(each.between, slots))
            if read is not None:
                queries = read.queries[number](read.norms[number](slots))
                found = moments(queries, read.keys(layer.norm(x)), inputs)
                last = number == len(layer.rounds) - 1
                slots = torch.cat((slots, found), 1) if last else slots + read.sums[number](found)
        return slots
    if isinstance(layer, layers.InducedAttention):
        return attention(layer.heads, x, defined(layer.inner, defined(layer.points, x)))
    if isinstance(layer, layers.Relations):
        return relations(layer, x)
    if isinstance(layer, layers.SetNorm):
        return (x - x.mean()) / ((x - x.mean()).square().mean() + layer.eps).sqrt() * layer.weight + layer.bias
    if isinstance(layer, layers.Residual):
        return x + defined(layer.layer, defined(layer.norm, x), inputs)
    if isinstance(layer, layers.AppendSize):
        size = len(x) if layer.largest_size is None else min(len(x), layer.largest_size)
        return torch.cat((x, torch.full((len(x), 1), log1p(size))), 1)
    if isinstance(layer, layers.BesidePooled):
        pairs = [(i, j) for i in range(len(x)) for j in range(len(x)) if i != j]
        rows = torch.stack([x[[i, j]] for i, j in pairs]) if pairs else nn.functional.pad(x, (0, 0, 0, 2))[None, :2]
        return torch.cat((x, layer.pooling.f(rows).mean(0).expand(len(x), -1)), 1)
    if isinstance(layer, layers.ConcatenatedElements):
        return x.flatten()[None]
    if isinstance(layer, layers.SetEncoder):
        for each in layer.layers:
            x = defined(each, x, inputs)
        return x
    return layer(x)


class Defined(nn.Module):
    """A layer's weights, used as its definition says."""

    orderings = AllPermutations()

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, sets):
        return Ragged.from_sets([defined(self.layer, x) for x in sets])


class Undrawn(Defined):
    def forward(self, sets):
        return self.layer(sets)


def test_every_layer_is_exampled():
    found = {type(module) for name in SET_LAYERS for module in set_layer(name).modules()}
    named = {getattr(layers, name) for name in layers.__all__}
    ours = {kind for kind in named if isinstance(kind, type) and issubclass(kind, layers.SetLayer)}
    assert ours - {layers.SetLayer, layers.InnerSets} <= found  # InnerSets is tested by test_inner_sets.py


@pytest.mark.parametrize("sets", [distinct_sets, tied_sets])
@pytest.mark.parametrize("name", LAYERS)
def test_definition(name, sets):
    """In value, and in the gradients of the elements and of every parameter."""
    layer, sets = set_layer(name), sets(width=WIDTH).to(torch.float64)
    assert layer(sets).sizes == Defined(layer)(sets).sizes
    pairs = zip(
        value_and_gradients(Undrawn(layer), sets), value_and_gradients(Defined(layer), sets), strict=True
    )  # an empty set's SetNorm has no statistics, and no elements
    tolerance = {"atol": 1e-9, "rtol": 1e-9} if name.startswith("relations") else {}  # that of series is 1e-10
    for got, expected in pairs:
        close(got, expected, **tolerance)


@pytest.mark.parametrize("name", SET_LAYERS)
def test_the_laws_of_sets(name):
    """A result depends on its own set alone, and moves with its element; a batch-mate of NaN changes nothing."""
    layer, sets = set_layer(name), distinct_sets(width=WIDTH)
    together = layer(sets)
    for b in range(len(sets)):
        close(layer(sets[[b]])[0], together[b])
    assert len(layer(sets[:0])) == 0
    shuffles = [torch.randperm(n, generator=generator(b)) for b, n in enumerate(sets.sizes)]
    shuffled = layer(Ragged.from_sets([x[order] for x, order in zip(sets, shuffles, strict=True)]))
    for found, expected, order in zip(shuffled, together, shuffles, strict=True):
        close(found, expected[order] if layer.keeps_sizes else expected)
    spoilt = sets.values.clone()
    spoilt[sets.offsets[2] : sets.offsets[3]] = torch.nan
    for b, found in enumerate(layer(sets.with_values(spoilt))):
        if b != 2:
            close(found, together[b])


@given(st.lists(st.integers(0, 40), max_size=30))
def test_sets_are_padded_and_come_back(sizes):
    """Whatever their sizes: each in one group, among places of its own elements, with as many that are real."""
    sets = Ragged.from_sizes(torch.arange(sum(sizes)), sizes)
    padding, owners = Padding.of(sets), sets.to_index()[1]
    parts, masks, of_sets = padding.pad(sets.values), padding.masks(), padding.of_sets(torch.arange(len(sizes)))
    for part, mask, numbers in zip(parts, masks, of_sets, strict=True):
        real = part == part if mask is None else mask[:, 0, 0]
        assert (owners[part] == numbers[:, None]).all()
        assert real.sum(1).tolist() == [sizes[b] for b in numbers.tolist()]
    assert torch.equal(padding.unpad(parts), sets.values)
    told = padding.to_sets(of_sets)
    assert [b for b in told.tolist() if b] == [b for b, n in enumerate(sizes) if n and b]
    assert sum(len(part) * (part.shape[1] + 32) * part.shape[1] for part in parts) <= 1.2 * sum(
        n * (n + 32) for n in sizes
    ) + 2**14 * max(1, len(parts))


ALIKE = ("self_attention_of_one_head", "induced_attention_inner", "relations_by_sorting", "relations_of_products")
"""Layers whose operations other examples differentiate too."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.only_all if name in ALIKE else [])
        for name in LAYERS
        if not name.startswith(("encoder", "relations_max"))
    ],
)
def test_two_derivatives(name):
    """By torch's attention in plain operations."""
    with sdpa_kernel(SDPBackend.MATH):
        law_gradients(Undrawn(set_layer(name)), distinct_sets((3, 0, 1, 2), width=WIDTH), twice=True)


@pytest.mark.parametrize("sizes", [(), (0, 0)])
@pytest.mark.parametrize("name", SET_LAYERS)
def test_a_batch_without_elements_gives_every_weight_a_gradient(name, sizes):
    """DistributedDataParallel waits for each."""
    layer, values = set_layer(name), torch.zeros(0, WIDTH, requires_grad=True)
    layer(Ragged.from_sizes(values, list(sizes))).values.sum().backward()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in (values, *layer.parameters()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", LAYERS)
def test_half_precision(name, dtype):
    sets = distinct_sets(width=WIDTH)
    found = set_layer(name).to(dtype)(sets.to(dtype)).values
    assert found.dtype == dtype
    close(found.double(), set_layer(name)(sets).values, atol=0.06, rtol=0.06)


@pytest.mark.parametrize(
    "name",
    [
        *("relations", "relations_where_cheaper", "relations_by_sorting", "relations_of_triples"),
        *("relations_enumerated", "relations_of_products"),
    ],
)
def test_relations_without_tuples_equal_those_of_rows(name):
    """For sets that are not small, of numbers that reach far; pairs of 20 elements are not enumerated by themselves."""
    sizes = (20, 2, 9, 0, 20, 1) if name == "relations_where_cheaper" else (9, 2, 12, 9)
    layer, sets = set_layer(name), distinct_sets(sizes, width=WIDTH)
    by_rows = layers.Relations(layer.f, reduce=layer.reduce, evaluate="gather")
    sets = sets.with_values(20 * sets.values)
    pairs = zip(value_and_gradients(Undrawn(layer), sets), value_and_gradients(Undrawn(by_rows), sets), strict=True)
    for got, expected in pairs:
        close(got, expected, atol=1e-6 if name == "relations_of_products" else 3e-8, rtol=1e-9)


@pytest.mark.parametrize("name", ["relations", "relations_of_triples"])
def test_relations_without_kernels(name, monkeypatch):
    layer, sets = set_layer(name), distinct_sets((5, 7, 1), width=WIDTH)
    found = value_and_gradients(Undrawn(layer), sets)
    monkeypatch.setattr(relation_means, "on_kernels_eagerly", lambda _: False)
    for got, expected in zip(value_and_gradients(Undrawn(layer), sets), found, strict=True):
        close(got, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("k", [2, 4])
def test_relations_by_series_under_torch_func(k):
    layer, sets = (
        layers.Relations(TupleMLP(k, WIDTH, 3, activation="tanh"), evaluate="spectral"),
        distinct_sets((40, 12), width=WIDTH),
    )

    def functional(values):
        return layer(sets.with_values(values)).values.square().sum()

    values = sets.values.clone().requires_grad_()
    close(torch.func.grad(functional)(sets.values), torch.autograd.grad(functional(values), values)[0])


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("activation", ["tanh", "softplus"])
def test_relations_of_numbers_out_of_the_reach_of_series(k, kernels, activation, monkeypatch):
    """Beside a set whose numbers are not finite, and one that a series takes."""
    if not kernels:
        monkeypatch.setattr(relation_means, "on_kernels_eagerly", lambda _: False)
    f = TupleMLP(k, WIDTH, 3, activation=activation)
    sets = distinct_sets((24, 12, 24, 1) if k == 2 else (11, 5, 11, 1), width=WIDTH)
    scales = torch.tensor([1e6, 1e6, 1.0, 1.0]).repeat_interleave(torch.tensor(sets.sizes))
    sets = sets.with_values(sets.values * scales[:, None])
    found, expected = (
        value_and_gradients(Undrawn(layers.Relations(f, evaluate=how)), sets) for how in ("auto", "gather")
    )
    for got, want in zip(found, expected, strict=True):
        close(got, want, atol=1e-8, rtol=1e-9)
    sets.values[0] = torch.nan
    assert torch.equal(layers.Relations(f)(sets).values.isnan().any(1), torch.arange(len(sets.values)) < sets.sizes[0])


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("kernels", [True, False])
def test_relations_enumerate_tuples_that_are_fewer_than_harmonics(k, kernels, monkeypatch):
    """They are of one set; a set that reaches less far is computed by series, whatever is beside it."""
    monkeypatch.setattr(relation_means, "on_kernels_eagerly", lambda _: kernels)
    monkeypatch.setattr(module, "on_kernels_eagerly", lambda _: kernels)
    seen = []
    monkeypatch.setattr(module, "series_relations", lambda p, offsets, sizes, *_: seen.append(sizes) or p[:, 0])
    sets = Ragged.from_sizes(torch.randn(90, WIDTH).double(), [45, 45])
    sets = sets.with_values(sets.values * torch.tensor([3e3, 3.0]).double().repeat_interleave(45)[:, None])
    layer = layers.Relations(TupleMLP(k, WIDTH, 3, activation="tanh").double())
    found = layer(sets)
    assert seen == [(45,)]
    close(found[0], layers.Relations(layer.f, evaluate="gather")(sets[:1]).values)


def test_relations_of_too_many_tuples_out_of_the_reach_of_series():
    sets = Ragged.from_sets([1e6 * torch.randn(4000, 2)])
    with pytest.raises(ValueError, match=r"a series can reach; got .* Scale the elements"):
        layers.Relations(TupleMLP(2, 2, 3, activation="tanh"))(sets)


def test_each_set_is_computed_the_cheapest_way(monkeypatch):
    """By series or by tuples, as its size and ``evaluate`` say."""
    seen = []

    def spy(name):
        computed = getattr(module, name)

        def call(p, *arguments):
            sizes = next(x for x in arguments if isinstance(x, tuple))
            seen.append((name.removesuffix("_relations"), *sizes))
            return computed(p, *arguments)

        monkeypatch.setattr(module, name, call)

    for name in ("series_relations", "enumerated_relations", "relu_relations"):
        spy(name)
    sets, pairs = distinct_sets((30, 17, 1), width=WIDTH), TupleMLP(2, WIDTH, 3, activation="tanh")
    for f, evaluate, expected in (
        (pairs, "auto", {("series", 30), ("enumerated", 17, 1)}),
        (pairs, "spectral", {("series", 30), ("enumerated", 17, 1)}),
        (pairs, Spectral(enumerate_up_to=40), {("enumerated", 30, 17, 1)}),
        (pairs, Spectral(enumerate_up_to=0), {("series", 30, 17), ("enumerated", 1)}),
        (pairs, "projected", {("enumerated", 30, 17, 1)}),
        (TupleMLP(2, WIDTH, 3, activation="relu"), "auto", {("relu", 30), ("enumerated", 17, 1)}),
        (TupleMLP(2, WIDTH, 3, activation="relu"), "fused", {("relu", 30, 17), ("enumerated", 1)}),
        (TupleMLP(3, WIDTH, 3, activation="relu"), "auto", {("enumerated", 30, 17, 1)}),
    ):
        seen.clear()
        layers.Relations(f, evaluate=evaluate)(sets)
        assert set(seen) == expected


@pytest.mark.parametrize(("k", "large"), [(2, 3e8), (3, 3e4)])
def test_relations_of_products_beside_a_large_element(k, large):
    """In float32, where power sums less those of the large element would lose the others."""
    f = TupleProduct(k, 1, 1, g=lambda j: nn.Identity())
    x = torch.tensor([[large], [1.0], [2.0], [-4.0]])
    found = layers.Relations(f)(Ragged.from_sets([x.float(), x[:2].float()])).values
    expected = [relations(layers.Relations(f), each) for each in (x, x[:2])]
    assert found.dtype == torch.float32
    close(found.double(), torch.cat(expected), rtol=1e-6, atol=0)


def test_log_mean_exp_of_relations_beside_infinity():
    layer = layers.Relations(lambda rows: rows[:, 1], k=2, reduce="logmeanexp")
    inf = torch.inf
    x = torch.tensor([[-inf, 1.0, inf], [-inf, inf, 0.0], [-inf, 2.0, -inf]])
    expected = torch.stack([(x[[j for j in range(3) if j != i]].logsumexp(0) - log(2)) for i in range(3)])
    close(layer(Ragged.from_sets([x])).values, expected)


def test_relations_take_memory_linear_in_the_set():
    """A hundred thousand pairs each, in float32: the tolerance holds, by a sample of elements."""
    torch.manual_seed(0)
    layer = layers.Relations(TupleMLP(2, 3, 8, activation="tanh")).float()
    sets = Ragged.from_sets([torch.randn(20_000, 3, dtype=torch.float32)])
    found = layer(sets).values
    p = layer.f.structure().project(sets.values).double()
    for i in (0, 77, 19_999):
        pairs = (p[i, 0] + p[:, 1]).tanh()
        close(found[i].double(), (pairs.sum(0) - pairs[i]) / 19_999, atol=1.1e-5, rtol=0)


def test_a_bias_is_computed_in_pieces(monkeypatch):
    """With the same value and gradients, for sets of unlike sizes; and its cost counts."""
    layer, sets = set_layer("self_attention_biased"), distinct_sets((7, 0, 3, 6, 1), width=WIDTH)
    expected = value_and_gradients(Undrawn(layer), sets)
    called, forward = [], TupleMLP.forward

    def spy(self, x):
        called.append(len(x))
        return forward(self, x)

    monkeypatch.setattr(TupleMLP, "forward", spy)
    monkeypatch.setattr(pair_bias, "MEMORY_BUDGET", 4000)
    for got, wanted in zip(value_and_gradients(Undrawn(layer), sets), expected, strict=True):
        close(got, wanted)
    assert len(called) > 10 and max(called) < 12
    assert layer.seconds(sets) > set_layer("self_attention").seconds(sets)


@pytest.mark.parametrize("others", [(), (2,)])
def test_a_group_has_no_more_sets_than_a_grid_has_blocks(others):
    sizes = (1,) * 70_000 + others
    groups = Padding(sizes, torch.device("cpu")).groups
    assert sum(num_sets for num_sets, _, _ in groups) == len(sizes)
    assert all(num_sets <= 65_535 for num_sets, _, _ in groups)


def test_set_norm_of_numbers_that_half_precision_cannot_sum():
    sets = Ragged.from_sets([torch.full((4000, 4), 40.0) + torch.arange(4) % 2]).to(torch.float16)
    found = layers.SetNorm(4).to(torch.float16)(sets).values
    close(found.double(), sets.values.double() * 2 - 81, atol=2e-2, rtol=0)


@pytest.mark.parametrize("name", PADDED)
def test_padded_sets(name):
    """The numbers that stand in padding do not count."""
    layer, sets = set_layer(name), distinct_sets(width=WIDTH)
    x, mask = sets.to_padded(fill=7)
    found, real = layer.padded(x, mask)
    close(found[real], layer(sets).values)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("encoder_of_seeds", (3, 0, 4, 2)),
        pytest.param("encoder_of_seeds", (4, 4, 4), marks=pytest.mark.only_all),
        pytest.param("encoder", SIZES, marks=pytest.mark.only_all),
    ],
)
def test_compiled(name, sizes):
    torch.compiler.reset()
    layer, sets = set_layer(name), distinct_sets(sizes, width=WIDTH)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    close(compiled(sets).values, layer(sets).values)


# Networks with an encoder.


def network(orderings=None, f=None, encoder="encoder"):
    torch.manual_seed(3)
    pooling = JanossyPooling(f or GRU(WIDTH, 3), orderings or Sampled(1))
    return JanossyNetwork(nn.Linear(2, WIDTH), pooling, nn.Linear(3, 2), encoder=set_layer(encoder))


def of_seeds():
    return network(Tuples(1), TupleMLP(1, 2 * WIDTH, 3), "encoder_of_seeds")


NETWORKS = {
    "sampled": network,
    "canonical": lambda: network(Canonical()),
    "pairs": lambda: network(Tuples(2), TupleMLP(2, WIDTH, 3)),
    "seeds": of_seeds,
}


def test_h_then_the_encoder_then_orders_of_the_input():
    net, sets = network(Canonical(key=0)), distinct_sets()
    elements = net.encoder(sets.with_values(net.h(sets.values)))
    close(net(sets), net.rho(net.pooling(elements, keys=sets)))
    close(net(sets, elements=elements), net(sets))


def test_the_mean_over_all_orders_and_its_error_bar():
    net, sets = network().eval(), distinct_sets((3, 4))
    exact = net.rows(sets, AllPermutations())
    expected = torch.stack([rows.mean(0) for rows in exact])
    close(predict(net, sets, 1000).mean, expected)  # all orders, once each
    some = predict(net, distinct_sets((7, 8)), 40, seed=0)
    assert (some.standard_error > 0).all()
    truth = torch.stack([rows.mean(0) for rows in net.rows(distinct_sets((7, 8)), AllPermutations())])
    assert ((some.mean - truth).abs() < 5 * some.standard_error).all()


def test_pi_sgd_trains_the_encoder():
    net, sets = network(), distinct_sets()
    net(sets, generator=generator()).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
    assert all(p.grad.any() for name, p in net.encoder.named_parameters() if "project.bias" not in name)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_stack_of_networks(name):
    nets = [NETWORKS[name]().eval() for _ in range(2)]
    for p in nets[1].parameters():
        p.data += 0.1
    sets, sources = distinct_sets(), [generator(1), generator(2)]
    each = [net(sets, generator=generator(seed)) for net, seed in zip(nets, (1, 2), strict=True)]
    stack = Stack(nets)
    close(stack(sets, generators=sources), torch.stack(each))
    assert "encoder: network by network" in stack.explain(sets)


def of_slots():
    return network(Tuples(1), TupleMLP(1, WIDTH, 3), "slot_attention")


@pytest.mark.parametrize("made", [*NETWORKS.values(), of_slots])
def test_what_is_saved_comes_back(made):
    net = made().eval()
    again = rebuild(describe(net), weights(net))
    assert repr(again) == repr(net)
    sets = distinct_sets()
    close(again(sets, generator=generator()), net(sets, generator=generator()))
    assert "encoder" not in describe(JanossyNetwork(net.h, net.pooling, net.rho))


@pytest.mark.parametrize("name", ["canonical", "pairs", "seeds"])
def test_a_padded_network(name):
    net, sets = NETWORKS[name]().eval(), distinct_sets()
    x, mask = sets.to_padded(fill=3)
    close(PaddedNetwork(net)(x, mask), net(sets))
    spoilt = x.masked_fill(~mask[..., None], torch.nan).requires_grad_()
    PaddedNetwork(net)(spoilt, mask).sum().backward()
    assert spoilt.grad.isfinite().all()


@pytest.mark.only_all  # tests/test_export.py exports others
def test_torch_export():
    net = of_seeds().eval()
    program = torch.export.export(
        PaddedNetwork(net),
        distinct_sets().to_padded(),
        dynamic_shapes=({0: torch.export.Dim("B", min=0), 1: torch.export.Dim("n", min=0)},) * 2,
    )
    for sizes in ((7, 2), (0,), ()):
        sets = distinct_sets(sizes)
        close(program.module()(*sets.to_padded()), net(sets))


@pytest.mark.only_all
def test_onnx(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    net = of_seeds().float().eval()
    export_onnx(net, tmp_path / "net.onnx", example=distinct_sets().to(torch.float32))
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    for sizes in ((7, 2, 0), (1,)):
        sets = distinct_sets(sizes).to(torch.float32)
        x, mask = sets.to_padded()
        found = session.run(None, {"x": x.numpy(), "mask": mask.numpy()})[0]
        close(torch.from_numpy(found), net(sets).detach(), atol=1e-5, rtol=1e-5)


def test_a_layer_without_a_padded_form_is_refused():
    net = network(Canonical(), encoder="equivariant")
    with pytest.raises(ValueError, match=r"layers with a padded form; got JanossyEquivariant"):
        PaddedNetwork(net)(*distinct_sets().to_padded())


def test_copies_and_modes():
    net = network(Canonical())
    net.encoder = set_layer("encoder_of_seeds").layers[0]  # attention with dropout
    sets = distinct_sets()
    assert torch.equal(net(sets), net(sets))
    net.train()
    assert not torch.equal(net(sets), net(sets))
    again = copy.deepcopy(net).eval()
    close(again(sets), net.eval()(sets))


# Bad input: one clear error each.

ELEMENTS = distinct_sets(width=WIDTH).to(torch.float64)
SEEDS = layers.SetEncoder([layers.SeedAttention(WIDTH, num_seeds=2)])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: layers.SelfAttention(6, num_heads=4), ValueError, "num_heads to divide in_features=6; got"),
        (lambda: layers.SeedAttention(4, num_seeds=0), ValueError, "num_seeds, all >= 1; got num_seeds=0"),
        (lambda: layers.SlotAttention(4, num_rounds=0), ValueError, "num_rounds, all >= 1; got .*num_rounds=0"),
        (lambda: layers.SlotAttention(8)(ELEMENTS), ValueError, r"elements \(N, 8\) .*; got \(14, 4\)"),
        (
            lambda: layers.SlotAttention(4, input_features=3)(ELEMENTS),
            ValueError,
            "input_features=3 columns; got 4. Write input_features=4",
        ),
        (
            lambda: layers.SetEncoder([SEEDS, layers.SlotAttention(4, input_features=4)]),
            ValueError,
            "got SlotAttention behind one. Put it before the seeds, or leave out bias= or input_features=",
        ),
        (lambda: layers.SeedAttention(8)(ELEMENTS), ValueError, r"elements \(N, 8\) .*; got \(14, 4\)"),
        (lambda: layers.SetNorm(3)(ELEMENTS), ValueError, r"this SetNorm expects elements \(N, 3\)"),
        (lambda: layers.InducedAttention(4, inner=SEEDS), TypeError, "one result per point, or None; got one"),
        (lambda: layers.Residual(SEEDS), TypeError, "gives one result per element; got one of type SetEncoder"),
        (lambda: layers.Residual(nn.Linear(4, 3))(ELEMENTS), ValueError, r"keeps the width; got Linear from \(14, 4\)"),
        (lambda: layers.ConcatenatedElements(2)(ELEMENTS), ValueError, "sets of 2, as SeedAttention makes"),
        (lambda: layers.BesidePooled(nn.Linear(2, 2)), TypeError, "expects a JanossyPooling; got Linear"),
        (lambda: layers.Relations(GRU(4, 3)), ValueError, "expects the k of f; got k=None and none. Give k="),
        (lambda: layers.Relations(TupleMLP(2, 4, 3), k=3), ValueError, "got k=3 and f of k=2"),
        (
            lambda: layers.Relations(TupleMLP(2, 4, 3, activation="relu"), evaluate="spectral"),
            ValueError,
            "expects evaluate='spectral' for an f that it is for; got TupleMLP with reduce='mean', which takes 'fused'",
        ),
        (lambda: layers.SelfAttention(4, bias=TupleMLP(3, 4, 4)), ValueError, "reads pairs; got TupleMLP of k=3"),
        (
            lambda: layers.SelfAttention(4, bias=TupleMLP(2, 4, 3))(ELEMENTS),
            ValueError,
            r"one number per head, \(T, 4\); got \(\d+, 3\)",
        ),
        (
            lambda: layers.attention_blocks(4, num_points=2, bias=lambda: TupleMLP(2, 4, 4)),
            ValueError,
            "as induced points are not elements",
        ),
        (
            lambda: layers.SetEncoder([SEEDS, layers.Residual(layers.SelfAttention(4, bias=TupleMLP(2, 4, 4)))]),
            ValueError,
            "before those that make other sets; got Residual behind one",
        ),
        (lambda: layers.SetEncoder([]), ValueError, "at least one layer; got none"),
        (lambda: layers.SetEncoder([3]), TypeError, r"a list of modules; got \[3\]"),
        (
            lambda: JanossyNetwork(pooling=JanossyPooling(GRU(4, 3), Sampled(1)), encoder=nn.Linear(4, 4)),
            TypeError,
            r"encoder to be a layer from sets to sets, or None; got Linear. Write encoder=SetEncoder",
        ),
        (
            lambda: JanossyNetwork(pooling=JanossyPooling(GRU(4, 3), Sampled(1)), encoder=SEEDS),
            ValueError,
            "Tuples or AllPermutations behind an encoder that puts seeds in the place of elements.*got Sampled",
        ),
        (lambda: of_seeds()(distinct_sets(), Canonical()), ValueError, "Tuples or AllPermutations behind an encoder"),
        (
            lambda: network(Tuples(2), TupleMLP(2, 5, 3))(distinct_sets()),
            ValueError,
            r"this TupleMLP expects rows of shape \(T, 2, 5\); got",
        ),
        (
            lambda: JanossyNetwork(pooling=network().pooling, encoder=set_layer("encoder"))(
                Ragged.from_sets([torch.tensor([3, 1])])
            ),
            ValueError,
            r"of floating-point numbers; got \(2,\) in torch.int64. Match its in_features .*, or give h",
        ),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


class Adapted(nn.Module):
    """A layer with low-rank weights of its own beside it, as libraries for adaptation make."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.low = nn.Linear(base.in_features, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.low(x)


def adapted(projections: dict[str, nn.Linear], owner: nn.Module) -> None:
    for name, layer in projections.items():
        owner.get_submodule(name.rpartition(".")[0]).project = changed = Adapted(copy.deepcopy(layer))
        layer.weight.data += changed.low.weight.data


def hooked(projections: dict[str, nn.Linear], owner: nn.Module) -> None:
    for name, layer in projections.items():
        owner.get_submodule(name).register_forward_hook(lambda layer, args, out: 2 * out)
        layer.weight.data *= 2
        layer.bias.data *= 2


def pruned(projections: dict[str, nn.Linear], owner: nn.Module) -> None:
    for name, layer in projections.items():
        changed = prune.l1_unstructured(owner.get_submodule(name), "weight", 0.5)
        changed.weight_orig.data *= 2  # as by a step of an optimiser; the hook then computes the weight again
        layer.weight.data *= 2 * changed.weight_mask


def without_bias(projections: dict[str, nn.Linear], owner: nn.Module) -> None:
    for name, layer in projections.items():
        owner.get_submodule(name).bias = None
        layer.bias.data.zero_()


@pytest.mark.parametrize("change", [adapted, hooked, pruned, without_bias])
@pytest.mark.parametrize("name", ["self_attention", "induced_attention", "seed_attention", "slot_attention"])
@pytest.mark.parametrize("padded", [True, False])
def test_attention_calls_projections_that_a_user_changed(name, change, padded):
    layer, sets = set_layer(name), distinct_sets((3, 0, 5), width=WIDTH)
    before, expected = layer(sets).values, copy.deepcopy(layer)
    change({name: part for name, part in expected.named_modules() if name.endswith("project")}, layer)
    if padded:
        close(layer.padded(*sets.to_padded())[0], expected.padded(*sets.to_padded())[0])
    else:
        close(layer(sets).values, expected(sets).values)
    assert not torch.equal(layer(sets).values, before)
