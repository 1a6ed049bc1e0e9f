"""Permutations drawn together: each uniform by itself, dependent as its scheme promises, blocks independent.

What is drawn at random is seeded; each χ² test fails by chance for one seed in 10^6, and there are about 2,500.
"""

import json
from importlib.resources import files
from itertools import permutations
from math import ceil, perm

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

from janossy import GRU, Distinct, JanossyPooling, Ragged, Sampled
from janossy.orderings import schemes, templates
from janossy.orderings.schemes import SCHEMES, Orthogonal
from janossy.orderings.source import Source
from tests.examples import D, distinct_sets, generator
from tests.laws import close, law_batch_mates, law_count, law_invariant, law_rows_are_orderings, law_uniform
from tests.orderings.test_sampling_statistics import law_independent

pytestmark = pytest.mark.usefixtures("float64")

DEPENDENT = [scheme for scheme in SCHEMES if scheme != "independent"]
PAIRED = ["antithetic", "latin", "stratified", "orthogonal"]
"""The schemes whose rows come in pairs of a permutation and its reverse."""

DRAWS = [(1, None), (2, None), (3, None), (4, None), (7, None), (20, None), (7, 1), (7, 3), (20, 4)]
"""num and block."""

RAGGED = (3, 0, 5, 1, 2, 5, 0, 1, 3)
NUM_SETS = {1: 20, 2: 200, 3: 300, 4: 600, 5: 2400}
"""Enough for 20 draws of each permutation."""


def drawing(num, k=None, scheme="auto", seed=None, block=None):
    """Draws that many rows by this scheme; "distinct" is an ordering of its own, of rows one by one."""
    return (
        Distinct(num, k=k, seed=seed)
        if scheme == "distinct"
        else Sampled(num, k=k, scheme=scheme, seed=seed, block=block)
    )


def drawn(orderings, n, num_sets=1, source=None):
    """Positions within each set, (num_sets, R, L), of as many sets of n elements."""
    (bucket,) = orderings.enumerate(Ragged.from_sizes(torch.zeros(num_sets * n, 1), [n] * num_sets), source).buckets
    return bucket.local


def tuples(rows):
    return list(map(tuple, rows.tolist()))


def law_every_row_uniform(orderings, n):
    """Checks that each row of the block is, by its number, uniform over permutations or k-tuples of n positions."""
    rows = drawn(orderings, n, NUM_SETS[n], generator())
    k = min(n, orderings.row_length(n))
    for row in rows[:, :, :k].unbind(1):
        if n > 1:
            law_uniform(tuples(row), n, k)
        else:
            assert not row.any()


@pytest.mark.statistical
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_permutation_is_equally_likely(scheme, n):
    for num, block in DRAWS:
        law_every_row_uniform(Sampled(num, scheme=scheme, block=block), n)


@pytest.mark.statistical
@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("scheme", [*SCHEMES, "distinct", "auto"])
def test_every_tuple_is_equally_likely(scheme, k):
    law_every_row_uniform(drawing(4, k, scheme), 4)
    law_every_row_uniform(drawing(3, k, scheme), 5)


@pytest.mark.statistical
@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_drawn_beside_those_of_other_sizes(scheme):
    """Each row is uniform, and rows of a block depend on each other as they do in a batch of one size."""
    sizes = [n for n in (3, 4, 2, 20, 19) for _ in range(NUM_SETS.get(n, 40))]
    buckets = Sampled(6, scheme=scheme).enumerate(Ragged.from_sizes(torch.zeros(sum(sizes), 1), sizes), generator())
    for bucket in buckets.buckets:
        n = bucket.length
        close(bucket.local.sort(-1).values, torch.arange(n).expand_as(bucket.local))
        for row in bucket.local.unbind(1) if n in (2, 3, 4) else ():
            law_uniform(tuples(row), n, n)
        if scheme in PAIRED:
            close(bucket.local[:, 1::2], bucket.local[:, ::2].flip(-1))
        if scheme == "latin" and n == 3:
            close(bucket.local[:, ::2].sum(1), torch.full((bucket.num_sets, 3), 3))
    if scheme == "stratified":  # of three pairs, an element is once in each third of distances from the middle
        local = bucket.local[:, ::2].argsort(-1)
        distances = (2 * local + 1 - bucket.length).abs().float().sort(1).values.mean((0, 2)) / bucket.length
        assert distances[2] - distances[0] > 0.57  # of independent ones it is 0.5


