"""CSV files, compressed or not, in any encoding, read by DuckDB: all columns as text, in batches or as a table."""

import csv as standard
import lzma
import re
import zipfile
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, lookup
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shutil import copyfile, copyfileobj
from tempfile import TemporaryDirectory
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.csv_header import no_header, preamble, separator
from janossy.cli.workflow.frame_index import INDEX, Rising, with_index
from janossy.cli.workflow.side_by_side import numbered
from janossy.cli.workflow.text_casts import cast, type_of
from janossy.cli.workflow.text_types import Facts, Role, Spelling, Taken, taken_as_type
from janossy.tables.paths import COMPRESSED

try:
    import duckdb
except ImportError as error:
    raise ImportError("CSV files need duckdb: pip install 'janossy[cli]'", name="duckdb") from error

HEAD = 2**20
"""The bytes from which the delimiter and the header are found."""

LONGEST = 2**21
"""The longest line in bytes that DuckDB reads by default."""

BATCH = 2**16


@contextmanager
def interruptible() -> Iterator[None]:
    """Raises the KeyboardInterrupt that DuckDB turns into its own error."""
    try:
        yield
    except (RuntimeError, duckdb.Error) as error:
        if str(error) == "Query interrupted" or "KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from error
        raise


def _expanded(codec: str, file: Path) -> Any:
    return pa.input_stream(str(file), compression=codec)


def _zipped(file: Path) -> IO[bytes]:
    archive = zipfile.ZipFile(file)
    names = [name for name in archive.namelist() if not re.search(r"/$|(^|/)(\.|__MACOSX/)", name)]
    if len(names) != 1:
        raise BadArgument(f"{file} expects one file in the archive; got {len(names)}. Unpack it.")
    return archive.open(names[0])


OTHERS = {b"PAR1": "a Parquet file", b"ARROW1": "an Arrow file", b"PK\x03\x04": "an archive or a workbook"}
"""The first bytes of files that archives may hold, and that are not read there."""

TAR = 257, b"ustar"
"""The place and the mark of archives of tar."""

COMPRESSIONS: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": partial(_expanded, "gzip"),
    b"\x28\xb5\x2f\xfd": partial(_expanded, "zstd"),
    b"\xfd7zXZ\x00": lzma.open,
    b"PK\x03\x04": _zipped,
    b"BZh": partial(_expanded, "bz2"),
    b"\x04\x22\x4d\x18": partial(_expanded, "lz4"),
}
"""The first bytes of compressed files, with the functions that read them."""


@dataclass(frozen=True)
class Dialect:
    """The convention of CSV files, and the sheet of workbooks.

    A ``delimiter`` or ``encoding`` of None is detected. A ``sheet`` of None is the first.
    """

    spelling: Spelling = field(default_factory=Spelling)
    delimiter: str | None = None
    encoding: str | None = None
    sheet: str | None = None


def _without_wildcards(file: Path, kept: ExitStack) -> Path:
    """Returns the file, or a link or copy of it if DuckDB would read marks of its path as wildcards."""
    if not set("*?[") & set(str(file)):
        return file
    path = Path(kept.enter_context(TemporaryDirectory(prefix="janossy"))) / "table.csv"
    try:
        path.symlink_to(file.absolute())
    except OSError:  # Windows may forbid links
        copyfile(file, path)
    return path


