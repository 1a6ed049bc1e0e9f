"""The memory that Gather takes beyond its budget, measured in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

MIB = 2**20
ALLOWANCE = 64
"""MiB beyond the budget: positions, results, gradients, and what the allocator keeps."""

PROGRAM = """
import ctypes, sys
import torch
from torch import nn
from janossy import JanossyPooling, Ragged, Tuples

torch.set_num_threads(1)

def resident(line):
    return next(int(each.split()[1]) * 1024 for each in open("/proc/self/status") if each.startswith(line))

with_gradients = sys.argv[1] == "True"
f = nn.Sequential(nn.Flatten(1), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
few, many = (Ragged.from_sizes(torch.randn(n * size, 16), [size] * n) for n, size in ((2, 30), (64, 60)))

def pool(sets, budget):
    layer = JanossyPooling(f, Tuples(2), memory_budget=budget, evaluate="gather")
    with torch.set_grad_enabled(with_gradients):
        pooled = layer(sets)
        if with_gradients:
            pooled.sum().backward()

pool(few, 10_000)  # in chunks, so that what is imported at the first call is there
compiler = "torch._dynamo" in sys.modules
for budget in map(int, sys.argv[2:]):
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    open("/proc/self/clear_refs", "w").write("5")  # VmHWM begins anew
    before = resident("VmRSS")
    pool(many, budget)
    print(resident("VmHWM") - before, compiler)
"""


def measured(with_gradients: bool, *budgets: int) -> list[tuple[int, bool]]:
    """Returns the peak over what was there before, in MiB, for each budget; and whether the compiler was imported."""
    command = [sys.executable, "-c", PROGRAM, str(with_gradients), *(str(each * MIB) for each in budgets)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout.splitlines()
    return [(int(peak) // MIB, compiler == "True") for peak, compiler in map(str.split, lines)]


@pytest.mark.only_all
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's account of memory")
@pytest.mark.parametrize("with_gradients", [False, True])
def test_the_peak_is_the_budget_and_an_allowance(with_gradients):
    """226,560 rows need 400 MiB at once. Without gradients torch's compiler is not imported."""
    budgets = (1, 16, 64)
    for budget, (peak, compiler) in zip(budgets, measured(with_gradients, *budgets), strict=True):
        assert peak <= budget + ALLOWANCE and compiler == with_gradients
    assert measured(with_gradients, 4096)[0][0] > 64 + ALLOWANCE  # the measure sees memory
