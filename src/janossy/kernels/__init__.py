"""Compiled kernels. Those in ``cpu``, arrays in and out, need numba, the extra ``janossy[fast]``; those in ``cuda``,
tensors in and out, Triton, the extra ``janossy[cuda]``."""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple

from janossy.kernels.compilation import choice


class Kernels(NamedTuple):
    """The functions on arrays that operators call."""

    tuple_means: Callable[..., Any]
    series_means: Callable[..., Any]
    product_means: Callable[..., Any]
    logistic_means: Callable[..., Any]
    means_by_place: Callable[..., Any]
    relation_means: Callable[..., Any]
    table_sums: Callable[..., Any]
    run_cells: Callable[..., Any]
    run_cells_back: Callable[..., Any]
    sum_by_element: Callable[..., Any]
    step_rows: Callable[..., Any]
    step_rows_back: Callable[..., Any]
    step_depth: Callable[..., Any]
    step_depth_back: Callable[..., Any]


class KernelsOnCuda(NamedTuple):
    """The functions on tensors that operators call on a CUDA device."""

    tuple_means: Callable[..., Any]
    series_means: Callable[..., Any]
    product_means: Callable[..., Any]


@cache
def load(device: Literal["cpu", "cuda"] = "cpu") -> Any:
    """The ``Kernels`` of the CPU, or the ``KernelsOnCuda``; None, with one warning, where they cannot be had."""
    return _load_on_cuda() if device == "cuda" else _load()


def _load() -> Kernels | None:
    if choice() == "off":
        return None
    try:
        # numba is an optional extra, and takes half a second to import.
        from janossy.kernels.cpu.cell_depths import step_depth, step_depth_back  # noqa: PLC0415
        from janossy.kernels.cpu.cell_rows import step_rows, step_rows_back  # noqa: PLC0415
        from janossy.kernels.cpu.compiled import check_compiler  # noqa: PLC0415
        from janossy.kernels.cpu.logistic_means import logistic_means  # noqa: PLC0415
        from janossy.kernels.cpu.place_means import means_by_place  # noqa: PLC0415
        from janossy.kernels.cpu.product_means import product_means  # noqa: PLC0415
        from janossy.kernels.cpu.recurrences import run_cells, run_cells_back, sum_by_element  # noqa: PLC0415
        from janossy.kernels.cpu.relation_means import relation_means  # noqa: PLC0415
        from janossy.kernels.cpu.series_means import series_means  # noqa: PLC0415
        from janossy.kernels.cpu.table_sums import table_sums  # noqa: PLC0415
        from janossy.kernels.cpu.tuple_means import tuple_means  # noqa: PLC0415

        check_compiler()
    except Exception as error:  # whatever a compiler may raise on a machine we have not seen
        missing = isinstance(error, ImportError)
        why = "numba is not installed" if missing else f"numba cannot compile here ({type(error).__name__}: {error})"
        remedy = "pip install 'janossy[fast]' for the compiled kernels" if missing else "please report this"
        message = f"pooling runs in torch operations, which is slower: {why}; {remedy}."
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        return None
    means = tuple_means, series_means, product_means, logistic_means, means_by_place, relation_means, table_sums
    cells = run_cells, run_cells_back, sum_by_element, step_rows, step_rows_back, step_depth, step_depth_back
    return Kernels(*means, *cells)


def _check_driver() -> None:
    """Raises whatever Triton raises if it cannot compile its driver, for which it needs the machine's C compiler."""
    import torch  # noqa: PLC0415
    from triton.runtime import driver  # noqa: PLC0415

    if torch.cuda.is_available():  # else the kernels are interpreted
        driver.active.get_current_target()


def _load_on_cuda() -> KernelsOnCuda | None:
    if choice() == "off":
        return None
    try:
        # Triton is an optional extra, and takes a second to import.
        from janossy.kernels.cuda.product_means import product_means  # noqa: PLC0415
        from janossy.kernels.cuda.series_means import series_means  # noqa: PLC0415
        from janossy.kernels.cuda.tuple_means import tuple_means  # noqa: PLC0415

        _check_driver()
    except Exception as error:  # a Triton that does not fit this torch or driver may raise anything
        missing = isinstance(error, ImportError)
        why = "Triton is not installed" if missing else f"Triton does not load ({type(error).__name__}: {error})"
        remedy = "pip install 'janossy[cuda]' for the compiled kernels" if missing else "please report this"
        message = f"pooling on a CUDA device runs in torch operations, which is slower: {why}; {remedy}."
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        return None
    return KernelsOnCuda(tuple_means, series_means, product_means)
