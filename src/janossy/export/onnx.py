"""export_onnx: a network of padded sets as an ONNX model."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from janossy.checks import check_integer
from janossy.export.padded import PaddedNetwork
from janossy.nn.modes import evaluating
from janossy.nn.network import JanossyNetwork
from janossy.orderings import Sampled
from janossy.sets import Ragged, sets_of_example


def export_onnx(
    network: JanossyNetwork,
    path: str | PathLike[str],
    *,
    example: "Ragged | tuple[Tensor, Tensor]",
    opset: int | None = None,
) -> None:
    """Writes the network, in evaluation mode, as an ONNX model of padded sets: a ``PaddedNetwork``.

    Inputs are named x and mask, and noise if the orderings are Sampled. The output is y. All sizes are dynamic: the
    number of sets, of elements and of permutations. It needs the packages of ``janossy[onnx]``. The warnings of torch's
    exporter are not shown; its errors are raised.

    Args:
        network: a network for ``PaddedNetwork`` that torch can export for any sizes. A BalancedTree is not.
        path: the path of the file, which holds the weights too.
        example: sets, or x and mask, with the features, dtype and device of the model's inputs. Sizes do not matter.
        opset: the version of ONNX's operators; None for torch's default.

    Shapes: x (B, n, *features), mask (B, n), noise (B, m, n) -> y (B, out).
    Invariance: that of the network's orderings.
    Raises:
        ImportError: without the packages.
        TypeError: for an argument of another type.
        ValueError: as ``PaddedNetwork``.
        FileNotFoundError: for a path in a folder that does not exist.

    Example:
        >>> import tempfile
        >>> network = JanossyNetwork(None, JanossyPooling(GRU(3, 8), Canonical()), nn.Linear(8, 1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export_onnx(network, f"{folder}/network.onnx", example=Ragged.from_sets([torch.randn(4, 3)]))
    """
    padded = PaddedNetwork(network)
    values = sets_of_example(example, "export_onnx").values
    check_integer("export_onnx", "opset", opset, 1, optional=True)
    _check_path(path)
    try:
        import onnx  # noqa: F401, PLC0415
        import onnxscript  # noqa: F401, PLC0415
    except ImportError as error:
        raise ImportError("export_onnx needs onnx and onnxscript: pip install 'janossy[onnx]'.") from error
    B, m, n = (torch.export.Dim(name, min=0) for name in "Bmn")
    x = values.new_zeros(2, 4, *values.shape[1:])  # sizes of 0 and 1 would be taken for constants
    inputs = {"x": x, "mask": torch.ones(2, 4, dtype=torch.bool, device=x.device)}
    sizes = {"x": {0: B, 1: n}, "mask": {0: B, 1: n}}
    if isinstance(network.pooling.orderings, Sampled):
        inputs["noise"] = torch.zeros(2, 3, 4, dtype=torch.float32, device=x.device)
        sizes["noise"] = {0: B, 1: m, 2: n}
    with evaluating(padded), _quiet(), torch.no_grad():  # the exporter would trace each loop's backward too
        torch.onnx.export(
            padded,
            tuple(inputs.values()),
            path,
            dynamo=True,
            dynamic_shapes=tuple(sizes.values()),
            input_names=list(inputs),
            output_names=["y"],
            opset_version=opset,
            external_data=False,
            verbose=False,
        )


def _check_path(path: Any) -> None:
    """Raises a TypeError unless this is a path, an OSError if its folder does not exist.

    A number would be taken for an open file, and closed.
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(
            f"export_onnx expects path as a str or PathLike; got {path!r}, of type {type(path).__name__}. "
            "Write 'network.onnx'."
        )
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"export_onnx expects a path in a folder that exists; got {path!r}. Make {folder}.")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences warnings, shown or logged: those of torch's exporter are long, and about its internals."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
