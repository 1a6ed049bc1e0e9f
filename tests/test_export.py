"""PaddedNetwork equals the Ragged network; so do its exported graphs, at sizes that export did not see."""

import os
import re
import subprocess
import sys
from itertools import permutations

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, stack_module_state, vmap

from janossy import (
    GRU,
    LSTM,
    RNN,
    AllPermutations,
    BalancedTree,
    Canonical,
    Combinations,
    JanossyNetwork,
    JanossyPooling,
    MinGRU,
    Ragged,
    Sampled,
    TupleMLP,
    TupleProduct,
    Tuples,
)
from janossy.export import PaddedNetwork, export_onnx
from janossy.export.tuples import MAX_ELEMENTS
from janossy.nn import SelfAttention, SetEncoder
from tests.examples import Transformer, small_mlp, tying_key
from tests.laws import close
from tests.oracle import pool_by_definition

float64 = pytest.mark.usefixtures("float64")

SIZES = [(5, 7), (1, 1), (1, 9), (6, 1), (3, 0), (0, 4), (4, 30)]
"""Numbers of sets and of places that no export below has seen."""


def named(orderings) -> str:
    """Returns the name without the addresses of its key, in which workers would differ."""
    return re.sub(r" at 0x\w+", "", str(orderings))


def root_key(x):
    """Returns a key of two columns that often tie."""
    return torch.stack((x[:, 1].sign(), x[:, 0].clamp(min=0).sqrt()), dim=1)


def network(f, orderings=None, *, h=None, reduce="mean", out=2, **sizes):
    """Returns a network that runs as on Ragged sets, by ``gather``: no kernel is compiled for it."""
    torch.manual_seed(1)
    orderings = orderings or Canonical()
    width = f(torch.zeros(1, getattr(orderings, "k", None) or 1, getattr(f, "in_features", 2))).shape[1]
    pooling = JanossyPooling(f, orderings, evaluate="gather", reduce=reduce, **sizes)
    return JanossyNetwork(h, pooling, nn.Sequential(nn.Linear(width, 5), nn.Tanh(), nn.Linear(5, out))).eval()


def padded_sets(num_sets, n, features=2, seed=2):
    """Sets with equal elements and ties, real anywhere in their row; the first is empty if there are several."""
    source = torch.Generator().manual_seed(seed)
    x = torch.randint(-1, 2, (num_sets, n, features), generator=source).to(torch.get_default_dtype())
    mask = torch.rand(num_sets, n, generator=source) > 0.4
    if num_sets > 1:
        mask[0] = False
    return x, mask


def ragged(model, x, mask):
    return model(Ragged.from_padded(x, mask))


def by_noise(model, x, mask, noise):
    """Returns the definition: f of each permutation's elements, alone."""
    rows = []
    for each, real, noises in zip(x, mask, noise, strict=True):
        sequences = [each[u.argsort()[real[u.argsort()]]] for u in noises]
        values = torch.cat([model.pooling.f(model.h(sequence)[None]) for sequence in sequences])
        rows.append(model.rho(values.mean(0)))
    return torch.stack(rows)


class Reciprocal(nn.Module):
    """An h that is infinite for the zeros that stand in padding."""

    def forward(self, x):
        return x.reciprocal()


FUNCTIONS = {
    "rnn": lambda d: RNN(d, 3),
    "gru": lambda d: GRU(d, 3),
    "lstm": lambda d: LSTM(d, 3),
    "rnn_bidirectional": lambda d: RNN(d, 3, bidirectional=True),
    "gru_3_layers": lambda d: GRU(d, 3, num_layers=3),
    "lstm_2_layers_bidirectional": lambda d: LSTM(d, 3, num_layers=2, bidirectional=True),
    "min_gru": lambda d: MinGRU(d, 3),
    "min_gru_3_layers": lambda d: MinGRU(d, 3, num_layers=3),
    "balanced_tree": lambda d: BalancedTree(d, 3),
}

