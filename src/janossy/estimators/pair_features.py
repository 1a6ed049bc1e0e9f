"""Features of pairs: those that suit any columns, and features in terms of columns as features of embedded elements."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from janossy.tables.layout import Layout


def pair_features(layout: Layout) -> dict[str, Any]:
    """Returns interactions that suit any columns: |differences| of numbers, and equality of categories.

    Differences of angles are wrapped. All of these are independent of a common shift of the elements, and so are units
    that read only these. Plain differences are sums of columns, which an MLP forms by itself.
    """
    codes = list(range(len(layout.vocabularies)))
    numbers = list(range(len(codes), layout.num_columns))
    return {
        "absolute_differences": numbers,
        "equal": [[column] for column in codes],
        "periods": {column: period for column, period in zip(numbers, layout.periods, strict=False) if period},
    }


def by_feature(given: Mapping[str, Any], layout: Layout, places: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Returns arguments of ``TupleFeatures`` in terms of embedded features, from arguments in terms of columns."""
    kinds = dict.fromkeys(("differences", "absolute_differences", "products"), "columns")
    kinds |= dict.fromkeys(("equal", "distances"), "groups") | dict.fromkeys(("units", "periods"), "numbers")
    if unknown := [name for name in given if name not in kinds]:
        raise ValueError(f"features expects {', '.join(kinds)}; got {', '.join(map(repr, unknown))}.")

    def numbers_of(columns: Iterable[Any]) -> list[int]:
        return [place for column in columns for place in places[layout.column(column)]]

    in_own_units = [*chain.from_iterable(given.get("distances", ())), *given.get("periods", ())]
    units = {layout.column(x): layout.scale(layout.column(x)) for x in in_own_units if layout.scales}
    units |= {layout.column(column): unit for column, unit in given.get("units", {}).items()}
    translated: dict[str, Any] = {}
    for name, value in {**given, "units": units}.items():
        if kinds[name] == "columns":
            translated[name] = numbers_of(value)
        elif kinds[name] == "groups":
            translated[name] = [numbers_of(group) for group in value]
        else:
            translated[name] = {place: number for column, number in value.items() for place in numbers_of([column])}
    return translated
