"""Files and folders that appear whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A name in the same folder, to be written to and renamed; of what is still there in the end nothing is left."""
    part = path.with_name(f".{path.name}.{token_hex(8)}.part")
    try:
        yield part
    finally:
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write to a file beside ``path``, then rename it: a full disk or a kill leaves the old file whole.

    Raises: OSError if it cannot be written.
    """
    with beside(path) as part:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
