"""What the kernels for GPUs compile to, without one: the committed table keeps its promises, and is what comes out."""

import json
from itertools import product

import pytest

kernels = pytest.importorskip("experiments.gpu.kernels", reason="needs Triton", exc_type=ImportError)

CELLS = json.loads(kernels.RESULTS.read_text())


def test_every_case_is_there_and_nothing_else():
    assert set(CELLS) == {kernels.name(*case, at) for case, at in product(kernels.cases(), kernels.CAPABILITIES)}


def test_nothing_is_spilled_and_registers_and_shared_memory_suffice():
    for case, cell in CELLS.items():
        assert cell["spilled"] == 0, case
        assert cell["registers"] <= kernels.MOST_REGISTERS and cell["shared"] <= kernels.MOST_SHARED, case


def test_the_page_is_that_of_the_cells():
    assert kernels.PAGE.read_text() == kernels.page(CELLS)


def test_a_kernel_compiles_to_what_the_table_says():
    case = ("float32", 2, False, True, "tanh")
    want = CELLS[kernels.name(*case, 80)]
    if want["triton"] != kernels.triton.__version__:
        pytest.skip(f"the table is of Triton {want['triton']}")
    assert kernels.read(kernels.compile_case(*case, 80), True, 2) | {"triton": want["triton"]} == want


def test_a_tanh_and_its_slope_take_two_special_functions():
    """The exponential and the division: so the loop that is read is that over tuples."""
    for case in kernels.cases():
        if case[1] > 1 and case[4] == "tanh":
            for at in kernels.CAPABILITIES:
                assert CELLS[kernels.name(*case, at)]["instructions"]["special"] == pytest.approx(2, abs=0.2)


def test_the_bound_is_the_slowest_part_s():
    gpu = {"processors": 10, "ghz": 2.0, "special": 16, "float32": 64, "issued": 128}
    assert kernels.bound({"special": 2, "float32": 4}, gpu) == (160.0, "special functions")
    assert kernels.bound({"special": 1, "float32": 8}, gpu) == (160.0, "float32")
    assert kernels.bound({"other": 64}, gpu) == (40.0, "instructions")
