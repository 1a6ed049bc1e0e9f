"""The files of one table, from paths, patterns and folders, with the columns that folders' names give."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from os import PathLike
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import pyarrow as pa
from pyarrow import dataset, fs

from janossy.tables.arrow import index_columns

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]

FORMATS = {".parquet": "parquet", ".pq": "parquet"}
"""Arrow's format, by the ending of a file's name."""

READ_BY = {
    "parquet": dataset.ParquetFileFormat(
        # By default, Arrow holds everything that it reads ahead until the end of the file.
        default_fragment_scan_options=dataset.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
    )
}


@dataclass(frozen=True, eq=False)
class Files:
    """The files of a table in the order of their names, with its schema: columns of the files and of the folders.

    ``index_columns``: the columns that were the index of a pandas frame.
    """

    fragments: tuple[Any, ...]
    """The fragments of ``pyarrow.dataset``, one per file."""
    schema: pa.Schema
    index_columns: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(fragment.path for fragment in self.fragments)


def open_files(paths: Paths, formats: Mapping[str, str] = FORMATS) -> Files:
    """Returns the files that these paths name, which have one schema.

    Folders called year=2024 give their files a column, year. A path may be an address in a store, such as
    s3://bucket/folder, of Arrow's file systems or of fsspec's.

    Args:
        formats: the format of ``pyarrow.dataset`` by the ending of a name. A folder stands for all such files below
            it. Files and folders whose names begin with a dot or an underscore are skipped.

    Raises: FileNotFoundError if a path has no such file. ValueError, naming the file, if one is given twice, cannot be
        read, or has other columns.
    """
    listed = [paths] if isinstance(paths, str | PathLike) else list(paths)
    fragments: list[Any] = []
    schemas: list[pa.Schema] = []
    for path in listed:
        store, root, files = stored_files(path, formats) if is_address(path) else (None, *found_files(path, formats))
        endings = {formats[ending_of(file)] for file in files}
        if len(endings) > 1:
            raise ValueError(f"{path} expects files of one format; got {' and '.join(sorted(endings))}.")
        try:
            opened = dataset.dataset(
                [str(file) for file in files],
                filesystem=store,
                format=READ_BY.get(ending := endings.pop(), ending),
                partitioning=None if root is None else dataset.partitioning(flavor="hive"),
                partition_base_dir=None if root is None else str(root),
            )
            fragments += opened.get_fragments()
        except (pa.ArrowException, OSError) as error:  # it does not always name the file
            raise _unreadable(next((file for file in files if _damaged(file, store)), path), error) from None
        schemas += [_with_folders(opened.schema, fragment) for fragment in fragments[len(schemas) :]]
    names = [Path(fragment.path).resolve() for fragment in fragments]
    if twice := next((name for name in names if names.count(name) > 1), None) if len(listed) > 1 else None:
        raise ValueError(f"expected different files of one table; got {twice} twice. Name it once.")
    for fragment, schema in zip(fragments, schemas, strict=True):
        check_alike(schemas[0], schema, fragments[0].path, fragment.path)
    index = index_columns(fragments[0].physical_schema)
    return Files(tuple(fragments), schemas[0], tuple(index))


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


COMPRESSED = (".gz", ".zst", ".xz", ".zip", ".bz2", ".lz4")
"""Endings of compressed files."""


def _hidden(file: PurePath) -> bool:
    return any(part.startswith((".", "_")) for part in file.parts)


def _with_folders(schema: pa.Schema, fragment: Any) -> pa.Schema:
    """Returns the schema of a file with the columns of its folders, whose types ``schema`` gives."""
    try:
        columns = fragment.physical_schema
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(fragment.path, error) from None
    names = columns.names
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{fragment.path}: two columns are called {twice[0]!r}. Rename one.")
    for name in dataset.get_partition_keys(fragment.partition_expression):
        columns = columns.append(schema.field(name)) if name not in names else columns
    return columns.remove_metadata()


def check_alike(first: pa.Schema, other: pa.Schema, first_name: str, other_name: str) -> None:
    """Raises a ValueError unless both schemas have the same columns, in any order."""
    if differ := sorted(set(first.names) ^ set(other.names)):
        name = differ[0]
        has, lacks = (first_name, other_name) if name in first.names else (other_name, first_name)
        raise ValueError(f"{lacks} has no column {name!r}, which {has} has. Files of one table have the same columns.")
    for field in first:
        if (kind := other.field(field.name).type) != field.type:
            raise ValueError(
                f"column {field.name!r} is {field.type} in {first_name}, and {kind} in {other_name}. Files of a table "
                "have columns of the same types. Write one of them again."
            )


def _damaged(file: PurePath, store: fs.FileSystem | None) -> bool:
    try:
        dataset.dataset(str(file), filesystem=store, format=FORMATS.get(file.suffix, "ipc"))
    except (pa.ArrowException, OSError):
        return True
    return False


def _unreadable(path: Any, error: Exception) -> ValueError:
    reason = str(error).splitlines()[0].rstrip(".")[:200] if str(error) else type(error).__name__
    return ValueError(f"{path} cannot be read: it is damaged, cut short, or of another format ({reason}).")