def plain_text(file: Path, encoding: str | None, kept: ExitStack) -> Path:
    """Returns the file, or a copy of it that is decompressed and in UTF-8, or a link. ``kept`` removes these.

    Raises: BadArgument for an empty file, or one that is not in that encoding; OSError or ArrowException for a damaged
        file.
    """
    with file.open("rb") as opened:
        start = opened.read(8)
    if not start:
        raise BadArgument(f"{file} is empty.")
    expand = next((each for magic, each in COMPRESSIONS.items() if start.startswith(magic)), None)
    if expand is None and file.suffix.lower() in COMPRESSED:
        raise BadArgument(
            f"{file} cannot be read: it is damaged, cut short, or no {file.suffix} file. Name it .csv if it is not "
            "compressed."
        )
    if expand is None and encoding is None and not start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return _without_wildcards(file, kept)
    folder = Path(kept.enter_context(TemporaryDirectory(prefix="janossy")))
    path = folder / "table.csv"
    try:
        with path.open("wb") as out, expand(file) if expand else file.open("rb") as opened:
            copyfileobj(opened, out, 2**20)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError) as error:
        # RuntimeError is for an archive with a password, NotImplementedError for a compression that Python lacks.
        raise OSError(f"{error}") from None
    with path.open("rb") as opened:
        start = opened.read(512)
    if not start:
        raise BadArgument(f"{file} is empty.")
    found = next((kind for magic, kind in OTHERS.items() if start.startswith(magic)), None)
    if found or start.startswith(TAR[1], TAR[0]):
        raise BadArgument(f"{file}: expected a compressed CSV file; got {found or 'a tar archive'}. Unpack it.")
    if encoding is None and start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        encoding = "utf-16"
    if encoding is None or lookup(encoding).name == "utf-8":
        return path
    again = folder / "utf-8.csv"
    try:
        with path.open(encoding=encoding, newline="") as text, again.open("w", encoding="utf-8", newline="") as out:
            copyfileobj(text, out, 2**20)
    except UnicodeError as error:
        raise BadArgument(f"{file} is not in {encoding}: {error}. Name another --encoding.") from None
    return again


ANY = Dialect()
"""The dialect of a file without options."""


def _may_be_names(cells: Sequence[str]) -> bool:
    """Returns True if these cells may be the names of columns below a title."""
    return all(cells) and not re.search(r"\d\b", " ".join(cells))


