"""Forests of cells: paths hold the rows they are made of, and prefix trees all arrangements, each beginning once."""

from collections import Counter
from itertools import combinations, pairwise, permutations
from math import comb, factorial, perm

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from janossy.evaluate.cells.forest import paths
from janossy.evaluate.cells.prefix_tree import num_arrangements, num_nodes, prefix_tree, prefixes, stems

multiplicities = st.lists(st.integers(1, 3), max_size=4).filter(lambda m: sum(m) <= 6).map(tuple)


def rows_of(forest) -> list[list[int]]:
    """Returns each row's elements, read off the forest from its end to its root."""
    rows = []
    for cell in forest.shape.ends.tolist():
        row = []
        while cell >= 0:
            row.append(int(forest.elements[cell]))
            cell = int(forest.shape.parents[cell])
        rows.append(row[::-1])
    return rows


def law_shape(shape) -> None:
    """Cells are ordered by tree, level and parent; a parent stands one level above, in the same tree."""
    assert shape.levels[0] == shape.trees[0] == 0
    assert shape.levels[-1] == shape.num_cells and shape.trees[-1] == len(shape.levels) - 1
    for first, last in pairwise(shape.trees):
        for level in range(first, last):
            parents = shape.parents[shape.levels[level] : shape.levels[level + 1]]
            assert len(parents) > 0 and (np.diff(parents) >= 0).all()
            if level == first:
                assert (parents == -1).all()
            else:
                assert (parents >= shape.levels[level - 1]).all() and (parents < shape.levels[level]).all()
    real = shape.ends[shape.ends >= 0]
    assert len(set(real.tolist())) == len(real)
    assert [shape.rows[end] for end in real] == np.flatnonzero(shape.ends >= 0).tolist()


@given(lengths=st.lists(st.integers(0, 12), min_size=1, max_size=25))
def test_paths_hold_their_rows(lengths):
    lengths = sorted(lengths, reverse=True)
    positions = [torch.randint(100, (1, length)) for length in lengths]
    forest = paths(positions)
    law_shape(forest.shape)
    assert rows_of(forest) == [x[0].tolist() for x in positions]
    assert forest.shape.num_cells == sum(lengths)


def test_paths_of_blocks():
    positions = [torch.randint(100, (num, length)) for num, length in [(3, 5), (9, 4), (0, 3), (2, 1), (4, 0)]]
    assert rows_of(paths(positions)) == [row.tolist() for x in positions for row in x]


def test_no_rows():
    for positions in ([], [torch.zeros(0, 3, dtype=torch.long)], [torch.zeros(2, 0, dtype=torch.long)]):
        forest = paths(positions)
        law_shape(forest.shape)
        assert rows_of(forest) == [[] for x in positions for _ in x]


@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=20))
def test_mirrored_cells_read_rows_from_behind(lengths):
    forest = paths([torch.randint(100, (1, length)) for length in sorted(lengths, reverse=True)])
    mirrored = forest.elements[forest.mirror]
    behind = [row[::-1] for row in rows_of(forest)]
    object.__setattr__(forest, "elements", mirrored)
    assert rows_of(forest) == behind


@given(lengths=st.lists(st.integers(0, 7), min_size=1, max_size=20))
def test_depths(lengths):
    shape = paths([torch.zeros(1, length, dtype=torch.long) for length in sorted(lengths, reverse=True)]).shape
    cells, parents, place = shape.by_depth
    assert [len(c) for c in cells] == [sum(n > depth for n in lengths) for depth in range(max(lengths))]
    behind_each_other = np.concatenate([*cells, np.zeros(0, np.int64)])
    assert (behind_each_other[place] == np.arange(shape.num_cells)).all()
    for now, above, at in zip(cells[1:], cells, parents[1:], strict=False):
        assert (above[at] == shape.parents[now]).all()


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=60), num_cells=st.integers(1, 80))
def test_slabs(lengths, num_cells):
    shape = paths([torch.zeros(1, length, dtype=torch.long) for length in sorted(lengths, reverse=True)]).shape
    slabs = shape.slabs(num_cells)
    assert [*slabs[0][:1], *(bound for slab in slabs for bound in slab[1:])] == shape.trees.tolist()
    assert all(a[-1] == b[0] for a, b in pairwise(slabs))
    assert all(shape.levels[slab[-1]] - shape.levels[slab[0]] < num_cells + shape.largest_tree for slab in slabs)


def arrangements(multiplicities, k) -> list[tuple[int, ...]]:
    """Returns by brute force all arrangements of k elements as kinds, with -1 at the end."""
    elements = [kind for kind, alike in enumerate(multiplicities) for _ in range(alike)]
    real = min(k, len(elements))
    return [(*row, *[-1] * (k - real)) for row in permutations(elements, real)]


def rows_of_tree(tree) -> list[tuple[int, ...]]:
    """Returns the kinds of each row, by the forest of one set whose elements are the kinds; the zero vector is -1."""
    num_kinds = max((int(kinds.max()) for kinds in tree.kinds), default=-1) + 1
    forest = prefixes(tree, torch.tensor([[*range(num_kinds), -1]]))
    law_shape(forest.shape)
    return [tuple(row) for row in rows_of(forest)]


