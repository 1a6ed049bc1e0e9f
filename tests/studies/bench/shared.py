"""The place of real data, if they are at hand; no test may fetch them."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[4] / "shared" / "data"


def shared(place: str) -> Path:
    """Returns the folder of the data, if this file is in it."""
    if not (SHARED / place).exists():
        pytest.skip(f"needs {SHARED / place}")
    return SHARED