TUPLE_FUNCTIONS = {
    "tuple_mlp": lambda k: TupleMLP(k, 2, 4, activation="relu"),
    "tuple_mlp_deep": lambda k: TupleMLP(k, 2, (5, 4), out_features=3, activation="softplus"),
    "tuple_product": lambda k: TupleProduct(k, 2, 4),
    "tuple_product_of_mlps": lambda k: TupleProduct(k, 2, 4, out_features=3, g=small_mlp),
    "gru": lambda k: GRU(2, 3, unrolled=True),
}
"""Sums of projections, products of factors, and one that is neither."""

TUPLES = [Tuples(k) for k in range(1, MAX_ELEMENTS + 1)]
COMBINATIONS = [Combinations(k, key=key) for k, key in enumerate((root_key, None, tying_key, None), start=1)]


def of_every_size(n, features=2):
    """Returns sets of 0, 1, …, n elements, at random among n places."""
    x = torch.randn(n + 1, n, features, generator=torch.Generator().manual_seed(5))
    noise = torch.rand(n + 1, n, generator=torch.Generator().manual_seed(6))
    return x, noise.argsort(1).argsort(1) < torch.arange(n + 1)[:, None]


@float64
@pytest.mark.parametrize("key", [None, tying_key, root_key, (1, None)])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("append_size", [False, True, "log"])
def test_equals_the_ragged_network(function, append_size, key):
    model = network(FUNCTIONS[function](3 if append_size else 2), Canonical(key), append_size=append_size)
    for sizes in SIZES:
        x, mask = padded_sets(*sizes)
        close(PaddedNetwork(model)(x, mask), ragged(model, x, mask))


@float64
@pytest.mark.parametrize("reduce", ["mean", "sum", "max", "logmeanexp"])
def test_reduces_as_the_ragged_network(reduce):
    """Both permutations of sets of two elements, or none, by noise: AllPermutations."""
    model = network(LSTM(2, 3), Sampled(2), reduce=reduce)
    exact = JanossyNetwork(None, JanossyPooling(model.pooling.f, AllPermutations(), reduce=reduce), model.rho)
    x, noise = torch.randn(4, 2, 2), torch.tensor([[0.1, 0.2], [0.2, 0.1]]).expand(4, 2, 2)
    mask = torch.tensor([[True, True], [False, False], [True, True], [True, True]])
    close(PaddedNetwork(model)(x, mask, noise), ragged(exact, x, mask))


class WeighedByPlace(nn.Module):
    """A function of a user's own that takes a mask."""

    takes_mask = True

    def forward(self, x, mask=None):
        weighed = x * torch.arange(1, x.shape[1] + 1)[:, None].sqrt()
        return (weighed if mask is None else weighed.masked_fill(~mask[..., None], 0)).sum(1)


@float64
@pytest.mark.parametrize("f", [GRU(2, 3), MinGRU(2, 3), WeighedByPlace()], ids=["gru", "min_gru", "own"])
def test_permutations_by_noise(f):
    model = network(f.double(), Sampled(5))
    for num_sets, n in SIZES[:4]:
        x, mask = padded_sets(num_sets, n)
        noise = torch.rand(num_sets, 3, n)
        close(PaddedNetwork(model)(x, mask, noise), by_noise(model, x, mask, noise))


@float64
def test_permutations_are_drawn_without_noise():
    """They are as many as Sampled says, uniform: within 7 standard errors of the mean over all six."""
    model = network(GRU(2, 3), Sampled(6000))
    model.rho = nn.Identity()
    x, mask = torch.randn(1, 4, 2), torch.tensor([[True, False, True, True]])
    every = torch.tensor([[a, 9.0, b, c] for a, b, c in permutations(range(3))])[:, None]
    each = torch.cat([by_noise(model, x, mask, noise[None]) for noise in every])
    drawn = PaddedNetwork(model)(x, mask)
    assert (drawn - each.mean(0)).abs().le(7 * each.std(0) / 6000**0.5).all()
    assert not torch.equal(drawn, PaddedNetwork(model)(x, mask))


