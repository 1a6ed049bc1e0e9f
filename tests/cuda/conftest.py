"""The laws of Triton's kernels: on a GPU if there is one (`make test-cuda`), else in Triton's interpreter.

The interpreter is `make test-triton`, in its own process with TRITON_INTERPRET=1, because Triton reads this once."""

import os

import pytest
import torch

from janossy.evaluate import on_kernels
from janossy.kernels import Kernels, load

ON_GPU = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if ON_GPU and not INTERPRETED else "cpu"


if INTERPRETED:
    from triton.runtime import interpreter

    MADE_READY = set()

    def call_in_interpreter(function, *args, **kwargs):
        """Returns a device function's call. The language is patched once per module instead of in each call.

        Patching takes most of the tests' time.
        """
        if id(function.fn.__globals__) not in MADE_READY:
            interpreter._patch_lang(function.fn)
            MADE_READY.add(id(function.fn.__globals__))
        return function.rewrite()(*args, **kwargs)

    interpreter.InterpretedFunction.__call__ = call_in_interpreter


def on_arrays(function):
    """Returns a function on tensors in place of one on arrays, like the kernels for the CPU."""

    def call(p, offsets, *parameters):
        *parameters, _num_threads = parameters
        means, slopes = function(torch.from_numpy(p), torch.from_numpy(offsets), *parameters)
        return means.numpy(), slopes.numpy()

    return call


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    """Gives the kernels that operators call: on the CPU, in place of numba's."""
    if not (ON_GPU or INTERPRETED):
        pytest.skip("needs a GPU, or Triton's interpreter: make test-triton")
    found = load("cuda") or pytest.fail("Triton does not load")
    if DEVICE == "cpu":
        unused = dict.fromkeys(Kernels._fields)
        in_place = Kernels(**unused | {name: on_arrays(function) for name, function in found._asdict().items()})
        monkeypatch.setattr(on_kernels, "load", lambda device="cpu": found if device == "cuda" else in_place)
    return found


@pytest.fixture
def device():
    return DEVICE


@pytest.fixture(params=[1, 3])
def num_splits(request, monkeypatch):
    """Sets the number of programs that share a set, whatever its size."""
    monkeypatch.setattr("janossy.kernels.cuda.tuple_means.splits", lambda *_: request.param)
    return request.param
