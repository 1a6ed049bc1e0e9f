"""Collating, and the sampler of sets of like size."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from janossy import Ragged, collate
from janossy.sets import SimilarSizes

SETS = [torch.arange(2.0 * n).view(n, 2) for n in (3, 0, 1, 2)]


@pytest.mark.parametrize("num_workers", [0, pytest.param(1, marks=pytest.mark.only_all)])
def test_samples_of_every_form(num_workers):
    def batch(dataset):
        return next(iter(DataLoader(dataset, batch_size=4, collate_fn=collate, num_workers=num_workers)))

    expected = Ragged.from_sets(SETS)
    assert batch(SETS).allclose(expected)
    assert batch([x.numpy() for x in SETS]).allclose(expected)
    sets, target, context = batch([(x, b, torch.full((3,), b)) for b, x in enumerate(SETS)])
    assert sets.allclose(expected) and target.tolist() == [0, 1, 2, 3] and context.shape == (4, 3)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "got no samples"),
        (None, "got NoneType"),
        ("abc", "got str"),
        ([SETS[0], (SETS[0], 1)], "got sets beside tuples"),
        ([(SETS[0], 1), (SETS[0],)], r"got lengths \[1, 2\]"),
        ([()], r"got lengths \[0\]"),
        ([torch.zeros(2, 3), torch.zeros(2, 2)], "expects every set of shape"),
    ],
)
def test_bad_samples(samples, message):
    with pytest.raises((TypeError, ValueError), match=message):
        collate(samples)


sizes = st.lists(st.integers(0, 9), max_size=40)


@given(sizes=sizes, batch_size=st.integers(1, 7), pool=st.integers(1, 4), shuffle=st.booleans(), drop=st.booleans())
def test_every_set_once_and_sorted_in_pools(sizes, batch_size, pool, shuffle, drop):
    sampler = SimilarSizes(sizes, batch_size=batch_size, pool=pool, shuffle=shuffle, drop_last=drop)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    chosen = [b for batch in batches for b in batch]
    missing = len(sizes) % batch_size if drop else 0
    assert len(set(chosen)) == len(chosen) == len(sizes) - missing
    assert all(sizes[a] <= sizes[b] for batch in batches for a, b in pairwise(batch))


def test_epochs_differ_and_are_known_by_their_number():
    sampler = SimilarSizes(list(range(50)), batch_size=5, pool=3)
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.set_epoch(0)
    assert list(sampler) == first
    assert list(SimilarSizes(list(range(50)), batch_size=5, pool=3, seed=1)) != first


def test_like_sizes_together():
    sizes = torch.randint(1, 100, (1000,), generator=torch.Generator().manual_seed(0)).tolist()
    padded = {}
    for pool in (1, 20):
        sampler = SimilarSizes(sizes, batch_size=10, pool=pool)
        padded[pool] = sum(len(batch) * max(sizes[b] for b in batch) for batch in sampler) / sum(sizes)
    assert padded[20] < 1.1 < 1.6 < padded[1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"sizes": [1.5]},
        {"sizes": [-1]},
        {"sizes": [[1]]},
        {"batch_size": 0},
        {"batch_size": 1.5},
        {"pool": 0},
        {"seed": -1},
        {"shuffle": 1},
        {"drop_last": None},
    ],
)
def test_bad_arguments(wrong):
    with pytest.raises((TypeError, ValueError), match=r"expects .*got"):
        SimilarSizes(**({"sizes": [1, 2], "batch_size": 1} | wrong))


@pytest.mark.parametrize(
    "sizes", [np.array([2, 1, 3])[::-1], np.array([3, 1, 2], dtype=np.uint16), torch.tensor([3, 1, 2]).byte()]
)
def test_sizes_of_every_integer_type(sizes):
    assert list(SimilarSizes(sizes, batch_size=2, shuffle=False)) == [[1, 2], [0]]


@pytest.mark.parametrize("sizes", [None, "abc", iter([1, 2]), [None], [[1, 2], [3]]])
def test_what_are_no_sizes(sizes):
    with pytest.raises(TypeError, match="SimilarSizes expects sizes as whole numbers"):
        SimilarSizes(sizes, batch_size=2)
