"""Distances between sets: by brute force, in any order, with gradients; and a set that is learnt."""

from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from janossy import Ragged
from janossy.losses import assignment_distance, chamfer_distance, energy_distance, set_distances
from tests.laws import close, peak_bytes

pytestmark = pytest.mark.usefixtures("float64")


def chamfer(x, y):
    def one_way(a, b):
        return sum(min(sum((a_i - b_j) ** 2) for b_j in b) for a_i in a) / len(a)

    return one_way(x, y) + one_way(y, x)


def assignment(x, y, unmatched=0.7):
    few, many = sorted((x, y), key=len)
    best = min(
        sum(sum((many[i] - a) ** 2) for i, a in zip(order, few, strict=True))
        for order in permutations(range(len(many)), len(few))
    )
    return (best + unmatched * (len(many) - len(few))) / len(many)


def energy(x, y):
    def mean(a, b):
        return sum(float((a_i - b_j).norm()) for a_i in a for b_j in b) / (len(a) * len(b))

    return 2 * mean(x, y) - mean(x, x) - mean(y, y)


DISTANCES = {
    "chamfer": (chamfer_distance, chamfer),
    "assignment": (lambda x, y: assignment_distance(x, y, unmatched=0.7), assignment),
    "energy": (energy_distance, energy),
}

numbers = st.sampled_from([-1.0, 0.0, 0.25, 2.0])
points = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=4)


@given(pairs=st.lists(st.tuples(points, points), min_size=1, max_size=4), data=st.data())
@pytest.mark.parametrize("name", DISTANCES)
def test_by_brute_force_in_any_order(name, pairs, data):
    distance, by_hand = DISTANCES[name]
    x, y = (Ragged.from_sets([torch.tensor(pair[side]).double() for pair in pairs]) for side in (0, 1))
    expected = torch.tensor([float(by_hand(a, b)) for a, b in zip(x, y, strict=True)])
    close(distance(x, y), expected)
    shuffled = Ragged.from_sets([a[data.draw(st.permutations(range(len(a))))] for a in x])
    close(distance(shuffled, y), expected)
    close(distance(y, x), expected)
    close(distance(x, shuffled), torch.zeros(len(x)))


@pytest.mark.parametrize("most", [1, 9, 20])
@pytest.mark.parametrize("name", DISTANCES)
def test_pairs_of_like_sizes_together_are_as_all_at_once(monkeypatch, name, most):
    sizes = [2, 0, 5, 1, 3, 1, 0, 4]
    x, y = (Ragged.from_sizes(torch.randn(16, 2, requires_grad=True), of_side) for of_side in (sizes, sizes[::-1]))
    if name != "assignment":  # which alone takes a pair of an empty set and another
        x, y = x[[0, 2, 3, 4, 5]], y[[0, 2, 3, 4, 5]]
    whole = DISTANCES[name][0](x, y)
    slopes = torch.autograd.grad(whole.square().sum(), (x.values, y.values), retain_graph=True)
    monkeypatch.setattr(set_distances, "MAX_PADDED", most)
    parts = DISTANCES[name][0](x, y)
    close(parts, whole)
    close(torch.autograd.grad(parts.square().sum(), (x.values, y.values)), slopes)


@pytest.mark.parametrize("name", DISTANCES)
def test_memory_of_a_large_set_beside_small_ones(name):
    """All pairs padded to 1,500 elements have 67 million distances, which with two features are over a gigabyte."""
    sizes = [1500] + [1] * 29
    x, y = (Ragged.from_sizes(torch.randn(sum(sizes), 2), sizes) for _ in range(2))
    assert peak_bytes(lambda: DISTANCES[name][0](x, y)) < 200e6


