"""Kernels that are not compiled yet: torch operations do their work, and another process compiles them."""

import numpy as np
import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    LSTM,
    Combinations,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    Stack,
    TupleMLP,
    TupleProduct,
    Tuples,
)
from janossy.evaluate import Spectral, on_kernels
from janossy.evaluate.tuples import operators
from janossy.kernels import Kernels, load
from janossy.kernels.compilation import NotCompiled, choice, finish_compilations, hurrying, waiting, waits
from janossy.nn import Relations
from tests.laws import close

numba = pytest.importorskip("numba", reason="needs numba")
pytestmark = [pytest.mark.usefixtures("float64"), pytest.mark.skipif(load() is None, reason="needs numba")]

H = 9


def stacked(pooling):
    return Stack([JanossyNetwork(nn.Embedding(4, 3), pooling, None)] * 2)


POOLINGS = {
    "pairs": lambda: JanossyPooling(TupleMLP(2, 3, H), Tuples(2), evaluate="fused"),
    "pairs, softplus": lambda: JanossyPooling(TupleMLP(2, 3, H, activation="softplus"), Tuples(2), evaluate="fused"),
    "pairs, relu": lambda: JanossyPooling(TupleMLP(2, 3, H, activation="relu"), Combinations(2), evaluate="fused"),
    "triples, spectral": lambda: JanossyPooling(TupleMLP(3, 3, H), Tuples(3), evaluate="spectral"),
    "products": lambda: JanossyPooling(TupleProduct(2, 3, H), Tuples(2), evaluate="permanent"),
    "GRU": lambda: JanossyPooling(GRU(3, H), Tuples(3), evaluate="packed"),
    "LSTM of few units, two layers": lambda: JanossyPooling(LSTM(3, 2, num_layers=2), Tuples(2), evaluate="packed"),
    "shared beginnings": lambda: JanossyPooling(GRU(3, H), Tuples(2), evaluate="shared_prefixes"),
    "relations": lambda: Relations(TupleMLP(2, 3, H), evaluate=Spectral(enumerate_up_to=0)),
    "single elements of a table": lambda: JanossyNetwork(
        nn.Embedding(4, 3), JanossyPooling(TupleMLP(1, 3, 1), Tuples(1), evaluate="fused"), None
    ),
    "stacked GRUs": lambda: stacked(JanossyPooling(GRU(3, H), Sampled(1))),
    "stacked pairs": lambda: stacked(JanossyPooling(TupleMLP(2, 3, H), Tuples(2))),
}


def value_and_gradients(layer, codes):
    sets = Ragged.from_sizes(codes if needs_codes(layer) else ELEMENTS[codes], SIZES)
    layer.zero_grad()
    torch.manual_seed(0)
    result = layer(sets)
    result = result.values if isinstance(result, Ragged) else result
    (result * torch.linspace(0.5, 1, result.numel()).view_as(result)).sum().backward()
    return [result.detach(), *(p.grad.clone() for p in layer.parameters())]


SIZES = (4, 2, 5, 4)
ELEMENTS = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def needs_codes(layer):
    return any(isinstance(module, nn.Embedding) for module in layer.modules()) or isinstance(layer, Stack)


@pytest.mark.parametrize("name", POOLINGS)
def test_a_kernel_that_is_being_compiled_changes_no_result(name, monkeypatch):
    """None of them, and each of those that a step calls alone: forward may be compiled, and backward not yet."""
    torch.manual_seed(1)
    layer, codes = POOLINGS[name](), torch.randint(4, (sum(SIZES),))
    kernels, called = load(), set()

    def counted(kernel):
        def call(*arguments):
            called.add(kernel)
            return getattr(kernels, kernel)(*arguments)

        return call

    monkeypatch.setattr(on_kernels, "load", lambda: Kernels(*map(counted, Kernels._fields)))
    expected = value_and_gradients(layer, codes)
    assert called
    for missing in [set(Kernels._fields), *({kernel} for kernel in sorted(called))]:

        def available(kernel, missing=frozenset(missing)):
            def call(*arguments):
                raise NotCompiled(kernel)

            return call if kernel in missing else getattr(kernels, kernel)

        monkeypatch.setattr(on_kernels, "load", lambda: Kernels(*map(available, Kernels._fields)))
        for got, want in zip(value_and_gradients(layer, codes), expected, strict=True):
            close(got, want, atol=1e-9, rtol=1e-9)


