"""The choice of statistics that suit some sets, by the kinds of their columns and by their values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import cast

import numpy as np
import torch
from scipy.sparse import csr_matrix, triu
from torch import Tensor, nn

from janossy.nn.statistics import (
    CellCounts,
    CellPairs,
    CodeValues,
    ContextCodeValues,
    ContextColumns,
    DistinctCounts,
    InnerStatistics,
    NumberStatistics,
    OthersAtExtremes,
    PooledStatistics,
    SetSize,
)
from janossy.nn.statistics.inner import inner_sets
from janossy.nn.statistics.sorted_sets import SortedSets
from janossy.sets import Ragged
from janossy.tables.layout import Layout

FEW_NUMBERS = 64
"""The most columns of numbers for which quantiles are computed."""

FEW_COLUMNS = 6
"""The most columns for which combinations, bins, and other columns at extremes are computed."""

FEW_VALUES = 16
"""The most distinct values of a column of numbers that has one bin per value."""

BINS = 8
"""The number of bins of other columns of numbers, with about equally many elements each."""

SMALL_SETS = 40
"""The largest mean size of sets for which pairs of categories are counted."""

DENSE = 0.5
"""The mean part of a bag's categories that a set must hold for amounts to be averaged by category, beside their sums:
sums treat a missing reading as 0."""

FEWEST_SETS = 3
"""The fewest sets that must hold a cell or a pair for it to be kept."""

MANY_CATEGORIES = 512
"""The number of categories from which a column of elements can be encoded by targets, in place of a bag."""

MANY_OF_SETS = 64
"""The number of categories from which a column of sets can be encoded by targets: it has no indicators."""

INNER_CELLS = 16
"""The most cells of a bag of categories of inner sets, each of which gives several statistics of the set."""

MAX_OFFSET = 1e3
"""The largest mean in standard deviations at which numbers lose their standardisation: float32 keeps the digits."""


@dataclass(frozen=True)
class Sizes:
    """The largest numbers of statistics of each kind."""

    cells: int = 512
    """The cells of one bag of categories."""
    hashed: int = 64
    """The buckets for the other categories of a bag that has more."""
    combinations: int = 256
    """The combinations of values of two or more columns."""
    pairs: int = 256
    """The pairs of categories that occur in one set."""


def choose_statistics(
    sets: Ragged,
    context: Tensor | None,
    layouts: tuple[Layout, Layout],
    *,
    most: Sizes | None = None,
    scheme: str = "fraction",
    compact: bool = False,
    standardised: bool = True,
    num_encoded: int = 0,
) -> PooledStatistics:
    """Returns statistics for sets with such columns, fitted to these sets. Targets are not used.

    For sets of sets they are statistics of all elements, and statistics over the inner sets of those of each inner set.

    Args:
        most: the largest number of statistics of each kind.
        scheme: the scheme of bags of categories, as in ``CellCounts``. With "share" there are only bags, of the shares
            of each column of amounts, or of counts without such a column, and the sums of numbers.
        compact: True for statistics of single columns, and of numbers by category, only. There are then no bins, and
            nothing of several columns or elements together. Such statistics suit forests, which choose among features
            at random.
        standardised: True if the layout's means were subtracted from numbers.
        num_encoded: the number of values per category that replace bags of columns with many categories. The values are
            0, to be filled by ``encode_targets``. With 0, all columns have bags.
    """
    elements, of_sets = layouts
    encoded, encoded_of_sets = encoded_columns(layouts) if num_encoded else ([], [])
    statistics = _statistics([SetSize()], elements, standardised)
    seen = statistics.sorted(sets, context)
    blocks = [SetSize(), *_blocks(seen, elements, most or Sizes(), scheme, compact, encoded)]
    for column in encoded:
        blocks.append(CodeValues(column, num_values=elements.vocabularies[column], width=num_encoded))
    if elements.inner:
        blocks.append(_of_inner_sets(seen, elements, scheme))
    if of_sets.num_columns:
        blocks.append(ContextColumns(of_sets.vocabularies, num_numbers=of_sets.num_numbers))
    for column in encoded_of_sets:
        blocks.append(ContextCodeValues(column, num_values=of_sets.vocabularies[column], width=num_encoded))
    return _statistics(blocks, elements, standardised)


def _statistics(blocks: Sequence[nn.Module], layout: Layout, standardised: bool) -> PooledStatistics:
    found = PooledStatistics(
        blocks, vocabularies=layout.vocabularies, num_numbers=layout.num_numbers, inner=layout.inner
    )
    if standardised:
        found.offsets.copy_(_offsets(layout))
    return found


def _of_inner_sets(seen: SortedSets, layout: Layout, scheme: str) -> InnerStatistics:
    inner = inner_sets(seen)[0]
    blocks = [SetSize(), *_blocks(inner, layout, Sizes(cells=INNER_CELLS, hashed=0), scheme, compact=True)]
    width = sum(cast(int, block.out_features) for block in blocks)
    levels = (0.25, 0.5, 0.75) if width <= FEW_NUMBERS else ()
    return InnerStatistics(blocks, [SetSize(), NumberStatistics(width, quantiles=levels)])


def encoded_columns(layouts: tuple[Layout, Layout]) -> tuple[list[int], list[int]]:
    """Returns the columns of elements and those of sets with so many categories that targets can encode them."""
    elements, of_sets = layouts
    return (
        [i for i, size in enumerate(elements.vocabularies) if size > MANY_CATEGORIES],
        [i for i, size in enumerate(of_sets.vocabularies) if size > MANY_OF_SETS],
    )


def has_more_than_compact(layout: Layout) -> bool:
    """Returns True if the full statistics of such elements may be more than the compact ones."""
    return bool(layout.vocabularies) or layout.num_columns <= FEW_COLUMNS


def _offsets(layout: Layout) -> Tensor:
    """Returns the offsets that restore the zero of standardised numbers."""
    scales, means = (torch.tensor(x, dtype=torch.float64) for x in (layout.scales, layout.means))
    if len(means) != layout.num_numbers or len(scales) != layout.num_numbers:
        return torch.zeros(layout.num_numbers, dtype=torch.float64)
    offsets = means / scales.where(scales > 0, torch.inf)
    return offsets.where(offsets.abs() <= MAX_OFFSET, 0.0)


def _blocks(
    seen: SortedSets, layout: Layout, most: Sizes, scheme: str, compact: bool, encoded: Sequence[int] = ()
) -> Iterator[nn.Module]:
    """Yields blocks of statistics. Columns in ``encoded`` are left out."""
    num_codes, num_numbers = len(layout.vocabularies), layout.num_numbers
    if scheme == "share":
        yield from _shares(seen, layout, most, encoded)
        return
    if num_numbers:
        yield NumberStatistics(num_numbers, quantiles=(0.25, 0.5, 0.75) if num_numbers <= FEW_NUMBERS else ())
    few = layout.num_columns <= FEW_COLUMNS
    yield from _distinct(seen, num_codes + num_numbers if few else num_codes, num_codes)
    if few and not compact and num_numbers > 1:
        yield OthersAtExtremes(num_numbers)
    amounts = _amounts(seen, layout)
    edges = [_edges(seen.numbers[:, j]) for j in range(num_numbers)] if few and not compact else []
    values = {i: size for i, size in enumerate(layout.vocabularies) if i not in encoded}
    values |= {num_codes + j: len(of_column) + 1 for j, of_column in enumerate(edges)}
    for i in range(num_codes):
        if i in encoded:
            continue
        bag = _bag(seen, [i], values, edges, num_codes, most.cells, scheme=scheme, hashed=most.hashed)
        yield bag
        is_dense = bool(amounts) and _is_dense(seen, bag)
        for j in amounts:
            yield _as(bag, "amount", j)
        for j in range(num_numbers if few else 0):
            if _differ(seen.numbers[:, j]) and (j not in amounts or is_dense):
                yield _means(seen, bag, j)
        if not compact and len(seen.codes) <= SMALL_SETS * len(seen):
            yield from _pairs(seen, _as(bag, "count", None), most.pairs)
    if few and not compact:
        yield from _combinations(seen, values, edges, num_codes, most, scheme)


def _shares(seen: SortedSets, layout: Layout, most: Sizes, encoded: Sequence[int]) -> Iterator[nn.Module]:
    """Yields the sums of numbers, and for each column of categories the shares of each column of amounts."""
    if layout.num_numbers:
        yield NumberStatistics(layout.num_numbers, quantiles=(), moments=("sum",))
    amounts, values = _amounts(seen, layout), dict(enumerate(layout.vocabularies))
    for i in values:
        if i in encoded:
            continue
        bag = _bag(seen, [i], values, [], len(values), most.cells, scheme="count", hashed=most.hashed)
        yield from (_as(bag, "share", j) for j in amounts) if amounts else (bag,)


def are_compositions(sets: Ragged, layout: Layout) -> bool:
    """Returns True if amounts by category say all of each set, as in a formula.

    That is so for one column of categories, none of which a set has twice, and columns of amounts that are positive.
    """
    if len(layout.vocabularies) != 1 or not layout.num_numbers or layout.inner or not len(sets.values):
        return False
    seen = _statistics([SetSize()], layout, standardised=True).sorted(sets, None)
    keys = seen.owners * layout.vocabularies[0] + seen.codes[:, 0]
    are_amounts = len(_amounts(seen, layout)) == layout.num_numbers
    return are_amounts and len(keys.unique()) == len(keys) and bool((seen.numbers > 0).all())


def _distinct(seen: SortedSets, num_columns: int, num_codes: int) -> Iterator[DistinctCounts]:
    """Yields the numbers of different values, if any of the first columns repeats values within sets."""
    counts = DistinctCounts(range(num_columns), num_codes=num_codes)(seen)
    repeats = (counts < seen.sizes[:, None]).sum(0) >= FEWEST_SETS
    if repeats.any():
        yield DistinctCounts(repeats.nonzero()[:, 0].tolist(), num_codes=num_codes)


def _combinations(
    seen: SortedSets, values: dict[int, int], edges: list[Tensor], num_codes: int, most: Sizes, scheme: str
) -> Iterator[CellCounts]:
    """Yields bags of the bins of numbers, and of the values of two columns or of all columns together."""
    for column in values:
        if column >= num_codes and values[column] > 1:
            yield _bag(seen, [column], values, edges, num_codes, most.cells, scheme=scheme)
    several = [column for column in values if values[column] > 1]
    groups = [*combinations(several, 2), *([tuple(several)] if len(several) > 2 else [])]
    for group in groups:
        if prod(values[column] for column in group) < 2**62:
            yield _bag(seen, group, values, edges, num_codes, most.combinations, scheme=scheme)


def _bag(
    seen: SortedSets,
    columns: Sequence[int],
    values: dict[int, int],
    edges: list[Tensor],
    num_codes: int,
    most: int,
    *,
    scheme: str,
    hashed: int = 0,
) -> CellCounts:
    """Returns the bag of the cells that most sets hold."""
    sizes = [values[column] for column in columns]
    probe = CellCounts(columns, sizes=sizes, num_codes=num_codes, num_cells=0)
    inner = [edges[column - num_codes] for column in columns if column >= num_codes]
    probe.edges.copy_(torch.cat(inner) if inner else torch.zeros(0))
    cells, places = probe.numbers_of(seen).unique(return_inverse=True)
    num_sets = torch.from_numpy(np.ravel(_occurrences(seen, places, len(cells)).sum(0)))
    held = num_sets >= FEWEST_SETS
    rest = int((~held).sum()) + max(0, int(held.sum()) - most)
    cells, num_sets = cells[held], num_sets[held]
    kept = num_sets.argsort(descending=True, stable=True)[:most]
    cells, order = cells[kept].sort()
    bag = CellCounts(
        columns,
        sizes=sizes,
        num_codes=num_codes,
        num_cells=len(cells),
        num_hashed=hashed if rest > hashed else 0,
        scheme=scheme,
    )
    bag.cells.copy_(cells)
    bag.edges.copy_(probe.edges)
    if scheme == "tf-idf":
        bag.idf[: len(cells)] = ((1 + len(seen)) / (1 + num_sets[kept][order].double())).log() + 1
    return bag


def _as(bag: CellCounts, scheme: str, amount: int | None) -> CellCounts:
    """Returns a bag of the same cells with another scheme."""
    other = CellCounts(
        bag.columns,
        sizes=bag.sizes,
        num_codes=bag.num_codes,
        num_cells=bag.num_cells,
        num_hashed=bag.num_hashed,
        scheme=scheme,
        amount=amount,
    )
    other.cells.copy_(bag.cells)
    other.edges.copy_(bag.edges)
    return other


def _means(seen: SortedSets, bag: CellCounts, number: int) -> CellCounts:
    """Returns the means of a column of numbers by cell. A cell that is absent from a set has its mean over all sets."""
    means = _as(bag, "mean", number)
    places, kept = means.features_of(seen)
    of_elements, where = seen.numbers[kept, number].numpy(), (seen.owners[kept].numpy(), places[kept].numpy())
    shape = len(seen), means.out_features
    sums, sizes = (csr_matrix((each, where), shape) for each in (of_elements, np.ones(len(of_elements))))
    totals = np.bincount(sums.indices, weights=sums.data / sizes.data, minlength=means.out_features)
    num_sets = np.bincount(sums.indices, minlength=means.out_features)
    means.absent.copy_(torch.from_numpy(totals / np.maximum(num_sets, 1)))
    return means


def _is_dense(seen: SortedSets, bag: CellCounts) -> bool:
    """Returns True if a set holds ``DENSE`` of the bag's cells or more on average."""
    places, kept = bag.features_of(seen)
    held = _occurrences(seen, places.where(kept, -1), bag.out_features)
    return bool(0 < DENSE * len(seen) * bag.out_features <= held.nnz)


