"""Arrangements of k of n positions drawn without replacement: no two of a set are the same."""

from math import perm

import torch
from torch import Tensor

from janossy.orderings.source import Source, arrangements

MOST_RANKS = 2**62
"""Of more arrangements than this, two of a draw coincide less than once in 2^63 pairs, and are not looked for."""


def distinct_arrangements(source: Source, num_sets: int, num: int, n: int, k: int) -> Tensor:
    """A simple random sample without replacement, (num_sets, num, k), num <= n!/(n - k)!, in random order."""
    population = perm(n, k)
    if population > MOST_RANKS:
        digits = [source.bits(num_sets, num) % (n - j) for j in range(k)]
        return arrangements(torch.stack(digits)).movedim(0, -1)
    ranks = _distinct_numbers(source, num_sets, num, population)
    digits = []
    for j in range(k):
        digits.append(ranks % (n - j))
        ranks = ranks // (n - j)
    return arrangements(torch.stack(digits)).movedim(0, -1) if k else ranks.new_zeros(num_sets, num, 0)


def _distinct_numbers(source: Source, num_sets: int, num: int, population: int) -> Tensor:
    """A simple random sample of the numbers below ``population`` for each set, (num_sets, num)."""
    if 2 * num >= population:
        return source.permutations(num_sets, population)[:, :num]
    numbers = _below(population, source, num_sets, num)
    while True:
        # Drawing again what came before is drawing one number after the other, each until it is new.
        order = numbers.argsort(dim=1, stable=True)
        sorted_numbers = numbers.gather(1, order)
        again = torch.zeros_like(numbers, dtype=torch.bool)
        again.scatter_(1, order[:, 1:], sorted_numbers[:, 1:] == sorted_numbers[:, :-1])
        num_again = int(again.sum())
        if num_again == 0:
            return numbers
        numbers[again] = _below(population, source, num_again)


def _below(population: int, source: Source, *shape: int) -> Tensor:
    """Uniform numbers below population <= 2^62; a remainder alone would favour the smaller ones of many."""
    whole = MOST_RANKS // population * population
    numbers = source.bits(*shape)
    while (over := numbers >= whole).any():
        numbers[over] = source.bits(int(over.sum()))
    return numbers % population
