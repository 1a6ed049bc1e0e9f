"""Sample: means of blocks of permutations against brute force, and their errors against enumeration and scipy."""

from itertools import combinations, product
from math import inf, sqrt

import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

from janossy.inference.error_bars import Sample, check_confidence, margin
from tests.examples import generator
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")


def sample(sets, population=inf, out=2):
    """Makes a sample of sets, given as lists of the sizes of their blocks, with rows in any order, and lists of
    outputs.
    """
    source = generator(len(sets))
    rows = [
        (b, q, torch.randn(out, generator=source))
        for b, blocks in enumerate(sets)
        for q in range(len(blocks))
        for _ in range(blocks[q])
    ]
    values = [[[y for c, p, y in rows if (c, p) == (b, q)] for q in range(len(sets[b]))] for b in range(len(sets))]
    rows = [rows[i] for i in torch.randperm(len(rows), generator=source).tolist()]
    owners, blocks = (torch.tensor([row[i] for row in rows], dtype=torch.long) for i in (0, 1))
    outputs = torch.stack([row[2] for row in rows]) if rows else torch.zeros(0, out)
    return Sample(outputs, owners, blocks, torch.full((len(sets),), float(population))), values


def of_equal_blocks(draws, population=inf):
    """Returns one set for each draw: draws (B, q, m) of one output."""
    num_sets, q, m = draws.shape
    sets, blocks = torch.arange(num_sets).repeat_interleave(q * m), torch.arange(q).repeat_interleave(m)
    return Sample(draws.reshape(-1, 1), sets, blocks.repeat(num_sets), torch.full((num_sets,), float(population)))


SHAPES = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5), max_size=5)


def law_brute_force(found, values, population=inf):
    """Returns mean, counts and standard error of each set, by the formula."""
    for b, blocks in enumerate(values):
        rows = [y for block in blocks for y in block]
        m, q = len(rows), len(blocks)
        assert (found.num_draws[b], found.num_blocks[b]) == (m, q)
        mean = sum(rows) / m
        close(found.mean[b], mean, atol=1e-12, rtol=1e-12)
        if q > 1:
            terms = [(len(block) / m) ** 2 * (sum(block) / len(block) - mean) ** 2 for block in blocks]
            variance = q / (q - 1) * sum(terms) * max(0, 1 - m / population)
            close(found.standard_error[b], variance.sqrt(), atol=1e-12, rtol=1e-12)
        else:
            assert found.standard_error[b].isnan().all() if m < population else not found.standard_error[b].any()


@given(sets=SHAPES, population=st.sampled_from([inf, 1000, 20, 4, 1]))
def test_brute_force(sets, population):
    found, values = sample(sets, population)
    assert found.mean.shape == found.standard_error.shape == (len(sets), 2)
    law_brute_force(found, values, population)


def test_rows_that_are_no_blocks_and_a_wrong_population_are_found():
    found, values = sample([[2, 3], [1, 4, 2]], 20)
    law_brute_force(found, values, 20)
    alone = torch.cat([torch.arange(int(m)) for m in found.num_draws])[found.sets.argsort().argsort()]
    for wrong in (
        Sample(found.outputs, found.sets, alone, found.population),
        Sample(found.outputs, found.sets, found.blocks, found.population + 1),
        Sample(found.outputs.roll(1, 0), found.sets, found.blocks, found.population),
    ):
        with pytest.raises(AssertionError):
            law_brute_force(wrong, values, 20)


