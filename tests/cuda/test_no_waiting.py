"""Layers on Triton's kernels read nothing from the device, and on sets of one size send nothing, as CUDA graphs need.

The tests use tensors that stand in for a GPU's (tests/standin.py). The interpreter computes their numbers."""

import copy
from contextlib import nullcontext

import pytest
import torch

from janossy import Combinations, JanossyPooling, Ragged, Spectral, TupleMLP, TupleProduct, Tuples
from tests.cuda.conftest import INTERPRETED
from tests.evaluate.test_on_cuda import LAUNCHED, MODULES, OF_SERIES
from tests.examples import D, distinct_sets
from tests.standin import OnCuda, Waited, cuda, numbers, on_cuda

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="stands for a GPU where there is none")

INJECTIVE, INCREASING = OF_SERIES["series_injective"], OF_SERIES["series_increasing"]
SERIES = Spectral(TOLERANCE := 1e-2, enumerate_up_to=0)
LAYERS = {
    "fused": (lambda: TupleMLP(2, D, 4), Tuples(2), "fused", LAUNCHED["tuple_means"]),
    "fused, sine": (lambda: TupleMLP(2, D, 4, activation="sine"), Combinations(2), "fused", LAUNCHED["tuple_means"]),
    "spectral": (lambda: TupleMLP(2, D, 4), Tuples(2), SERIES, INJECTIVE),
    "spectral, combinations": (lambda: TupleMLP(2, D, 4), Combinations(2), SERIES, INCREASING),
    "permanent": (lambda: TupleProduct(2, D, 4), Tuples(2), "permanent", LAUNCHED["product_means"]),
    "permanent, combinations": (lambda: TupleProduct(2, D, 4), Combinations(2), "permanent", LAUNCHED["product_means"]),
}


class Launched:
    """A kernel, launched on the numbers that its tensors stand for."""

    def __init__(self, kernel, called):
        self.kernel, self.called = kernel, called

    def __getitem__(self, grid):
        def launch(*arguments, **constants):
            assert any(isinstance(x, OnCuda) for x in arguments)
            self.called.add(self.kernel.__name__)
            return self.kernel[grid](*map(numbers, arguments), **constants)

        return launch


@pytest.fixture
def launched(monkeypatch):
    """Gives the names of launched kernels, as on a GPU that two programs keep busy."""
    called = set()
    for name, module in MODULES.items():
        for kernel in LAUNCHED[name]:
            monkeypatch.setattr(module, kernel, Launched(getattr(module, kernel), called))
        monkeypatch.setattr(module, "programs_wanted", lambda x: 2)
        monkeypatch.setattr(module, "on_device_of", lambda x: nullcontext())
    for name, kernels in OF_SERIES.items():
        module = getattr(MODULES["series_means"], name)
        for kernel in kernels:
            monkeypatch.setattr(module, kernel, Launched(getattr(module, kernel), called))
    monkeypatch.setattr(MODULES["series_means"], "MAX_HARMONICS", 8)
    return called


def step(layer, sets):
    pooled = layer(sets)
    pooled.square().sum().backward()
    return pooled


@pytest.mark.parametrize("sizes", [(4, 4), (3, 0, 4)], ids=str)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.cover(1)
def test_a_step_waits_for_nothing_and_on_equal_sizes_sends_nothing(name, sizes, launched):
    torch.manual_seed(0)
    build, orderings, evaluate, kernels = LAYERS[name]
    f, sets = build(), distinct_sets(sizes).to(torch.float32)
    there = on_cuda(JanossyPooling(copy.deepcopy(f), orderings, evaluate=evaluate))
    x = sets.values.requires_grad_()
    pooled = step(JanossyPooling(f, orderings, evaluate="gather"), sets)
    on_gpu = on_cuda(Ragged(x.detach(), sets.offsets, sizes=sets.sizes))
    on_gpu.values.requires_grad_()
    for sends in (True, False) if len(set(sizes)) == 1 else (True,):
        on_gpu.values.grad = None
        launched.clear()
        with cuda(sends=sends, kernels=True):
            found = step(there, on_gpu)
        assert set(kernels) <= launched
        allowed = TOLERANCE if evaluate is SERIES else 1e-5
        torch.testing.assert_close(numbers(found), pooled, rtol=0, atol=allowed)
        torch.testing.assert_close(numbers(on_gpu.values.grad), x.grad, rtol=0, atol=5 * allowed)


def test_a_kernel_that_asks_is_found(launched, monkeypatch):
    layer, sets = (
        on_cuda(JanossyPooling(TupleMLP(2, D, 4), Tuples(2), evaluate="fused")),
        on_cuda(distinct_sets((3, 4))),
    )
    asks = MODULES["tuple_means"].splits
    monkeypatch.setattr(MODULES["tuple_means"], "splits", lambda p, *rest: asks(p, *rest) + 0 * int(p.sum()))
    with cuda(kernels=True), pytest.raises(Waited):
        layer(sets.to(torch.float32))
