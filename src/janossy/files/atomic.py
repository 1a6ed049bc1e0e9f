"""Files and folders that appear whole or not at all."""

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class ClaimedByAnother(OSError):
    """An error: another process is writing to the same place."""


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Gives a name in the same folder, to write to and then rename; removes what is still there at the end."""
    part = path.with_name(f".{path.name}.{token_hex(8)}.part")
    try:
        yield part
    finally:
        _remove(part)


@contextmanager
def claimed(path: Path, *, wait: bool = False) -> Iterator[Path]:
    """Gives a name as ``beside`` does, and locks the path against other processes until the end.

    Files left behind by killed writers of this path are removed. If one of them had moved a folder aside, the folder
    comes back. A system without file locks excludes nobody and removes nothing.

    Args:
        wait: True to wait for another process that holds the lock, instead of raising.

    Raises: ClaimedByAnother if another process holds the lock.
    """
    lock = path.with_name(f".{path.name}.lock")
    number = _locked(lock, wait)
    try:
        if number is not None:
            _restore(path)
        with beside(path) as part:
            yield part
    finally:
        if number is not None:
            lock.unlink(missing_ok=True)
            os.close(number)


def put_folder(new: Path, path: Path) -> None:
    """Puts a folder at ``path``, replacing one that is there, in one step if the system can exchange two names.

    Otherwise the old folder is moved aside first. It comes back if the second step fails, or at the next ``claimed``.
    Of a link to a folder the link alone is replaced.
    """
    if not path.exists():
        new.rename(path)
        return
    if exchange_names(new, path):
        _remove(new)
        return
    old = path.with_name(f".{path.name}.{token_hex(8)}.old")
    path.rename(old)
    try:
        new.rename(path)
    except OSError:
        old.rename(path)
        raise
    _remove(old)


def write_whole(path: Path, content: bytes) -> None:
    """Writes to a file beside ``path``, then renames it: after a full disk or a kill the old file is still whole.

    Raises: OSError if the file cannot be written.
    """
    with beside(path) as part:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)


def _remove(part: Path) -> None:
    if part.is_dir() and not part.is_symlink():
        shutil.rmtree(part)
    else:
        part.unlink(missing_ok=True)


def _locked(lock: Path, wait: bool) -> int | None:
    """Returns an open file that is locked until it is closed; None if the system has no locks."""
    if fcntl is None:
        return None
    while True:
        number = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(number)
            raise ClaimedByAnother(f"another process is writing to {lock.name[1:-5]} in {lock.parent} now.") from None
        except OSError:  # a file system without locks
            os.close(number)
            lock.unlink(missing_ok=True)
            return None
        with suppress(FileNotFoundError):  # the owner of this file removed it meanwhile
            if os.path.samestat(os.fstat(number), lock.stat()):
                return number
        os.close(number)


def _restore(path: Path) -> None:
    """Removes what killed writers left, and brings back a folder that was moved aside and not replaced."""
    for left in _left(path, ".old"):
        if path.exists():
            _remove(left)
        else:
            left.rename(path)
    for left in _left(path, ".part"):
        _remove(left)


def _left(path: Path, suffix: str) -> list[Path]:
    begin, length = f".{path.name}.", 16  # of the token
    names = os.listdir(path.parent)
    return [
        path.with_name(name)
        for name in names
        if name.startswith(begin) and name.endswith(suffix) and len(name) == len(begin) + length + len(suffix)
    ]


def exchange_names(one: Path, other: Path) -> bool:
    """Exchanges two names in one step; returns False if the system cannot."""
    name = {"linux": "renameat2", "darwin": "renameatx_np"}.get(sys.platform)
    if name is None:
        return False
    here, exchange = (-100, 2) if sys.platform == "linux" else (-2, 2)  # AT_FDCWD, and RENAME_EXCHANGE or RENAME_SWAP
    try:
        rename = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError):  # an older libc
        return False
    rename.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)
