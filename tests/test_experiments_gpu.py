"""What the kernels for GPUs compile to, without one: the committed table keeps its promises, and is what comes out."""

import json
from itertools import product

import pytest

kernels = pytest.importorskip("experiments.gpu.kernels", reason="needs Triton", exc_type=ImportError)

CELLS = json.loads(kernels.RESULTS.read_text())


def test_every_case_is_there_and_nothing_else():
    assert set(CELLS) == {kernels.name(case, at) for case, at in product(kernels.cases(), kernels.CAPABILITIES)}


def test_nothing_is_spilled_and_registers_and_shared_memory_suffice():
    for case, cell in CELLS.items():
        assert cell["spilled"] == 0, case
        assert cell["registers"] <= kernels.MOST_REGISTERS and cell["shared"] <= kernels.MOST_SHARED, case


def test_the_page_is_that_of_the_cells():
    assert kernels.PAGE.read_text() == kernels.page(CELLS)


@pytest.mark.parametrize(
    "name", ["tuple_sums tanh injective k=2 float32 with slopes", "power_sums k=1 float32", "partitions tanh k=2"]
)
def test_a_kernel_compiles_to_what_the_table_says(name):
    case = next(case for case in kernels.cases() if case.name == name)
    want = CELLS[kernels.name(case, 80)]
    if want["triton"] != kernels.triton.__version__:
        pytest.skip(f"the table is of Triton {want['triton']}")
    assert kernels.read(kernels.compile_case(case, 80), case) | {"triton": want["triton"]} == want


def test_a_tanh_and_its_slope_take_two_special_functions():
    """The exponential and the division: so the loop that is read is that over tuples."""
    for case in kernels.cases():
        if case.name.startswith("tuple_sums tanh") and case.loads:
            for at in kernels.CAPABILITIES:
                assert CELLS[kernels.name(case, at)]["instructions"]["special"] == pytest.approx(2, abs=0.2)


def test_a_harmonic_takes_the_products_of_the_series():
    """Of complex numbers, four multiplications each: 2^k − k − 1 of them and as many sums as there are products of z;
    sines and cosines are polynomials, so that no special function is in the loop."""
    for k, at in product((2, 3, 4), kernels.CAPABILITIES):
        instructions = CELLS[f"power_sums k={k} float32 sm_{at}"]["instructions"]
        assert instructions.get("special", 0) == 0
        assert instructions["float32"] >= 4 * (2**k - k - 1) + 2 * (2**k - 1)


def test_the_bound_is_the_slowest_part_s():
    gpu = {"processors": 10, "ghz": 2.0, "special": 16, "float32": 64, "issued": 128}
    assert kernels.bound({"special": 2, "float32": 4}, gpu) == (160.0, "special functions")
    assert kernels.bound({"special": 1, "float32": 8}, gpu) == (160.0, "float32")
    assert kernels.bound({"other": 64}, gpu) == (40.0, "instructions")
