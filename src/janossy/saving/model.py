"""Model: what was saved, with its tensors."""

from dataclasses import dataclass
from os import PathLike
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from janossy.saving.reading import TENSORS, SavedModelError, read_contents


@dataclass(frozen=True)
class Model:
    """What was saved: JSON values and tensors, by their names; and the versions of the libraries that wrote it.

    ``version``: of the format.
    """

    description: dict[str, Any]
    tensors: dict[str, Tensor]
    written_by: dict[str, str]
    version: int


def read_model(path: str | PathLike[str]) -> Model:
    """Reads what ``write_model`` has written, from anybody: nothing in it is run, or unpacked to a place that it names.

    Memory is bounded by the sizes of the files, a few times that of the JSON.

    Raises: FileNotFoundError if nothing is there; SavedModelError for what is no saved model, a damaged one, or one of
        another format.
    """
    found = read_contents(path)
    try:
        tensors = load(found.tensors)
    except (SafetensorError, ValueError, KeyError, AttributeError, RuntimeError) as error:
        raise SavedModelError(
            f"{path} expects tensors as safetensors writes them; got {TENSORS} that is damaged: {error}. Copy it again."
        ) from error
    return Model(found.description, tensors, found.written_by, found.version)
