"""The kernels as operators of torch: opcheck, vmap and jacobians as gather's, what is computed and when."""

import pytest
import torch
from torch.func import functional_call, grad, jacrev, stack_module_state, vmap

from janossy.evaluate import on_kernels
from janossy.evaluate.tuples import operators
from tests.examples import distinct_sets, pooling
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

SIZES = (3, 0, 5, 1, 2)
PARAMETERS = {
    "tuple_mean": (False, "gelu"),
    "series_mean": (True, "tanh", 1e-6, 0),
    "product_mean": (False,),
}
LAYERS = {
    "fused": "tuple_mlp_one_layer_tanh",
    "spectral": "tuple_mlp_one_layer_gelu",
    "permanent": "tuple_product_of_mlps",
}
each_layer = pytest.mark.parametrize(("evaluator", "function"), LAYERS.items())


def kernels():
    return pytest.importorskip("janossy.kernels").load() or pytest.skip("needs numba")


def numbers(dtype=torch.float64, width=4):
    return torch.randn(sum(SIZES), 3, width, dtype=dtype, generator=torch.Generator().manual_seed(0))


def offsets():
    return torch.tensor([0, *SIZES]).cumsum(0)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("with_slopes", [False, True])
@pytest.mark.parametrize("name", PARAMETERS)
def test_opcheck(name, with_slopes, dtype, requires_grad):
    kernels()
    p = numbers(dtype).requires_grad_(requires_grad)
    operator = getattr(torch.ops.janossy, name).default
    torch.library.opcheck(operator, (p, offsets(), *PARAMETERS[name], with_slopes))


def test_numbers_that_are_not_contiguous():
    kernels()
    p = numbers().permute(2, 0, 1).contiguous().permute(1, 2, 0)
    for name, parameters in PARAMETERS.items():
        operator = getattr(torch.ops.janossy, name)
        close(operator(p, offsets(), *parameters, True), operator(p.contiguous(), offsets(), *parameters, True))


def functions(evaluator, function):
    """Returns the layer as a function of its weights and of elements, and some of both."""
    layers = []
    for seed in range(3):
        layer = pooling("tuples_2", function, evaluator)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for p in layer.parameters():
                p.add_(torch.randn(p.shape, generator=generator))
        layers.append(layer)
    weights, _ = stack_module_state(layers)
    sets = distinct_sets((3, 0, 1, 4))

    def run(weights, values):
        return functional_call(layers[0], weights, (sets.with_values(values),))

    values = torch.randn(3, *sets.values.shape, generator=torch.Generator().manual_seed(5))
    return run, weights, values


def one(weights, b):
    return {name: p[b].detach() for name, p in weights.items()}


@each_layer
def test_an_ensemble_by_vmap(evaluator, function):
    run, weights, values = functions(evaluator, function)
    loop = torch.stack([run(one(weights, b), values[b]) for b in range(3)])
    assert not loop[0].isclose(loop[1]).all()
    close(vmap(run)(weights, values), loop)
    close(vmap(run, (0, None))(weights, values[1])[1], loop[1])
    close(vmap(run, (None, 0))(one(weights, 2), values)[2], loop[2])

    slope = grad(lambda weights, values: run(weights, values).sin().sum(), (0, 1))
    got = vmap(slope)(weights, values)
    for b in range(3):
        of_weights, of_values = slope(one(weights, b), values[b])
        close(got[1][b], of_values)
        for name in of_weights:
            close(got[0][name][b], of_weights[name])


@each_layer
def test_jacobians_of_jacobians(evaluator, function):
    run, weights, values = functions(evaluator, function)
    reference, _, _ = functions("gather", function)
    for derivative in (jacrev, lambda f, argnums: jacrev(jacrev(f, argnums), argnums)):
        got, want = (derivative(f, 1)(one(weights, 0), values[0]) for f in (run, reference))
        assert want.abs().max() > 0.01
        close(got, want)


@each_layer
def test_second_derivatives_are_gather_s(evaluator, function):
    """A gradient penalty: by the elements and by the weights."""
    results = []
    for name in (evaluator, "gather"):
        layer, sets = pooling("combinations_2", function, name), distinct_sets((4, 0, 1, 3))
        values = sets.values.clone().requires_grad_()
        (slope,) = torch.autograd.grad(layer(sets.with_values(values)).sin().sum(), values, create_graph=True)
        results.append(torch.autograd.grad(slope.square().sum(), [values, *layer.parameters()], allow_unused=True))
    assert results[0][0].abs().max() > 1e-4  # so that 1e-12 sees it
    for got, want in zip(*results, strict=True):
        if want is None:
            assert got is None or not got.any()
        else:
            close(got, want)


def test_mapping_over_sets_is_refused():
    kernels()
    many, p = torch.stack((offsets(), offsets())), numbers()
    with pytest.raises(NotImplementedError, match="janossy::tuple_mean can be mapped over p only; every call has the"):
        vmap(lambda o: operators.TUPLE_MEANS.means(p, o, False, "tanh"))(many)


@pytest.fixture
def slopes_asked_for(monkeypatch):
    """Records if each call of a kernel asked for slopes."""
    seen = []

    def spying(kernel):
        def spy(*arguments):
            seen.append(arguments[-2])
            return kernel(*arguments)

        return spy

    spied = type(kernels())(*(spying(kernel) for kernel in kernels()))
    monkeypatch.setattr(on_kernels, "load", lambda: spied)
    return seen


@each_layer
def test_slopes_are_computed_only_for_a_backward_pass(evaluator, function, slopes_asked_for):
    layer, sets = pooling("tuples_2", function, evaluator), distinct_sets((4, 3))
    with torch.no_grad():
        layer(sets)
    with torch.inference_mode():
        layer(sets)
    layer.requires_grad_(False)
    layer(sets)
    assert slopes_asked_for == [False, False, False]
    layer.requires_grad_(True)
    layer(sets).sum().backward()
    assert slopes_asked_for == [False, False, False, True]


def test_the_operators_take_a_batch_of_no_units():
    kernels()
    for name, parameters in PARAMETERS.items():
        p = numbers(width=0).requires_grad_()
        result = getattr(operators, f"{name}s".upper()).means(p, offsets(), *parameters)
        assert result.shape == (len(SIZES), 0)
        result.sum().backward()
