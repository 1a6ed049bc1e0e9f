"""Lookup: sets whose elements are rows of a table, such as an embedding's."""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from janossy.functions.structure import hooked, overridden
from janossy.sets import Ragged


class Lookup(Ragged):
    """Sets of the elements ``table[places]``, so that work on single elements can be done once per row of the table.

    It is a ``Ragged`` of the elements, which are gathered when ``values`` is read. ``JanossyPooling`` does not read it.
    Its evaluators read the table (``Problem.table``), and project each row once, however often the row occurs.

    Shapes: table (U, d); places.values (N,), int64, from 0 to U - 1.
    """

    def __init__(self, table: Tensor, places: Ragged) -> None:
        self.table = table
        self.places = places
        self.offsets = places.offsets
        self.sizes = places.sizes

    @cached_property
    def values(self) -> Tensor:  # type: ignore[override]
        """The elements (N, d)."""
        return self.table.index_select(0, self.places.values)

    @property
    def dtype(self) -> torch.dtype:
        return self.table.dtype

    @property
    def device(self) -> torch.device:
        return self.table.device

    def with_values(self, values: Tensor) -> Ragged:
        return self.places.with_values(values)

    def __getitem__(self, key: int | slice | Sequence[int] | Tensor) -> "Tensor | Ragged":  # type: ignore[override]
        chosen = self.places[key]
        return Lookup(self.table, chosen) if isinstance(chosen, Ragged) else self.table[chosen]


def looked_up(h: nn.Module, ids: Ragged) -> Lookup | None:
    """Returns h of these ids as a table and places; None unless h is an embedding of at most half as many ids.

    It is also None if h does more than look ids up, or if a hook or a forward of the user would not run.

    Raises: ValueError for ids that are not in the embedding.
    """
    if type(h) is not nn.Embedding or torch.compiler.is_compiling() or ids.device.type != "cpu":
        return None
    x, size = ids.values, h.num_embeddings
    if x.dim() != 1 or x.dtype not in (torch.int64, torch.int32) or len(x) == 0:
        return None
    low, high = (bound.item() for bound in x.aminmax())
    if low < 0 or high >= size:
        raise ValueError(
            f"h, an Embedding, expects ids from 0 to {size - 1}; got {low if low < 0 else high}. "
            "Give it more num_embeddings, or map other ids to one of its own."
        )
    plain = h.padding_idx is None and h.max_norm is None and not (h.scale_grad_by_freq or h.sparse)
    if not plain or 2 * size > len(x) or hooked(h) or overridden(h, nn.Embedding.forward):
        return None
    return Lookup(h.weight, ids if x.dtype == torch.int64 else ids.with_values(x.long()))