def test_another_process_compiles(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("JANOSSY_KERNELS", "background")
    from tests.kernels.tiny import scaling  # noqa: PLC0415 - which makes its kernel in this cache

    x = np.ones(3)
    for _ in range(2):
        with waiting(), hurrying() as missed:
            assert not missed()
            with pytest.raises(NotCompiled, match="scaled_by_3"):
                scaling(3)(3, lambda: np.ones(3), 1, x)
            assert missed()
    assert finish_compilations() and not finish_compilations()
    scaling(3)(3, lambda: np.ones(3), 1, x)
    np.testing.assert_array_equal(x, 3 * np.ones(3))


def test_what_cannot_be_compiled_apart_is_compiled_here(tmp_path, monkeypatch):
    """A process that fails, or none."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("JANOSSY_KERNELS", "background")
    from tests.kernels.tiny import scaling  # noqa: PLC0415

    kernel = scaling(5)
    kernel.made_by = "tests.kernels.tiny", "nothing_there", ()
    x = np.ones(3)
    with pytest.raises(NotCompiled):
        kernel(3, lambda: np.ones(3), 1, x)
    finish_compilations()
    kernel(3, lambda: np.ones(3), 1, x)
    monkeypatch.setattr("sys.executable", "")
    scaling(7)(3, lambda: np.ones(3), 1, x)
    np.testing.assert_array_equal(x, 35 * np.ones(3))


def test_who_waits(monkeypatch):
    monkeypatch.setenv("JANOSSY_KERNELS", "background")
    assert not waits()
    with waiting():
        assert waits()
        with hurrying():
            assert not waits()
            with waiting():
                assert waits()
        assert waits()
    seen = []
    monkeypatch.setattr(
        on_kernels, "load", lambda: Kernels(*(lambda *_: seen.append(waits()) for _ in Kernels._fields))
    )
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic)
        try:
            on_kernels.on_threads("tuple_means")
        finally:
            torch.use_deterministic_algorithms(False)
    assert seen == [False, True]
    monkeypatch.setenv("JANOSSY_KERNELS", "off")
    assert load.__wrapped__() is None and load.__wrapped__("cuda") is None  # past the cache
    monkeypatch.setenv("JANOSSY_KERNELS", "later")
    with pytest.raises(ValueError, match="JANOSSY_KERNELS expects one of background, wait, off; got 'later'"):
        choice()


def not_compiled(*_):
    raise NotCompiled("none is")


@pytest.mark.parametrize("name", ["pairs", "pairs, relu", "triples, spectral", "products"])
def test_no_sets_while_no_kernel_is_compiled(name, monkeypatch):
    monkeypatch.setattr(on_kernels, "load", lambda: Kernels(*(not_compiled for _ in Kernels._fields)))
    layer = POOLINGS[name]()
    x = torch.zeros(0, 3, requires_grad=True)
    result = layer(Ragged.from_sizes(x, []))
    assert result.shape == (0, H)
    result.sum().backward()
    assert x.grad.shape == x.shape


def test_products_of_exponentials_of_much_are_waited_for(monkeypatch):
    """A batch that torch operations would take long for waits, as one of another activation does."""
    layer, sets = POOLINGS["pairs"](), Ragged.from_sizes(torch.randn(8, 3), [4, 4])
    expected = layer(sets)
    kernels = load()
    monkeypatch.setattr(on_kernels, "load", lambda: kernels._replace(logistic_means=not_compiled))
    monkeypatch.setattr(operators, "MOST_IN_TORCH", 0)
    monkeypatch.setattr(operators, "tuple_means", lambda *_: pytest.fail("it ran in torch operations"))
    seen = []
    in_torch = operators.TUPLE_MEANS.in_torch
    monkeypatch.setitem(vars(operators.TUPLE_MEANS), "in_torch", lambda *x: seen.append(x) or in_torch(*x))
    close(layer(sets), expected, atol=1e-12, rtol=0)
    assert not seen
    monkeypatch.setattr(operators, "MOST_IN_TORCH", 1e9)
    close(layer(sets), expected, atol=1e-12, rtol=0)
    assert seen


def test_a_series_of_far_numbers_counts_as_an_enumeration():
    """A pair of numbers that reach 1e6 takes 1e6 harmonics, or one activation."""
    p, offsets = torch.randn(20, 2, 3), torch.tensor([0, 10, 20])
    settings = False, "tanh", 1e-5, -1, False
    few, most = operators.SERIES_MEANS.activations(p, offsets, *settings), 2 * 90 * 3
    assert few < operators.SERIES_MEANS.activations(1e6 * p, offsets, *settings) == most or few == most
    assert operators.SERIES_MEANS.activations(torch.nan * p, offsets, *settings) == most
    large = torch.tensor([0, 10_000])
    near, far = (operators.SERIES_MEANS.activations(x.repeat(500, 1, 1), large, *settings) for x in (p, 100 * p))
    assert near < far / 10
