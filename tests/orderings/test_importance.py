"""ImportanceSampled by brute force in rational arithmetic; what is drawn is seeded, and fails by chance for one seed in
10^6."""

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from math import prod

import pytest
import torch
from torch import nn

from janossy import GRU, AllPermutations, JanossyPooling, Ragged, Sampled, TupleMLP, Tuples
from janossy.orderings.importance import NAMED, ImportanceSampled, norm, squared_norm
from tests.examples import D, distinct_sets, generator
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")


def first_feature(x):
    return x[:, 0].abs()


WEIGHTS = {"squared_norm": "squared_norm", "norm": "norm", "first_feature": first_feature}


def weigh(orderings, x):
    return NAMED.get(orderings.weights, orderings.weights)(x).tolist()


def probabilities(weights, uniform, k):
    """Returns the probability of every row (i_1, …, i_k) of one set of these weights, one element after the other."""
    n, total = len(weights), sum(map(Fraction, weights))
    share = Fraction(uniform)
    q = [(1 - share) * Fraction(w) / total + share / n if total else Fraction(1, n) for w in weights]
    return {
        row: prod((q[i] / (1 - sum(q[j] for j in row[:step])) for step, i in enumerate(row)), start=Fraction(1))
        for row in permutations(range(n), n if k is None else min(n, k))
    }


def drawn(orderings, sets, seed=4):
    """Returns, per set, the sampled rows as tuples of positions within it, and their weights."""
    found = [None] * len(sets)
    for bucket in orderings.enumerate(sets, generator(seed)).buckets:
        for b, rows, weights in zip(
            bucket.members(len(sets)), bucket.local.tolist(), bucket.weights.tolist(), strict=True
        ):
            found[b] = [(tuple(i for i in row if i >= 0), w) for row, w in zip(rows, weights, strict=True)]
    return found


def law_row_weights(orderings, sets, rtol=1e-12):
    """Checks that every row weighs (1 over the number of rows there are) / (its probability)."""
    for x, rows in zip(sets, drawn(orderings, sets), strict=True):
        expected = probabilities(weigh(orderings, x), orderings.uniform, orderings.k)
        for row, weight in rows:
            assert weight == pytest.approx(float(1 / (len(expected) * expected[row])), rel=rtol), row


def law_exactly_unbiased(orderings, n):
    """Checks that Σ P(row)·weight(row)·f(row) is the mean of f over all rows, for an f that separates all rows."""
    sets = distinct_sets((n,))
    P = probabilities(weigh(orderings, sets.values), orderings.uniform, orderings.k)
    weights = dict(drawn(orderings, sets)[0])
    assert weights.keys() == P.keys(), "too few draws to see every row"
    f = {row: torch.randn((), generator=generator(seed)) for seed, row in enumerate(P)}
    estimate = sum(float(P[row]) * weights[row] * f[row] for row in P)
    close(estimate, sum(f.values()) / len(f))


def law_frequencies(rows, P, failure_rate=1e-6):
    """Checks that the rows are drawn with these probabilities, by a χ² test that fails this often."""
    counts = Counter(rows)
    expected = {row: float(p) * len(rows) for row, p in P.items()}
    assert set(counts) <= set(P)
    assert min(expected.values()) >= 5, "too few draws for the χ² approximation"
    statistic = sum((counts[row] - mean) ** 2 / mean for row, mean in expected.items())
    half = torch.tensor([(len(P) - 1) / 2, statistic / 2])
    p_value = torch.special.gammaincc(half[0], half[1]).item()
    assert p_value > failure_rate, f"χ² = {statistic:.1f} over {len(P)} outcomes, p = {p_value:.1e}"


def copies(sets, num):
    return Ragged.cat([sets] * num)


def law_unbiased(pooling, exact, sets, num_copies=500, num_deviations=6.0, device="cpu"):
    """Checks that the mean over copies of each set is within this many standard errors of the exact mean.

    It fails by chance once in 10^8 for each number compared.
    """
    with torch.no_grad():
        source = torch.Generator(device).manual_seed(4)
        pooled = pooling(copies(sets, num_copies), generator=source).unflatten(0, (num_copies, len(sets)))
        error = (pooled.mean(0) - exact(sets)).abs()
    assert (error <= num_deviations * pooled.std(0) / num_copies**0.5 + 1e-12).all(), error


@dataclass(frozen=True)
class Unweighed(ImportanceSampled):
    """Forgets what the rows weigh."""

    def enumerate(self, keys, generator=None):
        rows = super().enumerate(keys, generator)
        return replace(rows, buckets=tuple(replace(b, weights=torch.ones_like(b.weights)) for b in rows.buckets))


