"""Orderings: the rules that say which sequences are averaged, one per file."""

from janossy.orderings.all_permutations import AllPermutations
from janossy.orderings.as_given import AsGiven
from janossy.orderings.canonical import Canonical, OrderWeights
from janossy.orderings.combinations import Combinations
from janossy.orderings.contract import EveryArrangement, EveryTuple, Orderings, RandomOrderings, check_orderings
from janossy.orderings.distinct import Distinct
from janossy.orderings.importance import ImportanceSampled
from janossy.orderings.learned import Learned
from janossy.orderings.rows import Bucket, Rows
from janossy.orderings.sampled import Sampled
from janossy.orderings.tuples import Tuples

__all__ = [
    "AllPermutations",
    "AsGiven",
    "Bucket",
    "Canonical",
    "Combinations",
    "Distinct",
    "EveryArrangement",
    "EveryTuple",
    "ImportanceSampled",
    "Learned",
    "OrderWeights",
    "Orderings",
    "RandomOrderings",
    "Rows",
    "Sampled",
    "Tuples",
    "check_orderings",
]
