"""Saved models with their tensors: written whole, and read back."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from janossy.files.atomic import claimed, put_folder
from janossy.files.typed_json import decode
from janossy.saving.reading import (
    DESCRIPTION,
    FORMAT,
    HEADER,
    NO_DIGEST,
    TENSORS,
    VERSION,
    SavedModelError,
    looks_saved,
    own_digest,
    read_contents,
    version_of,
)


@dataclass(frozen=True)
class Model:
    """A saved model: JSON values and tensors by name, and the versions of the libraries that wrote it.

    ``version`` is that of the format.
    """

    description: dict[str, Any]
    tensors: dict[str, Tensor]
    written_by: dict[str, str]
    version: int


def read_model(path: str | PathLike[str]) -> Model:
    """Reads a model that ``write_model`` has written. The file may come from an untrusted source.

    Nothing in it is run, or unpacked to a place that it names. Memory is bounded by the sizes of the files, a few times
    that of the JSON.

    Raises: FileNotFoundError if nothing is there; SavedModelError if it is not a saved model, is damaged, or has
        another format.
    """
    contents = read_contents(path)
    try:
        tensors = load(contents.tensors)
    except (SafetensorError, ValueError, KeyError, AttributeError, RuntimeError) as error:
        raise SavedModelError(
            f"{path} expects tensors as safetensors writes them; got {TENSORS} that is damaged: {error}. Copy it again."
        ) from error
    return Model(contents.description, tensors, contents.written_by, contents.version)


def write_model(
    path: str | PathLike[str],
    description: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    overwrite: bool = False,
) -> Path:
    """Writes a model as a folder of model.json and model.safetensors, or as a zip of it if the path ends in .zip.

    It appears whole or not at all: the files are written beside it, under another name, and then renamed. If the system
    can exchange two names, there is a model at every moment while another is replaced.

    Args:
        description: JSON values, such as the result of ``describe`` under the name "network". It may hold more, such as
            the state of an encoder, or scores. "format", "version", "digests" and "written_by" are added.
        tensors: tensors by name.
        overwrite: True to replace a saved model that is there, with all files in its folder. Of a link to one, the
            link alone is replaced. Nothing else is ever replaced.

    Raises:
        TypeError: for a description that is not JSON values, or values that are not tensors.
        ValueError: for NaN in the description, a name that is added, or tensors that share memory.
        FileExistsError: if there is something at the path that may not be replaced.
    """
    path = Path(path)
    if taken := [name for name in HEADER if name in description]:
        raise ValueError(f"a model's description leaves {', '.join(HEADER)} to janossy; got {', '.join(taken)}.")
    _check_no_ties(tensors)
    stored = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, {"format": "pt"})
    contents = {DESCRIPTION: signed(description, stored), TENSORS: stored}
    _check_place(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    with claimed(path, wait=True) as part:
        _check_place(path, overwrite)  # another process may have written there during the wait
        if path.suffix == ".zip":
            with ZipFile(part, "w", ZIP_STORED) as archive:
                for name, content in contents.items():
                    archive.writestr(name, content)
            part.replace(path)
        else:
            part.mkdir()
            for name, content in contents.items():
                (part / name).write_bytes(content)
                _sync(part / name)
            put_folder(part, path)
    return path


def signed(description: Mapping[str, Any], tensors: bytes) -> bytes:
    """Returns the JSON of a description, with the digests of the tensors and of itself.

    Raises: TypeError or ValueError for values that are not JSON, and for more than can be read again.
    """
    written_by = {name: version_of(name) for name in ("janossy", "torch")}
    digests = {DESCRIPTION: NO_DIGEST, TENSORS: sha256(tensors).hexdigest()}
    header = dict(zip(HEADER, (FORMAT, VERSION, digests, written_by), strict=True))
    try:
        text = json.dumps(header | dict(description), indent=1, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"a model's description expects JSON values, all finite; got others: {error}.") from error
    try:
        decode(text)
    except ValueError as error:
        raise ValueError(
            f"a model's description cannot be read again: {error}. Put large things into tensors."
        ) from None
    return text.replace(NO_DIGEST.encode(), own_digest(text, NO_DIGEST).encode(), 1)


def _check_no_ties(tensors: Mapping[str, Tensor]) -> None:
    owners: dict[int, str] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"a model expects tensors; got {name}, of type {type(tensor).__name__}.")
        first = owners.setdefault(tensor.data_ptr(), name) if tensor.numel() else name
        if first != name:
            raise ValueError(
                f"a model expects tensors that share no memory; got {first} and {name}, which do. They would come "
                "back as two: clone one of them."
            )


def _check_place(path: Path, overwrite: bool) -> None:
    if not path.exists() and not path.is_symlink():
        return
    if not overwrite:
        raise FileExistsError(f"{path} exists. Give another path, or overwrite=True to replace a saved model.")
    if path.is_dir() == (path.suffix == ".zip") or not looks_saved(path):
        raise FileExistsError(
            f"{path} is not a saved model; overwrite=True replaces only saved models. Give another path."
        )


def _sync(file: Path) -> None:
    """Waits until the file is on the disk."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
