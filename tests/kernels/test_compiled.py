"""Kernel: it runs over every item once, on any number of threads, in a forked child; its cache; its log line."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from janossy import JanossyPooling, Ragged, TupleMLP, Tuples

compiled = pytest.importorskip("janossy.kernels.cpu.compiled", reason="needs numba", exc_type=ImportError)


@cache
def counting():
    def counts(seen, ends, first, last):
        ends[first] = last
        for i in range(first, last):
            seen[i] += i + 1

    return compiled.Kernel(counts, "counts_items")


@pytest.mark.usefixtures("worth_a_thread")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # one value for all examples is meant
@given(
    costs=st.lists(st.one_of(st.just(0.0), st.floats(1.0, 1e6), st.floats(1e5, 1e9)), max_size=40),
    num_threads=st.integers(1, 5),
)
def test_every_item_once(costs, num_threads):
    """Whatever the costs: zeros, one that outweighs all others, too little for a second thread."""
    seen, ends = np.zeros((2, len(costs) + 1), np.int64)
    counting()(len(costs), lambda: np.array(costs, dtype=float), num_threads, seen, ends)
    np.testing.assert_array_equal(seen, [*range(1, len(costs) + 1), 0])


def test_several_parts_are_made_of_costs_worth_it():
    def parts(costs, num_threads):
        seen, ends = np.zeros((2, 10), np.int64)
        counting()(10, costs, num_threads, seen, ends)
        return {first: int(last) for first, last in enumerate(ends) if last}

    assert parts(lambda: np.full(10, compiled.WORTH_A_THREAD / 100), 2) == {0: 10}
    assert parts(lambda: pytest.fail("one thread asks for no costs"), 1) == {0: 10}
    if compiled.threading_layer() not in ("omp", "tbb") or compiled.numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("needs two threads")
    found = parts(lambda: np.array([1] * 9 + [9.0]) * compiled.WORTH_A_THREAD, 2)
    assert found in ({0: 8, 8: 10}, {0: 9, 9: 10})


def test_a_compiler_whose_vectors_come_out_wrong_is_found(monkeypatch):
    compiled.check_compiler()
    # To rename these would compile all kernels anew, everywhere.
    monkeypatch.setattr(compiled._doubled(), "_serial", lambda x, first, last: None)  # noqa: SLF001
    with pytest.raises(RuntimeError, match=r"twice the numbers from 0 to 31 came out as \[0.0, 1.0"):
        compiled.check_compiler()


WITHOUT_THREADS = """
import torch
from janossy import JanossyPooling, Ragged, TupleMLP, Tuples
torch.set_num_threads(2)
layer = JanossyPooling(TupleMLP(3, 2, 64), Tuples(3), evaluate="fused")
sets = Ragged.from_sizes(torch.randn(160, 2), (80, 80))
assert torch.allclose(layer(sets), torch.cat([layer(sets[[b]]) for b in range(2)]))
from janossy.kernels.cpu.compiled import threading_layer
print(threading_layer())
"""


def test_without_threads_kernels_run_on_one():
    """numba cannot start a layer of this name."""
    environment = {**os.environ, "NUMBA_THREADING_LAYER": "no such layer", "NUMBA_NUM_THREADS": "2"}
    command = [sys.executable, "-c", WITHOUT_THREADS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "none\n", done.stderr
    assert "kernels run on one thread only" in done.stderr


PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
import numpy as np
"""
SMALL = """
from janossy.kernels.cpu.compiled import check_compiler
for _ in range(2):
    check_compiler()
"""
LARGE = """
from janossy.kernels.cpu.product_means import product_means
from janossy.kernels.cpu.tuple_means import tuple_means
z = np.arange(24.0).reshape(4, 3, 2)
for offsets in ([0, 4], [0, 1, 4]):
    product_means(z, np.array(offsets), True, True, 1)
    tuple_means(z, np.array(offsets), True, "relu", False, 1)
"""


@pytest.mark.parametrize(
    ("program", "kernels"),
    [
        (SMALL, ["doubled"]),
        pytest.param(LARGE, ["products_3_increasing", "tuple_sums_relu"], marks=pytest.mark.only_all),
    ],
    ids=["small", "large"],
)
def test_the_first_process_compiles_and_says_so_and_others_load(tmp_path, program, kernels):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    said = []
    for _ in range(2):
        command = [sys.executable, "-c", PROGRAM + program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said.append([line for line in done.stdout.split("\n") if line.startswith("janossy ")])
    assert len(said[0]) == len(kernels)
    for line, kernel in zip(said[0], kernels, strict=True):
        assert line.startswith(f"janossy INFO compiled the kernel {kernel} in ")
        assert line.endswith(" s; other processes will load it")
    assert said[1] == []


FORKED = """
import os
import torch
from janossy import JanossyPooling, Ragged, TupleMLP, Tuples
torch.set_num_threads(2)
torch.manual_seed(0)
layer = JanossyPooling(TupleMLP(3, 2, 64), Tuples(3), evaluate="fused")
sets = Ragged.from_sizes(torch.randn(160, 2), (80, 80))
torch.randn(2000, 2000) @ torch.randn(2000, 2000)  # torch's own threads are awake
expected = layer(sets) if {before} else None
assert torch.get_num_threads() == 2
child = os.fork()
if child == 0:
    torch.set_num_threads(1)  # as a DataLoader does for its workers; torch itself would hang without
    result = layer(sets)
    result.sum().backward()
    one_by_one = torch.cat([layer(sets[[b]]) for b in range(2)])
    ok = torch.allclose(result, one_by_one) and (expected is None or torch.equal(result, expected))
    os._exit(0 if ok else 3)
layer(sets).sum().backward()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), torch.get_num_threads())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("before", [pytest.param(True, marks=pytest.mark.only_all), False])
def test_a_forked_child_computes(before):
    """After the parent has used the kernels on several threads, and before: then the child loads them.

    Numba starts as many threads as there are cores, with the OpenMP that torch may share. Torch keeps its number.
    """
    program = FORKED.format(before=before)
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "3"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split() == ["0", "2"], done.stdout + done.stderr


@pytest.mark.only_all  # test_a_forked_child_computes looks at two threads
def test_torch_keeps_one_thread():
    program = """
import torch
from janossy import JanossyPooling, Ragged, TupleMLP, Tuples
torch.set_num_threads(1)
layer = JanossyPooling(TupleMLP(3, 2, 64), Tuples(3), evaluate="fused")
sets = Ragged.from_sizes(torch.randn(160, 2), (80, 80))
layer(sets).sum().backward()
print(torch.get_num_threads())
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "3"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "1", done.stderr


def test_threads_of_python_s_at_once():
    torch.manual_seed(0)
    layer = JanossyPooling(TupleMLP(3, 2, 64), Tuples(3), evaluate="fused")
    sets = Ragged.from_sizes(torch.randn(160, 2), (80, 80))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: layer(sets), range(8)))
        assert all(torch.equal(result, layer(sets)) for result in results)
    finally:
        torch.set_num_threads(before)