@pytest.mark.parametrize("name", DISTANCES)
def test_gradients(name):
    values = torch.randn(6, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    other = Ragged.from_sizes(torch.randn(7, 2, generator=torch.Generator().manual_seed(1)), [3, 0, 4])
    assert gradcheck(lambda v: DISTANCES[name][0](Ragged.from_sizes(v, [4, 0, 2]), other), values)


@pytest.mark.parametrize("name", DISTANCES)
def test_equal_and_empty_sets_have_finite_gradients(name):
    sets = Ragged.from_sets([torch.zeros(2, 1), torch.zeros(0, 1)]).requires_grad_()
    found = DISTANCES[name][0](sets, Ragged.from_sizes(torch.zeros(2, 1), [2, 0]))
    found.sum().backward()
    assert found.tolist() == [0, 0] and sets.values.grad.isfinite().all()
    nothing = Ragged.from_sizes(torch.zeros(0, 1), [0, 0])
    assert DISTANCES[name][0](nothing, nothing).tolist() == [0, 0]


@pytest.mark.parametrize("name", DISTANCES)
def test_a_set_is_learnt(name):
    """Points move onto the target set by gradient descent, one onto each."""
    target = Ragged.from_sets([torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), torch.tensor([[2.0, 2.0]])])
    start = torch.tensor([[0.2, -0.1], [0.7, 0.2], [0.1, 0.6], [1.0, 1.0]])
    sets = Ragged.from_sizes(start, target.sizes).requires_grad_()
    optimizer = torch.optim.Adam([sets.values], lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        DISTANCES[name][0](sets, target).sum().backward()
        optimizer.step()
    assert assignment_distance(sets.detach(), target).max() < 1e-2


ONE = Ragged.from_sets([torch.zeros(2, 1)])


@pytest.mark.parametrize("distance", [chamfer_distance, assignment_distance, energy_distance])
@pytest.mark.parametrize(
    "other",
    [
        torch.zeros(2, 1),
        Ragged.from_sets([torch.zeros(2, 2)]),
        Ragged.from_sets([torch.zeros(2, 1)] * 2),
        Ragged.from_sets([torch.zeros(2)]),
        Ragged.from_sets([torch.zeros(2, 1, dtype=torch.long)]),
        Ragged.from_sets([torch.zeros(2, 1, dtype=torch.float16)]),
        Ragged.from_sizes(torch.zeros(0, 1), [0]),
    ],
)
def test_bad_pairs(distance, other):
    with pytest.raises((TypeError, ValueError), match=r"expects .*got"):
        distance(ONE, other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("distance", [chamfer_distance, assignment_distance, energy_distance])
def test_half_precision(distance, dtype):
    """Sums over 300 elements or 90,000 pairs are those of float32."""
    source = torch.Generator().manual_seed(0)
    x, y = (
        Ragged.from_sets([(torch.randn(300, 1, generator=source) + shift).to(dtype) for _ in range(2)])
        for shift in (0, 3)
    )
    found = distance(x, y)
    assert found.dtype == dtype
    assert torch.allclose(found.float(), distance(x.float(), y.float()), rtol=1e-2)


def test_assignments_whose_distances_to_padding_overflow():
    far, near = torch.full((1, 1), 300.0), torch.tensor([[1.0], [2.0]])
    x, y = (Ragged.from_sets([far, each]).to(torch.float16) for each in (near, near.flip(0)))
    x = x.with_values(x.values.clone().requires_grad_())
    found = assignment_distance(x, y)
    found.sum().backward()
    assert found.tolist() == [0, 0] and x.values.grad.tolist() == [[0], [0], [0]]
    with pytest.raises(ValueError, match="finite"):
        assignment_distance(x.map(lambda each: each * 1e5), y)


@pytest.mark.parametrize("unmatched", [-1, "1", float("nan")])
def test_bad_unmatched(unmatched):
    with pytest.raises(ValueError, match="expects unmatched"):
        assignment_distance(ONE, ONE, unmatched=unmatched)


@pytest.mark.parametrize("distance", [chamfer_distance, energy_distance])
def test_a_distance_of_nan_is_nan(distance):
    x = Ragged.from_sets([torch.tensor([[1.0], [torch.nan]]), torch.ones(1, 1)])
    y = Ragged.from_sets([torch.ones(1, 1), torch.zeros(2, 1)])
    assert distance(x, y).isnan().tolist() == distance(y, x).isnan().tolist() == [True, False]
    assert distance(x, x).isnan().tolist() == [True, False]


def test_values_that_are_not_finite():
    with pytest.raises(ValueError, match="finite"):
        assignment_distance(ONE, ONE.map(lambda x: x / 0))
