"""Rows of sets whose sizes only the running graph knows: operators that torch.compile calls, and does not trace."""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from janossy.orderings.all_permutations import AllPermutations
from janossy.orderings.as_given import AsGiven
from janossy.orderings.canonical import Canonical
from janossy.orderings.combinations import Combinations
from janossy.orderings.contract import Orderings, averages_every_arrangement
from janossy.orderings.rows import Rows
from janossy.orderings.sampled import Sampled
from janossy.orderings.sorting import sort_positions
from janossy.orderings.tuples import Tuples
from janossy.sets import Ragged


@dataclass(frozen=True)
class TracedRows:
    """The rows of every set, in the order of the sets.

    Shapes:
        positions: in the values, whose last one is the zero vector: (T, k); or (C,), one row after the other.
        lengths: (T,), of rows that differ in length; else None.
        ends: (B + 1,), where each set's rows begin, and the last one ends.
        order: (N,), the position of each element of the sorted sets; None if they are not sorted.
    """

    positions: Tensor
    lengths: Tensor | None
    ends: Tensor
    order: Tensor | None


def why_not_traced(orderings: Orderings) -> str | None:
    """Returns the reason why ``traced_rows`` does not know these orderings; None if it does."""
    if averages_every_arrangement(orderings) or type(orderings) in (AsGiven, Sampled):
        return None
    if type(orderings) is Canonical and len(orderings.each_key) == 1 and not orderings.weighs_rows:
        return None
    return f"the compiled rows of {type(orderings).__name__} follow from sizes that are constants"


def traced_rows(orderings: Orderings, keys: Ragged, max_positions: int) -> TracedRows:
    """Returns the rows of these orderings, which ``why_not_traced`` has nothing against.

    Raises: RuntimeError in the running graph if they have more positions.
    """
    k, offsets, num_values = orderings.k, keys.offsets, keys.values.shape[0]
    order = _order(orderings, keys)
    sampled: tuple[int, str, int | None, int | None, int, int | None] = (1, "auto", None, None, 0, None)
    if isinstance(orderings, Sampled):
        each = orderings
        sampled = each.num_permutations, each.scheme, each.seed, each.block, each.exact_last, each.exhaust
    settings = _name(orderings), *sampled, orderings.max_rows, max_positions
    if k is None:
        positions, lengths, ends = rows_of_sets(offsets, *settings)
    else:
        positions, ends = rows_of_k(offsets, num_values, k, *settings)
        lengths = None
    if order is not None:
        order_of_all = order if k is None else torch.cat((order, order.new_full((1,), num_values)))
        positions = order_of_all.index_select(0, positions.flatten()).view_as(positions)
    return TracedRows(positions, lengths, ends, order)


@torch.library.custom_op(
    "janossy::rows_of_k",
    mutates_args=(),
    device_types=("cpu", "cuda"),
    tags=torch.Tag.nondeterministic_seeded,  # else two draws would be taken for one
)
def rows_of_k(
    offsets: Tensor,
    num_values: int,
    k: int,
    name: str,
    num_permutations: int,
    scheme: str,
    seed: int | None,
    block: int | None,
    exact_last: int,
    exhaust: int | None,
    max_rows: int,
    max_positions: int,
) -> tuple[Tensor, Tensor]:
    """Returns the rows of k positions, (T, k), and their ends, (B + 1,), of the orderings of that name.

    A position that a small set lacks is ``num_values``. torch.compile does not know T.
    """
    made = _made(name, k, num_permutations, scheme, seed, block, exact_last, exhaust, max_rows)
    _, rows = _enumerated(made, offsets, max_positions)
    positions = rows.join([bucket.positions() for bucket in rows.buckets])
    return torch.where(positions < 0, num_values, positions), _ends(rows.counts(), offsets)


@rows_of_k.register_fake
def _(offsets: Tensor, num_values: int, k: int, *settings: object) -> tuple[Tensor, Tensor]:
    num_rows = torch.library.get_ctx().new_dynamic_size()
    return offsets.new_empty(num_rows, k), offsets.new_empty(offsets.shape[0])


