"""Statistics of sets: their definitions by brute force, and invariance to the last bit."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from janossy import Ragged
from janossy.nn.statistics import (
    CellCounts,
    CellPairs,
    CodeValues,
    ContextCodeValues,
    ContextColumns,
    DistinctCounts,
    LinearScores,
    NumberStatistics,
    OthersAtExtremes,
    PooledStatistics,
    SetSize,
    StatisticsNetwork,
    TreeEnsemble,
)
from janossy.nn.statistics.names import ColumnNames
from janossy.nn.statistics.sorted_sets import SortedSets
from janossy.saving import describe, rebuild, weights

CODES, NUMBERS = (3, 4), 2
LEVELS = (0.25, 0.5, 1.0)
NAMES = ColumnNames(("c", "d", "x", "y"), ("k", "z"), num_codes=2)


def bag(columns, **options):
    sizes = [[3, 4, 3, 2][column] for column in columns]
    cells = options.pop("cells", list(range(int(np.prod(sizes)))))
    found = CellCounts(columns, sizes=sizes, num_codes=2, num_cells=len(cells), **options)
    found.cells.copy_(torch.tensor(cells))
    found.edges.copy_(torch.tensor([edge for column in columns for edge in {2: [-0.5, 0.5], 3: [0.0]}.get(column, [])]))
    if found.scheme == "tf-idf":
        found.idf.copy_(torch.arange(1.0, 1 + found.out_features))
    if found.scheme == "mean":
        found.absent.copy_(torch.arange(1.0, 1 + found.out_features))
    return found


def blocks():
    pairs = CellPairs(bag([0]), num_pairs=3)
    pairs.pairs.copy_(torch.tensor([[0, 1], [1, 2], [2, 2]]))
    values = CodeValues(1, num_values=4, width=2)
    values.values.copy_(torch.randn(4, 2, generator=torch.Generator().manual_seed(3)))
    of_sets = ContextCodeValues(0, num_values=3, width=2)
    of_sets.values.copy_(torch.randn(3, 2, generator=torch.Generator().manual_seed(4)))
    return {
        "size": SetSize(),
        "numbers": NumberStatistics(NUMBERS, quantiles=LEVELS),
        "moments": NumberStatistics(NUMBERS, quantiles=(), moments=("sum", "min")),
        "others": OthersAtExtremes(NUMBERS),
        "distinct": DistinctCounts([0, 3], num_codes=2),
        "counts": bag([0]),
        "fractions": bag([1], scheme="fraction", cells=[0, 3]),
        "bins": bag([2]),
        "combinations": bag([0, 2, 3], cells=[0, 5, 7, 16], num_hashed=2),
        "amounts": bag([1], scheme="amount", amount=1),
        "shares": bag([1], scheme="share", amount=1, cells=[1, 2]),
        "means": bag([0, 1], scheme="mean", amount=0, cells=[0, 5, 7]),
        "tf-idf": bag([1], scheme="tf-idf"),
        "pairs": pairs,
        "values": values,
        "values of sets": of_sets,
        "context": ContextColumns([3], num_numbers=1),
    }


def statistics(names=None):
    every = blocks()
    found = PooledStatistics([every[name] for name in names or every], vocabularies=CODES, num_numbers=NUMBERS)
    found.offsets.copy_(torch.tensor([0.0, 2.5]))
    return found


def example(sizes, seed=0, num_values=5):
    """Returns sets with few different numbers, so that there are ties and duplicates."""
    source = np.random.default_rng(seed)
    n = sum(sizes)
    numbers = source.choice(source.normal(size=num_values).astype(np.float32), (n, NUMBERS))
    codes = np.stack([source.integers(0, size, n) for size in CODES], 1)
    values = torch.from_numpy(np.concatenate([codes, numbers], 1).astype(np.float32))
    context = torch.from_numpy(np.stack([source.integers(0, 3, len(sizes)), source.normal(size=len(sizes))], 1)).float()
    return Ragged.from_sizes(values, sizes), context


def by_definition(name, block, rows, of_set):
    """Returns the statistics of one set, rows (n, 4) in float64, by loops."""
    n, c, d = len(rows), rows[:, 0].astype(int), rows[:, 1].astype(int)
    x = rows[:, 2:] + np.array([0.0, 2.5])
    x[np.abs(x) <= 1e-6 * np.array([0.0, 2.5])] = 0
    if name == "size":
        return [n, np.log(1 + n)]
    if name == "context":
        return [of_set[1], *(float(of_set[0] == code) for code in range(3))]
    if name == "values of sets":
        return block.values[int(of_set[0])]
    if name == "means":
        of_cells = [x[4 * c + d == cell, 0] for cell in block.cells.tolist()]
        return [each.mean() if len(each) else 1.0 + i for i, each in enumerate(of_cells)]
    if not n:
        return [0.0] * block.out_features
    if name == "numbers":
        found = [x.mean(0), x.std(0), x.min(0), x.max(0), x.sum(0), *np.quantile(x, LEVELS, axis=0)]
        return np.concatenate(found)
    if name == "moments":
        return np.concatenate([x.sum(0), x.min(0)])
    if name == "others":
        return [x[x[:, j] == f(x[:, j]), 1 - j].mean() for f in (np.min, np.max) for j in range(2)]
    if name == "distinct":
        return [len(set(c)), len(set(x[:, 1]))]
    if name == "values":
        of = block.values.double().numpy()[d]
        return np.concatenate([of.mean(0), of.min(0), of.max(0), of.sum(0)])
    if name == "pairs":
        counts = np.bincount(c, minlength=3)
        return [float(counts[i] and counts[j] and (i != j or counts[i] > 1)) for i, j in [(0, 1), (1, 2), (2, 2)]]
    bins = np.stack([c, d, np.searchsorted([-0.5, 0.5], x[:, 0]), np.searchsorted([0.0], x[:, 1])], 1)
    found = np.zeros(block.out_features)
    cells = block.cells.tolist()
    for row, amount in zip(bins, x[:, 1], strict=True):
        number = 0
        for column, size in zip(block.columns, block.sizes, strict=True):
            number = number * size + int(row[column])
        weight = amount if block.scheme in ("amount", "share") else 1
        if number in cells:
            found[cells.index(number)] += weight
        elif block.num_hashed and all(row[column] for column in block.columns if column < 2):
            found[len(cells) :] += np.nan  # whichever bucket
    if block.scheme == "fraction":
        return found / n
    if block.scheme == "share":
        return found / x[:, 1].sum()
    if block.scheme == "tf-idf":
        found *= np.arange(1, 1 + len(found))
        return found / np.linalg.norm(found)
    return found


@given(sizes=st.lists(st.integers(0, 6), min_size=1, max_size=6), seed=st.integers(0, 9))
def test_each_statistic_is_its_definition(sizes, seed):
    sets, context = example(sizes, seed)
    for name, block in blocks().items():
        found = statistics([name])(sets, context).double().numpy()
        for b, rows in enumerate(sets.to_sets()):
            expected = np.array(by_definition(name, block, rows.double().numpy(), context[b].numpy()), float)
            there = ~np.isnan(expected)
            np.testing.assert_allclose(found[b][there], expected[there], rtol=1e-6, atol=1e-6, err_msg=name)
        if name == "combinations":  # its cells 0 and 5 are of an unknown category, and kept
            parts = statistics([name]).sorted(sets, context)
            counted = (parts.codes[:, 0] != 0) | torch.isin(block.numbers_of(parts), block.cells)
            expected = torch.zeros(len(sizes)).index_add_(0, parts.owners, counted.float())
            np.testing.assert_array_equal(found.sum(1), expected.numpy())


def test_a_quantile_at_a_whole_rank_is_finite_below_infinity():
    x = torch.tensor([[1.0, -torch.inf], [2.0, 0.0], [torch.inf, 1.0]])
    found = NumberStatistics(2, quantiles=(0, 0.5, 1), moments=())(
        SortedSets.of(Ragged.from_sizes(x, [3]), num_codes=0)
    )
    assert found.tolist() == [[1, -torch.inf, 2, 0, torch.inf, 1]]


def test_a_category_that_training_lacks_is_in_no_bucket():
    """A bucket's weight was learnt for other categories: one new word in twenty once cost 12 % of accuracy."""
    block = bag([1], cells=[2], num_hashed=3)
    sets = Ragged.from_sets([torch.tensor([[1.0, code, 0.0, 0.0] for code in codes]) for codes in ([2, 1], [2, 0])])
    found = block(SortedSets.of(sets, num_codes=2))
    assert found[0].sum() == 2 and found[1].tolist() == [1, 0, 0, 0]


