"""Draws: several draws of the rows that a network averages before ρ, computed block by block."""

from collections.abc import Callable
from itertools import accumulate
from math import ceil, inf
from typing import Protocol

import torch
from torch import Tensor

from janossy.evaluate.packed import max_shared
from janossy.evaluate.reduce import means_by_counts, widened
from janossy.functions.structure import structure
from janossy.inference.error_bars import Sample
from janossy.inference.models import SetFunction
from janossy.nn.network import JanossyNetwork, own_code
from janossy.orderings import RandomOrderings, Rows
from janossy.orderings.contract import takes_all
from janossy.orderings.drawn import Drawn, independent_draws
from janossy.sets import Ragged
from janossy.sets.transfer import upload, widest

FIRST_LOOK, NEXT_LOOK = 4, 1.75
"""The number of blocks at the first look if a set is finished, and the factor to the next look."""


OF_ONE_ROW = ("mean", "sum", "max", "min", "logmeanexp")
"""The reductions that leave a single row as it is."""


class Control(Protocol):
    """A function of permutations with a known mean over all of them: see ``ControlVariate``."""

    def rows(self, sets: Ragged, rows: Rows) -> Tensor: ...

    def mean(self, sets: Ragged) -> Tensor: ...


def is_of_its_rows(network: JanossyNetwork) -> bool:
    """Returns True if the output for a single row per set is what ``rows`` gives: nothing is added, or reduced."""
    return own_code(network) is None and network.pooling.reduce in OF_ONE_ROW


