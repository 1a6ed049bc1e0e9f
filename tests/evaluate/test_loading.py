"""Kernels that are loaded in the background: first calls go without them, and come to the same."""

import os
import subprocess
import sys
import threading

import pytest
import torch

from janossy import GRU, JanossyPooling, Ragged, Sampled, TupleMLP, TupleProduct, Tuples
from janossy.evaluate import loading, on_kernels
from janossy.evaluate.loading import (
    ACTIVATIONS_PER_SECOND,
    MOST_WHILE_LOADING,
    SECONDS,
    SECONDS_PER_CALL,
    STEP,
    Loading,
)
from janossy.kernels import load
from janossy.kernels.compilation import NotCompiled, waiting
from tests.laws import close

pytestmark = pytest.mark.skipif(load() is None, reason="needs numba")


@pytest.fixture
def new(monkeypatch):
    """The state of a new process, whose kernels are loaded at once when they are needed."""
    monkeypatch.setenv("JANOSSY_KERNELS", "background")
    new = Loading()
    for module in (loading, on_kernels):
        monkeypatch.setattr(module, "LOADING", new)
    for module in ("nn.pooling", "evaluate.tuples.operators"):
        monkeypatch.setattr(sys.modules[f"janossy.{module}"], "LOADING", new)
    return new


def test_calls_that_take_as_long_as_loading_end_the_time_without_kernels(new):
    num_calls = round(SECONDS / SECONDS_PER_CALL)
    for _ in range(num_calls - 1):
        new.called()
        assert new.begins() and new.goes_without()
    new.called()
    new.called()
    assert not new.goes_without() and not new.begins()


@pytest.mark.parametrize("mode", ["background", "wait"])
def test_estimates_load_nothing(new, mode, monkeypatch):
    monkeypatch.setenv("JANOSSY_KERNELS", mode)
    monkeypatch.setattr(on_kernels, "load", lambda: pytest.fail("kernels were loaded"))
    monkeypatch.setattr(loading, "Thread", lambda **_: pytest.fail("kernels are being loaded"))
    sets = Ragged.from_sizes(torch.randn(9, 3), [6, 3])
    for f, orderings in ((GRU(3, 4), Sampled(2)), (TupleMLP(2, 3, 4), Tuples(2)), (TupleProduct(2, 3, 4), Tuples(2))):
        layer = JanossyPooling(f, orderings)
        assert layer.explain(sets) and layer.cost(sets).seconds > 0


def test_what_ends_it_besides(new):
    assert not new.goes_without(lambda: 2 * MOST_WHILE_LOADING) and not new.goes_without()
    several = Loading()
    calls = SECONDS * ACTIVATIONS_PER_SECOND / MOST_WHILE_LOADING
    assert [several.goes_without(lambda: MOST_WHILE_LOADING) for _ in range(5)] == [n < calls for n in range(1, 6)]
    with waiting():
        assert not Loading().goes_without()


def test_a_pause_loads_kernels_and_calls_put_it_off(new, monkeypatch):
    loaded = threading.Event()
    monkeypatch.setattr(loading, "load", loaded.set)
    monkeypatch.setattr(loading, "DELAY", 60.0)
    new.called()
    assert new.begins() and not loaded.wait(3 * STEP)
    monkeypatch.setattr(loading, "DELAY", 0.0)
    assert loaded.wait(60) and new.goes_without()  # when kernels are used depends on the calls alone


def test_without_numba_nothing_is_loaded(new, monkeypatch):
    monkeypatch.setattr(loading, "is_installed", lambda: False)
    assert not new.begins()
    assert all(thread.name != "janossy loads its kernels" for thread in threading.enumerate())


def test_a_first_call_equals_one_on_kernels(new):
    torch.manual_seed(0)
    layer = JanossyPooling(TupleMLP(2, 3, 9), Tuples(2), evaluate="fused")
    sets = Ragged.from_sizes(torch.randn(11, 3), [4, 2, 5])
    used = []

    def values() -> list[torch.Tensor]:
        layer.zero_grad()
        result = layer(sets)
        used.append(not new.goes_without())
        result.square().sum().backward()
        return [result.detach(), *(p.grad.clone() for p in layer.parameters())]

    with pytest.raises(NotCompiled):
        on_kernels.on_threads("tuple_means")
    first = values()
    new.wait()
    for one, other in zip(first, values(), strict=True):
        close(one, other, atol=1e-5, rtol=1e-5)
    assert used == [False, True]


PROGRAM = """
import os, sys, torch
from janossy import JanossyPooling, Ragged, TupleMLP, Tuples
layer, sets = JanossyPooling(TupleMLP(2, 3, 8), Tuples(2)), Ragged.from_sizes(torch.randn(9, 3), [4, 5])
layer(sets).sum().backward()
assert "numba" not in sys.modules
FORK
while "numba" not in sys.modules:
    layer(sets).sum().backward()
"""
FORK = """
if (child := os.fork()) == 0:
    import numba
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_imports_numba_after_its_first_calls():
    """And a fork meanwhile waits for the import, whose locks it would hold for ever."""
    environment = {**os.environ, "JANOSSY_KERNELS": "background"}
    subprocess.run([sys.executable, "-c", PROGRAM.replace("FORK", FORK)], env=environment, check=True, timeout=120)