@pytest.mark.parametrize("uniform", [0, 0.1, 1])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("k", [1, 2, 3, 5, None])
def test_row_weights_are_those_of_brute_force(k, weights, uniform):
    orderings = ImportanceSampled(20, k=k, weights=WEIGHTS[weights], uniform=uniform)
    law_row_weights(orderings, distinct_sets((3, 0, 5, 1, 2, 3, 4)))
    if uniform < 1:
        with pytest.raises(AssertionError):
            law_row_weights(Unweighed(20, k=k, weights=WEIGHTS[weights], uniform=uniform), distinct_sets((3, 5)))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("k", [1, 2, 3, None])
@pytest.mark.cover(1)
def test_exactly_unbiased(k, n):
    num = 60_000 if n == 5 else 5000
    law_exactly_unbiased(ImportanceSampled(num, k=k, weights=norm, uniform=0.1), n)
    if n > 1:
        with pytest.raises(AssertionError, match="not close"):
            law_exactly_unbiased(Unweighed(num, k=k, weights=norm, uniform=0.1), n)


@pytest.mark.statistical
@pytest.mark.parametrize("uniform", [0, 0.3, 1])
@pytest.mark.parametrize(("n", "k"), [(2, None), (4, None), (5, 2), (3, 3), (6, 1)])
def test_rows_are_drawn_in_proportion(n, k, uniform):
    orderings, sets = ImportanceSampled(20_000, k=k, weights=norm, uniform=uniform), distinct_sets((n,))
    rows = [row for row, _ in drawn(orderings, sets)[0]]
    law_frequencies(rows, probabilities(norm(sets.values).tolist(), uniform, k))
    with pytest.raises(AssertionError, match="χ²"):
        law_frequencies(rows, probabilities(squared_norm(sets.values + 1).tolist(), 0, k))


@pytest.mark.statistical
@pytest.mark.parametrize("uniform", [0, 0.2])
@pytest.mark.parametrize(
    ("function", "k", "evaluator"),
    [
        *(("mlp", k, evaluator) for k in (1, 2) for evaluator in ("gather", "projected", "auto")),
        *(("gru", k, evaluator) for k in (2, None) for evaluator in ("gather", "packed", "auto")),
    ],
)
def test_pooling_is_unbiased(function, k, evaluator, uniform):
    f = TupleMLP(k, D, 4, activation="tanh") if function == "mlp" else GRU(D, 3)
    exact = JanossyPooling(f, AllPermutations() if k is None else Tuples(k))
    sets = distinct_sets((4, 0, 1, 3))
    law_unbiased(
        JanossyPooling(f, ImportanceSampled(10, k=k, weights=norm, uniform=uniform), evaluate=evaluator), exact, sets
    )
    with pytest.raises(AssertionError):
        law_unbiased(
            JanossyPooling(f, Unweighed(10, k=k, weights=squared_norm, uniform=0), evaluate=evaluator), exact, sets
        )


def test_a_sum_is_weighed_too():
    f, sets = TupleMLP(2, D, 4), distinct_sets((4, 1, 0, 3))
    mean, total = (
        JanossyPooling(f, ImportanceSampled(10, k=2), reduce=reduce)(sets, generator=generator())
        for reduce in ("mean", "sum")
    )
    close(total, 10 * mean)


@pytest.mark.parametrize("k", [1, 3, None])
def test_all_uniform_is_plain_sampling(k):
    for bucket in ImportanceSampled(20, k=k, uniform=1).enumerate(distinct_sets((0, 3, 40))).buckets:
        close(bucket.weights, torch.ones_like(bucket.weights))


def heavy_tailed_sets(num_sets=20, n=60):
    values = torch.randn(num_sets * n, D, generator=generator()) * (1.5 * torch.randn(num_sets * n, 1)).exp()
    return Ragged.from_sizes(values, [n] * num_sets)


@pytest.mark.statistical
@pytest.mark.parametrize(("weights", "uniform"), [(squared_norm, 0.1), (norm, 0.1), (norm, 0)])
def test_less_variance_for_heavy_tails(weights, uniform):
    f = nn.Sequential(nn.Flatten(), nn.Linear(D, 3, bias=False))
    sets = copies(heavy_tailed_sets(), 100)

    def variance(orderings):
        with torch.no_grad():
            return JanossyPooling(f, orderings)(sets, generator=generator()).unflatten(0, (100, 20)).var(0).sum()

    assert variance(ImportanceSampled(5, k=1, weights=weights, uniform=uniform)) < 0.75 * variance(Sampled(5, k=1))


def second_moment(orderings, sets):
    """Returns E[weight²·‖h‖²] over samples of one element, by the weights of all rows instead of frequencies."""
    norms = squared_norm(sets.values)
    weight = torch.zeros_like(norms)
    for (i,), w in drawn(orderings, sets)[0]:
        weight[i] = w
    return (weight * norms).mean()


