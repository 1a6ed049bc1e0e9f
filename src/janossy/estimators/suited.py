"""Settings of attention and relations that follow from the number of sets and their sizes."""

from collections.abc import Mapping
from math import gcd
from typing import Any

from janossy.estimators.strategies import ENCODERS, Settings

MANY_SETS = 20_000
"""The number of training sets from which a third block and twice the width are worth their time."""

HEAD = 16
"""The number of features per attention head."""

LARGE_SETS = 100
"""The mean size from which several seeds pool a set, and more induced points are used."""


def suited(strategy: str, given: Mapping[str, Any], num_sets: int, mean_size: float) -> dict[str, Any]:
    """Returns the settings of a strategy: those given, and those that follow from the sets.

    - ``num_blocks`` and ``width``: 2 and 64; from 20,000 sets on, 3 and 128.
    - ``num_heads``: one per 16 features of the width, or fewer if the number must divide the width.
    - ``num_seeds``: 4 for sets of 100 elements or more on average.
    - ``num_points``: 32 if there are also 20,000 sets or more.

    Values that equal the defaults of ``Settings`` are left out. Other strategies have no such rule.
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
