"""Checks of JSON values against types: dataclasses, lists, tuples, literals, and custom rules.

An ``Annotated`` type carries a rule: a function that raises ValueError for a value that it does not accept.
"""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from math import inf
from reprlib import Repr
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

LARGEST = 2**63
"""The bound of whole numbers. Counts, seeds and sizes fit 64 bits."""

_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: "null"}


@dataclass(frozen=True)
class Within:
    """The rule of a number from ``low`` to ``high``. ``or_nan`` also accepts null and NaN, from runs that diverged."""

    low: float
    high: float = inf
    or_nan: bool = False

    def __call__(self, value: float | None) -> None:
        if self.or_nan and (value is None or value != value):
            return
        if value is None or not self.low <= value <= self.high:
            numbers = f"{self.low:g} or more" if self.high == inf else f"{self.low:g} to {self.high:g}"
            raise ValueError(f"expects {numbers}; got {shown(value)}")


@dataclass(frozen=True)
class OneOf:
    """The rule of a name among known ones."""

    names: Collection[str]

    def __call__(self, value: str) -> None:
        if value not in self.names:
            raise ValueError(f"expects one of {', '.join(self.names)}; got {shown(value)}")


def not_empty(value: Collection[Any]) -> None:
    """Checks the rule of a list that is not empty."""
    if not value:
        raise ValueError("expects a list that is not empty; got []")


Count = Annotated[int, Within(1)]
Seed = Annotated[int, Within(0)]
Seconds = Annotated[float, Within(0, 1e9)]
"""The type of seconds, up to thirty years."""


def check(value: object, kind: Any, at: str = "") -> None:
    """Checks a value against a type. Unknown entries are allowed, and entries with a default may be missing.

    Raises: ValueError, naming the place within the value (``at`` and below), the expected type and the value.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        check(value, arguments[0], at)
        for rule in kind.__metadata__:
            try:
                rule(value)
            except ValueError as error:
                raise ValueError(f"{at} {error}") from None
    elif origin in (Union, UnionType):
        _check_any(value, arguments, at)
    elif origin is Literal:
        if not any(value == each and type(value) is type(each) for each in arguments):
            raise _wrong(at, f"one of {', '.join(map(str, arguments))}", value)
    elif origin in (list, tuple):
        of_one_kind = origin is list or arguments[1:] == (...,)
        if not isinstance(value, list) or not (of_one_kind or len(value) == len(arguments)):
            raise _wrong(at, "a list" if of_one_kind else f"a list of {len(arguments)}", value)
        for i, each in enumerate(value):
            check(each, arguments[0 if of_one_kind else i], f"{at}[{i}]")
    elif is_dataclass(kind) or origin is dict:
        if not isinstance(value, dict):
            raise _wrong(at, "an object", value)
        if origin is dict:
            for name, each in value.items():
                check(each, arguments[1], f"{at}[{shown(name)}]")
        else:
            _check_fields(value, kind, at)
    elif kind is not Any and not _is_plain(value, kind):
        raise _wrong(at, _NAMES[kind], value)


def shown(value: object) -> str:
    """Returns a value as one short line."""
    short = Repr()
    short.maxstring = short.maxother = short.maxlong = 60
    short.maxlevel, short.maxlist, short.maxdict = 2, 3, 3
    return short.repr(value)


def _check_fields(value: Mapping[str, Any], kind: Any, at: str) -> None:
    missing = [
        field.name
        for field in fields(kind)
        if field.name not in value and field.default is MISSING and field.default_factory is MISSING
    ]
    if missing:
        raise ValueError(f"{at or 'it'} lacks {', '.join(missing)}")
    for name, hint in _hints(kind).items():
        if name in value:
            check(value[name], hint, f"{at}.{name}" if at else name)


def _check_any(value: object, kinds: tuple[Any, ...], at: str) -> None:
    """Checks a union of types. If several are not plain types, the last one gives the error."""
    if not any(kind in _NAMES and _is_plain(value, kind) for kind in kinds):
        others = [kind for kind in kinds if kind not in _NAMES]
        if not others:
            raise _wrong(at, " or ".join(_NAMES[kind] for kind in kinds), value)
        check(value, others[-1], at)


def _is_plain(value: object, kind: type) -> bool:
    """Returns True if a JSON value has a plain type. true is not a number, and 3 is also a float."""
    if kind in (int, float) and isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < LARGEST
    return isinstance(value, kind)


def _wrong(at: str, expected: str, value: object) -> ValueError:
    return ValueError(f"{at or 'it'} expects {expected}; got {shown(value)}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
