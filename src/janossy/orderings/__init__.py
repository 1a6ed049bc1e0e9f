"""WHICH sequences are averaged: one strategy a file."""

from janossy.orderings.all_permutations import AllPermutations
from janossy.orderings.canonical import Canonical
from janossy.orderings.combinations import Combinations
from janossy.orderings.importance import ImportanceSampled, norm, squared_norm
from janossy.orderings.rows import Bucket, EveryArrangement, EveryTuple, Orderings, Rows, weighs_rows
from janossy.orderings.sampled import Sampled
from janossy.orderings.tuples import Tuples

__all__ = [
    "AllPermutations",
    "Bucket",
    "Canonical",
    "Combinations",
    "EveryArrangement",
    "EveryTuple",
    "ImportanceSampled",
    "Orderings",
    "Rows",
    "Sampled",
    "Tuples",
    "norm",
    "squared_norm",
    "weighs_rows",
]
