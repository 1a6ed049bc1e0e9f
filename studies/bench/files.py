"""Files of data sets, from the user's folder or downloaded once, with checks of their contents."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import torch

from janossy.files.atomic import beside

MAX_DOWNLOAD = 2**28
"""The largest download in bytes. The largest data set has a tenth of it."""

TIMEOUT = 60
"""The seconds without an answer after which a download fails."""


def file_at(data: Path | None, place: str, url: str) -> Path:
    """Returns the file at this place below ``data`` if it exists; else its copy in the cache, downloaded once.

    The cache is the folder janossy beside torch.hub's: ~/.cache/torch/janossy, or $TORCH_HOME/janossy.

    Raises: OSError, naming the source, if it cannot be downloaded.
    """
    if data is not None and (data / place).is_file():
        return data / place
    file = Path(torch.hub.get_dir()).parent / "janossy" / place
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            _download(url, file)
        except OSError as error:
            where = "" if data is None else f" is not below {data}, and"
            raise OSError(
                f"{place}{where} could not be downloaded from {url} ({error}). Give the folder that has {place}."
            ) from error
    return file


def _download(url: str, file: Path) -> None:
    """Downloads a URL to a file, whole. Raises: OSError, also for more than ``MAX_DOWNLOAD``."""
    with urlopen(url, timeout=TIMEOUT) as response, beside(file) as part:
        num_bytes = 0
        with part.open("wb") as out:
            while content := response.read(2**20):
                num_bytes += len(content)
                if num_bytes > MAX_DOWNLOAD:
                    raise OSError(f"it has more than {MAX_DOWNLOAD:,} bytes")
                out.write(content)
        part.rename(file)


def check_digest(file: Path, arrays: Iterable[np.ndarray], expected: str) -> None:
    """Raises a ValueError unless the arrays read from the file have this SHA-256, by dtype, shape and values."""
    digest = sha256()
    for array in arrays:
        digest.update(f"{array.dtype.newbyteorder('<').str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    if digest.hexdigest() != expected:
        raise ValueError(
            f"{file} expects content of SHA-256 {expected}; got {digest.hexdigest()}. It is damaged, or another "
            "version: remove it, and it is downloaded again."
        )
