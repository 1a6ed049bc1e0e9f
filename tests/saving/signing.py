"""Edited files of saved models, with digests of their new contents."""

import json
from pathlib import Path
from typing import Any

from janossy.saving.model import signed
from janossy.saving.reading import DESCRIPTION, FORMAT, HEADER, TENSORS


def resigned(path: Path, description: Any = None) -> None:
    """Writes a description with digests; by default that of the folder. An edited header gets none."""
    if description is None:
        description = json.loads((path / DESCRIPTION).read_text())
    if isinstance(description, dict) and set(HEADER) <= set(description) and description["format"] == FORMAT:
        values = {name: value for name, value in description.items() if name not in HEADER}
        written = json.loads(signed(values, (path / TENSORS).read_bytes()))
        if all(written[name] == description[name] for name in ("format", "version", "written_by")):
            (path / DESCRIPTION).write_bytes(signed(values, (path / TENSORS).read_bytes()))
            return
    text = description if isinstance(description, str) else json.dumps(description)
    (path / DESCRIPTION).write_text(text)
