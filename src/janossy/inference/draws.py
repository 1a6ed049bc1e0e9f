"""Runs: permutations that have been drawn, computed block by block, for the sets that need more."""

from collections.abc import Callable
from itertools import accumulate
from math import ceil, inf
from typing import Protocol

import torch
from torch import Tensor

from janossy.inference.error_bars import Sample
from janossy.network import JanossyNetwork
from janossy.orderings import ImportanceSampled, Rows, Sampled
from janossy.orderings.drawn import Drawn
from janossy.ragged import Ragged

FIRST_LOOK, NEXT_LOOK = 4, 1.75
"""Blocks before the first look whether a set is finished, and the factor to the next look."""


class Control(Protocol):
    """A function of the same permutations whose mean over all of them is known: see ``ControlVariate``."""

    def rows(self, sets: Ragged, rows: Rows) -> Tensor: ...

    def mean(self, sets: Ragged) -> Tensor: ...


class Run:
    """Permutations that have been drawn, and the outputs of those that were computed, block by block."""

    def __init__(
        self,
        network: JanossyNetwork,
        sets: Ragged,
        orderings: Sampled | ImportanceSampled,
        linked: Callable[[Tensor], Tensor],
        control: Control | None,
        generator: torch.Generator | None,
    ) -> None:
        self.sets, self.linked, self.control = sets, linked, control
        self.elements = sets.with_values(network.h(sets.values))
        self.from_h = JanossyNetwork(None, network.pooling, network.rho)
        self.exact = None if control is None else control.mean(sets)
        self.drawn = Drawn(orderings.enumerate(sets, generator), sets.sizes, orderings.k)
        self.ends = {n: [0, *accumulate(orderings.blocks(n))] for n in set(sets.sizes)}
        self.most_blocks = {n: len(ends) - 1 for n, ends in self.ends.items()}
        self.num_blocks = dict.fromkeys(self.ends, 0)
        self.sample: Sample | None = None
        population = [_population(orderings, n) for n in sets.sizes]
        self.population = torch.tensor(population, dtype=torch.float64, device=sets.device)

    def take(self, active: list[int], num_blocks: dict[int, int]) -> Sample:
        """The outputs so far, and those of these sets up to as many blocks as for their size; they have all before."""
        first = {n: ends[self.num_blocks[n]] for n, ends in self.ends.items()}
        last = {n: ends[num_blocks[n]] for n, ends in self.ends.items()}
        if len(active) == len(self.sets) and num_blocks == self.most_blocks and not any(first.values()):
            sets, elements, drawn = self.sets, self.elements, self.drawn
        else:
            sets, elements = self.sets[active], self.elements[active]
            drawn = self.drawn.part(active, lambda n: slice(first[n], last[n]), sets)
        self.num_blocks = num_blocks
        rows = self.from_h.rows(elements, orderings=drawn)
        outputs, owners = self.linked(rows.values), rows.to_index()[1]
        if self.control is not None:
            outputs = outputs - self.control.rows(sets, drawn.rows)
        if (weights := drawn.rows.weights()) is not None:
            outputs = outputs * weights.to(outputs)
        numbers = torch.tensor(active, dtype=torch.long, device=outputs.device)
        if self.exact is not None:
            outputs = outputs + self.exact[numbers[owners]]
        sample = Sample(outputs, numbers[owners], self._blocks(sets, rows, owners, first), self.population)
        self.sample = sample if self.sample is None else self.sample.and_more(sample)
        return self.sample

    def _blocks(self, sets: Ragged, rows: Ragged, owners: Tensor, first: dict[int, int]) -> Tensor:
        """The block of each of these sets' rows, which begin with the ``first`` for their size."""
        places = torch.arange(len(owners), device=owners.device) - rows.offsets[owners]
        sizes = torch.tensor(sets.sizes, dtype=torch.long, device=owners.device)[owners]
        blocks = torch.zeros_like(owners)
        for n, ends in self.ends.items():
            of_size = sizes == n
            blocks[of_size] = torch.bucketize(
                places[of_size] + first[n], torch.tensor(ends[1:], device=owners.device), right=True
            )
        return blocks


def _population(orderings: Sampled | ImportanceSampled, n: int) -> float:
    """How many permutations of a set are drawn from without replacement; infinity where they are replaced."""
    if isinstance(orderings, Sampled) and orderings.scheme == "distinct":
        return float(min(orderings.num_orderings(n), 10**300))
    return inf


def until(run: Run, tolerance: float | Tensor, confidence: float) -> tuple[Sample, Tensor]:
    """Take permutations until the intervals are as narrow as this, or all are taken; and which sets' are so, (B,)."""
    sizes, device = run.sets.sizes, run.sets.device
    tolerance = torch.as_tensor(tolerance, device=device)
    for b, n in enumerate(sizes):
        if run.most_blocks[n] < 2 and run.ends[n][-1] < run.population[b]:
            raise ValueError(
                f"predict expects at least 2 independent blocks of permutations with a tolerance; got 1 for a set of "
                f"{n}. Give a smaller block=, or a larger num_permutations."
            )
    # A set's looks are those of its size, whatever its batch-mates.
    looks = {n: _looks(most) for n, most in run.most_blocks.items()}
    confidences = torch.tensor([1 - (1 - confidence) / len(looks[n]) for n in sizes], dtype=torch.float64)
    finished = torch.zeros(len(sizes), dtype=torch.bool, device=device)
    active = list(range(len(sizes)))
    for step in range(max(map(len, looks.values()), default=1)):
        sample = run.take(active, {n: at[min(step, len(at) - 1)] for n, at in looks.items()})
        finished = finished | (sample.margin(confidences) <= tolerance).all(1)
        active = [b for b in (~finished).nonzero()[:, 0].tolist() if step + 1 < len(looks[sizes[b]])]
        if not active:
            break
    return sample, finished


def _looks(most_blocks: int) -> list[int]:
    """The numbers of blocks at which one looks whether a set is finished."""
    looks = [min(FIRST_LOOK, most_blocks)]
    while looks[-1] < most_blocks:
        looks.append(min(ceil(looks[-1] * NEXT_LOOK), most_blocks))
    return looks