def _pairs(seen: SortedSets, bag: CellCounts, most: int) -> Iterator[CellPairs]:
    """Yields the pairs of cells that most sets hold, if there are any."""
    if not bag.num_cells:
        return
    places, kept = bag.places_of(bag.numbers_of(seen))
    there = _occurrences(seen, places.where(kept, -1), bag.num_cells)
    together = triu(there.T @ there, 1).tocoo()
    frequent = together.data >= FEWEST_SETS
    first, second, num_sets = together.row[frequent], together.col[frequent], together.data[frequent]
    chosen = np.lexsort((second, first, -num_sets))[:most]
    if len(chosen):
        pairs = CellPairs(bag, num_pairs=len(chosen))
        found = np.stack([first[chosen], second[chosen]], axis=1).astype(np.int64)
        pairs.pairs.copy_(torch.from_numpy(found[np.lexsort((found[:, 1], found[:, 0]))]))
        yield pairs


def _occurrences(seen: SortedSets, places: Tensor, num_places: int) -> csr_matrix:
    """Returns 1 where a set has an element at a place, (B, num_places) int64.

    Args:
        places: the place of every element, (N,); elements at -1 are left out.
    """
    there = places >= 0
    keys = (seen.owners * num_places + places)[there].unique()
    rows, columns = (keys // num_places).numpy(), (keys % num_places).numpy()
    return csr_matrix((np.ones(len(keys), np.int64), (rows, columns)), shape=(len(seen), num_places))


def _edges(numbers: Tensor) -> Tensor:
    """Returns the inner edges of a column's bins."""
    distinct: Tensor = numbers.unique()
    if len(distinct) > FEW_VALUES:
        levels = torch.linspace(0, 1, BINS + 1, dtype=torch.float64)[1:-1]
        distinct = numbers.sort().values[(levels * (len(numbers) - 1)).long()].unique()
        return distinct
    return (distinct[1:] + distinct[:-1]) / 2


def _amounts(seen: SortedSets, layout: Layout) -> list[int]:
    """Returns the columns of numbers that are summed by category, if there are few columns."""
    few = layout.num_columns <= FEW_COLUMNS
    return [j for j in range(layout.num_numbers) if few and _are_amounts(seen.numbers[:, j])]


def _are_amounts(numbers: Tensor) -> bool:
    """Returns True for numbers that can be summed by category: none is negative, and they differ."""
    return bool((numbers >= 0).all()) and _differ(numbers)


def _differ(numbers: Tensor) -> bool:
    return bool(len(numbers)) and bool((numbers != numbers[0]).any())
