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


@pytest.fixture(params=["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
def device(request):
    return request.param
