"""The contract of orderings: what an ordering must declare, what it may declare, and the checks of both."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from math import inf, log10
from typing import Any, Generic, Protocol, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from janossy.checks import check_integer
from janossy.orderings.rows import Rows
from janossy.sets import Ragged

MAX_ROWS = 10_000_000
"""The default budget of rows in one batch."""

T = TypeVar("T")


class _Default(Generic[T]):
    """A default that instances have and their class does not.

    A dataclass takes an attribute of its bases for the default of a field of that name. A field ``k`` would then no
    longer be required.
    """

    def __init__(self, value: T) -> None:
        self.value = value

    def __get__(self, instance: object, owner: type) -> T:
        if instance is None:
            raise AttributeError("a default of instances")
        return self.value


def _default(value: Any) -> Any:
    return _Default(value)


class Orderings:
    """The base class of every ordering, usually a frozen dataclass: it says which sequences are averaged.

    A subclass gives ``num_rows``, ``row_length``, ``enumerate`` and ``draws``. Everything else has a default here.

    Attributes:
        draws: True if the rows are a random sample, so that their mean has an error. Such a class derives from
            ``RandomOrderings``. Every other class sets False.
        k: the length of every row, if all rows have one length.
        max_rows: the most rows that one batch may need.
        weighs_rows: True if buckets hold ``weights``. The mean over all orderings is then the mean of weight times f.
        exact_last: the number of last positions over which each permutation is averaged exactly. Rows that share a
            beginning follow each other, in the order of ``injective_tuples`` of their ends.
    """

    k: int | None = _default(None)
    max_rows: int = _default(MAX_ROWS)
    exact_last: int = _default(0)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__repr__ is Orderings.__repr__:
            cls.__repr__ = Orderings.__repr__  # type: ignore[method-assign]  # else a dataclass would write its own

    def __repr__(self) -> str:
        """Returns the fields that are not their defaults, by name."""
        return fields_shown(self) if is_dataclass(self) else object.__repr__(self)

    @property
    @abstractmethod
    def draws(self) -> bool: ...

    @abstractmethod
    def num_rows(self, n: int) -> int:
        """Returns the number of rows of a set of n, without building them."""

    @abstractmethod
    def row_length(self, n: int) -> int:
        """Returns the length of each row of a set of n."""

    @abstractmethod
    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        """Returns the rows for sets of these sizes. A canonical order looks at the elements of ``keys``."""

    @property
    def averages(self) -> str:
        """A name that two orderings share if they have the same mean."""
        return type(self).__name__

    @property
    def sorted_by(self) -> str | None:
        """The name of the key that a canonical order sorts by."""
        return None

    @property
    def weighs_rows(self) -> bool:
        return False

    def exhausting(self, max_permutations: int | None = None) -> Self:
        """Returns the same orderings, but small sets give all their orderings, once each.

        A set is small if it has no more orderings than are drawn, or than ``max_permutations``.
        """
        return self

    def in_prediction(self) -> Self:
        """Returns the orderings that predictions use; for orders that are learned by drawing, the learned order."""
        return self

    def diagnostics(self, keys: Ragged, values: Tensor) -> str | None:
        """Returns a remark on the results for these sets, or None. f reads the elements as ``values`` (N, …)."""
        return None


class RandomOrderings(Orderings):
    """The base class of random orderings. ``predict`` and losses use it for several draws and for error bars.

    Two calls of ``enumerate`` draw independently, and so do the sets of a batch, unless a seed fixes the rows. A
    subclass adds ``num_permutations`` and ``redrawn``.

    Attributes:
        num_permutations: the permutations of each set. Each may be several rows.
        seed: the number that fixes the rows. None if they are drawn anew at every call.
        block: the most permutations that may depend on each other. None for as many as give the best mean.
    """

    num_permutations: int
    seed: int | None = _default(None)
    block: int | None = _default(1)

    @property
    def draws(self) -> bool:
        return True

    def blocks(self, n: int) -> list[int]:
        """Returns the numbers of rows of a set of n, in order, that depend on each other.

        Rows of different blocks are independent. Rows drawn without replacement are blocks by themselves, and
        ``population`` says how they depend on each other. By default every row is a block.
        """
        return [1] * self.num_rows(n)

    def population(self, n: int) -> float:
        """Returns how many rows a set of n is drawn from without replacement; infinity with replacement."""
        return inf

    @abstractmethod
    def redrawn(self, num_permutations: int, *, block: int | None = None, seed: int | None = None) -> Self:
        """Returns the same orderings with another number of permutations, block or seed. None keeps each."""


class EveryArrangement(Protocol):
    """Orderings that are all arrangements of ``row_length(n)`` distinct elements of a set, or all increasing ones.

    A smaller set fills its rows up with the zero vector. An evaluator that recognises them need not build rows.
    """

    @property
    def increasing(self) -> bool:
        """True if only the tuples i_1 < … < i_k of positions in the sorted set are rows."""
        ...

    def order(self, keys: Ragged) -> Tensor | None:
        """Returns the position (N,) of each element of the sorted sets; or None to leave them as they are."""
        ...


class EveryTuple(EveryArrangement, Protocol):
    """Arrangements whose rows all have one length, k."""

    @property
    def k(self) -> int: ...


REQUIRED = ("num_rows", "row_length", "enumerate")
REQUIRED_OF_RANDOM = ("num_permutations", "redrawn")


def check_orderings(orderings: Any, owner: str) -> None:
    """Raises a TypeError unless these are complete ``Orderings``, and ``RandomOrderings`` if they draw."""
    name = orderings.__name__ if isinstance(orderings, type) else type(orderings).__name__
    if isinstance(orderings, type):
        raise TypeError(f"{owner} expects orderings; got the class {name}. Write {name}(…), with its arguments.")
    if not isinstance(orderings, Orderings):
        raise TypeError(
            f"{owner} expects orderings, of a subclass of janossy.orderings.Orderings; got {orderings!r}, of type "
            f"{name}. Give one of janossy.orderings, such as Sampled(5)."
        )
    kind = type(orderings)
    if missing := [method for method in REQUIRED if getattr(kind, method) is getattr(Orderings, method)]:
        raise TypeError(
            f"{owner} expects orderings with the methods {', '.join(REQUIRED)}; got {name}, without "
            f"{', '.join(missing)}. Add them: janossy.orderings.Orderings says what each is."
        )
    draws = getattr(orderings, "draws", None)
    if not isinstance(draws, bool):
        raise TypeError(
            f"{owner} expects orderings that declare whether they draw, by an attribute draws; got {name}, with "
            f"draws={draws!r}. Say draws = True if its enumerate draws at random, and draws = False if not."
        )
    if not draws:
        return
    if not isinstance(orderings, RandomOrderings):
        raise TypeError(
            f"{owner} expects orderings that draw to be RandomOrderings; got {name}, with draws=True. Derive it from "
            "janossy.orderings.RandomOrderings, which says what else is needed."
        )
    missing = [] if hasattr(orderings, "num_permutations") else ["num_permutations"]
    missing += ["redrawn"] if type(orderings).redrawn is RandomOrderings.redrawn else []
    if missing:
        raise TypeError(
            f"{owner} expects orderings that draw to have {', '.join(REQUIRED_OF_RANDOM)}; got {name}, without "
            f"{', '.join(missing)}. Add them: janossy.orderings.RandomOrderings says what each is."
        )


def as_random(orderings: Any, owner: str) -> RandomOrderings | None:
    """Returns these orderings if they draw, None if they are exact. Raises: TypeError for other objects."""
    check_orderings(orderings, owner)
    return cast(RandomOrderings, orderings) if orderings.draws else None


def takes_all(orderings: RandomOrderings, n: int) -> bool:
    """Returns True if a draw for a set of n takes the whole population, so that every draw is the same."""
    return orderings.num_rows(n) >= orderings.population(n)


def repeatable(orderings: Orderings, owner: str) -> Orderings:
    """Returns the same orderings, with a seed if they draw without one, so that two calls give the same rows.

    Raises: ValueError if no seed fixes their rows.
    """
    if not orderings.draws or cast(RandomOrderings, orderings).seed is not None:
        return orderings
    random = cast(RandomOrderings, orderings)
    try:
        return random.redrawn(random.num_permutations, seed=0)
    except ValueError as error:
        raise ValueError(
            f"{owner} expects, with fixed_in_eval, orderings whose rows a seed fixes; got {orderings}. Use Sampled or "
            "Distinct, or leave fixed_in_eval out."
        ) from error


def averages_every_arrangement(orderings: Orderings) -> bool:
    """Returns True if they are an ``EveryArrangement`` and no subclass has changed the rows."""
    owner: type = next(c for c in type(orderings).__mro__ if "enumerate" in c.__dict__)
    return "increasing" in owner.__dict__ and "order" in owner.__dict__


def averages_every_tuple(orderings: Orderings) -> bool:
    """Returns True if they are an ``EveryTuple`` and no subclass has changed the rows."""
    return averages_every_arrangement(orderings) and orderings.k is not None


def fields_shown(given: Any) -> str:
    """Returns the text of a dataclass: its fields by name, without those that are their defaults."""
    each = ((field, getattr(given, field.name)) for field in fields(given) if field.repr)
    shown = ", ".join(f"{field.name}={value!r}" for field, value in each if not _is_default(field, value))
    return f"{type(given).__name__}({shown})"


def _is_default(field: Field[Any], value: Any) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return value is default or (type(value) is type(default) and not isinstance(value, Tensor) and value == default)


def modules_of(orderings: Orderings | None) -> list[nn.Module]:
    """Returns the modules among the fields of these orderings: keys, scorers, weights."""
    if not is_dataclass(orderings):
        return []
    given = [getattr(orderings, field.name) for field in fields(orderings)]
    each = [part for value in given for part in (value if isinstance(value, tuple) else (value,))]
    return [part for part in each if isinstance(part, nn.Module)]


def check_budget(orderings: Orderings, sizes: Sequence[int], max_rows: int, count: str, remedy: str = "") -> None:
    """Raises a ValueError if sets of these sizes need more than max_rows rows in all.

    The error proposes ``remedy``, and smaller batches if each set fits by itself.
    """
    total = sum(num_sets * orderings.num_rows(n) for n, num_sets in Counter(sizes).items())
    if total > max_rows:
        n = max(sizes)
        remedies = ["smaller batches"] if orderings.num_rows(n) <= max_rows else []
        remedies += [remedy] if remedy else []
        raise ValueError(
            f"{type(orderings).__name__} needs {count}: a set of {n} needs {_text(orderings.num_rows(n))}, "
            f"this batch of {len(sizes)} sets needs {_text(total)}, over max_rows={max_rows}; use "
            f"{' or '.join(remedies or ['a larger max_rows'])}."
        )


def check_k(orderings: Orderings, k: Any) -> None:
    """Raises a TypeError if k is not an integer, a ValueError if it is below 1."""
    check_integer(type(orderings).__name__, "k", k, 1, "elements a row")


def check_max_rows(orderings: Orderings, max_rows: Any) -> None:
    """Raises a TypeError if max_rows is not an integer, a ValueError if it is below 1."""
    check_integer(type(orderings).__name__, "max_rows", max_rows, 1)


def _text(count: int) -> str:
    return str(count) if count < 10**15 else f"about 10^{round(log10(count))}"
