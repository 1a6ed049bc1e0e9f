"""What kernels are compiled for GPUs, for which tuples and numbers, and what a step of each one's innermost loop is."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from janossy.kernels.cuda import (
    product_sums,
    series_increasing,
    series_injective,
    series_plan,
    series_total,
    tuple_sums,
)
from janossy.kernels.cuda.activations import ACTIVATIONS
from janossy.kernels.expansions import EXPANSIONS, TANH

DTYPES = {"float32": "fp32", "bfloat16": "bf16"}
KINDS = {False: "injective", True: "increasing"}
KS = (1, 2, 3, 4)
NUMBERS = [*(("float32", k) for k in KS), ("bfloat16", 4)]
"""Both dtypes, which differ in how an element is read, where registers are scarcest."""


@dataclass(frozen=True)
class Case:
    """A kernel with its constants."""

    name: str
    function: Any
    constants: dict[str, Any]
    dtype: str = "float32"
    loads: int = 0
    """What a step of the innermost loop reads from memory; 0 where no loop is counted."""
    num: int = 1
    """How many tuples, or elements' harmonics, such a step is for."""


def of_tuples() -> Iterator[Case]:
    """All kinds of tuples with one activation, and k = 2 with every other."""

    def case(dtype: str, k: int, increasing: bool, slopes: bool, activation: str) -> Case:
        name = f"tuple_sums {activation} {KINDS[increasing]} k={k} {dtype}{' with slopes' if slopes else ''}"
        constants = {"K": k, "INCREASING": increasing, "ACTIVATION": activation, "SLOPES": slopes, "SOME": False}
        loads = 0 if k == 1 else 3 if slopes else 1  # a row, a sum and what it lacks
        return Case(name, tuple_sums.tuple_sums, constants, dtype, loads, tuple_sums.UNROLL)

    for dtype, k, increasing, slopes in product(DTYPES, KS, KINDS, (True, False)):
        if slopes or dtype == "float32":
            yield case(dtype, k, increasing, slopes, "tanh")
    for activation in ACTIVATIONS:
        if activation != "tanh":
            yield case("float32", 2, False, True, activation)


def of_series() -> Iterator[Case]:
    """The passes of both kinds of tuples: the long ones for every k, the others for some."""
    injective, increasing = series_injective, series_increasing
    for dtype, k in NUMBERS:
        end, constants = f"k={k} {dtype}", {"K": k, "FAMILY": TANH}
        each, cast = injective.HARMONICS[k], {"CAST": dtype != "float32"}
        yield Case(f"power_sums {end}", injective.power_sums, {**constants, "HARMONICS": each}, dtype, k, each)
        loads, num = 2 * (2**k - 1), injective.ELEMENTS[k]
        of_slopes = {**constants, "ELEMENTS": num, **cast}
        yield Case(f"slopes_by_power_sums {end}", injective.slopes_by_power_sums, of_slopes, dtype, loads, num)
        if k > 1:
            each = increasing.HARMONICS[k]
            of_chains = {**constants, "HARMONICS": each}
            yield Case(f"chains {end}", increasing.chains, of_chains, dtype, k, each)
            of_slopes = {**of_chains, **cast}
            yield Case(f"slopes_by_chains {end}", increasing.slopes_by_chains, of_slopes, dtype, 2 * k, each)
    for k, activation in ((2, "tanh"), (2, "gelu"), (4, "tanh")):
        e = EXPANSIONS[activation]
        end, constants = f"{activation} k={k}", {"K": k, "FAMILY": e.family, "ODD": e.odd}
        yield Case(f"partitions {end}", injective.partitions, constants)
        yield Case(f"scan of chains {end}", increasing.scan, constants)
    for kind in KINDS:
        yield Case(f"extents {KINDS[kind]} k=4", series_plan.extents, {"K": 4, "INCREASING": kind})
    for kind in KINDS:
        yield Case(f"plan {KINDS[kind]} k=4", series_plan.plan, {"K": 4, "INCREASING": kind, "FAMILY": TANH})
    yield Case("means_of_values", series_total.means_of_values, {"FAMILY": TANH})


def of_products() -> Iterator[Case]:
    """The passes of means of products."""
    for k, kind in ((4, False), (4, True), (2, False)):
        end, constants = f"{KINDS[kind]} k={k}", {"K": k, "INCREASING": kind}
        yield Case(f"segments of products {end}", product_sums.segments, constants, loads=k)
        yield Case(f"scan of products {end}", product_sums.scan, {**constants, "SLOPES": True})
        yield Case(f"slopes of products {end}", product_sums.slopes_of_segments, constants, loads=k)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from of_tuples()
    yield from of_series()
    yield from of_products()
