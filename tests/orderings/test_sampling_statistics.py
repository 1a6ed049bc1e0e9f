"""π-SGD's permutations are uniform; those of different sets and calls are independent, and with scheme="independent"
those of one set too. All seeded; each would fail by chance for one seed in 10^6.

What the other schemes promise: ``test_schemes.py``."""

import pytest
import torch

from janossy import AllPermutations, JanossyPooling, Sampled, Tuples
from tests.examples import Rows, distinct_sets, generator, pooling
from tests.laws import law_uniform

pytestmark = [pytest.mark.statistical, pytest.mark.usefixtures("float64")]


def draws(orderings, n, num_sets=1, source=None):
    """Returns, per set, the sampled rows as tuples of positions within it."""
    positions, owners = orderings.enumerate(distinct_sets((n,) * num_sets), source).flatten()
    found = [[] for _ in range(num_sets)]
    for row, b in zip(positions, owners.tolist(), strict=True):
        found[b].append(tuple((row - n * b).tolist()))
    return found


@pytest.mark.parametrize(("n", "k"), [(2, None), (4, None), (5, 2), (3, 3), (4, 1)])
def test_every_ordering_is_equally_likely(n, k):
    law_uniform(draws(Sampled(3000, k=k, scheme="independent"), n, source=generator())[0], n, k or n)


def test_seeded_permutations_are_uniform_over_seeds():
    law_uniform([draws(Sampled(1, seed=seed), 3)[0][0] for seed in range(600)], 3, 3)


CODES = {(0, 1, 2): 0, (0, 2, 1): 1, (1, 0, 2): 2, (1, 2, 0): 3, (2, 0, 1): 4, (2, 1, 0): 5}


def law_independent(pairs):
    """Checks that all 36 pairs of permutations of 3 are equally likely, by a χ² test."""
    counts = torch.zeros(6, 6)
    for first, second in pairs:
        counts[CODES[first], CODES[second]] += 1
    expected = len(pairs) / 36
    statistic = ((counts - expected) ** 2 / expected).sum()
    p_value = torch.special.gammaincc(torch.tensor(35 / 2), statistic / 2)
    assert p_value > 1e-6, f"χ² = {statistic:.1f} over 36 pairs, p = {p_value:.1e}"


def test_sets_of_one_batch_are_permuted_independently():
    first, *_, last = draws(Sampled(2000, scheme="independent"), 3, num_sets=3, source=generator())
    law_independent(list(zip(first, last, strict=True)))
    rows = [each[0] for each in draws(Sampled(1), 3, num_sets=4000, source=generator())]
    law_independent(list(zip(rows[::2], rows[1::2], strict=True)))


def test_rows_of_one_set_are_independent():
    (rows,) = draws(Sampled(4000, scheme="independent"), 3, source=generator())
    law_independent(list(zip(rows[::2], rows[1::2], strict=True)))


def test_calls_are_independent():
    source = generator()
    rows = [draws(Sampled(1), 3, source=source)[0][0] for _ in range(1000)]
    law_independent(list(zip(rows[::2], rows[1::2], strict=True)))


def test_dependent_draws_are_found():
    rows = draws(Sampled(2000, scheme="independent"), 3, source=generator())[0]
    with pytest.raises(AssertionError, match="χ²"):
        law_independent(list(zip(rows, rows, strict=True)))
    rows = draws(Sampled(2000), 3, source=generator())[0]
    with pytest.raises(AssertionError, match="χ²"):
        law_independent(list(zip(rows[::2], rows[1::2], strict=True)))


def law_unbiased(sampled, exact, sets, num_deviations=6.0):
    """Checks that the mean over many blocks is within this many standard errors of the exact mean.

    It fails by chance once in 10^8 for each number compared.
    """
    with torch.no_grad():
        rows = sampled(sets, generator=generator())
        for draws, mean, n in zip(rows, exact(sets), sets.sizes, strict=True):
            parts = draws.split(sampled.orderings.blocks(n))
            blocks = torch.stack([part.mean(0) for part in parts])[: len(parts) - (len(parts[-1]) < len(parts[0]))]
            error = (blocks.mean(0) - mean).abs()
            assert (error <= num_deviations * blocks.std(0) / len(blocks) ** 0.5 + 1e-12).all(), error


@pytest.mark.parametrize("function", ["gru", "lstm", "transformer", "convolution"])
@pytest.mark.parametrize(
    ("sampled", "exact"),
    [
        (Sampled(2000), AllPermutations()),
        (Sampled(2000, scheme="independent"), AllPermutations()),
        (Sampled(2000, scheme="orthogonal"), AllPermutations()),
        (Sampled(500, exact_last=2), AllPermutations()),
        (Sampled(2000, k=2), Tuples(2)),
        (Sampled(500, k=2, exact_last=1), Tuples(2)),
    ],
)
def test_unbiased(function, sampled, exact):
    f = pooling("tuples_2", function).f
    sets = distinct_sets((4, 0, 1, 3))
    law_unbiased(Rows(JanossyPooling(f, sampled)), JanossyPooling(f, exact), sets)


class Biased(Sampled):
    def enumerate(self, keys, generator=None):
        rows = super().enumerate(keys, generator)
        for bucket in rows.buckets:
            bucket.local[:, ::3] = torch.arange(bucket.length)
        return rows


def test_a_biased_sampler_is_found():
    f = pooling("all_permutations", "gru").f
    with pytest.raises(AssertionError):
        law_unbiased(
            Rows(JanossyPooling(f, Biased(2000, scheme="independent"))),
            JanossyPooling(f, AllPermutations()),
            distinct_sets((4,)),
        )
    with pytest.raises(AssertionError, match="χ²"):
        law_uniform(draws(Biased(3000), 3, source=generator())[0], 3, 3)
