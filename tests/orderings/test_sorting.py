"""The canonical order against Python's sort: ties, NaN, both zeros, several columns of a key, every dtype."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from janossy import Ragged
from janossy.orderings.sorting import sort_positions

FLOATS = (0.0, -0.0, 1.0, -1.0, 1 + 2**-40, 1e-3, float("nan"), float("inf"), -float("inf"))
DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)


def numbers(dtype: torch.dtype) -> st.SearchStrategy:
    if dtype.is_floating_point:
        return st.sampled_from(FLOATS)
    if dtype == torch.bool:
        return st.booleans()
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    return st.sampled_from(sorted({low, max(low, -1), 0, 1, high - 1, high}))


@st.composite
def batches(draw, dtype):
    """Samples sets of one dtype, and a key's columns (N, j) or None."""
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    num_features = draw(st.integers(0, 3))
    rows = st.lists(numbers(dtype), min_size=num_features, max_size=num_features)
    values = draw(st.lists(rows, min_size=sum(sizes), max_size=sum(sizes)))
    sets = Ragged.from_sizes(torch.tensor(values, dtype=dtype).reshape(sum(sizes), num_features), sizes)
    numbers_only = [number for number in FLOATS if number == number]
    keys = st.lists(st.sampled_from(numbers_only), min_size=2 * sum(sizes), max_size=2 * sum(sizes))
    return sets, draw(st.none() | keys.map(lambda flat: torch.tensor(flat).reshape(-1, 2)))


def by_python(sets: Ragged, keys: torch.Tensor | None) -> list[int]:
    columns = ([] if keys is None else keys.T.tolist()) + sets.values.T.tolist()

    def key(i: int) -> list[tuple[bool, float]]:
        return [(False, column[i]) if column[i] == column[i] else (True, 0) for column in columns]

    bounds = sets.offsets.tolist()
    return [i for b in range(len(sets)) for i in sorted(range(bounds[b], bounds[b + 1]), key=key)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(data=st.data())
def test_is_the_stable_lexicographic_order(dtype, data):
    sets, keys = data.draw(batches(dtype))
    order = sort_positions(sets, None if keys is None else lambda _: keys)
    assert order.tolist() == by_python(sets, keys)


def test_the_law_can_fail():
    """It fails for numbers of float64 in the order of float32, which does not tell them apart."""
    sets = Ragged.from_sizes(torch.tensor([[1 + 2**-40, 0.0], [1.0, 0.0]], dtype=torch.float64), [2])
    assert sort_positions(sets).tolist() == by_python(sets, None)
    assert sort_positions(sets.to(torch.float32)).tolist() != by_python(sets, None)


def test_a_column_that_decides_nothing_costs_no_order():
    """Equal elements keep the order they came in, whatever stands beside them."""
    sets = Ragged.from_sizes(torch.zeros(6, 3), [4, 2])
    assert sort_positions(sets).tolist() == list(range(6))


def test_compiled_sorts_alike():
    torch.compiler.reset()
    values = torch.randint(-1, 2, (40, 3), generator=torch.Generator().manual_seed(0)).double() / 3
    values[::7, 1] = torch.nan
    sets = Ragged.from_sizes(values, [13, 0, 20, 7])
    compiled = torch.compile(sort_positions, backend="aot_eager", fullgraph=True)
    assert compiled(sets).tolist() == sort_positions(sets).tolist() == by_python(sets, None)
