"""The compiled kernels for GPUs, without one: the committed table keeps its promises, and is what comes out."""

import dataclasses
import json
from itertools import product

import pytest

kernels = pytest.importorskip("studies.experiments.gpu.kernels", reason="needs Triton", exc_type=ImportError)

CELLS = json.loads(kernels.RESULTS.read_text())


def test_every_case_is_there_and_nothing_else():
    assert set(CELLS) == {kernels.name(case, at) for case, at in product(kernels.cases(), kernels.CAPABILITIES)}


def test_every_kernel_dtype_k_and_kind_of_tuples_is_a_case():
    names = [case.name for case in kernels.cases()]
    kinds, dtypes = ("injective", "increasing"), ("float32", "bfloat16")
    for dtype, k in product(dtypes, (1, 2, 3, 4)):
        for kind in kinds:
            for kernel in ("segments", "scan", "slopes"):
                assert f"{kernel} of products {kind} k={k} {dtype}" in names
            assert f"tuple_sums tanh {kind} k={k} {dtype} with slopes" in names
            assert f"tuple_means_of_sums {kind} k={k} {dtype}" in names
            if k > 1 or kind == "injective":
                assert f"extents {kind} k={k} {dtype}" in names and f"plan {kind} k={k}" in names
        for kernel in ("power_sums", "slopes_by_power_sums", *(("chains", "slopes_by_chains") if k > 1 else ())):
            assert f"{kernel} k={k} {dtype}" in names
        assert f"partitions tanh k={k}" in names and (k == 1 or f"scan of chains tanh k={k}" in names)


def test_the_table_is_of_the_kernels_as_they_are():
    if any(cell["triton"] != kernels.triton.__version__ for cell in CELLS.values()):
        pytest.skip(f"the table is of another Triton than {kernels.triton.__version__}")
    old = [case.name for case in kernels.cases() if CELLS[kernels.name(case, 80)]["source"] != kernels.source(case)]
    assert not old, "python -m studies.experiments.gpu.kernels compiles these anew"


def test_a_changed_kernel_is_known_by_its_source():
    case = next(kernels.cases())
    other = dataclasses.replace(case, constants=case.constants | {"K": 3})
    assert len({kernels.source(each) for each in (case, other, dataclasses.replace(case, dtype="bfloat16"))}) == 3


def test_nothing_is_spilled_and_registers_and_shared_memory_suffice():
    for case, cell in CELLS.items():
        assert cell["spilled"] == 0, case
        assert cell["registers"] <= kernels.MAX_REGISTERS and cell["shared"] <= kernels.MAX_SHARED, case


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
    assert kernels.read(kernels.compile_case(case, 80), case) | {x: want[x] for x in ("triton", "source")} == want


def test_a_tanh_and_its_slope_take_two_special_functions():
    """The exponential and the division: so the loop that is read is that over tuples."""
    for case in kernels.cases():
        if case.name.startswith("tuple_sums tanh") and case.loads:
            for at in kernels.CAPABILITIES:
                assert CELLS[kernels.name(case, at)]["instructions"]["special"] == pytest.approx(2, abs=0.2)


def test_a_harmonic_takes_the_products_of_the_series():
    """Complex products are four multiplications each.

    There are 2^k − k − 1 of them, and as many sums as there are products of z. Sines and cosines are polynomials, so
    that no special function is in the loop.
    """
    for k, at in product((2, 3, 4), kernels.CAPABILITIES):
        instructions = CELLS[f"power_sums k={k} float32 sm_{at}"]["instructions"]
        assert instructions.get("special", 0) == 0
        assert instructions["float32"] >= 4 * (2**k - k - 1) + 2 * (2**k - 1)


def test_the_bound_is_the_slowest_part_s():
    gpu = {"processors": 10, "ghz": 2.0, "special": 16, "float32": 64, "issued": 128}
    assert kernels.bound({"special": 2, "float32": 4}, gpu) == (160.0, "special functions")
    assert kernels.bound({"special": 1, "float32": 8}, gpu) == (160.0, "float32")
    assert kernels.bound({"other": 64}, gpu) == (40.0, "instructions")
