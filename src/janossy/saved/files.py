"""The files of a saved model: written whole or not at all, and read as what anybody may have written."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from secrets import token_hex
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

from torch import Tensor

try:
    from safetensors import SafetensorError
    from safetensors.torch import load, save
except ImportError as error:
    raise ImportError("janossy.saved needs safetensors: pip install 'janossy[estimators]'.") from error

FORMAT, VERSION = "janossy model", 1
DESCRIPTION, TENSORS = "model.json", "model.safetensors"
HEADER = ("format", "version", "written_by")
MOST_JSON = 64 * 2**20
"""Bytes of a description: parsed, text takes several times as much memory."""


class SavedModelError(ValueError):
    """What was read is no saved model, or a damaged one, or one that this version cannot read."""


@dataclass(frozen=True)
class Model:
    """What was saved: JSON values and tensors, by their names; and the versions of the libraries that wrote it."""

    description: dict[str, Any]
    tensors: dict[str, Tensor]
    written_by: dict[str, str]


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
    with _beside(path) as part:
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


def read_model(path: str | PathLike[str]) -> Model:
    """What ``write_model`` has written, from anybody: nothing in it is run, or unpacked to a place that it names.

    Memory is bounded by the sizes of the files, a few times that of the JSON.
    Raises: FileNotFoundError where there is nothing; SavedModelError for what is no saved model, a damaged one, or one
        of another format.
    """
    path = Path(path)
    if path.is_dir():
        contents = {name: _read_file(path / name) for name in (DESCRIPTION, TENSORS)}
    elif path.exists():
        contents = _read_zip(path)
    else:
        raise FileNotFoundError(f"there is no saved model at {path}.")
    description = _parsed(contents[DESCRIPTION], path)
    written_by = _check_header(description, path)
    try:
        tensors = load(contents[TENSORS])
    except (SafetensorError, ValueError, KeyError, AttributeError, RuntimeError) as error:
        raise SavedModelError(
            f"{path} expects tensors as safetensors writes them; got {TENSORS} that is damaged: {error}. Copy it again."
        ) from error
    return Model({name: value for name, value in description.items() if name not in HEADER}, tensors, written_by)


def version_of(package: str) -> str:
    """The version that is installed of this package."""
    try:
        return version(package)
    except PackageNotFoundError:  # run from a folder of sources
        return "unknown"


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
    if path.is_dir() == (path.suffix == ".zip") or not _looks_saved(path):
        raise FileExistsError(f"{path} is no saved model, which alone overwrite=True replaces. Give another path.")


def _looks_saved(path: Path) -> bool:
    try:
        content = _read_file(path / DESCRIPTION) if path.is_dir() else _read_zip(path)[DESCRIPTION]
        return _parsed(content, path).get("format") == FORMAT
    except (OSError, SavedModelError):
        return False


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A name in the same folder, of which nothing is left."""
    part = path.with_name(f".{path.name}.{token_hex(8)}.part")
    try:
        yield part
    finally:
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)


def _swap(new: Path, path: Path) -> None:
    """Put the folder in the place of one that may be there, which stays if that fails."""
    if not path.exists():
        new.rename(path)
        return
    with _beside(path) as old:
        path.rename(old)
        try:
            new.rename(path)
        except OSError:
            old.rename(path)
            raise


def _read_file(file: Path) -> bytes:
    if not file.is_file():  # also a pipe, or a device that never ends
        raise SavedModelError(
            f"{file.parent} expects {DESCRIPTION} and {TENSORS}; got no file {file.name}. Is this a saved model?"
        )
    if file.name == DESCRIPTION:
        _check_size(file.stat().st_size, file)
    return file.read_bytes()


def _read_zip(path: Path) -> dict[str, bytes]:
    """The two files of a zip, which are all that it may hold; stored, so that none is larger than the zip."""
    expected = f"{path} expects a zip of {DESCRIPTION} and {TENSORS}, stored and not compressed, as save writes it"
    try:
        with ZipFile(path) as archive:
            entries = archive.infolist()
            names = sorted(entry.filename for entry in entries)
            if names != [DESCRIPTION, TENSORS]:
                shown = ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")
                raise SavedModelError(f"{expected}; got {shown or 'nothing'}. Save the model again.")
            for entry in entries:
                if entry.compress_type != ZIP_STORED or entry.file_size > path.stat().st_size:
                    raise SavedModelError(
                        f"{expected}; got {entry.filename} otherwise. Unpack it, and load the folder."
                    )
                if entry.filename == DESCRIPTION:
                    _check_size(entry.file_size, path)
            return {entry.filename: archive.read(entry) for entry in entries}
    except (BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError) as error:
        if isinstance(error, SavedModelError):
            raise
        raise SavedModelError(f"{expected}; got a file that is none, or damaged: {error}.") from error


def _check_size(num_bytes: int, path: Path) -> None:
    if num_bytes > MOST_JSON:
        raise SavedModelError(f"{path} expects a description of at most {MOST_JSON} bytes; got {num_bytes}.")


def _parsed(content: bytes, path: Path) -> dict[str, Any]:
    try:
        description = json.loads(content.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise SavedModelError(
            f"{path} expects a description in JSON; got {DESCRIPTION} that is none: {error}."
        ) from None
    if not isinstance(description, dict):
        raise SavedModelError(f"{path} expects a JSON object as description; got {type(description).__name__}.")
    return description


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _check_header(description: dict[str, Any], path: Path) -> dict[str, str]:
    """The versions of the libraries that wrote it, if this one can read it."""
    if description.get("format") != FORMAT:
        raise SavedModelError(f"{path} expects format {FORMAT!r}; got {_short(description.get('format'))}.")
    written_by = description.get("written_by")
    if not isinstance(written_by, dict) or not all(isinstance(value, str) for value in written_by.values()):
        raise SavedModelError(f"{path} expects versions by name as written_by; got {_short(written_by)}.")
    if description.get("version") != VERSION or isinstance(description["version"], bool):
        raise SavedModelError(
            f"{path} expects version {VERSION} of the format, which janossy {version_of('janossy')} reads; got "
            f"{_short(description.get('version'))}, written by janossy {_short(written_by.get('janossy'))}. Load it "
            "with that version, or save it again with this one."
        )
    return written_by


def _short(value: Any) -> str:
    """So much of a value as fits a line."""
    text = repr(value) if not isinstance(value, dict | list) else type(value).__name__
    return text if len(text) <= 60 else text[:60] + "…"
