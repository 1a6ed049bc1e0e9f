"""Ids: the columns that identify sets, and for sets of sets those that identify the inner sets."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

TOGETHER = "+"
"""The sign between columns whose values together are one id."""


@dataclass(frozen=True)
class Ids:
    """The columns of ids, by name. The values of several columns together are one id.

    - ``outer``: the id of a set.
    - ``inner``: the id of an inner set within its set; empty if elements are not in inner sets.
    """

    outer: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        return iter((*self.outer, *self.inner))

    @classmethod
    def of(cls, given: "Sequence[str] | Ids", known: Collection[str]) -> "Ids":
        """Returns the ids that are given as text: one for sets, two for sets of sets, the outer one first.

        "run+event" are two columns whose values together are one id, unless ``known`` has a column of that name.
        Raises: ValueError for more than two ids, or a column that is named twice.
        """
        if isinstance(given, Ids):
            return given
        check_levels(given)
        ids = cls(*(parts_of(name, known) for name in given))
        names = list(ids)
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"set_id expects different columns; got {twice[0]!r} twice. Leave one out.")
        return ids


def parts_of(name: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """Returns the columns of one id."""
    return (name,) if name in known or TOGETHER not in name.strip(TOGETHER) else tuple(name.split(TOGETHER))


def all_names(given: Sequence[str] | Ids) -> tuple[str, ...]:
    """Returns all columns that ids given as text may mean."""
    if isinstance(given, Ids):
        return tuple(given)
    return tuple(dict.fromkeys(each for name in given for each in (name, *parts_of(name))))


def check_levels(given: Sequence[str]) -> None:
    """Raises a ValueError for more than two ids."""
    if len(given) > 2:
        raise ValueError(
            f"set_id expects one id, or two for sets of sets, the outer one first; got {len(given)}: "
            f"{', '.join(given)}. If their values together identify a set, write {TOGETHER.join(given)!r}."
        )


def only_outer(given: Sequence[str] | Ids, known: Collection[str], owner: str) -> tuple[str, ...]:
    """Returns the columns of the only id. Raises: ValueError for two ids, because ``owner`` takes no sets of sets."""
    ids = Ids.of(given, known)
    if ids.inner:
        raise ValueError(
            f"{owner} expects one id, as it does not read sets of sets; got {', '.join(ids)}. If their values together "
            f"identify a set, write {TOGETHER.join(ids)!r}."
        )
    return ids.outer