class CsvFile:
    """A CSV file with its header read and columns as text. Close it, because it may have a copy on disk."""

    def __init__(self, file: Path, dialect: Dialect = ANY) -> None:
        self.file, self.dialect = file, dialect
        self._kept = ExitStack()
        self.path = plain_text(file, dialect.encoding, self._kept)
        with self.path.open("rb") as opened:
            content = opened.read(HEAD)
        text = self._decoded(content)
        if re.match(r"\s*(\[\s*)?\{\s*\"", text):
            raise BadArgument(
                f"{file}: expected a CSV file; got JSON. Call it .json if each line is an object, or all are a list."
            )
        self.skip, header = preamble(text)
        lines = text.splitlines(keepends=True)[self.skip :]
        if len(content) == HEAD and len(lines) > 1:
            lines = lines[:-1]
        if not "".join(lines).strip():
            raise BadArgument(f"{file} is empty.")
        self.delimiter = dialect.delimiter or header or separator(lines)
        names = next(cells for cells in standard.reader(lines, delimiter=self.delimiter) if cells)
        if names[0].startswith("#"):
            names[0] = names[0][1:]
        self.names, self.has_index = [name.strip() for name in names], False

    def __enter__(self) -> "CsvFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    def _decoded(self, content: bytes) -> str:
        content = content.removeprefix(BOM_UTF8)
        if b"\x00" in content[:1024]:
            raise BadArgument(f"{self.file} is not text in UTF-8. Convert it, or name its --encoding.")
        cut = content.rfind(b"\n") + 1 if len(content) > HEAD - 4 else len(content)
        try:
            return content[:cut].decode()
        except UnicodeDecodeError as error:
            if b"\n" not in content[: error.start].strip():
                raise BadArgument(
                    f"{self.file}: its header is not in UTF-8. Name its --encoding, such as cp1252."
                ) from None
            return content[:cut].decode(errors="replace")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows, in columns of text named 0, 1, …, with None for empty cells and null values.

        Raises: BadArgument, naming the file, and the row or column if it is known.
        """
        schema = pa.schema([(str(j), pa.large_string()) for j in range(len(self.names))])
        options: dict[str, Any] = {}
        path = self.path
        for attempt in range(3):
            given = False
            try:
                with interruptible(), duckdb.connect() as connection:
                    reader = connection.sql(self._query(path, options)).to_arrow_reader(BATCH)
                    for batch in reader:
                        given = True
                        yield pa.RecordBatch.from_arrays(
                            [c.cast(pa.large_string()) for c in batch.columns], schema=schema
                        )
                return
            except (duckdb.Error, pa.ArrowException) as error:
                self._diagnose()
                longest = max(map(len, path.open("rb")), default=0)
                if given or attempt == 2:
                    reason = str(error).splitlines()[0][:200]
                    raise BadArgument(f"{self.file} cannot be read ({reason}).") from None
                if longest > LONGEST and not options:
                    options = {"max_line_size": 2 * longest, "parallel": "false"}
                else:  # mixed line ends, and other things that Python's reader accepts
                    path = self._rewritten()

    def _query(self, path: Path, options: dict[str, Any]) -> str:
        columns = ", ".join(f"'{j}': 'VARCHAR'" for j in range(len(self.names)))
        skip = 0 if path != self.path else self.skip
        given = {
            "auto_detect": "false",
            "header": "true",
            "delim": _quoted(self.delimiter),
            "quote": "'\"'",
            "escape": "'\"'",
            "nullstr": "[" + ", ".join(map(_quoted, ("", *self.dialect.spelling.null_values))) + "]",
            "skip": skip,
            "columns": f"{{{columns}}}",
            "hive_partitioning": "false",  # or a folder a=1 in the path becomes a column
        } | options
        text = ", ".join(f"{name} = {value}" for name, value in given.items())
        # An empty line is not a row.
        where = ' WHERE "0" IS NOT NULL' if len(self.names) == 1 else ""
        return f"FROM read_csv({_quoted(str(path))}, {text}){where}"

    def _rewritten(self) -> Path:
        """Returns a copy in Python's reading of the file, with one kind of line ends."""
        folder = Path(self._kept.enter_context(TemporaryDirectory(prefix="janossy")))
        path = folder / "rewritten.csv"
        with path.open("w", encoding="utf-8", newline="") as out:
            writer = standard.writer(out, delimiter=self.delimiter, lineterminator="\n", quoting=standard.QUOTE_ALL)
            limit = standard.field_size_limit(2**31 - 1)
            try:
                writer.writerows(self._records())
            finally:
                standard.field_size_limit(limit)
        return path

    def _records(self, errors: str = "strict") -> Iterator[list[str]]:
        """Yields the header and the rows in Python's reading of the file."""
        with self.path.open(encoding="utf-8-sig", errors=errors, newline="") as text:
            for _ in range(self.skip):
                next(text)
            yield from filter(None, standard.reader(text, delimiter=self.delimiter, strict=True))

    def _diagnose(self) -> None:
        """Raises a BadArgument for the first row that differs from the header, ends in quotes, or is not UTF-8."""
        num, row = len(self.names), -1
        limit = standard.field_size_limit(2**31 - 1)
        try:
            for cells in self._records("surrogateescape"):
                row += 1
                for name, cell in zip(self.names, cells, strict=False):
                    if any("\udc80" <= mark <= "\udcff" for mark in cell):
                        raise BadArgument(
                            f"{self.file}, row {row}: column {name!r} is not in UTF-8. Name the file's "
                            "encoding, such as --encoding cp1252 (Windows) or mac-roman."
                        )
                if len(cells) != num:
                    other = f" between {self.delimiter!r}" if num == 1 or len(cells) == 1 else ""
                    raise BadArgument(
                        f"{self.file}, row {row}: Expected {num} columns, got {len(cells)}{other}. Correct it; at the "
                        "end, the file may be cut short."
                        + (" --delimiter names what stands between columns." if other else "")
                        + (f" {self._title()}" if row == 1 and num < len(cells) and _may_be_names(cells) else "")
                    )
        except standard.Error as error:
            if "unexpected end of data" in str(error):
                raise BadArgument(
                    f"{self.file}, row {row + 1}: quotes begin here and do not end. Correct it; the file may be cut "
                    "short."
                ) from None
            raise BadArgument(f"{self.file}, row {row + 1}: {error}. Correct it.") from None
        finally:
            standard.field_size_limit(limit)

    def table(self) -> pa.Table:
        """Returns all rows, with the header's column names. A column without a name must be empty, and is left out.

        The index of a frame is marked.
        Raises: BadArgument for a file that cannot be read, or another column with values and no name.
        """
        batches = list(self.batches())
        schema = pa.schema([(str(j), pa.large_string()) for j in range(len(self.names))])
        table = pa.Table.from_batches(batches, schema)
        index = Rising(self.names)
        index.add(table.column(0))
        self.check_names({j for j in range(len(self.names)) if table.column(j).null_count < table.num_rows}, index)
        names = [INDEX, *self.names[1:]] if self.has_index else self.names
        table = table.rename_columns(names).select([j for j, name in enumerate(names) if name])
        return with_index(table) if self.has_index else table

    def _title(self) -> str:
        """Returns a remedy for a title in the place of the header."""
        text = self.delimiter.join(filter(None, self.names))
        return f"If line {self.skip + 1}, {text!r:.80}, is a title, delete it, or begin it with #."

    def check_names(self, used: set[int], index: Rising) -> None:
        """Raises a BadArgument for a column in ``used``, by number, without a name. The first may be an ``index``."""
        self.has_index = index.holds
        for j, name in enumerate(self.names):
            if not name and j in used and not (j == 0 and self.has_index):
                title = "" if any(self.names[1:]) else f" {self._title()}"
                raise BadArgument(
                    f"{self.file}: column {j + 1} has no name. Give it one, or, if it is the index of a frame, write "
                    f"the file without it.{title}"
                )


