"""Half precision accumulates in float32; autocast."""

import pytest
import torch

from janossy import JanossyPooling, TupleProduct, Tuples
from janossy.evaluate import Gather, Projected, on_kernels
from tests.examples import D, distinct_sets, pooling
from tests.laws import close, value_and_gradients

pytestmark = pytest.mark.usefixtures("float64")


BIG = 60


@pytest.mark.parametrize("reduce", ["mean", "sum", "logmeanexp"])
@pytest.mark.parametrize("budget", [2**30, 2**16])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_accumulates_in_float32(dtype, budget, reduce):
    """3540 rows of about 1: beyond 256 a bfloat16 sum does not notice another 1."""

    def f(x):
        return 1 + 0.1 * x.sum((1, 2))[:, None].tanh()

    sets = distinct_sets((BIG,)).to(dtype)
    got = JanossyPooling(f, Tuples(2), evaluate=Gather(), reduce=reduce, memory_budget=budget)(sets)
    rows = JanossyPooling(f, Tuples(2)).rows(sets).values
    assert got.dtype == rows.dtype == dtype
    wide = rows.double()
    exact = {"mean": wide.mean(), "sum": wide.sum(), "logmeanexp": wide.exp().mean().log()}[reduce]
    error = abs(got.double().item() - exact.item()) / abs(exact.item())
    assert error <= torch.finfo(dtype).eps

    if dtype == torch.bfloat16 and reduce == "sum":
        naive = torch.zeros(1, dtype=dtype)
        for row in rows:
            naive += row
        assert abs(naive.item() - exact.item()) / exact.item() > 50 * error


@pytest.mark.parametrize(
    ("function", "evaluator"),
    [
        *((function, "gather") for function in ("tuple_mlp", "rnn", "gru", "lstm", "transformer", "convolution")),
        *(("tuple_mlp", evaluator) for evaluator in ("projected", "projected_a_few_rows_at_once", "fused", "spectral")),
        ("tuple_mlp_one_layer_gelu", "fused"),
        ("tuple_mlp_one_layer_gelu", "spectral"),
        ("tuple_product_of_mlps", "permanent"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision_is_close_to_float64(function, evaluator, dtype):
    layer = pooling("tuples_2", function, evaluator)
    sets = distinct_sets((5, 0, 1, 3))
    expected = value_and_gradients(layer, sets)
    tolerance = 60 * torch.finfo(dtype).eps
    for got, want in zip(value_and_gradients(layer.to(dtype), sets.to(dtype)), expected, strict=True):
        assert got.dtype == dtype
        close(got.double(), want, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_accumulate_in_float32_without_kernels(dtype, monkeypatch):
    """The result is rounded once. The mean over triples of distinct elements is by inclusion and exclusion."""
    monkeypatch.setattr(on_kernels, "load", lambda: None)
    f, n = TupleProduct(3, D, 4).to(dtype), 200
    sets = distinct_sets((n,)).to(dtype)
    got = JanossyPooling(f, Tuples(3), evaluate="permanent")(sets)
    a, b, c = (g(sets.values).double() for g in f.g)
    alike = sum(x.sum(0) * (y * z).sum(0) for x, y, z in ((a, b, c), (b, a, c), (c, a, b)))
    exact = (a.sum(0) * b.sum(0) * c.sum(0) - alike + 2 * (a * b * c).sum(0)) / (n * (n - 1) * (n - 2))
    assert got.dtype == dtype
    close(got[0].double(), exact, atol=0, rtol=0.51 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("budget", [2**30, 1])
@pytest.mark.parametrize(
    ("function", "evaluator"),
    [
        *((function, Gather) for function in ("tuple_mlp", "gru", "lstm", "transformer")),
        *((function, Projected) for function in ("tuple_mlp", "tuple_mlp_gelu")),
    ],
)
def test_autocast(function, evaluator, budget):
    f = pooling("tuples_2", function).f
    layer = JanossyPooling(f, Tuples(2), evaluate=evaluator(), memory_budget=budget).float()
    sets = distinct_sets((4, 0, 2)).to(torch.float32)
    sets.values.requires_grad_()
    expected = layer(sets)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = layer(sets)
    assert result.dtype == torch.float32
    close(result, expected, atol=0.03, rtol=0.03)
    result.sum().backward()
    assert sets.values.grad.dtype == torch.float32 and sets.values.grad.isfinite().all()


@pytest.mark.parametrize("reduce", ["mean", "sum"])
@pytest.mark.parametrize(
    ("function", "evaluator"),
    [
        *(("tuple_mlp_one_layer_gelu", evaluator) for evaluator in ("fused", "spectral", "spectral_where_cheaper")),
        ("tuple_product_of_mlps", "permanent"),
    ],
)
def test_autocast_without_rows(function, evaluator, reduce):
    """Equal to gather: float32 out, and bfloat16's precision (2^-8) of numbers below 1, times 12 rows for a sum."""
    sets = distinct_sets((4, 0, 2)).to(torch.float32)
    results = []
    for name in (evaluator, "gather"):
        layer = pooling("tuples_2", function, name, reduce).float()
        values = sets.values.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = layer(sets.with_values(values))
        assert result.dtype == torch.float32
        result.sum().backward()
        results.append([result.detach(), values.grad, *(p.grad for p in layer.parameters())])
    scale = 12 if reduce == "sum" else 1
    for got, want in zip(*results, strict=True):
        assert got.dtype == want.dtype
        close(got, want, atol=0.02 * scale, rtol=0.02)


@pytest.mark.parametrize(
    ("function", "evaluator"),
    [
        ("tuple_mlp_one_layer_gelu", "fused"),
        ("tuple_mlp_one_layer_gelu", "spectral"),
        ("tuple_product_of_mlps", "permanent"),
    ],
)
def test_half_precision_without_rows_accumulates_in_float32(function, evaluator):
    """Over 22350 tuples, in value and gradient: no less precise than gather in test above."""
    layer = pooling("tuples_2", function, evaluator)
    sets = distinct_sets((150,))
    expected = value_and_gradients(layer, sets)
    rounded = value_and_gradients(layer.to(torch.bfloat16), sets.to(torch.bfloat16))
    for got, want in zip(rounded, expected, strict=True):
        assert got.dtype == torch.bfloat16
        assert (got.double() - want).norm() <= 0.02 * want.norm()


@pytest.mark.parametrize("budget", [2**30, 20_000])
def test_half_precision_gradients_accumulate_in_float32(budget):
    """Over hundreds of chunks too: bfloat16 would lose a tenth."""
    layer = JanossyPooling(pooling("tuples_2", "tuple_mlp").f, Tuples(2), evaluate=Gather(), memory_budget=budget)
    sets = distinct_sets((150,))
    expected = value_and_gradients(layer, sets)
    rounded = value_and_gradients(layer.to(torch.bfloat16), sets.to(torch.bfloat16))
    for got, want in zip(rounded, expected, strict=True):
        assert (got.double() - want).norm() <= 0.02 * want.norm()
