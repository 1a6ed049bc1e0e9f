"""The lowest versions that pyproject.toml allows, as constraints of pip: ``python -m tests.lowest EXTRA ...``."""

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
LOWEST = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)")


def lowest(extras: list[str]) -> list[str]:
    """Returns a line per package that the library and these extras need: its name, and its lowest version.

    Raises: ValueError for a requirement without a lowest version.
    """
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += [each for each in project["optional-dependencies"][extra] if not each.startswith("janossy[")]
    lines = set()
    for each in wanted:
        if (found := LOWEST.match(each)) is None:
            raise ValueError(f"pyproject.toml: expected name>=version; got {each!r}")
        lines.add(f"{found[1]}=={found[2]}")
    return sorted(lines)


if __name__ == "__main__":
    print("\n".join(lowest(sys.argv[1:])))
