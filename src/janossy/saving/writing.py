"""Writing a saved model: whole or not at all."""

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

from safetensors.torch import save
from torch import Tensor

from janossy.atomic import beside
from janossy.saving.reading import DESCRIPTION, FORMAT, HEADER, MOST_JSON, TENSORS, VERSION, looks_saved, version_of


def write_model(
    path: str | PathLike[str],
    description: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    overwrite: bool = False,
) -> Path:
    """Write a model as a folder of model.json and model.safetensors, or, for a path that ends in .zip, as a zip of it.

    It appears whole or not at all: all is written beside it, under another name, and then renamed.

    Args:
        description: JSON values, such as ``describe`` gives of a network under the name "network", and whatever else
            is to be known: the state of an encoder, scores. "format", "version" and "written_by" are added.
        overwrite: replace a saved model that is there already, with all that is in its folder. Nothing else is ever
            replaced.

    Raises: TypeError or ValueError for a description that JSON does not hold, NaN included, one of those three names,
        or tensors that share memory; FileExistsError if there is something at the path that may not be replaced.
    """
    path = Path(path)
    if taken := [name for name in HEADER if name in description]:
        raise ValueError(f"a model's description leaves {', '.join(HEADER)} to janossy; got {', '.join(taken)}.")
    _check_no_ties(tensors)
    written_by = {name: version_of(name) for name in ("janossy", "torch")}
    header = dict(zip(HEADER, (FORMAT, VERSION, written_by), strict=True))
    try:
        text = json.dumps(header | dict(description), indent=1, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"a model's description expects JSON values, all finite; got others: {error}.") from error
    contents = {
        DESCRIPTION: text,
        TENSORS: save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, {"format": "pt"}),
    }
    if len(text) > MOST_JSON:
        raise ValueError(
            f"a model's description expects at most {MOST_JSON} bytes of JSON; got {len(text)}. Put large things into "
            "tensors."
        )
    _check_place(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    with beside(path) as part:
        if path.suffix == ".zip":
            with ZipFile(part, "w", ZIP_STORED) as archive:
                for name, content in contents.items():
                    archive.writestr(name, content)
            part.replace(path)
        else:
            part.mkdir()
            for name, content in contents.items():
                (part / name).write_bytes(content)
            _swap(part, path)
    return path


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
        raise FileExistsError(f"{path} is no saved model, which alone overwrite=True replaces. Give another path.")


def _swap(new: Path, path: Path) -> None:
    """Put the folder in the place of one that may be there, which stays if that fails."""
    if not path.exists():
        new.rename(path)
        return
    with beside(path) as old:
        path.rename(old)
        try:
            new.rename(path)
        except OSError:
            old.rename(path)
            raise
