"""The place of real data, if they exist here. No test may download them."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[4] / "shared" / "data"


def shared(place: str) -> Path:
    """Returns the folder of the data if it has this file, and skips the test otherwise."""
    if not (SHARED / place).exists():
        pytest.skip(f"needs {SHARED / place}")
    return SHARED