def law_neither_order_nor_batch_changes_a_bit(sets, context):
    """Checks it in float64 too, because rounding to float32 would hide differences."""
    network = StatisticsNetwork(statistics(), _scores(statistics().out_features))
    source = torch.Generator().manual_seed(0)
    shuffled = Ragged.from_sets([x[torch.randperm(len(x), generator=source)] for x in sets])
    parts, others = (network.statistics.sorted(each, context) for each in (sets, shuffled))
    for block in network.statistics.blocks:
        assert torch.equal(block(parts), block(others)), block
    found = network(sets, context=context)
    assert torch.equal(network(shuffled, context=context), found)
    for b in range(len(sets)):
        assert torch.equal(network(sets[[b]], context=context[[b]])[0], found[b])


def _scores(width):
    scores = LinearScores(width, out_features=3)
    scores.weight.normal_(generator=torch.Generator().manual_seed(0))
    return scores


@given(sizes=st.lists(st.integers(0, 40), min_size=2, max_size=5), seed=st.integers(0, 9))
def test_neither_order_nor_batch_changes_a_bit(sizes, seed):
    law_neither_order_nor_batch_changes_a_bit(*example(sizes, seed, num_values=1000))


def test_the_law_of_order_can_fail(monkeypatch):
    monkeypatch.setattr("janossy.nn.statistics.sorted_sets.hashes", lambda values: torch.zeros(len(values)))
    with pytest.raises(AssertionError):
        law_neither_order_nor_batch_changes_a_bit(*example((40, 40), num_values=1000))