@float64
def test_embedded_integers():
    model = network(GRU(4, 3), h=nn.Embedding(9, 4))
    x, mask = torch.randint(9, (5, 6)), torch.rand(5, 6) > 0.4
    close(PaddedNetwork(model)(x, mask), ragged(model, x, mask))


@float64
def test_elements_of_several_dimensions():
    model = network(GRU(6, 3), h=nn.Flatten(), orderings=Canonical(lambda x: x[:, 0]))
    x, mask = torch.randint(2, (4, 5, 2, 3)).double(), torch.rand(4, 5) > 0.4
    close(PaddedNetwork(model)(x, mask), ragged(model, x, mask))


@float64
@pytest.mark.parametrize("orderings", [*TUPLES, *COMBINATIONS], ids=named)
@pytest.mark.parametrize("function", TUPLE_FUNCTIONS)
def test_tuples_by_definition(function, orderings):
    model = network(TUPLE_FUNCTIONS[function](orderings.k), orderings)
    for n in (0, 2, 5):
        x, mask = of_every_size(n)
        expected = torch.stack(pool_by_definition(model.pooling, Ragged.from_padded(x, mask)))
        close(PaddedNetwork(model)(x, mask), model.rho(expected))


@float64
@pytest.mark.parametrize("reduce", ["sum", "max", "logmeanexp"])
@pytest.mark.parametrize("orderings", [Tuples(2), Combinations(3)], ids=named)
def test_tuples_reduced(orderings, reduce):
    model = network(TupleMLP(orderings.k, 2, 4), orderings, reduce=reduce)
    x, mask = of_every_size(5)
    expected = torch.stack(pool_by_definition(model.pooling, Ragged.from_padded(x, mask)))
    close(PaddedNetwork(model)(x, mask), model.rho(expected))


@float64
@pytest.mark.parametrize("orderings", [Tuples(2), Combinations(2, key=root_key)], ids=named)
def test_tuples_of_embedded_elements(orderings):
    """Canonical orders are those of the input, sizes are appended, and the zero vector is not h of a zero."""
    model = network(TupleMLP(2, 4, 5), orderings, h=nn.Linear(2, 3), append_size=True)
    for sizes in SIZES:
        x, mask = padded_sets(*sizes)
        close(PaddedNetwork(model)(x, mask), ragged(model, x, mask))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(dtype):
    """300 · 299 pairs of values that sum to more than float16 holds."""
    f = TupleMLP(2, 1, 2, out_features=1, activation="relu").to(dtype)
    for parameter in f.parameters():
        nn.init.ones_(parameter)
    model = JanossyNetwork(None, JanossyPooling(f, Tuples(2), evaluate="gather"), None)
    x, mask = torch.ones(2, 300, 1, dtype=dtype), torch.ones(2, 300, dtype=torch.bool)
    assert torch.equal(PaddedNetwork(model)(x, mask), ragged(model, x, mask))


class LogDistance(nn.Module):
    """An f whose value and gradient are infinite for a pair of equal elements."""

    in_features = 2

    def forward(self, x):
        return (x[:, 0] - x[:, 1]).square().sum(1, keepdim=True).log()


@float64
@pytest.mark.parametrize("orderings", [Tuples(2), Combinations(2)], ids=named)
def test_no_other_rows_than_the_definitions(orderings):
    model = JanossyNetwork(None, JanossyPooling(LogDistance(), orderings, evaluate="gather"), None)
    x, mask = of_every_size(5)
    x, mask = x[1:], mask[1:]  # both elements of an empty set's pair are the zero vector
    values = []
    for run in (PaddedNetwork(model), lambda x, mask: ragged(model, x, mask)):
        leaf = x.clone().requires_grad_()
        y = run(leaf, mask)
        values.append((y, *torch.autograd.grad(y.square().sum(), leaf)))
        assert all(tensor.isfinite().all() for tensor in values[-1])
    for got, want in zip(*values, strict=True):
        close(got, want)


