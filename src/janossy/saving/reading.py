"""Reading of saved models, which may come from an untrusted source, without torch."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

from janossy.files.typed_json import MAX_BYTES, decode

try:
    from safetensors import SafetensorError, deserialize
except ImportError as error:
    raise ImportError("janossy.saving needs safetensors: pip install 'janossy[estimators]'.") from error

FORMAT, VERSION = "janossy model", 2
READ = (1, 2)
"""The versions of the format that can be read."""
DESCRIPTION, TENSORS = "model.json", "model.safetensors"
HEADER = ("format", "version", "digests", "written_by")
NO_DIGEST = "0" * 64
"""The placeholder of the description's own digest while that is computed."""
ATTEMPTS = 10
"""The attempts to read a folder that is replaced meanwhile."""


class SavedModelError(ValueError):
    """The error of reading a file that is not a saved model, is damaged, or is not readable by this version."""


@dataclass(frozen=True)
class Contents:
    """The contents of a saved model: JSON values by name, the bytes of the tensors, and the versions that wrote it.

    ``version`` is that of the format.
    """

    description: dict[str, Any]
    tensors: bytes
    written_by: dict[str, str]
    version: int


def read_contents(path: str | PathLike[str]) -> Contents:
    """Reads the files that ``write_model`` has written, and compares them with their digests.

    Memory is bounded by the sizes of the files, a few times that of the JSON.

    Raises: FileNotFoundError if nothing is there; SavedModelError if it is not a saved model, is damaged, or has
        another format.
    """
    path = Path(path)
    files = _contents(path)
    description = _parsed(files[DESCRIPTION], path)
    written_by = _check_header(description, path)
    if description["version"] > 1:
        _check_digests(description.get("digests"), files, path)
    values = {name: value for name, value in description.items() if name not in HEADER}
    return Contents(values, files[TENSORS], written_by, description["version"])