def test_sets_are_computed_in_pieces(monkeypatch):
    sets, context = example((5, 0, 7, 1, 9, 30, 2))
    whole = statistics()(sets, context)
    monkeypatch.setattr("janossy.nn.statistics.pooled.MAX_AT_ONCE", 40)
    assert torch.equal(statistics()(sets, context), whole)


def test_elements_that_are_integers():
    values = torch.tensor([[1, 20_000_000], [1, 20_000_001], [0, 3]])
    parts = SortedSets.of(Ragged.from_sizes(values, (2, 1)), num_codes=1)
    assert sorted(parts.numbers[:2, 0].tolist()) == [20_000_000, 20_000_001]
    assert DistinctCounts([0, 1], num_codes=1)(parts).tolist() == [[1, 2], [1, 1]]
    assert parts.reduced(parts.numbers, "sum").tolist() == [[40_000_001], [3]]
    block = PooledStatistics([SetSize()], vocabularies=(2,), num_numbers=1)
    network, sets = StatisticsNetwork(block, _scores(2)), Ragged.from_sizes(values, (2, 1))
    assert torch.equal(network(sets), network(sets.to(torch.float64)))


def test_nan_stays_and_numbers_that_are_zero_by_rounding_are_zero():
    block = PooledStatistics([NumberStatistics(2, quantiles=(), moments=("sum",))], vocabularies=(), num_numbers=2)
    block.offsets.copy_(torch.tensor([0.0, 2.5]))
    values = torch.tensor([[torch.nan, -2.5 + 1e-6], [1.0, -torch.inf], [-0.0, torch.nan]])
    numbers = block.sorted(Ragged.from_sizes(values, (1, 1, 1))).numbers
    expected = torch.tensor([[torch.nan, 0.0], [1.0, -torch.inf], [0.0, torch.nan]], dtype=torch.float64)
    torch.testing.assert_close(numbers, expected, rtol=0, atol=0, equal_nan=True)
    assert block(Ragged.from_sizes(values[:1], (1,)))[0, :2].isnan().tolist() == [True, False]


def test_no_sets_and_no_elements():
    assert statistics()(*example(())).shape == (0, statistics().out_features)
    zero_if_empty = statistics([name for name in blocks() if name not in ("means", "values of sets", "context")])
    assert zero_if_empty(*example((0, 0))).abs().sum() == 0


def trees(width, **options):
    found = TreeEnsemble(width, out_features=2, num_trees=1, num_nodes=1, num_leaves=2, **options)
    found.below.copy_(torch.tensor([[~0, ~1]]))
    found.values.copy_(torch.tensor([[0.1, 0.9], [0.8, 0.2]]))
    return found