class Unsigned(Orthogonal):
    """Leaves the signs of the directions to LAPACK."""

    def draw(self, source, num_blocks, size, n, lengths=None):
        normal = source.normal(num_blocks, n, -(-size // 2))
        directions = torch.linalg.qr(normal - normal.mean(1, keepdim=True))[0]
        return schemes.with_reverses(directions.mT.argsort(-1), size)


class SecondIsFixed(Orthogonal):
    def draw(self, source, num_blocks, size, n, lengths=None):
        rows = super().draw(source, num_blocks, size, n)
        rows[:, 1:2] = torch.arange(n)
        return rows


@pytest.mark.parametrize("bad", [Unsigned(), SecondIsFixed()])
def test_rows_that_are_not_uniform_are_found(monkeypatch, bad):
    monkeypatch.setitem(SCHEMES, "orthogonal", bad)
    with pytest.raises(AssertionError, match="χ²"):
        law_every_row_uniform(Sampled(3, scheme="orthogonal"), 4)


@pytest.mark.parametrize("k", [None, 1, 3])
@pytest.mark.parametrize("scheme", [*SCHEMES, "distinct", "auto"])
@pytest.mark.parametrize("seed", [None, 5])
def test_rows_are_permutations_of_ragged_sets(scheme, k, seed):
    for num, block in DRAWS:
        orderings = drawing(num, k, scheme, seed, block)
        for sizes in (RAGGED, (), (0, 0), (40, 17, 16)):
            law_count(orderings, distinct_sets(sizes))
            law_rows_are_orderings(orderings, distinct_sets(sizes))


@pytest.mark.parametrize("scheme", [*SCHEMES, "auto"])
@given(num=st.integers(1, 70), n=st.integers(0, 20), block=st.none() | st.integers(1, 80), k=st.none() | st.just(2))
def test_blocks_are_as_few_and_as_even_as_allowed(scheme, num, n, block, k):
    orderings = Sampled(num, k=k, scheme=scheme, block=block)
    blocks = orderings.blocks(n)
    chosen = scheme if scheme != "auto" else "latin" if k else "designed"
    allowed = min(num, *(most for most in (block, SCHEMES[chosen].max_permutations(n)) if most is not None), num)
    if chosen == "designed" and n <= schemes.FEW and block is not None and block < num:
        allowed = min(allowed, 2)
    assert sum(blocks) == num == orderings.num_rows(n)
    assert len(blocks) == ceil(num / allowed)
    assert set(blocks[:-1]) <= {blocks[0]} and 0 < blocks[-1] <= blocks[0] <= allowed
    if scheme != "independent" and block is None and len(blocks) > 1:
        assert blocks[0] % 2 == 0, "a pair of reverses is torn apart"


@pytest.mark.statistical
@pytest.mark.parametrize("scheme", SCHEMES)
def test_blocks_are_independent_and_rows_of_one_are_not(scheme):
    def pairs(rows, first, second):
        return list(zip(tuples(rows[:, first]), tuples(rows[:, second]), strict=True))

    rows = drawn(Sampled(4, scheme=scheme, block=2), 3, 2000, generator())
    for first, second in ((0, 2), (0, 3), (1, 2), (1, 3)):
        law_independent(pairs(rows, first, second))
    odd = Sampled(5, scheme=scheme, block=3)
    rows = drawn(odd, 3, 2000, generator())
    end = odd.blocks(3)[0]
    law_independent(pairs(rows, end - 1, end))
    if scheme != "independent":
        with pytest.raises(AssertionError, match="χ²"):
            law_independent(pairs(rows, 0, 1))


def relation(first, second):
    """Returns the permutation of the elements that leads from one row to another, as a number."""
    n = first.shape[-1]
    return (second.gather(-1, first.argsort(-1)) * n ** torch.arange(n)).sum(-1)


def law_unrelated(first, second):
    """Tests that what leads from row to row in one block says nothing of another block, by a χ² test of contingency."""
    table = torch.zeros(27, 27).index_put_((first, second), torch.ones(len(first)), accumulate=True)
    seen = table[table.sum(1) > 0][:, table.sum(0) > 0]
    p_value = scipy.stats.chi2_contingency(seen.numpy(), correction=False).pvalue
    assert p_value > 1e-6, f"p = {p_value:.1e}"


@pytest.mark.statistical
@pytest.mark.parametrize("scheme", SCHEMES)
def test_how_rows_of_a_block_relate_is_drawn_for_each_block_and_set(scheme):
    rows = drawn(Sampled(8, scheme=scheme, block=4), 3, 2000, generator())
    related = relation(rows[:, [0, 4]], rows[:, [2, 6]])
    assert len(related.unique()) > 1
    law_unrelated(*related.T)
    law_unrelated(related[::2, 0], related[1::2, 0])
    with pytest.raises(AssertionError, match="p = "):
        law_unrelated(related[:, 0], related[:, 0])


@pytest.mark.statistical
@pytest.mark.parametrize("scheme", [*SCHEMES, "distinct"])
def test_sets_of_one_batch_are_permuted_independently(scheme):
    rows = drawn(drawing(3, scheme=scheme), 3, 4000, generator())
    for first, second in ((0, 0), (0, 1), (2, 1)):
        law_independent(list(zip(tuples(rows[::2, first]), tuples(rows[1::2, second]), strict=True)))


@pytest.mark.parametrize("scheme", PAIRED)
@given(num=st.integers(1, 25), n=st.integers(1, 9), half=st.none() | st.integers(1, 6))
def test_permutations_come_with_their_reverses(scheme, num, n, half):
    law_reverses(Sampled(num, scheme=scheme, block=half and 2 * half), n)


@pytest.mark.parametrize("scheme", ["designed", "auto"])
def test_two_permutations_of_a_design_are_reverses(scheme):
    for n in range(1, 17):
        law_reverses(Sampled(9, scheme=scheme, block=2), n)
    with pytest.raises(AssertionError, match="reverse"):
        law_reverses(Sampled(9, scheme="independent"), 7)


def law_reverses(orderings, n):
    rows = drawn(orderings, n, 4)
    for part in rows.split(orderings.blocks(n) if orderings.scheme != "independent" else [9], 1):
        whole = part.shape[1] // 2 * 2
        reverses = part[:, 1:whole:2]
        assert torch.equal(reverses, part[:, :whole:2].flip(-1)), "a row is not the reverse of the one before"


def places(rows, n):
    """Counts how often every element comes at every position in each set's rows, (S, n, n)."""
    return torch.nn.functional.one_hot(rows, n).sum(1)


@given(n=st.integers(1, 12), num_blocks=st.integers(1, 3))
def test_every_element_comes_at_every_position_of_a_latin_square(n, num_blocks):
    rows = drawn(Sampled(2 * n * num_blocks, scheme="latin"), n, 3)
    for square in rows.split(2 * n, 1):
        assert places(square[:, ::2], n).eq(1).all() or n == 1
        assert places(square, n).eq(2).all()
    if n > 4:  # of fewer than n^(2n) draws one by chance
        assert not places(drawn(Sampled(n, scheme="independent"), n, 3), n).eq(1).all()


STRATA = {
    "stratified": lambda places: (2 * places - 1).abs()[:, ::2],  # distances from the middle
    "sobol": lambda places: places,
}


def law_spread_evenly(scheme, statistic, n=2000, num=8):
    """Checks that over the rows of a block, each element's statistic, in [0, 1], is once in every stratum, within 0.1.

    In a set of n, the place differs from the sorted number by up to 6 standard deviations of 0.5/√n. Folded, it is
    twice that.
    """
    rows = drawn(Sampled(num, scheme=scheme), n, 2, generator())
    spread = statistic((rows.argsort(-1) + 0.5) / n).sort(1).values
    m = spread.shape[1]
    middles = (torch.arange(m) + 0.5) / m
    assert ((spread - middles[:, None]).abs() < 0.5 / m + 0.1 * (m < 8) + 0.05 * (m >= 8)).all(), "unevenly spread"


@pytest.mark.parametrize("scheme", STRATA)
def test_places_are_spread_evenly(scheme):
    law_spread_evenly(scheme, STRATA[scheme])
    with pytest.raises(AssertionError, match="unevenly"):
        law_spread_evenly("independent", STRATA[scheme])


class Given(Source):
    """Its normal numbers are these."""

    def __init__(self, normal):
        super().__init__(torch.device("cpu"), None)
        self.given = normal

    def normal(self, *shape):
        assert self.given.shape == shape
        return self.given


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_directions_are_those_of_gram_and_schmidt(n):
    normal = torch.randn(50, n, n - 1)
    directions = []
    for v in (normal - normal.mean(1, keepdim=True)).unbind(2):
        for u in directions:
            v = v - (u * v).sum(1, keepdim=True) * u
        directions.append(v / v.norm(dim=1, keepdim=True))
    directions = torch.stack(directions, 1)
    close(directions @ directions.mT, torch.eye(n - 1).expand(50, -1, -1), atol=1e-9, rtol=0)
    assert torch.equal(Orthogonal().draw(Given(normal), 50, 2 * (n - 1), n)[:, ::2], directions.argsort(-1))
    assert not torch.equal(Unsigned().draw(Given(normal), 50, 2 * (n - 1), n)[:, ::2], directions.argsort(-1))


def test_sobol_goes_as_far_as_its_directions():
    most = torch.quasirandom.SobolEngine.MAXDIM
    rows = drawn(Sampled(3, scheme="sobol"), most)
    assert torch.equal(rows.sort(-1).values, torch.arange(most).expand(1, 3, -1))
    with pytest.raises(ValueError, match=rf"'sobol' takes sets of up to {most} elements; got {most + 1}. Use 'strat"):
        drawn(Sampled(3, scheme="sobol"), most + 1)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_k_takes_the_first_of_each_permutation(scheme):
    whole = drawn(Sampled(9, scheme=scheme), 5, 3, generator())
    for k in (1, 3, 5):
        assert torch.equal(drawn(Sampled(9, k=k, scheme=scheme), 5, 3, generator()), whole[:, :, :k])
    padded = drawn(Sampled(9, k=7, scheme=scheme), 5, 3, generator())
    assert torch.equal(padded[:, :, :5], whole) and padded[:, :, 5:].eq(-1).all()


def test_auto_is_designed_for_whole_orders_and_latin_for_k():
    for num in (1, 4, 20, 50):
        for k, scheme in ((None, "designed"), (2, "latin")):
            expected = drawn(Sampled(num, k=k, scheme=scheme), 6, 2, generator())
            assert torch.equal(drawn(Sampled(num, k=k), 6, 2, generator()), expected)


# Seeds.


@pytest.mark.parametrize("k", [None, 2])
@pytest.mark.parametrize("scheme", [*SCHEMES, "distinct"])
def test_a_seed_makes_every_scheme_a_function_of_the_multiset(scheme, k):
    pooling = JanossyPooling(GRU(D, 3), drawing(6, k, scheme, seed=3), evaluate="gather")
    sets = distinct_sets((3, 0, 5, 1, 2, 3))
    law_invariant(pooling, sets, bitwise=True)
    law_batch_mates(pooling, sets)
    with pytest.raises(AssertionError):
        law_invariant(JanossyPooling(GRU(D, 3), drawing(6, k, scheme)), sets, bitwise=True)


@pytest.mark.parametrize("scheme", [*SCHEMES, "distinct"])
def test_seeded_rows_depend_on_the_seed_the_size_and_the_arguments_alone(scheme):
    def rows(**changed):
        templates.kept_arrays.cache_clear()
        torch.randn(3)  # moves the global generator
        return drawn(drawing(**{"num": 6, "scheme": scheme, "seed": 3, **changed}), 7)

    first = rows()
    assert torch.equal(first, rows())
    assert not torch.equal(first, rows(seed=4))
    assert torch.equal(first, drawn(drawing(6, scheme=scheme, seed=3), 7, 5))  # shared by the sets of a batch


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("scheme", [*SCHEMES, "distinct"])
def test_rows_do_not_depend_on_the_default_dtype(scheme, dtype):
    def rows(dtype, n):
        templates.kept_arrays.cache_clear()
        torch.set_default_dtype(dtype)
        return drawn(drawing(8, scheme=scheme, seed=3), n)

    for n in (4, 40):  # torch.randn fills 16 numbers or more in another way
        assert torch.equal(rows(torch.float32, n), rows(dtype, n))


@pytest.mark.statistical
@pytest.mark.parametrize("scheme", [*SCHEMES, "distinct"])
def test_seeded_permutations_are_uniform_over_seeds(scheme):
    rows = torch.cat([drawn(drawing(3, scheme=scheme, seed=seed), 3) for seed in range(600)])
    for row in rows.unbind(1):
        law_uniform(tuples(row), 3, 3)


# designs.json.

DESIGNS = {
    int(n): {int(m): [[int(digit, 16) for digit in row] for row in text.split()] for m, text in designs.items()}
    for n, designs in json.loads(files("janossy.orderings").joinpath("designs.json").read_text()).items()
}


def test_designs_are_permutations_that_begin_with_the_identity():
    assert list(DESIGNS) == list(range(2, templates.MAX_DESIGNED_ELEMENTS + 1))
    for n, designs in DESIGNS.items():
        assert list(designs) == [4, 6, 8, 10, 12, 16, 20, 32] and max(designs) == templates.MAX_DESIGNED_ROWS
        for m, rows in designs.items():
            assert len(rows) == m and rows[0] == list(range(n))
            assert all(sorted(row) == rows[0] for row in rows)
            assert templates.design(n, m).tolist() == rows


@pytest.mark.parametrize("n", range(1, 17))
def test_what_is_drawn_is_a_design_of_renamed_elements(n):
    for size in range(1, 33):
        rows = drawn(Sampled(size, scheme="designed"), n, 2)
        design = templates.design(n, size)
        assert design.shape == (size, n)
        assert torch.equal(rows, rows[:, 0][:, design])
        if size > 2 and n > 1:
            larger = min(m for m in DESIGNS[n] if m >= size)
            assert design.tolist() == DESIGNS[n][larger][:size]


def test_above_sixteen_elements_designs_are_stratified():
    for num in (1, 5, 60):
        found = drawn(Sampled(num, scheme="designed"), 17, 2, generator())
        assert torch.equal(found, drawn(Sampled(num, scheme="stratified"), 17, 2, generator()))


def test_designs_vary_less_than_independent_permutations():
    """By the model that they are optimised for, and at n = 2 a pair of reverses leaves nothing at all."""
    pytest.importorskip("numba")
    variance = pytest.importorskip("studies.experiments.sampling.designs").variance
    rng = np.random.default_rng(0)
    for n, designs in DESIGNS.items():
        independent = np.mean([variance(rng.permuted(np.tile(np.arange(n), (8, 1)), axis=1)) for _ in range(40)])
        for m, rows in designs.items():
            assert variance(np.array(rows)) < 0.55 * independent, (n, m)
        assert variance(np.array(designs[32])) < variance(np.array(designs[4])) or n == 2


# Distinct.


@given(n=st.integers(0, 5), k=st.none() | st.integers(1, 6), num=st.integers(1, 40), seed=st.none() | st.just(2))
def test_no_two_rows_are_the_same(n, k, num, seed):
    orderings = Distinct(num, k=k, seed=seed)
    length = n if k is None else min(n, k)
    assert orderings.population(n) == perm(n, length)
    assert orderings.num_rows(n) == min(num, perm(n, length))
    assert orderings.blocks(n) == [1] * orderings.num_rows(n)
    for rows in drawn(orderings, n, 3, None if seed else generator()):
        found = tuples(rows[:, :length])
        assert len(set(found)) == len(found) == orderings.num_rows(n)
        if num >= perm(n, length):
            assert set(found) == set(permutations(range(n), length))


def samples(orderings, n, num_sets):
    """Returns the rows of each set, as numbers of the arrangements there are."""
    number = {row: i for i, row in enumerate(permutations(range(n), orderings.row_length(n)))}
    return [tuple(number[row] for row in tuples(rows)) for rows in drawn(orderings, n, num_sets, generator())]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n", "k", "num"), [(3, 1, 2), (3, None, 2), (3, None, 3), (3, None, 4), (4, 2, 2), (3, 2, 2), (5, 1, 3), (6, 1, 2)]
)
def test_every_sample_without_replacement_is_equally_likely(n, k, num):
    """In order even, and so as sets."""
    orderings = Distinct(num, k=k)
    population = int(orderings.population(n))
    law_uniform(samples(orderings, n, 15 * perm(population, num)), population, num)
    with pytest.raises(AssertionError):
        law_uniform(samples(Sampled(num, k=k, scheme="independent"), n, 15 * perm(population, num)), population, num)


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "k"), [(8, 8), (12, 12), (19, 19), (20, 20), (20, 19), (21, 21), (30, 20), (10**4, 3)])
def test_few_of_many_arrangements(n, k):
    """Rows are valid and distinct, and the orders of the first three and of the last three are uniform.

    The first and the last elements are uniform too.
    """
    rows = drawn(Distinct(6, k=k), n, 2000, generator())
    assert rows.sort(-1).values.diff(dim=-1).gt(0).all() and rows.min() >= 0 and rows.max() < n
    assert all(len(set(tuples(each))) == 6 for each in rows[:50])
    rows = rows.flatten(0, 1)
    for three in (rows[:, :3], rows[:, -3:]):
        law_uniform(tuples(three.argsort(-1)), 3, 3)
    for place in (0, -1):
        bins = n if n <= 30 else 4
        law_uniform([(i * bins // n,) for i in rows[:, place].tolist()], bins, 1)


# exact_last.


def conditional_mean(f, n, length, prefix):
    """Returns E[f(the first ``length`` of π) | π begins with this], over all permutations of n."""
    rest = [i for i in range(n) if i not in prefix]
    found = [f((*prefix, *end)[:length]) for end in permutations(rest)]
    return sum(found) / len(found)


def value(row):
    """Tells any two rows apart."""
    return sum(((i + 1) * (place + 2) ** 1.5) % 1.7 for place, i in enumerate(row))


@pytest.mark.parametrize("scheme", [*SCHEMES, "auto"])
@pytest.mark.parametrize(("k", "last"), [(None, 1), (None, 2), (None, 7), (1, 1), (2, 1), (2, 2), (3, 3), (6, 2)])
def test_the_last_positions_are_averaged_exactly(scheme, k, last):
    """Rows are each permutation's beginning with every end, and their mean is the conditional expectation."""
    if scheme == "auto":
        scheme = "latin" if k else "designed"
    orderings = Sampled(4, k=k, scheme=scheme, exact_last=last)
    for n in range(6):
        length = n if k is None else min(n, k)
        fixed = length - min(last, length)
        ends = perm(n - fixed, length - fixed)
        assert orderings.num_rows(n) == 4 * ends
        assert orderings.blocks(n) == [ends * size for size in Sampled(4, k=k, scheme=scheme).blocks(n)]
        rows = drawn(orderings, n, 2, generator())
        assert rows[:, :, length:].eq(-1).all()
        begun = drawn(Sampled(4, scheme=scheme), n, 2, generator())
        for groups, drawn_permutations in zip(rows[:, :, :length].unflatten(1, (4, ends)), begun, strict=True):
            for group, permutation in zip(map(tuples, groups), tuples(drawn_permutations), strict=True):
                prefix = permutation[:fixed]
                assert sorted(group) == [
                    (*prefix, *end) for end in permutations(sorted(set(range(n)) - set(prefix)), length - fixed)
                ]
                mean = sum(map(value, group)) / ends
                assert mean == pytest.approx(conditional_mean(value, n, length, prefix), abs=1e-12)


@pytest.mark.parametrize(
    ("n", "k", "last"), [(4, None, 1), (4, None, 2), (4, None, 3), (5, 2, 1), (5, 3, 2), (4, 3, 1)]
)
def test_exact_ends_are_unbiased_and_never_vary_more(n, k, last):
    """By enumeration: each beginning is as likely as any other, and its mean given by the rows that begin so."""
    orderings = Sampled(2000, k=k, scheme="independent", exact_last=last)
    length = orderings.row_length(n)
    fixed = length - last
    groups = drawn(orderings, n, 1, generator())[0].unflatten(0, (2000, -1))
    means = {tuple(group[0][:fixed].tolist()): np.mean([value(row) for row in tuples(group)]) for group in groups}
    assert len(means) == perm(n, fixed), "too few draws to see every beginning"
    plain = [value(row) for row in permutations(range(n), length)]
    assert np.mean(list(means.values())) == pytest.approx(np.mean(plain), abs=1e-12)
    conditional = [conditional_mean(value, n, length, prefix) for prefix in permutations(range(n), fixed)]
    assert np.var(list(means.values())) == pytest.approx(np.var(conditional), abs=1e-12)
    assert np.var(list(means.values())) < (0.999 * np.var(plain) if last > 1 or k else 1.0001 * np.var(plain))


@pytest.mark.parametrize("exact_last", [5, 6, 100])
def test_all_positions_averaged_is_the_exact_mean(exact_last):
    for seed in (None, 3):
        rows = drawn(Sampled(2, exact_last=exact_last, seed=seed), 5)[0]
        assert sorted(tuples(rows)) == sorted(2 * list(permutations(range(5))))


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize(("k", "last"), [(None, 2), (None, 5), (2, 1), (3, 3)])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_exact_ends_of_ragged_sets(scheme, k, last, seed):
    for num, block in ((1, None), (3, None), (4, 2)):
        orderings = Sampled(num, k=k, scheme=scheme, seed=seed, block=block, exact_last=last)
        law_count(orderings, distinct_sets((3, 0, 5, 1, 2, 4, 3)))
        law_rows_are_orderings(orderings, distinct_sets((3, 0, 5, 1, 2, 4, 3)))


def test_exact_ends_are_counted_in_the_budget():
    with pytest.raises(ValueError, match=r"a set of 6 needs 240, .* needs 242, over max_rows=241"):
        Sampled(2, exact_last=5, max_rows=241).enumerate(distinct_sets((6, 0)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_permutations": 0}, "Sampled expects num_permutations >= 1 permutations; got num_permutations=0"),
        ({"k": 0}, "Sampled expects k >= 1 elements a row; got k=0"),
        ({"seed": -1}, "Sampled expects seed >= 0; got seed=-1"),
        (
            {"scheme": "cyclic"},
            "Sampled expects a scheme among auto, designed, independent, antithetic, latin, stratified, orthogonal, "
            "sobol; got 'cyclic'",
        ),
        ({"block": 0}, "Sampled expects block >= 1 permutations; got block=0"),
        ({"exact_last": -1}, "Sampled expects exact_last >= 0 positions; got exact_last=-1"),
        ({"exact_last": 3, "k": 2}, "Sampled expects exact_last >= 0 positions and at most k=2; got exact_last=3"),
        (
            {"num_permutations": 7, "k": 2, "scheme": "distinct"},
            r"got scheme='distinct'. Write Distinct\(7, k=2\), which draws them",
        ),
        ({"max_rows": 0}, "Sampled expects max_rows >= 1; got max_rows=0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        Sampled(**arguments)
