"""What the options of several commands say, checked with the standard library alone."""

import re
from collections.abc import Sequence
from pathlib import Path

from janossy.cli.errors import BadArgument

SECONDS = {"s": 1, "m": 60, "h": 3600}


def seconds(option: str, text: str) -> float:
    """A time such as 90, 90s, 10m or 1h30m. Raises: BadArgument for another, or none at all."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh]?)", text)
    total = sum(float(number) * SECONDS[unit or "s"] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or not 0 < total < 1e9:
        raise BadArgument(f"{option} expects a time such as 90s, 10m or 1h30m; got {text!r}.")
    return total


def names(listed: Sequence[str]) -> tuple[str, ...]:
    """The names of an option that is given several times, or has commas between them."""
    return tuple(dict.fromkeys(name.strip() for each in listed for name in each.split(",") if name.strip()))


def check_tables(tables: Sequence[Path]) -> None:
    """Raise a BadArgument for one that is no file."""
    for table in tables:
        if not table.exists():
            raise BadArgument(f"there is no file {table}.")
        if not table.is_file():
            raise BadArgument(f"{table} is no file. Name the files in it.")


def check_new(out: Path) -> None:
    """Raise a BadArgument if something is there already, or its folder can be none."""
    if out.exists() or out.is_symlink():
        raise BadArgument(f"{out} exists. Give another --out, or remove it.")
    parent = next((each for each in out.parents if each.exists()), None)
    if parent is not None and not parent.is_dir():
        raise BadArgument(f"--out {out} cannot be: {parent} is a file.")


def check_model(model: Path) -> None:
    """Raise a BadArgument if nothing is there."""
    if not model.exists():
        raise BadArgument(f"there is no model {model}; give the --out of a janossy fit.")
