"""The files of one table, as fragments of ``pyarrow.dataset``, with the columns that folders' names give."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
from pyarrow import dataset, fs

from janossy.tables.arrow import index_columns
from janossy.tables.paths import FORMATS, Paths, ending_of, found_files, is_address, stored_files

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
        ending = endings.pop()
        # Without a schema, Arrow opens the first file to find one, and later again for its footer.
        schema = pa.schema([]) if root is None and ending == "parquet" else None
        try:
            opened = dataset.dataset(
                [str(file) for file in files],
                schema=schema,
                filesystem=store,
                format=READ_BY.get(ending, ending),
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
