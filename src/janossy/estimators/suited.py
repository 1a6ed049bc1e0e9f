"""Settings of attention and relations between elements that follow from the number of sets and their sizes."""

from collections.abc import Mapping
from math import gcd
from typing import Any

from janossy.estimators.strategies import ENCODERS, Settings

MANY_SETS = 20_000
"""Training sets from which a third block and twice the width are worth their time."""

HEAD = 16
"""The features of a head."""

LARGE_SETS = 100
"""The mean size from which sets are pooled by several seeds, and looked at through more induced points."""


def suited(strategy: str, given: Mapping[str, Any], num_sets: int, mean_size: float) -> dict[str, Any]:
    """Returns the settings of a strategy: those given, and those that follow from the sets.

    - ``num_blocks`` and ``width``: 2 and 64; from 20,000 sets on 3 and 128.
    - ``num_heads``: one per 16 features of the width, or fewer that divide it.
    - ``num_seeds``: 4 for sets of 100 elements or more on average.
    - ``num_points``: 32 if there are 20,000 sets or more, of such a size.

    What follows from the defaults of ``Settings`` is not said again, and other strategies have no such rule.

    Example:
        >>> suited("induced", {"width": 32}, num_sets=50_000, mean_size=200.0)
        {'num_blocks': 3, 'num_heads': 2, 'num_seeds': 4, 'num_points': 32, 'width': 32}
    """
    if strategy not in ENCODERS:
        return dict(given)
    many, large = num_sets >= MANY_SETS, mean_size >= LARGE_SETS
    width = given.get("width", 128 if many else Settings.width)
    rule = {
        "num_blocks": 3 if many else 2,
        "width": width,
        "num_heads": gcd(width, max(1, width // HEAD)) if isinstance(width, int) else Settings.num_heads,
        "num_seeds": 4 if large else 1,
        "num_points": 32 if many and large else 16,
    }
    return {name: value for name, value in rule.items() if value != getattr(Settings, name)} | dict(given)