NETWORKS = {
    **{name: lambda f=f, **options: network(f(2), **options) for name, f in FUNCTIONS.items()},
    "tuples": lambda **options: network(TupleMLP(2, 2, (4, 3)), Tuples(2), **options),
    "combinations": lambda **options: network(
        TupleProduct(3, 2, 4, out_features=3), Combinations(3), reduce="logmeanexp", **options
    ),
    "transformer_of_combinations": lambda **options: network(Transformer(), Combinations(2), **options),
}


@float64
@pytest.mark.parametrize("h", [nn.Linear(2, 2), Reciprocal()], ids=["linear", "reciprocal"])
@pytest.mark.parametrize("name", NETWORKS)
def test_padding_never_matters(name, h):
    """Nor is a gradient another than that of Ragged sets."""
    model = NETWORKS[name](h=h).double()
    padded = PaddedNetwork(model)
    x, mask = torch.randn(5, 6, 2), padded_sets(5, 6)[1]

    def results(filled, run=padded):
        filled = filled.clone().requires_grad_()
        y = run(filled, mask)
        return y, *torch.autograd.grad(y.square().sum(), [filled, *model.parameters()])

    expected = results(x)
    assert expected[1][mask].any() and not expected[1][~mask].any()
    for got, want in zip(expected, results(x, lambda x, mask: ragged(model, x, mask)), strict=True):
        close(got, want)
    assert all(tensor.isfinite().all() for tensor in expected)
    for fill in (torch.nan, torch.inf, 1e30):
        for got, want in zip(results(x.masked_fill(~mask[..., None], fill)), expected, strict=True):
            assert torch.equal(got, want)


@float64
@pytest.mark.parametrize(
    "name", ["rnn", "gru", "lstm_2_layers_bidirectional", "min_gru_3_layers", "tuples", "combinations"]
)
def test_two_derivatives(name):
    padded = PaddedNetwork(NETWORKS[name](out=1))
    names = [name for name, _ in padded.named_parameters()]
    x, mask = torch.randn(3, 4, 2), torch.tensor([[0, 0, 0, 0], [1, 0, 1, 1], [0, 1, 0, 1]]).bool()

    def run(x, *parameters):
        return functional_call(padded, dict(zip(names, parameters, strict=True)), (x, mask))

    inputs = [tensor.detach().clone().requires_grad_() for tensor in (x, *padded.parameters())]
    assert gradcheck(run, inputs, fast_mode=True)
    assert gradgradcheck(run, inputs, fast_mode=True)


@float64
def test_vmap_over_networks():
    models = [PaddedNetwork(network(LSTM(2, 3, num_layers=2, bidirectional=True), Sampled(2))) for _ in range(3)]
    for i, model in enumerate(models):
        torch.manual_seed(i)
        nn.init.normal_(model.network.pooling.f.weight_hh_l0)
    parameters, buffers = stack_module_state(models)
    x, mask = padded_sets(5, 6)
    noise = torch.rand(5, 2, 6)
    together = vmap(lambda p, b: functional_call(models[0], (p, b), (x, mask, noise)))(parameters, buffers)
    close(together, torch.stack([model(x, mask, noise) for model in models]))
    assert not torch.equal(together[0], together[1])


@float64
@pytest.mark.parametrize("name", ["min_gru_3_layers", "tuples", "combinations"])
def test_vmap_of_other_functions(name):
    models = [PaddedNetwork(NETWORKS[name]()) for _ in range(3)]
    for model in models[1:]:
        for parameter in model.parameters():
            nn.init.normal_(parameter)
    parameters, buffers = stack_module_state(models)
    x, mask = padded_sets(5, 6)
    together = vmap(lambda p, b: functional_call(models[0], (p, b), (x, mask)))(parameters, buffers)
    close(together, torch.stack([model(x, mask) for model in models]))


def dynamic(*names):
    dims = {name: torch.export.Dim(name, min=0) for name in "Bmn"}
    return tuple({i: dims[name] for i, name in enumerate(axes)} for axes in names)