def test_squared_norms_alone_gain_nothing_for_the_identity_and_norms_are_best():
    sets = distinct_sets((6,))
    by_chance, squared, best = (
        second_moment(ImportanceSampled(20_000, k=1, weights=weights, uniform=uniform), sets)
        for weights, uniform in ((norm, 1), (squared_norm, 0), (norm, 0))
    )
    close(squared, by_chance)
    close(best, norm(sets.values).mean().square())
    assert best < by_chance


@pytest.mark.parametrize("uniform", [0.01, 0.1, 0.5])
def test_uniform_bounds_the_weights(uniform):
    weights = ImportanceSampled(1000, k=1, uniform=uniform).enumerate(heavy_tailed_sets()).buckets[0].weights
    assert 0.5 / uniform < weights.max() <= 1 / uniform + 1e-9


HUGE = {
    "one outweighs all": [1e30, 1e-30, 2e-30, 3e-30],
    "far apart": [1e-30, 1e30, 1.0, 1e-15, 1e15],
    "at the ends of float64": [1e-300, 1e300, 1e300, 1.0],
    "zeros": [0.0, 1e30, 0.0, 1e-30],
    "only zeros": [0.0, 0.0, 0.0],
}


def given_weights(weights):
    return lambda x: torch.tensor(weights).repeat(len(x) // len(weights))


@pytest.mark.parametrize("uniform", [0, 1e-6, 0.1])
@pytest.mark.parametrize("case", HUGE)
def test_huge_ratios_of_weights(case, uniform):
    n = len(HUGE[case])
    if uniform == 0 and 0.0 in HUGE[case]:
        return
    for k in (1, 2, None):
        orderings = ImportanceSampled(500, k=k, weights=given_weights(HUGE[case]), uniform=uniform)
        law_row_weights(orderings, distinct_sets((n,)), rtol=1e-11)


@pytest.mark.statistical
def test_what_one_element_outweighs_is_still_drawn_in_proportion():
    weights = HUGE["one outweighs all"]
    rows = [
        row
        for row, _ in drawn(
            ImportanceSampled(20_000, k=None, weights=given_weights(weights), uniform=0), distinct_sets((4,))
        )[0]
    ]
    likely = {row: p for row, p in probabilities(weights, 0, None).items() if row[0] == 0}
    law_frequencies(rows, likely)


def test_the_share_still_to_be_drawn_would_cancel_by_subtraction():
    """The known-bad formula: 1 - Σ q of those before, where one element outweighs all."""
    weights = HUGE["one outweighs all"]
    q = [w / sum(weights) for w in weights]
    with pytest.raises(ZeroDivisionError):
        prod(q[i] / (1 - sum(q[:i])) for i in range(4))


@pytest.mark.parametrize("k", [1, 3, None])
@pytest.mark.parametrize("sizes", [(), (0,), (0, 0), (0, 1, 2, 3, 5), (5, 5)])
def test_sizes(sizes, k):
    orderings, sets = ImportanceSampled(4, k=k), distinct_sets(sizes)
    rows = orderings.enumerate(sets)
    assert rows.counts() == [4] * len(sizes)
    assert rows.weights().shape == (4 * len(sizes), 1)
    assert rows.weights().dtype == torch.float64
    positions, owners = rows.flatten()
    assert list(positions.sizes) == [orderings.row_length(sizes[b]) for b in owners.tolist()]
    for bucket in rows.buckets:
        assert bucket.padded == bool(bucket.local.lt(0).any()) or bucket.num_sets == 0
        if bucket.length == 0 or bucket.local.lt(0).all():
            close(bucket.weights, torch.ones_like(bucket.weights))
    f = GRU(D, 3) if k is None else TupleMLP(k, D, 3)
    assert JanossyPooling(f, orderings)(sets).shape == (len(sizes), 3)


def test_half_precision_and_integers():
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.int64):
        sets = Ragged.from_sizes(torch.arange(1, 6).to(dtype), (3, 2))
        law_row_weights(ImportanceSampled(10, k=2), sets)
    assert JanossyPooling(TupleMLP(2, D, 3).float(), ImportanceSampled(3, k=2))(
        distinct_sets().to(torch.float32)
    ).dtype == (torch.float32)


def test_means_in_half_precision_do_not_overflow():
    """The 1000 values of about 100 add up to more than float16 holds."""
    orderings, sets = ImportanceSampled(1000, k=1), distinct_sets((3, 2)).to(torch.float16)
    layer = JanossyPooling(lambda x: 100 + 0 * x.sum(1)[:, :1], orderings)
    result = layer(sets, generator=generator(4))
    assert result.dtype == torch.float16
    means = [sum(100 * w for _, w in rows) / 1000 for rows in drawn(orderings, sets)]
    close(result[:, 0].double(), torch.tensor(means), atol=0.1, rtol=0)


