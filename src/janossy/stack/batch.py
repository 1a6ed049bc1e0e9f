"""The sets of R networks: each network's sets, and all of them as one batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from janossy.evaluate.lookup import Lookup
from janossy.evaluate.validation import check_sets
from janossy.functions.structure import hooked, overridden
from janossy.sets import Ragged
from janossy.sets.transfer import upload


@dataclass(frozen=True)
class Batch:
    """The sets of R networks, B each; in ``joined`` the networks' sets follow each other."""

    joined: Ragged
    num_networks: int

    @property
    def num_sets(self) -> int:
        """The number of sets per network."""
        return len(self.joined) // self.num_networks

    @cached_property
    def sizes(self) -> list[tuple[int, ...]]:
        """The sizes of each network's sets."""
        B, sizes = self.num_sets, self.joined.sizes
        return [sizes[r * B : (r + 1) * B] for r in range(self.num_networks)]

    @cached_property
    def counts(self) -> list[int]:
        """The number of elements of each network."""
        return [sum(sizes) for sizes in self.sizes]

    @cached_property
    def begins(self) -> list[int]:
        """The place of each network's first element."""
        return [0, *accumulate(self.counts)][:-1]

    @cached_property
    def apart(self) -> list[Ragged]:
        """The sets of each network."""
        return split(self.joined, self)


def as_batch(sets: Any, num_networks: int, is_joined: bool) -> Batch:
    """Returns the sets as a batch, from a list of each network's sets or one ``Ragged`` for all networks.

    If ``is_joined``, the sets are one ``Ragged`` of all networks' sets.

    Raises: TypeError for other objects; ValueError for a list of another length, or other numbers of sets.
    """
    if isinstance(sets, Ragged):
        check_sets(sets, "Stack")
        if not is_joined:
            values = sets.values.repeat(num_networks, *[1] * (sets.values.dim() - 1))
            return Batch(_of_sizes(values, sets.offsets, sets.sizes, num_networks), num_networks)
        if len(sets) % num_networks:
            raise ValueError(
                f"Stack expects joined sets, as many of each of {num_networks} networks; got {len(sets)} in all. "
                "Give a list of batches, or joined=False for sets that all networks share."
            )
        return Batch(sets, num_networks)
    if not isinstance(sets, Sequence):
        check_sets(sets, "Stack")
    if is_joined:
        raise TypeError(f"Stack expects joined sets as one Ragged; got {type(sets).__name__}. Use Ragged.cat(batches).")
    if len(sets) != num_networks:
        raise ValueError(
            f"Stack expects a Ragged for each of its {num_networks} networks, or one for all; got a list of "
            f"{len(sets)}. Give as many."
        )
    for each in sets:
        check_sets(each, "Stack")
    if len({len(each) for each in sets}) > 1:
        raise ValueError(
            f"Stack expects as many sets for each network; got {', '.join(str(len(each)) for each in sets)}. Give "
            "batches of one size."
        )
    return Batch(Ragged.cat(sets), num_networks)


def _of_sizes(values: Tensor, offsets: Tensor, sizes: tuple[int, ...], times: int) -> Ragged:
    """Returns these sets, repeated ``times`` times."""
    shift = torch.arange(times, device=offsets.device)[:, None] * sum(sizes)
    offsets = torch.cat((offsets[:1], (offsets[1:] + shift).flatten()))
    return Ragged(values, offsets, sizes=sizes * times)


def split(elements: Ragged, batch: Batch) -> list[Ragged]:
    """Returns each network's part of the elements (or of a ``Lookup``) of the joined sets."""
    places = elements.places if isinstance(elements, Lookup) else elements
    B, parts = batch.num_sets, places.values.split(batch.counts)
    offsets = [places.offsets[r * B : (r + 1) * B + 1] - begin for r, begin in enumerate(batch.begins)]
    apart = [Ragged(*each, sizes=sizes) for *each, sizes in zip(parts, offsets, batch.sizes, strict=True)]
    if not isinstance(elements, Lookup):
        return apart
    tables = elements.table.tensor_split(batch.num_networks)
    return [
        Lookup(table, ids.with_values(ids.values - r * len(table)))
        for r, (table, ids) in enumerate(zip(tables, apart, strict=True))
    ]


def is_table(h: nn.Module) -> bool:
    """Returns True if the module only looks ids up."""
    return (
        type(h) is nn.Embedding
        and h.padding_idx is None
        and h.max_norm is None
        and not (h.scale_grad_by_freq or h.sparse or hooked(h) or overridden(h, nn.Embedding.forward))
    )


def looked_up(weight: Tensor, batch: Batch) -> Ragged:
    """Returns the rows of each network's table, weight (R, U, d), for its ids.

    The result is a ``Lookup`` if a network's table is at most half as long as its ids; else the elements themselves.

    Raises: ValueError for ids that are not in the tables.
    """
    ids, (R, size, _) = batch.joined, weight.shape
    if len(ids.values):
        low, high = (bound.item() for bound in ids.values.aminmax())
        if low < 0 or high >= size:
            raise ValueError(
                f"h, an Embedding, expects ids from 0 to {size - 1}; got {low if low < 0 else high}. "
                "Give it more num_embeddings, or map other ids to one of its own."
            )
    shifts = torch.arange(R, device=ids.device) * size
    if len(set(batch.counts)) == 1:
        places = (ids.values.view(R, -1) + shifts[:, None]).flatten()
    else:
        counts = upload(torch.tensor(batch.counts), ids.device)
        places = ids.values + shifts.repeat_interleave(counts, output_size=len(ids.values))
    lookup = Lookup(weight.flatten(0, 1), ids.with_values(places))
    return lookup if 2 * size <= min(batch.counts) else ids.with_values(lookup.values)