@float64
@pytest.mark.parametrize(
    ("f", "num_scans"), [(RNN(3, 3), 1), pytest.param(LSTM(3, 3, bidirectional=True), 2, marks=pytest.mark.only_all)]
)
def test_torch_export(f, num_scans):
    model = network(f.double(), Canonical(root_key), append_size=True)
    padded = PaddedNetwork(model)
    program = torch.export.export(padded, padded_sets(2, 3), dynamic_shapes=dynamic("Bn", "Bn"))
    assert sum(node.target is torch.ops.higher_order.scan for node in program.graph.nodes) == num_scans
    module = program.module()
    for sizes in SIZES:
        x, mask = padded_sets(*sizes)
        close(module(x, mask), ragged(model, x, mask))


@float64
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(lambda: network(TupleMLP(1, 2, 4), Tuples(1), reduce="sum"), marks=pytest.mark.only_all),
        lambda: network(TupleProduct(2, 2, 4, out_features=3, g=small_mlp), Tuples(2), reduce="max"),
        pytest.param(
            lambda: network(TupleMLP(4, 3, (4, 3)), Combinations(4), append_size=True), marks=pytest.mark.only_all
        ),
        pytest.param(lambda: network(GRU(2, 3), Combinations(2, key=root_key)), marks=pytest.mark.only_all),
    ],
    ids=["tuples_1", "tuples_2", "combinations_4", "gru_of_combinations"],
)
def test_torch_export_of_other_functions(model):
    model = model()
    module = torch.export.export(PaddedNetwork(model), padded_sets(2, 4), dynamic_shapes=dynamic("Bn", "Bn")).module()
    for num_sets, n in SIZES:
        x, mask = padded_sets(num_sets, min(n, 9))
        close(module(x, mask), ragged(model, x, mask))


def test_a_tree_is_exported_for_one_number_of_elements():
    model = network(BalancedTree(2, 3))
    example, sizes = padded_sets(2, 4), dynamic("B", "B")
    module = torch.export.export(PaddedNetwork(model), example, dynamic_shapes=sizes).module()
    x, mask = padded_sets(5, 4)
    close(module(x, mask), ragged(model, x, mask), atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match="BalancedTree is exported for one number"):
        torch.export.export(PaddedNetwork(model), example, dynamic_shapes=dynamic("Bn", "Bn"))


@pytest.mark.only_all  # test_torch_export exports a recurrence too
@float64
def test_torch_export_with_noise(tmp_path):
    """And from a file."""
    model = network(RNN(2, 3), Sampled(2), reduce="logmeanexp")
    padded = PaddedNetwork(model)
    with pytest.raises(ValueError, match="noise"):
        torch.export.export(padded, padded_sets(2, 3), dynamic_shapes=dynamic("Bn", "Bn"))
    example = (*padded_sets(2, 3), torch.rand(2, 4, 3))
    program = torch.export.export(padded, example, dynamic_shapes=dynamic("Bn", "Bn", "Bmn"), strict=True)
    torch.export.save(program, tmp_path / "program.pt2")
    module = torch.export.load(tmp_path / "program.pt2").module()
    for num_permutations, (num_sets, n) in enumerate(SIZES, start=1):
        inputs = (*padded_sets(num_sets, n), torch.rand(num_sets, num_permutations, n))
        close(module(*inputs), padded(*inputs))


def session(path):
    """Returns an exported model as a function of tensors."""
    onnxruntime = pytest.importorskip("onnxruntime")
    loaded = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [given.name for given in loaded.get_inputs()]
    assert [made.name for made in loaded.get_outputs()] == ["y"]

    def run(*inputs):
        feed = dict(zip(names, (tensor.numpy() for tensor in inputs), strict=True))
        return torch.from_numpy(loaded.run(["y"], feed)[0])

    return run


ONNX_TOLERANCE = {"atol": 1e-5, "rtol": 0}


