"""The files that paths, patterns, folders and addresses in stores name."""

import re
from collections.abc import Mapping, Sequence
from glob import glob, has_magic
from os import PathLike
from pathlib import Path, PurePath, PurePosixPath

import pyarrow as pa
from pyarrow import fs

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]

FORMATS = {".parquet": "parquet", ".pq": "parquet"}
"""Arrow's format, by the ending of a file's name."""

COMPRESSED = (".gz", ".zst", ".xz", ".zip", ".bz2", ".lz4")
"""Endings of compressed files."""


def found_files(path: str | PathLike[str], formats: Mapping[str, str]) -> tuple[Path | None, list[Path]]:
    """Returns the files of a path, sorted by name, and the root folder below which folders' names are columns."""
    text = str(path)
    if has_magic(text) and not Path(text).exists():
        parts = Path(text).parts
        root = Path(*parts[: next(i for i, part in enumerate(parts) if has_magic(part))])
        matches = [Path(name) for name in glob(text, recursive=True)]
        files = [file for file in matches if file.is_file()]
    else:
        root = Path(text)
        if root.is_file():
            if ending_of(root) not in formats:
                ending = ending_of(root) or "no ending"
                raise ValueError(f"{path} expects a file in {', '.join(formats)}; got {ending}.")
            return None, [root]
        if not root.exists():
            raise FileNotFoundError(f"there is no file or folder {path}.")
        files = [file for file in root.rglob("*") if file.is_file()]
    files = [file for file in files if ending_of(file) in formats and not _hidden(file.relative_to(root))]
    if not files:
        raise FileNotFoundError(f"{path} holds no file in {', '.join(formats)}.")
    return root, sorted(files)


def is_address(path: str | PathLike[str]) -> bool:
    """Returns True for the address of a file or folder in a store, such as s3://bucket/folder."""
    return isinstance(path, str) and re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+://", path) is not None


def stored_files(
    address: str | PathLike[str], formats: Mapping[str, str]
) -> tuple[fs.FileSystem, PurePosixPath | None, list[PurePosixPath]]:
    """Returns the store of an address, the folder that it names, or None for one file, and its files, sorted by name.

    The store is Arrow's, or else fsspec's.
    Raises: FileNotFoundError if there is no such file; ValueError for a store that neither knows.
    """
    try:
        store, inner = fs.FileSystem.from_uri(str(address))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        store, inner = _by_fsspec(str(address), error)
    found = store.get_file_info(inner)
    if found.type == fs.FileType.File:
        if ending_of(file := PurePosixPath(inner)) not in formats:
            raise ValueError(f"{address} expects a file in {', '.join(formats)}; got {ending_of(file) or 'no ending'}.")
        return store, None, [file]
    if found.type == fs.FileType.NotFound:
        raise FileNotFoundError(f"there is no file or folder {address}. Name one; patterns work for local files only.")
    root = PurePosixPath(inner)
    each = [
        PurePosixPath(info.path) for info in store.get_file_info(fs.FileSelector(inner, recursive=True)) if info.is_file
    ]
    files = [file for file in each if ending_of(file) in formats and not _hidden(file.relative_to(root))]
    if not files:
        raise FileNotFoundError(f"{address} holds no file in {', '.join(formats)}.")
    return store, root, sorted(files)


def _by_fsspec(address: str, error: Exception) -> tuple[fs.FileSystem, str]:
    try:
        import fsspec  # noqa: PLC0415

        found, inner = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as other:
        raise ValueError(f"{address} names a store that is not known: {error}; by fsspec: {other}.") from None
    return fs.PyFileSystem(fs.FSSpecHandler(found)), inner


def ending_of(file: PurePath) -> str:
    """Returns the ending of a file's name in lower case, two endings for a compressed file: .csv.gz."""
    ending = file.suffix.lower()
    return PurePath(file.stem).suffix.lower() + ending if ending in COMPRESSED else ending


def _hidden(file: PurePath) -> bool:
    return any(part.startswith((".", "_")) for part in file.parts)
