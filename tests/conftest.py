"""What every test shares: float64 where asked for, deterministic hypothesis, the devices here."""

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("janossy", deadline=None, max_examples=25, derandomize=True, database=None)
hypothesis.settings.load_profile("janossy")


@pytest.fixture
def float64():
    """Everything in float64, from one seed."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def worth_a_thread(monkeypatch):
    """Kernels run on as many threads as they may, however little there is to do."""
    compiled = pytest.importorskip("janossy.kernels.compiled", reason="needs numba", exc_type=ImportError)
    monkeypatch.setattr(compiled, "WORTH_A_THREAD", 1.0)


@pytest.fixture(params=["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
def device(request):
    return request.param
