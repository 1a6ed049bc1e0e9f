"""The part that all tests share: selection of cases, float64 on request, deterministic hypothesis, and devices."""

import gc
import os
from collections import defaultdict

import hypothesis
import pytest
import torch

from tests.thinning import STRENGTH, covering

# Also for processes that tests start, whose results must not depend on compile times.
os.environ.setdefault("JANOSSY_KERNELS", "wait")

if not torch.cuda.is_available():
    # For each device that is missing, torch.manual_seed keeps a formatted traceback: milliseconds under pytest.
    for missing in (torch.cuda, torch.xpu, torch.mtia):
        missing.manual_seed_all = lambda seed: None

# derandomize: every run has the same examples, so that more examples mean more sizes, not more luck.
hypothesis.settings.register_profile("covering", deadline=None, max_examples=10, derandomize=True, database=None)
hypothesis.settings.register_profile("all", hypothesis.settings.get_profile("covering"), max_examples=25)


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="the whole product of every test's parameters (make test-all)")


def pytest_configure(config):
    hypothesis.settings.load_profile("all" if config.option.all else "covering")


def pytest_report_header(config):
    return "cases: all" if config.option.all else "cases: a covering of every test's parameters (--all runs them all)"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Keeps a covering of each test's cases; all cases with ``--all``, or if a case is requested by name."""
    if config.option.all or any("[" in argument for argument in config.args):
        return
    tests = defaultdict(list)
    dropped = set()
    for item in items:
        if item.get_closest_marker("only_all"):
            dropped.add(item)
        elif hasattr(item, "callspec"):
            tests[item.parent, item.originalname].append(item)
    for cases in tests.values():
        mark = cases[0].get_closest_marker("cover")
        kept = covering([item.callspec.params for item in cases], mark.args[0] if mark else STRENGTH)
        dropped |= set(cases) - {cases[i] for i in kept}
    if dropped:
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]


def pytest_collection_finish(session):
    """Keeps what is loaded by now, which no test frees, out of garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def float64():
    """Sets everything to float64, with one seed."""
    torch.set_default_dtype(torch.float64)
    torch.default_generator.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def worth_a_thread(monkeypatch):
    """Lets kernels use as many threads as possible, however little work there is."""
    compiled = pytest.importorskip("janossy.kernels.cpu.compiled", reason="needs numba", exc_type=ImportError)
    monkeypatch.setattr(compiled, "WORTH_A_THREAD", 1.0)


@pytest.fixture(params=["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
def device(request):
    return request.param