def shapes(tensors: bytes) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each tensor.

    Raises: SavedModelError if these bytes are not from safetensors.
    """
    try:
        return {name: tuple(about["shape"]) for name, about in deserialize(tensors)}
    except (SafetensorError, ValueError, KeyError) as error:
        raise SavedModelError(f"a saved model expects tensors as safetensors writes them; got {error}.") from error


def digest(path: str | PathLike[str]) -> str:
    """Returns the SHA-256 that identifies a saved model, the same for a folder and its zip.

    Raises: FileNotFoundError if nothing is there; SavedModelError if it is not a saved model.
    """
    sha = sha256()
    for content in _contents(Path(path)).values():
        sha.update(sha256(content).digest())
    return sha.hexdigest()


def own_digest(content: bytes, said: str) -> str:
    """Returns the SHA-256 of a description with its own digest, ``said``, replaced by the placeholder."""
    return sha256(content.replace(said.encode(), NO_DIGEST.encode(), 1)).hexdigest()


def _contents(path: Path) -> dict[str, bytes]:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"there is no saved model at {path}.") from None
    if stat.S_ISDIR(mode):
        return _read_folder(path)
    if not stat.S_ISREG(mode):  # a pipe, or a device that never ends
        raise SavedModelError(
            f"{path} expects a folder, or a zip of it; got a pipe or a device. Is this a saved model?"
        )
    return _read_zip(path)


def looks_saved(path: Path) -> bool:
    """Returns True if the path holds the description of a saved model, of any version."""
    try:
        content = _read_file(path, DESCRIPTION) if path.is_dir() else _contents(path)[DESCRIPTION]
        return _parsed(content, path).get("format") == FORMAT
    except (OSError, SavedModelError):
        return False


def _read_folder(path: Path) -> dict[str, bytes]:
    """Reads both files of one folder, even while another model replaces it."""
    if os.open not in os.supports_dir_fd:
        return {name: _read_file(path, name) for name in (DESCRIPTION, TENSORS)}
    for _ in range(ATTEMPTS):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return {name: _read_file(path, name, folder) for name in (DESCRIPTION, TENSORS)}
        except SavedModelError:
            try:
                if os.path.samestat(os.fstat(folder), path.stat()):
                    raise
            except FileNotFoundError:
                raise FileNotFoundError(f"there is no saved model at {path}.") from None
        finally:
            os.close(folder)
    raise SavedModelError(f"{path} is replaced again and again while it is read. Load it later.")


def _read_file(path: Path, name: str, folder: int | None = None) -> bytes:
    expected = f"{path} expects {DESCRIPTION} and {TENSORS}; got no file {name}. Is this a saved model?"
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a pipe may have no writer
    try:
        number = os.open(name, flags, dir_fd=folder) if folder is not None else os.open(path / name, flags)
    except PermissionError:
        raise
    except OSError as error:
        raise SavedModelError(expected) from error
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise SavedModelError(expected)
        if name == DESCRIPTION:
            _check_size(status.st_size, path)
        with os.fdopen(number, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(number)


def _read_zip(path: Path) -> dict[str, bytes]:
    """Reads the two files of a zip.

    The zip may hold nothing else, and they must be stored uncompressed, so that none is larger than the zip.
    """
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
    except PermissionError:
        raise
    except (BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError, OSError) as error:
        if isinstance(error, SavedModelError):
            raise
        raise SavedModelError(f"{expected}; got a file that is not a model, or is damaged: {error}.") from error


def _check_size(num_bytes: int, path: Path) -> None:
    if num_bytes > MAX_BYTES:
        raise SavedModelError(f"{path} expects a description of at most {MAX_BYTES} bytes; got {num_bytes}.")


def _parsed(content: bytes, path: Path) -> dict[str, Any]:
    try:
        description = decode(content)
    except ValueError as error:
        raise SavedModelError(
            f"{path} expects a description in JSON; got {DESCRIPTION}, which is not JSON: {error}."
        ) from None
    if not isinstance(description, dict):
        raise SavedModelError(f"{path} expects a JSON object as description; got {type(description).__name__}.")
    return description


def _check_header(description: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Returns the versions of the libraries that wrote it. Raises: SavedModelError for another format."""
    if description.get("format") != FORMAT:
        raise SavedModelError(f"{path} expects format {FORMAT!r}; got {_short(description.get('format'))}.")
    written_by = description.get("written_by")
    if not isinstance(written_by, dict) or not all(isinstance(value, str) for value in written_by.values()):
        raise SavedModelError(f"{path} expects versions by name as written_by; got {_short(written_by)}.")
    number = description.get("version")
    if type(number) is not int or number not in READ:
        raise SavedModelError(
            f"{path} expects version {' or '.join(map(str, READ))} of the format, which janossy "
            f"{version_of('janossy')} reads; got {_short(number)}, written by janossy "
            f"{_short(written_by.get('janossy'))}. Load it with that version, or save it again with this one."
        )
    return written_by


def _check_digests(said: Any, files: Mapping[str, bytes], path: Path) -> None:
    """Raises a SavedModelError unless the files have the digests that the description says."""
    if not isinstance(said, dict) or set(said) != {DESCRIPTION, TENSORS} or not all(map(_is_digest, said.values())):
        raise SavedModelError(f"{path} expects digests of {DESCRIPTION} and {TENSORS}; got {_short(said)}.")
    if own_digest(files[DESCRIPTION], said[DESCRIPTION]) != said[DESCRIPTION]:
        raise SavedModelError(
            f"{path} expects {DESCRIPTION} with the digest that it says; got another: it was edited, or is damaged. "
            "Copy it again."
        )
    if sha256(files[TENSORS]).hexdigest() != said[TENSORS]:
        raise SavedModelError(
            f"{path} expects {TENSORS} with the digest that {DESCRIPTION} says; got another: it is damaged, or of "
            "another model. Copy it again."
        )


def _is_digest(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 64 and set(text) <= set("0123456789abcdef")


def _short(value: Any) -> str:
    """Returns a value as text that fits a line."""
    text = repr(value) if not isinstance(value, dict | list) else type(value).__name__
    return text if len(text) <= 60 else text[:60] + "…"


def version_of(package: str) -> str:
    """Returns the installed version of this package."""
    try:
        return version(package)
    except PackageNotFoundError:  # run from a folder of sources
        return "unknown"
