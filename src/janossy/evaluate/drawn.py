"""Rows that have been drawn, as an ordering: so that they can be cut, weighed, or read by a second function."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from janossy.orderings.rows import Block, Rows
from janossy.ragged import Ragged


@dataclass(frozen=True, eq=False)
class Drawn:
    """The rows that an ordering has enumerated for sets of these sizes; only they may be pooled with it."""

    rows: Rows
    sizes: tuple[int, ...]
    k: int | None = None
    """The elements of every row, if that is one number."""

    def num_rows(self, n: int) -> int:
        return self._blocks[n].num_rows

    def row_length(self, n: int) -> int:
        return self._blocks[n].length

    @cached_property
    def _blocks(self) -> dict[int, Block]:
        """By the size of their sets, of which there is at least one."""
        return {self.sizes[block.members(len(self.sizes))[0]]: block for block in self.rows.blocks if block.num_sets}

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        assert keys.sizes == self.sizes
        return self.rows

    def part(self, sets: Sequence[int], rows: Callable[[int], slice], chosen: Ragged) -> "Drawn":
        """Of some sets, in rising order, the rows that ``rows`` says for their size; ``chosen`` is a batch of them."""
        numbers = {b: i for i, b in enumerate(sets)}
        blocks = []
        for block in self.rows.blocks:
            members = [(s, b) for s, b in enumerate(block.members(self.rows.num_sets)) if b in numbers]
            if not members:
                continue
            some = rows(self.sizes[members[0][1]])
            here = torch.tensor([s for s, _ in members], device=chosen.device)
            there = torch.tensor([numbers[b] for _, b in members], device=chosen.device)
            # Positions within the sets as they are stored, and no longer as they are sorted.
            local = block.positions(rows=some)[here] - block.starts[here, None, None]
            local = local.where(block.local[:, some].expand(len(block.starts), -1, -1)[here] >= 0, -1)
            weights = None if block.weights is None else block.weights[here][:, some]
            blocks.append(Block(local, there, chosen.offsets[there], None, block.padded, weights))
        return Drawn(Rows(tuple(blocks), len(sets)), chosen.sizes, self.k)
