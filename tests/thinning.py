"""The cases of a parametrised test that ``make test`` runs: a covering of its parameters, not their product."""

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

STRENGTH = 2
"""The number of parameters that take every legal combination of values, unless a test's mark ``cover`` says otherwise.

Few faults show only at a combination of three or more values (Kuhn, Wallace & Gallo, Software fault interactions and
implications for software testing, 2004). tests/mutations.py looks for such faults.
"""


def covering(cases: Sequence[Mapping[str, Any]], strength: int = STRENGTH) -> list[int]:
    """Returns the positions of cases, in order, that contain each combination of ``strength`` values of any case.

    The choice is greedy: always the case with the most missing combinations, and the first of equals. It is the same
    for the same cases.
    """
    wanted = [set(_combinations(case, strength)) for case in cases]
    missing = set[tuple].union(*wanted) if wanted else set()
    queue = [(-len(combined), i) for i, combined in enumerate(wanted)]
    heapq.heapify(queue)
    chosen = []
    while missing:
        promised, i = heapq.heappop(queue)
        gain = len(wanted[i] & missing)
        if gain == -promised:  # missing combinations only shrink, so that no other case can gain more than promised
            chosen.append(i)
            missing -= wanted[i]
        elif gain:
            heapq.heappush(queue, (-gain, i))
    return sorted(chosen)


def _combinations(case: Mapping[str, Any], strength: int) -> Iterable[tuple]:
    values = [(name, _key(value)) for name, value in case.items()]
    return combinations(values, min(strength, len(values)))


def _key(value: Any) -> Hashable:
    """Returns a key that is equal for equal values of one type. A value without a hash equals only itself."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value