@given(multiplicities=multiplicities, k=st.integers(0, 7))
def test_a_tree_is_all_arrangements_that_look_different(multiplicities, k):
    tree = prefix_tree(multiplicities, k, increasing=False)
    expected = Counter(arrangements(multiplicities, k))
    assert rows_of_tree(tree) == sorted(expected, key=lambda row: [kind if kind >= 0 else 99 for kind in row])
    shares = dict(zip(rows_of_tree(tree), tree.shares.tolist(), strict=True))
    assert shares == pytest.approx({row: times / expected.total() for row, times in expected.items()})
    beginnings = {row[:length] for row in expected for length in range(1, k + 1)}
    assert tree.num_nodes == len(beginnings)
    assert num_arrangements(multiplicities, min(k, sum(multiplicities))) == tree.num_rows


@given(n=st.integers(0, 6), k=st.integers(1, 7))
def test_an_increasing_tree(n, k):
    tree = prefix_tree((1,) * n, k, increasing=True)
    real = min(n, k)
    assert rows_of_tree(tree) == [(*row, *[-1] * (k - real)) for row in combinations(range(n), real)]
    np.testing.assert_allclose(tree.shares, 1 / tree.num_rows)


@given(n=st.integers(0, 6), k=st.integers(0, 7), increasing=st.booleans())
def test_nodes_are_counted_without_building_them(n, k, increasing):
    tree = prefix_tree((1,) * n, k, increasing=increasing)
    assert num_nodes(n, k, increasing=increasing) == (tree.num_nodes, tree.num_rows if k > 0 else 0)


def test_counts_of_large_sets():
    assert num_nodes(10**5, 10**5, increasing=False)[1] == 1e200
    assert num_nodes(10**6, 2, increasing=True) == (10**6 - 1 + comb(10**6, 2), comb(10**6, 2))
    assert num_arrangements((6, 6), 12) == 924


@given(data=st.data(), increasing=st.booleans())
def test_parts_of_a_tree(data, increasing):
    tree = prefix_tree((1,) * data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6)), increasing=increasing)
    rows = rows_of_tree(tree)
    first = data.draw(st.integers(0, len(rows) - 1))
    last = data.draw(st.integers(first + 1, len(rows)))
    part = tree.between(first, last)
    assert rows_of_tree(part) == rows[first:last]
    assert part.num_nodes == len({row[:length] for row in rows[first:last] for length in range(1, len(row) + 1)})
    for at_most in (1, 2, 64):
        branches = tree.branches(at_most)
        assert len(branches) <= at_most
        assert [row for branch in branches for row in rows_of_tree(branch)] == rows
        assert sum(branch.num_nodes for branch in branches) == tree.num_nodes


def test_several_sets_share_a_tree():
    tree = prefix_tree((1, 1, 1), 3, increasing=False)
    forest = prefixes(tree, torch.tensor([[4, 5, 6, 0], [9, 8, 7, 0]]))
    law_shape(forest.shape)
    assert rows_of(forest) == [list(row) for row in [*permutations((4, 5, 6)), *permutations((9, 8, 7))]]


@pytest.mark.parametrize("n", [1, 4, 7])
def test_all_orders_take_e_times_n_factorial_cells(n):
    """Σ_j n!/(n − j)! ≤ e·n!, where enumerating takes n·n!."""
    num_nodes = prefix_tree((1,) * n, n, increasing=False).num_nodes
    assert num_nodes == sum(perm(n, j) for j in range(1, n + 1)) < np.e * factorial(n)


@given(
    num_stems=st.integers(0, 19),
    length=st.integers(0, 4),
    num_kinds=st.integers(0, 4),
    more=st.integers(0, 2),
)
def test_stems_hold_a_beginning_and_every_end(num_stems, length, num_kinds, more):
    """Behind each stem all arrangements of what is left, and zeros behind those; the stem's cells come once."""
    tree = prefix_tree((1,) * num_kinds, num_kinds + more, increasing=False)
    elements = torch.randint(100, (num_stems, length + num_kinds + 1))
    forest = stems(tree, elements, length)
    law_shape(forest.shape)
    expected = [
        [*row[:length].tolist(), *end, *[int(row[-1])] * more]
        for row in elements
        for end in permutations(row[length : length + num_kinds].tolist())
    ]
    assert rows_of(forest) == expected
    nodes, _ = num_nodes(num_kinds, num_kinds + more, increasing=False)
    assert forest.shape.num_cells == num_stems * (length + nodes)


def test_a_forest_of_other_stems_is_found():
    tree = prefix_tree((1, 1), 2, increasing=False)
    elements = torch.tensor([[5, 7, 8, 0], [6, 9, 4, 0]])
    assert rows_of(stems(tree, elements, 1)) == [[5, 7, 8], [5, 8, 7], [6, 9, 4], [6, 4, 9]]
    assert rows_of(stems(tree, elements.flip(0), 1)) != rows_of(stems(tree, elements, 1))