def test_weights_are_a_constant_to_autograd():
    scale = torch.ones(D, requires_grad=True)
    values = distinct_sets().values.requires_grad_()
    rows = ImportanceSampled(3, k=2, weights=lambda x: norm(x * scale)).enumerate(distinct_sets().with_values(values))
    assert not rows.weights().requires_grad
    assert ImportanceSampled(3).weighs_rows


def test_keys_are_what_is_weighed():
    keys, f = distinct_sets((4,)), TupleMLP(1, D, 3)
    result = JanossyPooling(f, ImportanceSampled(6, k=1))(distinct_sets((4,), seed=9), keys=keys, generator=generator())
    elements = distinct_sets((4,), seed=9).values
    rows = drawn(ImportanceSampled(6, k=1), keys)[0]
    close(result[0], sum(w * f(elements[None, [i]])[0] for (i,), w in rows) / 6)


@pytest.mark.parametrize(("name", "function"), [("norm", norm), ("squared_norm", squared_norm)])
def test_weights_by_name(name, function):
    sets = distinct_sets((5, 3))
    by_name = drawn(ImportanceSampled(4, k=2, weights=name), sets)
    assert by_name == drawn(ImportanceSampled(4, k=2, weights=function), sets)
    assert by_name != drawn(ImportanceSampled(4, k=2, weights=first_feature), sets)
    assert ImportanceSampled(4) == ImportanceSampled(4, weights="norm")


def test_repeatable_by_a_generator_and_not_without():
    sets = distinct_sets((5, 5, 3))
    assert drawn(ImportanceSampled(4), sets, 1) == drawn(ImportanceSampled(4), sets, 1)
    assert drawn(ImportanceSampled(4), sets, 1) != drawn(ImportanceSampled(4), sets, 2)


def test_on_any_device(device):
    sets = distinct_sets((3, 0, 5, 3)).to(device)
    rows = ImportanceSampled(4, k=2).enumerate(sets, torch.Generator(device).manual_seed(0))
    assert rows.weights().device.type == device
    assert {bucket.local.device.type for bucket in rows.buckets} == {device}
    f = TupleMLP(2, D, 3).to(device)
    law_unbiased(
        JanossyPooling(f, ImportanceSampled(10, k=2, weights=norm)),
        JanossyPooling(f, Tuples(2), evaluate="gather"),
        sets,
        device=device,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_permutations": 0}, "num_permutations >= 1 orderings; got num_permutations=0"),
        ({"k": 0}, "k >= 1 elements a row; got k=0"),
        ({"weights": "degree"}, "weights='norm' or 'squared_norm', or a function of the elements; got 'degree'"),
        ({"uniform": -0.1}, "from 0 to 1; got uniform=-0.1"),
        ({"uniform": 1.1}, "from 0 to 1; got uniform=1.1"),
        ({"uniform": float("nan")}, "from 0 to 1; got uniform=nan"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        ImportanceSampled(**{"num_permutations": 1, **arguments})


@pytest.mark.parametrize(
    ("weights", "uniform", "message"),
    [
        (lambda x: x, 0.1, r"a tensor \(5,\), one number per element; got \(5, 2\)"),
        (lambda x: x[1:, 0], 0.1, r"one number per element; got \(4,\)"),
        (lambda x: 1.0, 0.1, "one number per element; got float"),
        (given_weights([1.0, -2.0, 0.0, 1.0, 1.0]), 0.1, "finite weights >= 0; got -2.0 for element 1"),
        (given_weights([1.0, 2.0, torch.nan, 1.0, 1.0]), 0.1, "finite weights >= 0; got nan for element 2"),
        (given_weights([1.0, 2.0, 3.0, torch.inf, 1.0]), 0.1, "finite weights >= 0; got inf for element 3"),
        (given_weights([1.0, 2.0, 3.0, 4.0, 0.0]), 0, "uniform=0; got 0 for element 4, which would never be drawn"),
        (given_weights([0.0] * 5), 0, "uniform=0; got 0 for element 0, which would never be drawn"),
    ],
)
def test_bad_weights(weights, uniform, message):
    with pytest.raises(ValueError, match=message):
        ImportanceSampled(2, k=1, weights=weights, uniform=uniform).enumerate(distinct_sets((3, 2)))


def test_too_many_rows():
    with pytest.raises(
        ValueError, match=r"needs 600, over max_rows=500; use smaller batches or a smaller num_permutations"
    ):
        ImportanceSampled(300, max_rows=500).enumerate(distinct_sets((3, 2)))
