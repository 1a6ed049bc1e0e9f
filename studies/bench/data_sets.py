"""The data sets of the bench, by name."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from studies.bench.data import (
    clouds,
    clustering,
    digits,
    freesolv,
    jets,
    mil,
    musk,
    omniglot,
    one_element,
    orders,
    poker,
)
from studies.bench.data_set import DataSet

LOADERS: dict[str, Callable[[Path | None], DataSet]] = {
    "poker": poker.poker,
    **musk.LOADERS,
    **mil.LOADERS,
    "orders": orders.orders,
    "jets": jets.jets,
    "digits-sum": digits.digits_sum,
    "digits-distinct": digits.digits_distinct,
    "freesolv": freesolv.freesolv,
    "clustering": clustering.clustering,
    **one_element.LOADERS,
    **clouds.LOADERS,
    "omniglot": omniglot.omniglot,
}


@lru_cache(maxsize=4)
def load(name: str, data: Path | None = None) -> DataSet:
    """Returns the data set of this name, from files below the folder, or from its default source.

    Raises: OSError if it cannot be obtained; ValueError if it is damaged.
    """
    return LOADERS[name](data)
