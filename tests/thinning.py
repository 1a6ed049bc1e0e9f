"""The cases of a parametrised test that ``make test`` runs: a covering of its parameters, not their whole product."""

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

STRENGTH = 2
"""The number of parameters that take every legal combination of values, where a test's mark ``cover`` says nothing
else. Few faults show at a combination of three or more values only (Kuhn, Wallace & Gallo, Software fault interactions
and implications for software testing, 2004); tests/mutations.py looks for one.
"""


def covering(cases: Sequence[Mapping[str, Any]], strength: int = STRENGTH) -> list[int]:
    """The positions of some cases, in order, that hold each combination of ``strength`` values that any case holds.

    Greedy: always the case with most combinations still missing, the first of equals. The same for the same cases.
    """
    wanted = [set(_combinations(case, strength)) for case in cases]
    missing = set[tuple].union(*wanted) if wanted else set()
    queue = [(-len(combined), i) for i, combined in enumerate(wanted)]
    heapq.heapify(queue)
    chosen = []
    while missing:
        promised, i = heapq.heappop(queue)
        gain = len(wanted[i] & missing)
        if gain == -promised:  # what is missing only shrinks, so that no other case can gain more than it promises
            chosen.append(i)
            missing -= wanted[i]
        elif gain:
            heapq.heappush(queue, (-gain, i))
    return sorted(chosen)


def _combinations(case: Mapping[str, Any], strength: int) -> Iterable[tuple]:
    values = [(name, _key(value)) for name, value in case.items()]
    return combinations(values, min(strength, len(values)))


def _key(value: Any) -> Hashable:
    """Equal for equal values of one type; what cannot be hashed equals itself only."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value
