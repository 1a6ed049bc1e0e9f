"""The kernels that are compiled for GPUs, with their tuples and dtypes, and the step of each innermost loop."""

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


@dataclass(frozen=True)
class Case:
    """A kernel with its constants."""

    name: str
    function: Any
    constants: dict[str, Any]
    dtype: str = "float32"
    loads: int = 0
    """The loads from memory in a step of the innermost loop; 0 if no loop is counted."""
    num: int = 1
    """The number of tuples, or of elements' harmonics, per such step."""


def of_tuples() -> Iterator[Case]:
    """Yields all cases with tanh, and every other activation for k = 2 and where registers are scarcest."""

    def case(dtype: str, k: int, increasing: bool, slopes: bool, activation: str, some: bool = False) -> Case:
        of = f" with slopes{', of some sets' if some else ''}" if slopes else ""
        name = f"tuple_sums {activation} {KINDS[increasing]} k={k} {dtype}{of}"
        constants = {"K": k, "INCREASING": increasing, "ACTIVATION": activation, "SLOPES": slopes, "SOME": some}
        loads = 0 if k == 1 else 3 if slopes else 1  # a row, a sum and what it lacks
        return Case(name, tuple_sums.tuple_sums, constants, dtype, loads, tuple_sums.UNROLL)

    for dtype, k, increasing in product(DTYPES, KS, KINDS):
        for slopes in (True, False):
            yield case(dtype, k, increasing, slopes, "tanh")
        yield case(dtype, k, increasing, True, "tanh", some=True)
        constants = {"K": k, "INCREASING": increasing, "SLOPES": True, "SOME": False}
        name = f"tuple_means_of_sums {KINDS[increasing]} k={k} {dtype}"
        yield Case(name, tuple_sums.tuple_means_of_sums, constants, dtype)
    for activation in ACTIVATIONS:
        if activation != "tanh":
            for k, increasing in ((2, False), (4, False), (4, True)):
                yield case("float32", k, increasing, True, activation)


def of_series() -> Iterator[Case]:
    """Yields the passes of the series of tanh for both kinds of tuples, and others where registers are scarcest."""
    injective, increasing = series_injective, series_increasing
    for dtype, k in product(DTYPES, KS):
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
        for kind in KINDS if k > 1 else (False,):  # for one position, both kinds are the same
            constants = {"K": k, "INCREASING": kind}
            yield Case(f"extents {KINDS[kind]} {end}", series_plan.extents, constants, dtype)
    series = {(e.family, e.odd): activation for activation, e in sorted(EXPANSIONS.items())}
    for k, ((family, odd), activation) in product(KS, series.items()):
        if k in (2, 4) or activation == "tanh":  # these read sums, which are float32, instead of elements
            end, constants = f"{activation} k={k}", {"K": k, "FAMILY": family, "ODD": odd}
            yield Case(f"partitions {end}", injective.partitions, constants)
            if k > 1:
                yield Case(f"scan of chains {end}", increasing.scan, constants)
    for k, kind in product(KS, KINDS):
        if k > 1 or not kind:
            constants = {"K": k, "INCREASING": kind, "FAMILY": TANH}
            yield Case(f"plan {KINDS[kind]} k={k}", series_plan.plan, constants)
    for (family, _), activation in series.items():
        yield Case(f"means_of_values {activation}", series_total.means_of_values, {"FAMILY": family})


def of_products() -> Iterator[Case]:
    """Yields the passes of means of products."""
    for dtype, k, kind in product(DTYPES, KS, KINDS):
        end, constants = f"{KINDS[kind]} k={k} {dtype}", {"K": k, "INCREASING": kind}
        yield Case(f"segments of products {end}", product_sums.segments, constants, dtype, loads=k)
        yield Case(f"scan of products {end}", product_sums.scan, {**constants, "SLOPES": True}, dtype)
        yield Case(f"slopes of products {end}", product_sums.slopes_of_segments, constants, dtype, loads=k)


def cases() -> Iterator[Case]:
    """Yields all cases."""
    yield from of_tuples()
    yield from of_series()
    yield from of_products()
