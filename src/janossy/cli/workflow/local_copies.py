"""Local copies of files in stores (s3://…), for readers that take only local files."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory

from pyarrow import fs

from janossy.cli.errors import BadArgument


@contextmanager
def local_copy(store: fs.FileSystem, path: PathLike[str], name: str) -> Iterator[Path]:
    """Makes a local copy of a file in a store, inside ``with``. Errors of the commands call it ``name``."""
    with TemporaryDirectory(prefix="janossy") as folder:
        copy = Path(folder, Path(path).name)
        with store.open_input_stream(str(path), compression=None) as remote, copy.open("wb") as out:
            copyfileobj(remote, out, 2**20)
        try:
            yield copy
        except BadArgument as error:
            raise BadArgument(error.message.replace(str(copy), name)) from None