class CsvFragment:
    """A CSV file with typed columns, read in batches like other files of ``pyarrow.dataset``."""

    partition_expression = pc.scalar(True)

    def __init__(self, csv: CsvFile, kinds: Mapping[str, str]) -> None:
        self.csv, self.kinds, self.path = csv, kinds, str(csv.file)
        self.physical_schema = pa.schema({name: type_of(kinds[name]) for name in csv.names if name})

    def to_batches(self, schema: pa.Schema, **_: Any) -> Iterator[pa.RecordBatch]:
        """Yields the rows in the columns of a schema."""
        spelling = self.csv.dialect.spelling
        for batch in self.csv.batches():
            columns = dict(zip(self.csv.names, batch.columns, strict=True))
            try:
                arrays = [cast(columns[name], self.kinds[name], spelling) for name in schema.names]
            except pa.ArrowException as error:
                reason = str(error).splitlines()[0][:100]
                raise BadArgument(
                    f"{self.path}: a value does not fit its column's type ({reason}). Correct it."
                ) from None
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def open_csv(
    files: Sequence[Path], dialect: Dialect, roles: Mapping[str, Role], kept: ExitStack, wide: Sequence[str] = ()
) -> tuple[list[CsvFragment], dict[str, Taken]]:
    """Returns CSV files with one schema after a pass over all of them, and the type of each column.

    Columns side by side, by the names in ``wide``, have one type. Lists stay text. ``kept`` closes the files.
    Raises: BadArgument, naming the file.
    """
    opened = [kept.enter_context(CsvFile(file, dialect)) for file in files]
    facts: dict[str, Facts] = {}
    side_by_side = numbered(opened[0].names, wide, opened[0].file)
    together = {name: stem for stem, columns in side_by_side.items() for name in columns.values()}
    for csv in opened:
        if twice := [name for name in csv.names if name and csv.names.count(name) > 1]:
            raise BadArgument(f"{csv.file}: two columns are called {twice[0]!r}. Rename one.{no_header(twice)}")
        used: set[int] = set()
        index = Rising(csv.names)
        for batch in csv.batches():
            index.add(batch.column(0))
            for j, (name, column) in enumerate(zip(csv.names, batch.columns, strict=True)):
                facts.setdefault(together.get(name, name), Facts()).add(column, dialect.spelling)
                used |= {j} if column.null_count < len(column) else set()
        csv.check_names(used, index)
    names = [name for csv in opened for name in csv.names if name]
    taken = {
        name: taken_as_type(facts.get(together.get(name, name), Facts()), roles.get(name, "target")) for name in names
    }
    kinds = {name: each.kind for name, each in taken.items()}
    return [CsvFragment(csv, kinds) for csv in opened], taken


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