def test_a_temperature_divides_logarithms():
    x = torch.tensor([[-1.0], [1.0]])
    plain = trees(1, link="log")(x)
    assert torch.equal(trees(1, link="log", temperature=0.25)(x), plain / 0.25)
    assert torch.equal(trees(1, temperature=0.25)(x), trees(1)(x))


@pytest.mark.parametrize("scores", ["linear", "trees"])
def test_every_block_is_saved(scores):
    """The description goes through JSON, the buffers stay tensors."""
    width = statistics().out_features
    of_trees = trees(width, link="log", temperature=0.3)
    network = StatisticsNetwork(statistics(), _scores(width) if scores == "linear" else of_trees)
    again = rebuild(json.loads(json.dumps(describe(network))), weights(network))
    sets, context = example((3, 0, 5))
    assert torch.equal(again(sets, context=context), network(sets, context=context)) and not again.training
    assert {type(module).__name__ for module in again.modules()} >= {
        type(block).__name__ for block in blocks().values()
    }


def test_names_tell_statistics_apart():
    all_but_moments = statistics([name for name in blocks() if name != "moments"])  # "numbers" has them too
    names = all_but_moments.names(NAMES)
    assert len(set(names)) == len(names) == all_but_moments.out_features
    for name in (
        "mean of x",
        "y where x is least",
        "distinct values of c",
        "distinct values of y",
        "count of c=2",
        "amount of y of d=3",
        "mean of x of c=1 & d=3",
        "c=0 with c=1",
        "k=2",
        "z",
    ):
        stems = [each.replace("count of ", "") for each in names]
        assert name in names or name in stems
    assert "count of x from -0.5 to 0.5" in names


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: NumberStatistics(2, quantiles=[1.5]), "quantiles between 0 and 1"),
        (lambda: NumberStatistics(2, moments=["mode"]), "moments among mean, std, min, max, sum; got 'mode'"),
        (lambda: CellCounts([0], sizes=[], num_codes=1, num_cells=0), "a size >= 1 for each"),
        (lambda: CellCounts([0], sizes=[2], num_codes=1, num_cells=0, scheme="amount"), "a scheme among"),
        (lambda: CellCounts([0] * 4, sizes=[2**20] * 4, num_codes=1, num_cells=0), "at most 2.62 combinations"),
        (lambda: CellPairs(bag([0], scheme="fraction"), num_pairs=1), "of scheme 'count'"),
        (lambda: PooledStatistics([bag([0])], vocabularies=(2,), num_numbers=1), "expects codes as it was made for"),
        (lambda: PooledStatistics([NumberStatistics(2)], vocabularies=(), num_numbers=1), "2 columns of numbers"),
        (lambda: PooledStatistics([DistinctCounts([2], num_codes=1)], vocabularies=(3,), num_numbers=1),
         r"DistinctCounts of columns \[2\], after 1 of codes, .* got 1 of codes and 1 of numbers"),
        (lambda: PooledStatistics([CodeValues(0, num_values=3, width=1)], vocabularies=(4,), num_numbers=0), "3 codes"),
        (lambda: PooledStatistics([ContextColumns([2**19], num_numbers=0, max_indicators=2**20)], vocabularies=(),
                                  num_numbers=0), "at most 262144 features"),
        (lambda: StatisticsNetwork(statistics(), LinearScores(3, out_features=1)), "as many features"),
        (lambda: statistics()(Ragged.from_sizes(torch.zeros(1, 3), [1])), "codes and then numbers"),
        (lambda: statistics()(example((1,))[0]), "a context"),
        (lambda: statistics(["values of sets"])(example((1,))[0]), "a context with a column 0; got None"),
        (lambda: TreeEnsemble(1, out_features=1, num_trees=0, num_nodes=0, num_leaves=0, link="exp"), "link among"),
        (lambda: trees(1, temperature=0.0), "a finite temperature above 0; got 0.0"),
        (lambda: trees(1, temperature=float("nan")), "a finite temperature above 0; got nan"),
    ],
)  # fmt: skip
def test_errors(build, message):
    with pytest.raises(ValueError, match=message):
        build()