@torch.library.custom_op(
    "janossy::rows_of_sets",
    mutates_args=(),
    device_types=("cpu", "cuda"),
    tags=torch.Tag.nondeterministic_seeded,
)
def rows_of_sets(
    offsets: Tensor,
    name: str,
    num_permutations: int,
    scheme: str,
    seed: int | None,
    block: int | None,
    exact_last: int,
    exhaust: int | None,
    max_rows: int,
    max_positions: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the positions (C,) of rows of whole sets, their lengths (T,) and their ends (B + 1,)."""
    made = _made(name, None, num_permutations, scheme, seed, block, exact_last, exhaust, max_rows)
    sets, rows = _enumerated(made, offsets, max_positions)
    counts, sizes = (
        torch.tensor(rows.counts(), dtype=torch.long, device="cpu"),
        torch.tensor(sets.sizes, dtype=torch.long, device="cpu"),
    )
    lengths, ends = sizes.repeat_interleave(counts), _ends(rows.counts(), offsets)
    if len(rows.buckets) == 1:
        return rows.buckets[0].positions().flatten(), lengths.to(offsets.device), ends
    positions = offsets.new_empty(int(lengths.sum()))
    firsts = torch.nn.functional.pad((counts * sizes).cumsum(0), (1, 0))[:-1].to(offsets.device)
    for bucket in rows.buckets:
        each = bucket.positions().flatten(1)
        places = firsts[bucket.sets][:, None] + torch.arange(each.shape[1], device=each.device)
        positions[places.flatten()] = each.flatten()
    return positions, lengths.to(offsets.device), ends


@rows_of_sets.register_fake
def _(offsets: Tensor, *settings: object) -> tuple[Tensor, Tensor, Tensor]:
    context = torch.library.get_ctx()
    num_positions, num_rows = context.new_dynamic_size(), context.new_dynamic_size()
    return offsets.new_empty(num_positions), offsets.new_empty(num_rows), offsets.new_empty(offsets.shape[0])


def by_length(lengths: Tensor) -> list[tuple[Tensor, int]]:
    """Returns the numbers of the rows of each length, the longest first; ``lengths`` (T,) are on the host."""
    order = lengths.argsort(descending=True, stable=True)
    cuts = [0, *(lengths[order].diff().nonzero()[:, 0] + 1).tolist(), len(lengths)]
    return [(order[a:b], int(lengths[order[a]])) for a, b in pairwise(cuts) if b > a]


def _name(orderings: Orderings) -> str:
    """Returns the name of orderings whose rows of sorted sets are the same."""
    if isinstance(orderings, Sampled):
        return "Sampled"
    if not averages_every_arrangement(orderings):
        return "AsGiven"
    if orderings.k is None:
        return "AllPermutations"
    return "Combinations" if orderings.increasing else "Tuples"  # type: ignore[attr-defined]


def _order(orderings: Orderings, keys: Ragged) -> Tensor | None:
    if averages_every_arrangement(orderings):
        return orderings.order(keys)  # type: ignore[attr-defined,no-any-return]
    if isinstance(orderings, Canonical):
        return sort_positions(keys, orderings.each_key[0])
    return None if getattr(orderings, "seed", None) is None else sort_positions(keys)


def _made(
    name: str,
    k: int | None,
    num_permutations: int,
    scheme: str,
    seed: int | None,
    block: int | None,
    exact_last: int,
    exhaust: int | None,
    max_rows: int,
) -> Orderings:
    if name == "Sampled":
        return Sampled(
            num_permutations,
            k=k,
            scheme=scheme,
            seed=seed,
            block=block,
            exact_last=exact_last,
            exhaust=exhaust,
            max_rows=max_rows,
        )
    if k is None:
        return AllPermutations(max_rows=max_rows) if name == "AllPermutations" else AsGiven(max_rows=max_rows)
    if name == "AsGiven":
        return AsGiven(k=k, max_rows=max_rows)
    return (Combinations if name == "Combinations" else Tuples)(k, max_rows=max_rows)


def _numbered(offsets: Tensor) -> Ragged:
    """Returns sets between these offsets whose elements are numbers in ascending order: they are sorted already."""
    ends = offsets.tolist()
    values = torch.arange(ends[-1], device=offsets.device)
    return Ragged(values, offsets, sizes=[b - a for a, b in pairwise(ends)])


def _ends(counts: list[int], offsets: Tensor) -> Tensor:
    return torch.nn.functional.pad(torch.tensor(counts, dtype=torch.long, device="cpu").cumsum(0), (1, 0)).to(
        offsets.device
    )


def _enumerated(orderings: Orderings, offsets: Tensor, max_positions: int) -> tuple[Ragged, Rows]:
    """Returns numbered sets between these offsets, and their rows. Raises: RuntimeError for more positions."""
    sets = _numbered(offsets)
    sizes = Counter(sets.sizes).items()
    if (total := sum(num * orderings.num_rows(n) * orderings.row_length(n) for n, num in sizes)) > max_positions:
        raise RuntimeError(
            f"the compiled layer expects rows of at most {max_positions} elements in all, by its memory_budget; these "
            f"sets have rows of {total}. Use smaller batches, a larger budget, or evaluate='gather', which is compiled "
            "for each sizes."
        )
    return sets, orderings.enumerate(sets)