@pytest.mark.parametrize(
    ("model", "features"),
    [
        pytest.param(network(RNN(4, 8), h=nn.Embedding(9, 4)), None, marks=pytest.mark.only_all),  # as GRU
        (network(GRU(4, 8), Canonical(root_key), h=nn.Linear(2, 3), append_size=True), 2),
        pytest.param(network(MinGRU(2, 8, num_layers=2)), 2, marks=pytest.mark.only_all),
        pytest.param(
            network(
                TupleMLP(3, 4, (8, 6)),
                Combinations(3, key=root_key),
                h=nn.Linear(2, 3),
                append_size=True,
                largest_size=4,
            ),
            2,
            marks=pytest.mark.only_all,
        ),
    ],
    ids=["rnn_of_embedding", "gru_by_a_key", "min_gru", "combinations"],
)
def test_onnx(model, features, tmp_path):
    def sets(num_sets, n):
        x, mask = padded_sets(num_sets, n, features or 1)
        return (x, mask) if features else (x[..., 0].long() + 1, mask)

    export_onnx(model, tmp_path / "model.onnx", example=Ragged.from_padded(*sets(1, 5)))
    run = session(tmp_path / "model.onnx")
    for sizes in SIZES:
        x, mask = sets(*sizes)
        close(run(x, mask), ragged(model, x, mask).detach(), **ONNX_TOLERANCE)


@pytest.mark.only_all
@pytest.mark.parametrize("f", [RNN(2, 8), LSTM(2, 8, num_layers=2, bidirectional=True)])
def test_onnx_of_permutations(f, tmp_path):
    model = network(f, Sampled(2)).train()
    export_onnx(model, tmp_path / "model.onnx", example=padded_sets(1, 1))
    run = session(tmp_path / "model.onnx")
    assert all(module.training for module in model.modules())
    for num_permutations, (num_sets, n) in enumerate(SIZES, start=1):
        x, mask = padded_sets(num_sets, n)
        noise = torch.rand(num_sets, num_permutations, n)
        expected = PaddedNetwork(model)(x, mask, noise).detach()
        close(run(x.masked_fill(~mask[..., None], torch.nan), mask, noise), expected, **ONNX_TOLERANCE)


def tuple_product_network():
    torch.manual_seed(7)
    return network(TupleProduct(2, 2, 8, out_features=4), Tuples(2), reduce="logmeanexp")


EXPORT_AND_WARN = """
import sys, logging, warnings
from janossy import export_onnx
from tests.test_export import padded_sets, tuple_product_network

export_onnx(tuple_product_network().train(), sys.argv[1], example=padded_sets(2, 3))
print("exported")
print("exported", file=sys.stderr)
warnings.warn("warned")
logging.getLogger("torch").warning("logged")
"""


@pytest.mark.only_all
def test_onnx_is_quiet(tmp_path):
    """Nothing on either stream, in a process of its own; and warnings are then shown again."""
    pytest.importorskip("onnxscript")
    command = [sys.executable, "-W", "always::UserWarning", "-c", EXPORT_AND_WARN, str(tmp_path / "model.onnx")]
    paths = os.pathsep.join(path for path in [os.getcwd(), *sys.path] if path)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    assert done.stdout == "exported\n"
    assert done.stderr.startswith("exported\n"), done.stderr
    assert "warned" in done.stderr and "logged" in done.stderr
    run, model = session(tmp_path / "model.onnx"), tuple_product_network()
    for sizes in SIZES:
        x, mask = padded_sets(*sizes)
        close(run(x, mask), ragged(model, x, mask).detach(), **ONNX_TOLERANCE)


def test_onnx_needs_its_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"janossy\[onnx\]"):
        export_onnx(network(GRU(2, 3)), tmp_path / "model.onnx", example=padded_sets(2, 3))


class Overriding(JanossyNetwork):
    def forward(self, sets):
        return -super().forward(sets)


class OwnPooling(JanossyPooling):
    def forward(self, *args, **options):
        return -super().forward(*args, **options)


class OwnLayer(SelfAttention):
    def forward(self, sets):
        return super().forward(sets)


def hooked_network(name: str) -> JanossyNetwork:
    encoder = SetEncoder([SelfAttention(2, num_heads=1)])
    made = JanossyNetwork(None, JanossyPooling(GRU(2, 3), Canonical()), encoder=encoder)
    made.get_submodule(name).register_forward_hook(lambda *_: None)
    return made


