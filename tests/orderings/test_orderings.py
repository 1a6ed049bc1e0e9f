"""The promises of single orderings beyond the laws: budgets, arguments, canonical order, seeds."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from janossy import AllPermutations, Canonical, Combinations, Ragged, Sampled, Tuples
from janossy.orderings.contract import averages_every_tuple
from tests.examples import ORDERINGS, distinct_sets, generator, tied_sets, tying_key

pytestmark = pytest.mark.usefixtures("float64")

BUDGETS = {
    "permutations": (
        AllPermutations(),
        "AllPermutations needs n! rows: a set of 12 needs 479001600, this batch of 3 sets needs 479001603, "
        "over max_rows=10000000; use Sampled or Tuples(2).",
    ),
    "tuples": (
        Tuples(3, max_rows=1000),
        "Tuples needs n!/(n-k)! rows: a set of 12 needs 1320, this batch of 3 sets needs 1323, "
        "over max_rows=1000; use Sampled(num, k=3) or a smaller k.",
    ),
    "combinations": (
        Combinations(3, max_rows=100),
        "Combinations needs n!/(k!(n-k)!) rows: a set of 12 needs 220, this batch of 3 sets needs 222, "
        "over max_rows=100; use Sampled(num, k=3) or a smaller k.",
    ),
    "canonical": (
        Canonical(max_rows=2),
        "Canonical needs 1 row per set: a set of 12 needs 1, this batch of 3 sets needs 3, "
        "over max_rows=2; use smaller batches.",
    ),
    "sampled": (
        Sampled(10, max_rows=20),
        "Sampled needs num_permutations rows per set: a set of 12 needs 10, this batch of 3 sets needs 30, "
        "over max_rows=20; use smaller batches or a smaller num_permutations.",
    ),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_budget(name):
    orderings, message = BUDGETS[name]
    with pytest.raises(ValueError) as raised:
        orderings.enumerate(distinct_sets((2, 12, 0)))
    assert str(raised.value) == message


def test_budget_of_astronomic_counts_is_readable():
    with pytest.raises(ValueError, match=r"a set of 1000 needs about 10\^2568"):
        AllPermutations().enumerate(distinct_sets((1000,)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tuples(0), "Tuples expects k >= 1 elements a row; got k=0"),
        (lambda: Combinations(-1), "Combinations expects k >= 1 elements a row; got k=-1"),
        (lambda: Sampled(1, k=0), "Sampled expects k >= 1 elements a row; got k=0"),
        (lambda: Sampled(0), "Sampled expects num_permutations >= 1 permutations; got num_permutations=0"),
        (lambda: Sampled(1, seed=-1), "Sampled expects seed >= 0; got seed=-1"),
        (
            lambda: Sampled(1, scheme="cyclic"),
            "a scheme among auto, designed, .*; got 'cyclic'",
        ),
        (lambda: Sampled(1, seed=0).enumerate(distinct_sets(), generator()), "both seed= and a generator; drop one"),
        (lambda: Canonical(lambda x: 1.0).enumerate(distinct_sets()), r"key function maps .* to a tensor .* got float"),
        (lambda: Combinations(2, key=lambda x: x[:1]).enumerate(distinct_sets()), r"tensor \(14,\) .* got \(1, 2\)"),
        (lambda: Canonical(lambda x: x[:, :, None]).enumerate(distinct_sets()), r"got \(14, 2, 1\)"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_orderings_are_frozen_and_hashable(ordering):
    assert hash(ORDERINGS[ordering]) == hash(ORDERINGS[ordering])
    with pytest.raises(AttributeError):
        ORDERINGS[ordering].max_rows = 1


@pytest.mark.parametrize("sizes", [(), (0,), (0, 0, 0)])
@pytest.mark.parametrize("ordering", ORDERINGS)
def test_no_elements_at_all(ordering, sizes):
    orderings = ORDERINGS[ordering]
    rows = orderings.enumerate(distinct_sets(sizes))
    assert rows.counts() == [orderings.num_rows(0)] * len(sizes)
    assert len(rows.flatten()[0]) == sum(rows.counts())


def test_canonical_order():
    x = torch.tensor([[2.0, 1], [1, 9], [1, 3], [2, 0]])

    def sort(key=None):
        return Canonical(key).enumerate(Ragged.from_sets([x])).flatten()[0].values.tolist()

    assert sort() == [2, 1, 3, 0]
    assert sort(lambda x: -x[:, 0]) == [3, 0, 2, 1]  # ties in order of the features
    assert sort(lambda x: torch.stack((x[:, 0], -x[:, 1]), 1)) == [1, 2, 0, 3]
    assert sort(lambda x: x[:, 0] > 1) == [2, 1, 3, 0]
    x[0, 0] = torch.nan
    assert sort()[-1] == 0


@pytest.mark.parametrize("num_columns", [1, 2, 4, 5, 17])
@given(data=st.data())
def test_the_last_of_many_features_breaks_ties(num_columns, data):
    numbers = st.sampled_from([0.0, 0.0, 0.0, 1.0, float("nan")])
    rows = data.draw(st.lists(st.lists(numbers, min_size=num_columns, max_size=num_columns), max_size=6))
    x = torch.tensor(rows).reshape(-1, num_columns)
    expected = sorted(rows, key=lambda row: [(number != number, number if number == number else 0) for number in row])
    shuffled = x[torch.tensor(data.draw(st.permutations(range(len(x)))), dtype=torch.long)]
    order = Canonical().enumerate(Ragged.from_sets([shuffled])).flatten()[0].values
    torch.testing.assert_close(shuffled[order], torch.tensor(expected).reshape(-1, num_columns), equal_nan=True)


def test_integers_and_any_feature_shape_are_sorted():
    sets = Ragged.from_sets([torch.tensor([3, 1, 2]), torch.tensor([7, 5])])
    assert Canonical().enumerate(sets).flatten()[0].values.tolist() == [1, 2, 0, 4, 3]
    images = sets.with_values(sets.values[:, None, None].expand(-1, 2, 2))
    assert Canonical().enumerate(images).flatten()[0].values.tolist() == [1, 2, 0, 4, 3]


@pytest.mark.parametrize("arguments", [{}, {"block": 2}, {"exact_last": 2}, {"scheme": "independent"}, {"k": 3}])
def test_a_seed_fixes_rows_by_the_size_and_the_arguments_alone(arguments):
    def rows(sizes=(4,), seed=3):
        sets = Ragged.from_sets([torch.arange(float(n)) for n in sizes])
        positions, owners = Sampled(5, seed=seed, **arguments).enumerate(sets).flatten()
        last = owners == len(sizes) - 1
        begin = sum(sizes[:-1])
        return [(row - begin).tolist() for row, kept in zip(positions, last, strict=True) if kept]

    assert rows() == rows() == rows(sizes=(2, 4, 4)) == rows(sizes=(4, 0, 7, 4))
    assert rows() != rows(seed=4)


def test_a_generator_fixes_the_draws_and_no_two_calls_agree():
    def draw(source=None):
        return Sampled(3).enumerate(distinct_sets((6, 6)), source).flatten()[0].values.tolist()

    assert draw(generator(1)) == draw(generator(1)) != draw(generator(2))
    assert draw() != draw()
    source = generator(1)
    assert draw(source) != draw(source)


def test_large_templates_equal_small_ones():
    """Beyond a size, templates are not kept: the other branch of the same enumeration."""
    positions, _ = Tuples(2).enumerate(distinct_sets((300,))).flatten()
    assert torch.equal(positions[299 * 5], torch.tensor([5, 0]))
    assert len(Combinations(2).enumerate(tied_sets((400,))).flatten()[0]) == 400 * 399 // 2
    assert Sampled(300, seed=0).enumerate(distinct_sets((300,))).counts() == [300]


def test_which_orderings_are_every_tuple():
    tuples = {name for name, orderings in ORDERINGS.items() if averages_every_tuple(orderings)}
    assert tuples == {name for name in ORDERINGS if name.startswith(("tuples", "combinations"))}
    assert not Tuples(2).increasing and Combinations(2).increasing
    assert Tuples(2).order(distinct_sets()) is None


@pytest.mark.parametrize("key", [None, tying_key])
def test_the_order_of_increasing_tuples_is_that_of_their_rows(key):
    sets = tied_sets((3, 0, 4))
    order = Combinations(1, key=key).order(sets)
    assert (
        order.tolist() == Combinations(1, key=key).enumerate(sets).flatten()[0].values[[0, 1, 2, 4, 5, 6, 7]].tolist()
    )
