"""Reading a saved model, as what anybody may have written."""

import json
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

from torch import Tensor

try:
    from safetensors import SafetensorError
    from safetensors.torch import load
except ImportError as error:
    raise ImportError("janossy.saving needs safetensors: pip install 'janossy[estimators]'.") from error

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


def read_model(path: str | PathLike[str]) -> Model:
    """What ``write_model`` has written, from anybody: nothing in it is run, or unpacked to a place that it names.

    Memory is bounded by the sizes of the files, a few times that of the JSON.
    Raises: FileNotFoundError where there is nothing; SavedModelError for what is no saved model, a damaged one, or one
        of another format.
    """
    path = Path(path)
    contents = _contents(path)
    description = _parsed(contents[DESCRIPTION], path)
    written_by = _check_header(description, path)
    try:
        tensors = load(contents[TENSORS])
    except (SafetensorError, ValueError, KeyError, AttributeError, RuntimeError) as error:
        raise SavedModelError(
            f"{path} expects tensors as safetensors writes them; got {TENSORS} that is damaged: {error}. Copy it again."
        ) from error
    return Model({name: value for name, value in description.items() if name not in HEADER}, tensors, written_by)


def digest(path: str | PathLike[str]) -> str:
    """What tells a model from others: the SHA-256 of what was saved, the same for a folder and its zip.

    Raises: FileNotFoundError where there is nothing; SavedModelError for what is no saved model.
    """
    found = sha256()
    for content in _contents(Path(path)).values():
        found.update(sha256(content).digest())
    return found.hexdigest()


def _contents(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        return {name: _read_file(path / name) for name in (DESCRIPTION, TENSORS)}
    if path.exists():
        return _read_zip(path)
    raise FileNotFoundError(f"there is no saved model at {path}.")


def looks_saved(path: Path) -> bool:
    """Whether it holds a saved model's description, of any version."""
    try:
        content = _read_file(path / DESCRIPTION) if path.is_dir() else _read_zip(path)[DESCRIPTION]
        return _parsed(content, path).get("format") == FORMAT
    except (OSError, SavedModelError):
        return False


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
            return {entry.filename: archive.read(entry) for entry in sorted(entries, key=lambda entry: entry.filename)}
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


def version_of(package: str) -> str:
    """The version that is installed of this package."""
    try:
        return version(package)
    except PackageNotFoundError:  # run from a folder of sources
        return "unknown"