def hooked_gru():
    f = GRU(2, 3)
    f.register_forward_hook(lambda *_: None)
    return f


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (JanossyPooling(GRU(2, 3), Canonical()), "expects a JanossyNetwork.*got JanossyPooling"),
        (Overriding(None, JanossyPooling(GRU(2, 3), Canonical()), None), "got a forward of its own in Overriding"),
        (JanossyNetwork(None, JanossyPooling(Transformer(), Canonical()), None), "RNN, GRU or LSTM.*got Transformer"),
        (network(hooked_gru()), "without hooks.*got a hook in the pooling"),
        (hooked_network(""), "got a hook on the network"),
        (hooked_network("pooling"), "got a hook on the pooling"),
        (hooked_network("encoder"), "got a hook on the encoder's SetEncoder"),
        (hooked_network("encoder.layers.0"), "got a hook on the encoder's SelfAttention"),
        (JanossyNetwork(None, OwnPooling(GRU(2, 3), Canonical())), "got a forward of its own in OwnPooling"),
        (JanossyNetwork(None, JanossyPooling(GRU(2, 3), Canonical()), encoder=OwnLayer(2, num_heads=1)), "in OwnLayer"),
        (network(GRU(2, 3), AllPermutations()), r"Canonical.*got AllPermutations"),
        (network(TupleMLP(5, 2, 3), Tuples(5)), r"k <= 4.*got Tuples\(k=5"),
        (network(GRU(2, 3), Sampled(2, k=2)), "without k, seed and exact_last"),
        (network(GRU(2, 3), Sampled(2, seed=1)), "without k, seed and exact_last"),
        (network(GRU(2, 3), Sampled(2, exact_last=2)), "without k, seed and exact_last"),
    ],
)
def test_networks_it_does_not_compute(model, message):
    with pytest.raises(ValueError, match=message):
        PaddedNetwork(model)


def test_a_hook_that_comes_later_is_refused():
    padded = PaddedNetwork(network(GRU(2, 3)))
    handle = padded.network.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match=r"got a hook on the network\. Remove it"):
        padded(*padded_sets(3, 4))
    handle.remove()
    padded(*padded_sets(3, 4))


def test_inputs_it_does_not_take():
    x, mask = padded_sets(3, 4)
    padded, sampled = PaddedNetwork(network(GRU(2, 3))), PaddedNetwork(network(GRU(2, 3), Sampled()))
    for bad in ((x, mask.float()), (x, mask[:, :2]), (x[0, 0], mask)):
        with pytest.raises(ValueError, match=r"a bool mask \(B, n\)"):
            padded(*bad)
    for model in (padded, PaddedNetwork(network(TupleMLP(2, 2, 3), Tuples(2)))):
        with pytest.raises(ValueError, match=r"no noise under (Canonical|Tuples)"):
            model(x, mask, torch.rand(3, 1, 4))
    few = PaddedNetwork(network(TupleMLP(2, 2, 3), Tuples(2, max_rows=35)))
    with pytest.raises(ValueError, match=r"needs 36, over max_rows=35; use smaller batches or Ragged sets"):
        few(x, mask)
    with pytest.raises(ValueError, match=r"the same k for f and orderings; got TupleMLP of k=3"):
        PaddedNetwork(JanossyNetwork(None, JanossyPooling(TupleMLP(3, 2, 3), Tuples(2)), None))(x, mask)
    for noise in (torch.rand(3, 4), torch.rand(3, 1, 5)):
        with pytest.raises(ValueError, match=r"noise \(B, m, n\)"):
            sampled(x, mask, noise)


def test_dropout_is_refused_in_training_only():
    model = network(GRU(2, 3, num_layers=2, dropout=0.5))
    x, mask = padded_sets(3, 4)
    close(PaddedNetwork(model)(x, mask), ragged(model, x, mask), atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match=r"no dropout; got dropout=0\.5"):
        PaddedNetwork(model.train())(x, mask)