class Draws:
    """Draws of a network's orderings for each set, and the outputs of the computed draws, block by block.

    ``num`` draws are made of the network's orderings, ``own``. Single permutations are drawn together in blocks. Groups
    of several permutations are independent, and so are blocks by themselves. A set with few orders gives each once.
    With ``adaptive``, draws are taken until a tolerance is met, so that none is drawn beyond num.
    """

    def __init__(
        self,
        network: JanossyNetwork | SetFunction,
        own: RandomOrderings,
        sets: Ragged,
        num: int,
        linked: Callable[[Tensor], Tensor],
        *,
        context: Tensor | None,
        block: int | None,
        seed: int | None,
        control: Control | None,
        generator: torch.Generator | None,
        adaptive: bool,
    ) -> None:
        self.network, self.sets, self.linked, self.control = network, sets, linked, control
        self.context = context
        self.elements = network.elements(sets)
        self.exact = None if control is None else control.mean(sets)
        sizes = set(sets.sizes)
        self.num_rows = {n: own.num_rows(n) for n in sizes}
        """The rows of a draw, by the size of the set."""
        if own.num_permutations == 1:
            many = _exhausting(own.redrawn(num, block=block, seed=seed), network, adaptive)
            self.drawn = Drawn(many.enumerate(sets, generator), sets.sizes, own.k)
            blocks = {n: [size // self.num_rows[n] for size in many.blocks(n)] for n in sizes}
            populations = {n: many.population(n) / self.num_rows[n] for n in sizes}
        else:
            self.drawn = independent_draws(own, num, sets, generator, seed=seed, all_once=True)
            blocks = {n: [1] * (1 if takes_all(own, n) else num) for n in sizes}
            populations = {n: 1.0 if takes_all(own, n) else inf for n in sizes}
        self.ends = {n: [0, *accumulate(each)] for n, each in blocks.items()}
        self.max_blocks = {n: len(ends) - 1 for n, ends in self.ends.items()}
        self.num_blocks = dict.fromkeys(self.ends, 0)
        self.sample: Sample | None = None
        population = [populations[n] for n in sets.sizes]
        self.population = upload(torch.tensor(population, dtype=widest(sets.device), device="cpu"), sets.device)

    def take(self, active: list[int], num_blocks: dict[int, int]) -> Sample:
        """Returns all outputs so far, including further blocks of the active sets.

        ``num_blocks`` gives the number of blocks up to which sets of each size are computed. All active sets have
        computed equally many blocks for their size before.
        """
        first = {n: ends[self.num_blocks[n]] for n, ends in self.ends.items()}
        last = {n: ends[num_blocks[n]] for n, ends in self.ends.items()}
        if len(active) == len(self.sets) and num_blocks == self.max_blocks and not any(first.values()):
            sets, elements, context, drawn = self.sets, self.elements, self.context, self.drawn
        else:
            sets, elements = self.sets[active], self.elements[active]
            context = None if self.context is None else self.context[active]
            r = self.num_rows
            drawn = self.drawn.part(active, lambda n: slice(first[n] * r[n], last[n] * r[n]), sets)
        self.num_blocks = num_blocks
        outputs, owners = self._outputs(sets, elements, context, drawn)
        numbers = torch.tensor(active, dtype=torch.long, device="cpu")[owners]
        if self.control is not None and self.exact is not None:
            controls = mean_of_draws(self.control.rows(sets, drawn.rows), drawn, self.num_rows.__getitem__)
            outputs = outputs - controls + self.exact[upload(numbers, outputs.device)]
        sample = Sample(outputs, numbers, self._blocks(sets, owners, first), self.population)
        self.sample = sample if self.sample is None else self.sample.and_more(sample)
        return self.sample

    def _outputs(self, sets: Ragged, elements: Ragged, context: Tensor | None, drawn: Drawn) -> tuple[Tensor, Tensor]:
        """Returns the linked output of every draw, set by set, and the set of each draw, on the host."""
        single = not drawn.weighs_rows and set(self.num_rows.values()) <= {1}
        if single and isinstance(self.network, JanossyNetwork) and is_of_its_rows(self.network):
            rows = self.network.rows(sets, drawn, context=context, elements=elements)
            sizes = torch.tensor(rows.sizes, dtype=torch.long, device="cpu")
            return self.linked(rows.values), torch.arange(len(rows), device="cpu").repeat_interleave(sizes)
        apart = drawn.apart(self.num_rows.__getitem__)
        outputs = self.linked(self.network(sets, apart, context=context, elements=elements))
        return outputs, torch.tensor(apart.rows.owners_on_host, dtype=torch.long, device="cpu")

    def _blocks(self, sets: Ragged, owners: Tensor, first: dict[int, int]) -> Tensor:
        """Returns the block of each draw of these sets, on the host; draws begin with ``first`` for their size."""
        counts = torch.bincount(owners, minlength=len(sets))
        places = torch.arange(len(owners), device="cpu") - (counts.cumsum(0) - counts)[owners]
        sizes = torch.tensor(sets.sizes, dtype=torch.long, device="cpu")[owners]
        blocks = torch.zeros_like(owners)
        for n, ends in self.ends.items():
            of_size = sizes == n
            blocks[of_size] = torch.bucketize(
                places[of_size] + first[n], torch.tensor(ends[1:], device="cpu"), right=True
            )
        return blocks


def _exhausting(many: RandomOrderings, network: JanossyNetwork | SetFunction, adaptive: bool) -> RandomOrderings:
    """Returns the orderings, with all orders of a set that has few orders.

    A set has few orders if there are no more than draws, or if a recurrence reads them all as fast, as a tree.
    """
    if isinstance(network, SetFunction):
        return many.exhausting()
    shared = None
    if not adaptive and network.pooling.choice.name in ("auto", "packed") and not many.exact_last:
        shared = max_shared(structure(network.pooling.f), many.num_permutations, many.row_length)
    return many.exhausting(shared)


def mean_of_draws(values: Tensor, drawn: Drawn, num_rows: Callable[[int], int]) -> Tensor:
    """Returns the mean over each draw of the rows' values (T, out) times their weights.

    A draw has ``num_rows(n)`` rows for a set of n.
    """
    dtype, values = values.dtype, widened(values)
    if (weights := drawn.rows.weights()) is not None:
        values = values * weights.to(values)
    draws = drawn.apart(num_rows).rows
    counts = upload(torch.tensor(draws.counts(), dtype=torch.long, device="cpu"), values.device)
    return means_by_counts(values, counts).to(dtype)


def until(draws: Draws, tolerance: float | Tensor, confidence: float) -> tuple[Sample, Tensor]:
    """Takes draws until the intervals are as narrow as the tolerance, or all are taken.

    A set with outputs that are not finite is given up. The second result is True for sets within the tolerance, (B,).
    """
    sizes, device = draws.sets.sizes, draws.sets.device
    tolerance = torch.as_tensor(tolerance, device=device)
    for b, n in enumerate(sizes):
        if draws.max_blocks[n] < 2 and draws.ends[n][-1] < draws.population[b]:
            raise ValueError(
                f"predict expects at least 2 independent blocks of permutations with a tolerance; got 1 for a set of "
                f"{n}. Give a smaller block=, or a larger num_permutations."
            )
    # A set's looks depend on its size, and not on its batch-mates.
    looks = {n: _looks(most) for n, most in draws.max_blocks.items()}
    confidences = torch.tensor([1 - (1 - confidence) / len(looks[n]) for n in sizes], dtype=torch.float64, device="cpu")
    finished = torch.zeros(len(sizes), dtype=torch.bool, device=device)
    active = list(range(len(sizes)))
    for step in range(max(map(len, looks.values()), default=1)):
        sample = draws.take(active, {n: at[min(step, len(at) - 1)] for n, at in looks.items()})
        if tolerance.dim() > 1 or tolerance.numel() not in (1, sample.mean.shape[1]):
            raise ValueError(
                f"predict expects a tolerance as a number, or one per output, {tuple(sample.mean.shape[1:])}; got "
                f"shape {tuple(tolerance.shape)}. Give one number for all outputs."
            )
        finished = finished | (sample.margin(confidences) <= tolerance).all(1)
        left = ~finished & sample.mean.isfinite().all(1)
        active = [b for b in left.nonzero()[:, 0].tolist() if step + 1 < len(looks[sizes[b]])]
        if not active:
            break
    return sample, finished


def _looks(max_blocks: int) -> list[int]:
    """Returns the numbers of blocks at which it is checked if a set is finished."""
    looks = [min(FIRST_LOOK, max_blocks)]
    while looks[-1] < max_blocks:
        looks.append(min(ceil(looks[-1] * NEXT_LOOK), max_blocks))
    return looks