def law_unbiased_error(draws, probabilities, population=inf):
    """Checks that over all samples the mean square of the standard error is the variance of the mean."""
    found = of_equal_blocks(draws, population)
    mean = probabilities @ found.mean[:, 0]
    variance = probabilities @ (found.mean[:, 0] - mean).square()
    close(probabilities @ found.standard_error[:, 0].square(), variance, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("q", [2, 3, 4])
def test_unbiased_for_independent_blocks(q):
    """Blocks of two rows that depend on each other, by enumeration of every q of them."""
    block = torch.tensor([[0.0, 1.0], [5.0, -3.0], [2.0, 2.5], [-1.0, 7.0]])
    chances = torch.tensor([0.1, 0.2, 0.3, 0.4])
    chosen = torch.tensor(list(product(range(4), repeat=q)))
    law_unbiased_error(block[chosen], chances[chosen].prod(1))
    rows_as_blocks = block[chosen].reshape(len(chosen), 2 * q, 1)
    with pytest.raises(AssertionError):
        law_unbiased_error(rows_as_blocks, chances[chosen].prod(1))


@pytest.mark.parametrize(("num", "population"), [(2, 3), (2, 6), (3, 6), (5, 6), (6, 6)])
def test_unbiased_without_replacement(num, population):
    """Over every sample of a small population: the finite population correction is exact."""
    values = torch.tensor([0.0, 1.0, 5.0, -3.0, 2.0, 2.5])[:population]
    draws = values[torch.tensor(list(combinations(range(population), num)))][:, :, None]
    chances = torch.full((len(draws),), 1 / len(draws))
    law_unbiased_error(draws, chances, population)
    if num < population:
        with pytest.raises(AssertionError):
            law_unbiased_error(draws, chances)


@given(sets=SHAPES)
def test_padded(sets):
    found, values = sample(sets)
    padded = found.padded()
    assert padded.shape == (len(sets), max(map(sum, sets), default=0), 2)
    for b, blocks in enumerate(values):
        m = sum(sets[b])
        assert padded[b, m:].isnan().all()
        assert sorted(padded[b, :m].tolist()) == sorted(y.tolist() for block in blocks for y in block)
        assert torch.equal(padded[b, :m], found.outputs[found.sets == b])  # in the order they came


@given(sets=SHAPES, first=st.integers(0, 4))
def test_more_blocks_are_as_if_all_came_at_once(sets, first):
    whole, _ = sample(sets)
    early = whole.blocks < first
    parts = [Sample(whole.outputs[p], whole.sets[p], whole.blocks[p], whole.population) for p in (early, ~early)]
    both = parts[0].and_more(parts[1])
    assert torch.equal(both.num_draws, whole.num_draws)
    assert torch.equal(both.num_blocks, whole.num_blocks)
    for name in ("mean", "standard_error"):
        close(getattr(both, name), getattr(whole, name), atol=1e-12, rtol=1e-12, equal_nan=True)
    close(both.margin(0.9), whole.margin(0.9), atol=1e-12, rtol=1e-12, equal_nan=True)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_margin_is_students(confidence):
    found, _ = sample([[1, 1], [2, 2, 2], [1] * 20, [4, 3], [5]])
    degrees = found.num_blocks[:4].numpy() - 1
    reach = torch.tensor(scipy.stats.t.interval(confidence, degrees)[1])[:, None]
    close(found.margin(confidence)[:4], reach * found.standard_error[:4], atol=1e-10, rtol=1e-8)
    assert found.margin(confidence)[4].isnan().all()
    normal = scipy.stats.norm.interval(confidence)[1] * found.standard_error[:4]
    assert (found.margin(confidence)[:4] > 1.01 * normal).all()
    nothing = torch.zeros(2, 3)
    assert torch.equal(margin(nothing, torch.tensor([0, 1]), confidence), nothing)


def rivals(draws):
    """Returns a set of as many blocks of one row as there are draws (q, classes)."""
    return Sample(draws, torch.zeros(len(draws), dtype=torch.long), torch.arange(len(draws)), torch.tensor([inf]))


@given(seed=st.integers(0, 10**6), q=st.integers(2, 30), gap=st.sampled_from([0.0, 0.1, 0.5, 2.0]))
def test_change_of_two_classes_is_a_paired_t_test(seed, q, gap):
    p = (torch.randn(q, generator=generator(seed)) + gap).sigmoid()
    expected = scipy.stats.ttest_rel(p.numpy(), 1 - p.numpy()).pvalue / 2
    found = rivals(torch.stack((p, 1 - p), 1)).change_probability()
    close(found, torch.tensor([expected]), atol=1e-9, rtol=1e-7)
    unpaired = scipy.stats.ttest_ind(p.numpy(), 1 - p.numpy()).pvalue / 2
    assert abs(unpaired - expected) > 1e-7 or expected < 1e-5 or expected > 0.49


@pytest.mark.statistical
@pytest.mark.parametrize("lead", [(0.0, 0.0), (0.5, 0.0), (1.0, 0.9), (0.2, -3.0)])
def test_change_of_three_classes_is_bounded_by_the_sum_over_rivals(lead):
    """Given many blocks, the true means are about normal around the estimates.

    The probability that another class is the largest lies between that of the likeliest rival and the sum over rivals.
    The sum is what is returned.

    20,000 Monte Carlo draws, to 5 standard errors of 0.0035 and 0.005 for the normal approximation.
    """
    draws = torch.randn(200, 3, generator=generator())
    draws = (draws - draws.mean(0)) + torch.tensor([0.0, lead[0], lead[1]]) / sqrt(200)
    found = rivals(draws)
    chance = found.change_probability().item()
    covariance = torch.cov(draws.T) / len(draws)
    truths = torch.distributions.MultivariateNormal(found.mean[0], covariance).sample((20_000,))
    top = int(found.mean[0].argmax())
    changed = (truths.argmax(1) != top).double().mean().item()
    each = [(truths[:, c] > truths[:, top]).double().mean().item() for c in range(3) if c != top]
    slack = 5 * 0.0035 + 0.005
    assert max(each) - slack < chance and changed < chance + slack
    assert abs(chance - min(1, sum(each))) < 2 * slack


def test_change_of_classes_that_cannot_change():
    certain = torch.tensor([[0.7, 0.2, 0.1]]).repeat(4, 1)
    assert rivals(certain).change_probability().item() == 0
    assert rivals(torch.full((4, 3), 0.25)).change_probability().item() == 0  # ties, for certain
    assert rivals(certain[:1]).change_probability().isnan().all()
    assert rivals(torch.randn(5, 1)).change_probability().item() == 0  # one class
    noisy = torch.randn(40, 6, generator=generator())
    assert 0 < rivals(noisy).change_probability().item() <= 1
    everything = Sample(noisy, torch.zeros(40, dtype=torch.long), torch.arange(40), torch.tensor([40.0]))
    assert everything.change_probability().item() == 0


def test_half_precision_does_not_overflow():
    """Draws add up to more than float16 holds."""
    outputs = (1000 + torch.randn(400, 2, generator=generator())).half()
    sets, blocks = torch.arange(2).repeat_interleave(200), (torch.arange(200) // 100).repeat(2)
    half, wide = (Sample(x, sets, blocks, torch.full((2,), inf)) for x in (outputs, outputs.double()))
    for name in ("mean", "block_means", "standard_error"):
        assert getattr(half, name).dtype == torch.float16
        close(getattr(half, name).double(), getattr(wide, name), atol=5e-4, rtol=5e-4)


def test_no_sets_and_no_outputs():
    for population in (torch.zeros(0), torch.zeros(0) + inf):
        nothing = torch.zeros(0, dtype=torch.long)
        empty = Sample(torch.zeros(0, 3), nothing, nothing, population)
        assert empty.mean.shape == empty.standard_error.shape == empty.margin(0.9).shape == (0, 3)
        assert empty.padded().shape == (0, 0, 3)
        assert empty.num_draws.shape == empty.num_blocks.shape == empty.change_probability().shape == (0,)
    assert sample([[1, 2], [1]], out=0)[0].standard_error.shape == (2, 0)


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5, float("nan")])
def test_bad_confidence(confidence):
    with pytest.raises(ValueError, match=f"between 0 and 1, such as 0.95; got {confidence}"):
        check_confidence(confidence)
    check_confidence(0.5)
