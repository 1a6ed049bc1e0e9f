"""Ragged: constructors and conversions back, choosing and joining sets, errors."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from janossy import Ragged

pytestmark = pytest.mark.usefixtures("float64")

sizes = st.lists(st.integers(0, 4), max_size=6)
features = st.sampled_from([(), (2,), (2, 3)])


def sets_of(sizes, features=(2,), dtype=torch.float64) -> Ragged:
    n = sum(sizes)
    values = torch.arange(n * int(np.prod(features)), dtype=dtype).reshape(n, *features)
    return Ragged.from_sizes(values, sizes)


def same(a: Ragged, b: Ragged) -> None:
    assert isinstance(a, Ragged) and isinstance(b, Ragged)
    assert a.sizes == b.sizes and len(a) == len(b.sizes)
    assert a.offsets.dtype == torch.int64
    assert torch.equal(a.offsets, b.offsets)
    assert a.dtype == b.dtype and torch.equal(a.values, b.values)


def test_same_can_fail():
    for other in (sets_of([2, 1]), sets_of([1, 2], (3,)), sets_of([1, 2]).to(torch.float32)):
        with pytest.raises(AssertionError):
            same(sets_of([1, 2]), other)


CONVERSIONS = {
    "sets": lambda s: Ragged.from_sets(s.to_sets()),
    "iteration": lambda s: Ragged.from_sets(list(s)),
    "sizes": lambda s: Ragged.from_sizes(s.values, s.sizes),
    "padded": lambda s: Ragged.from_padded(*s.to_padded(fill=-1)),
    "index": lambda s: Ragged.from_index(*s.to_index(), num_sets=len(s)),
    "ptr": lambda s: Ragged.from_ptr(*s.to_ptr()),
    "offsets": lambda s: Ragged(s.values, s.offsets.int()),
    "nested": lambda s: Ragged.from_nested(s.to_nested()),
    "slice": lambda s: s[:],
    "list": lambda s: s[list(range(len(s)))],
    "bool tensor": lambda s: s[torch.ones(len(s), dtype=torch.bool)],
    "negative tensor": lambda s: s[torch.arange(len(s)) - len(s)],
    "halves": lambda s: Ragged.cat([s[: len(s) // 2], s[len(s) // 2 :]]),
    "with_values": lambda s: s.with_values(s.values.clone()),
    "pickle": lambda s: pickle.loads(pickle.dumps(s)),
    "detach": lambda s: s.detach(),
    "deepcopy": copy.deepcopy,
    "torch.save": lambda s: saved(s),
    "clone": lambda s: s.clone(),
    "map": lambda s: s.map(lambda x: x),
    "cpu": lambda s: s.cpu(),
    "double": lambda s: s.double().to(s.dtype),
    "split": lambda s: Ragged.cat(s.split(2)),
    "chunk": lambda s: Ragged.cat(s.chunk(3)),
    "features": lambda s: Ragged.cat([s.map(lambda x: x[..., None]), s.map(lambda x: x[..., None])], dim=-1).map(
        lambda x: x[..., 0]
    ),
}


def saved(sets):
    """Returns an object after saving and loading it under ``weights_only``."""
    file = io.BytesIO()
    torch.save(sets, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("conversion", CONVERSIONS)
@given(sizes=sizes, features=features)
def test_round_trip(conversion, sizes, features):
    sets = sets_of(sizes, features)
    if sizes or conversion not in ("sets", "iteration"):  # no tensor, no feature shape
        same(CONVERSIONS[conversion](sets), sets)


@pytest.mark.parametrize(
    "conversion", [name for name in CONVERSIONS if name not in ("pickle", "detach", "deepcopy", "torch.save")]
)
def test_gradients_flow_through(conversion):
    sets = sets_of([2, 0, 1])

    def run(values):
        return CONVERSIONS[conversion](sets.with_values(values)).values.sin()

    assert gradcheck(run, sets.values.clone().requires_grad_())


def test_values_by_definition():
    x = torch.arange(12.0).reshape(6, 2)
    sets = Ragged.from_index(x, torch.tensor([3, 0, 3, 1, 0, 3]), num_sets=5)
    assert sets.sizes == (2, 1, 0, 3, 0)
    assert torch.equal(sets[0], x[[1, 4]]) and torch.equal(sets[3], x[[0, 2, 5]])
    assert Ragged.from_index(x, torch.tensor([3, 0, 3, 1, 0, 3])).sizes == (2, 1, 0, 3)

    padded, mask = sets.to_padded(fill=7)
    assert padded.shape == (5, 3, 2) and mask.tolist()[1] == [True, False, False]
    assert torch.equal(padded[1], torch.stack((x[3], torch.full((2,), 7.0), torch.full((2,), 7.0))))
    shuffled = Ragged.from_padded(padded.flip(1), mask.flip(1))
    assert shuffled.sizes == sets.sizes and torch.equal(shuffled[3], sets[3].flip(0))
    assert Ragged.from_padded(padded).sizes == (3,) * 5
    assert Ragged.from_padded(torch.zeros(2, 0, 3)).sizes == (0, 0)

    assert sets.to_index()[1].tolist() == [0, 0, 1, 3, 3, 3]
    assert sets.to_ptr()[1].tolist() == [0, 2, 3, 3, 6, 6]


@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=6), data=st.data())
def test_indexing(sizes, data):
    sets = sets_of(sizes)
    expected = sets.to_sets()
    b = data.draw(st.integers(-len(sizes), len(sizes) - 1))
    for key in (b, torch.tensor(b), np.int64(b)):
        assert torch.equal(sets[key], expected[b])
    chosen = data.draw(st.lists(st.integers(-len(sizes), len(sizes) - 1), max_size=5))
    for key in (chosen, tuple(chosen), torch.tensor(chosen, dtype=torch.long), np.array(chosen, dtype=int)):
        assert sets[key].sizes == tuple(sizes[b] for b in chosen)
        assert all(torch.equal(x, expected[b]) for x, b in zip(sets[key], chosen, strict=True))
    flags = data.draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    for key in (flags, torch.tensor(flags)):
        same(sets[key], sets[[b for b, flag in enumerate(flags) if flag]])
    step = data.draw(st.sampled_from([-2, -1, 1, 2]))
    same(sets[::step], sets[list(range(len(sizes)))[::step]])


def test_to_converts_the_values_only():
    sets = sets_of([2, 0, 1]).to(torch.bfloat16)
    assert sets.dtype == torch.bfloat16 and sets.offsets.dtype == torch.int64 and sets.sizes == (2, 0, 1)
    assert sets.device == torch.device("cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_to_moves_everything():
    sets = sets_of([2, 0, 1]).pin_memory().to("cuda", non_blocking=True)
    assert sets.values.is_cuda and sets.offsets.is_cuda
    same(sets[[2, 0]].to("cpu"), sets_of([2, 0, 1])[[2, 0]])


def test_repr():
    assert repr(sets_of([2, 0, 1]).to(torch.float32)) == (
        "Ragged(3 sets of 0 to 2 elements, 3 in all, features (2,), torch.float32, cpu)"
    )
    assert repr(sets_of([2, 2], ())).startswith("Ragged(2 sets of 2 elements, 4 in all, features ()")
    assert repr(sets_of([])).startswith("Ragged(0 sets of 0 elements")


x = torch.zeros(3, 2)
ERRORS = {
    "no sets": (lambda: Ragged.from_sets([]), "needs at least one tensor"),
    "scalar set": (lambda: Ragged.from_sets([torch.tensor(1.0)]), r"expects every set of shape"),
    "feature mismatch": (lambda: Ragged.from_sets([x, torch.zeros(1, 3)]), r"shape \(n, 2\).*set 1 has shape \(1, 3\)"),
    "flat empty set": (lambda: Ragged.from_sets([x, torch.zeros(0)]), r"Give an empty set the shape \(0, 2\)"),
    "dtype mismatch": (lambda: Ragged.from_sets([x, x.double()]), r"set 1 is torch.float64.*Convert it with \.to"),
    "sizes off": (lambda: Ragged.from_sizes(x, [1, 1]), "sum to the number of elements, 3; got a sum of 2"),
    "negative size": (lambda: Ragged.from_sizes(x, [4, -1]), "a smallest of -1"),
    "padded 1-D": (lambda: Ragged.from_padded(torch.zeros(3)), r"shape \(B, n, \*features\); got \(3,\)"),
    "mask shape": (lambda: Ragged.from_padded(x, torch.ones(2, 3, dtype=torch.bool)), r"\(3, 2\).*got.*\(2, 3\)"),
    "mask dtype": (lambda: Ragged.from_padded(x, torch.ones(3, 2)), "bool mask.*got torch.float"),
    "index length": (lambda: Ragged.from_index(x, torch.zeros(2, dtype=torch.long)), r"shape \(3,\).*shape \(2,\)"),
    "index 2-D": (lambda: Ragged.from_index(x, torch.zeros(3, 1, dtype=torch.long)), r"got.*\(3, 1\)"),
    "index float": (lambda: Ragged.from_index(x, torch.zeros(3)), "integer index.*got torch.float"),
    "index bool": (lambda: Ragged.from_index(x, torch.zeros(3, dtype=torch.bool)), "got torch.bool"),
    "index high": (lambda: Ragged.from_index(x, torch.tensor([0, 5, 1]), 5), "got 0 to 5. Raise num_sets"),
    "index low": (lambda: Ragged.from_index(x, torch.tensor([0, -1, 1])), "got -1 to 1"),
    "ptr float": (lambda: Ragged.from_ptr(x, torch.tensor([0.0, 3.0])), r"integer offsets.*got torch\.float"),
    "ptr empty": (lambda: Ragged.from_ptr(x, torch.zeros(0, dtype=torch.long)), r"shape \(B \+ 1,\).*shape \(0,\)"),
    "ptr 2-D": (lambda: Ragged.from_ptr(x, torch.zeros(1, 2, dtype=torch.long)), r"got.*\(1, 2\)"),
    "ptr start": (lambda: Ragged.from_ptr(x, torch.tensor([1, 3])), r"from 0.*got \[1, 3\]"),
    "ptr end": (lambda: Ragged.from_ptr(x, torch.tensor([0, 2])), r"number of elements, 3; got \[0, 2\]"),
    "ptr falls": (lambda: Ragged.from_ptr(x, torch.tensor([0, 3, 2, 3])), "falls somewhere"),
    "long ptr": (lambda: Ragged.from_ptr(x, torch.arange(20)), "got 0 … 19"),
    "scalar values": (lambda: Ragged(torch.tensor(1.0), torch.tensor([0])), "got a scalar"),
    "not nested": (lambda: Ragged.from_nested(x), "torch.jagged; got layout torch.strided. Build it with"),
    "not jagged": (lambda: Ragged.from_nested(torch.nested.nested_tensor([x])), "layout torch.jagged; got"),
    "with_values": (lambda: Ragged.from_sizes(x, [3]).with_values(x[:2]), "expects 3 elements.*got 2"),
    "cat of nothing": (lambda: Ragged.cat([]), "at least one batch"),
    "cat mismatch": (lambda: Ragged.cat([sets_of([1]), sets_of([1], (3,))]), r"features of batch 0.*batch 1 is"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    bad, message = ERRORS[name]
    with pytest.raises(ValueError, match=message) as raised:
        bad()
    assert "\n" not in str(raised.value)


# Arrays, nested lists, raw ids


@given(sizes=st.lists(st.integers(0, 3), min_size=1, max_size=4), kinds=st.data())
def test_arrays_and_lists_are_as_tensors(sizes, kinds):
    sets = sets_of(sizes)
    forms = (lambda x: x, lambda x: x.numpy(), lambda x: x.tolist(), lambda x: tuple(map(tuple, x.tolist())))
    chosen = [kinds.draw(st.sampled_from(forms))(x) for x in sets]
    if any(n or not isinstance(x, list | tuple) for n, x in zip(sizes, chosen, strict=True)):
        same(Ragged.from_sets(chosen), sets)


def test_the_dtype_of_lists():
    assert Ragged.from_sets([[1, 2], [3]]).dtype == torch.int64
    assert Ragged.from_sets([[1, 2], [3.5]]).dtype == torch.get_default_dtype()
    assert Ragged.from_sets([[1, 2], torch.zeros(2, dtype=torch.float16)]).dtype == torch.float16
    assert Ragged.from_sets([np.zeros((2, 3), np.float32), [], [[1, 2, 3]]]).sizes == (2, 0, 1)
    read_only = np.zeros((2, 3))
    read_only.flags.writeable = False
    assert Ragged.from_sets([read_only]).dtype == torch.float64


@given(ids=st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 3), max_size=12))
def test_ids_become_sets(ids):
    elements = torch.arange(len(ids))
    sets, names = Ragged.from_index(elements, torch.tensor(ids, dtype=torch.long), return_ids=True)
    assert names.tolist() == sorted(set(ids))
    expected = [[i for i, other in enumerate(ids) if other == name] for name in names.tolist()]
    assert [part.tolist() for part in sets] == expected and all(expected)


@given(index=st.lists(st.integers(-2, 6), max_size=8), num_sets=st.integers(0, 5))
def test_the_range_of_an_index_is_checked(index, num_sets):
    def build():
        return Ragged.from_index(torch.zeros(len(index), 1), torch.tensor(index, dtype=torch.long), num_sets)

    if all(0 <= b < num_sets for b in index):
        assert build().sizes == tuple(index.count(b) for b in range(num_sets))
    else:
        with pytest.raises(ValueError, match=f"got {min(index)} to {max(index)}"):
            build()


def test_raw_ids_are_refused_and_isolated_vertices_are_not():
    index = torch.tensor([7, 1_013_993, 12])
    with pytest.raises(ValueError, match=r"look like raw ids.*return_ids=True, which factorizes"):
        Ragged.from_index(x, index)
    assert len(Ragged.from_index(x, index, 1_013_994)) == 1_013_994
    assert len(Ragged.from_index(x, torch.tensor([0, 1029, 5]))) == 1030
    with pytest.raises(ValueError, match="look like raw ids"):
        Ragged.from_index(x, torch.tensor([0, 1030, 5]))


# Every door, each argument wrong in each way

INDEX, MASK = torch.tensor([0, 1, 1]), torch.ones(3, 2, dtype=torch.bool)
THREE = Ragged.from_sizes(x, [1, 2, 0])
NO_TENSOR = (None, 3, 2.5, "abc", [0, 1, 1], {}, object())
META = torch.zeros(3, 2, device="meta")
DOORS = {
    "values": (lambda bad: Ragged(bad, torch.tensor([0, 3])), (*NO_TENSOR, META, x[0, 0], x[:2])),
    "offsets": (lambda bad: Ragged(x, bad), (*NO_TENSOR, META, x[0, 0], x, INDEX * 1j, INDEX.to("meta"))),
    "from_sets": (
        Ragged.from_sets,
        (
            *(None, 3, "abc", [], [None], ["abc"], [{}], [[]], [3], [[1, [2]]], [[1, 2], [[3]]], [[0.5], INDEX]),
            *([x, META], [META], [x, np.zeros((1, 2))], [np.array([None])], [x, x[0, 0]]),
        ),
    ),
    "from_sizes values": (lambda bad: Ragged.from_sizes(bad, [3]), (*NO_TENSOR, META, x[0, 0], x[:2])),
    "from_sizes sizes": (
        lambda bad: Ragged.from_sizes(x, bad),
        (None, 3, 2.5, "abc", [1.5, 1.5], [None], [4, -1], [2], torch.tensor([1.5, 1.5]), INDEX.to("meta"), [[3]]),
    ),
    "from_padded x": (lambda bad: Ragged.from_padded(bad), (*NO_TENSOR, META, x[0, 0], x[:, 0])),
    "from_padded mask": (lambda bad: Ragged.from_padded(x, bad), (*NO_TENSOR[1:], MASK.int(), MASK.T, MASK.to("meta"))),
    "from_index x": (lambda bad: Ragged.from_index(bad, INDEX), (*NO_TENSOR, META, x[0, 0], x[:2])),
    "from_index index": (
        lambda bad: Ragged.from_index(x, bad),
        (*NO_TENSOR, INDEX.to("meta"), INDEX.double(), INDEX * 1j, INDEX > 0, INDEX[:2], INDEX[0], -INDEX, INDEX << 40),
    ),
    "from_index num_sets": (lambda bad: Ragged.from_index(x, INDEX, bad), ("abc", 2.5, -1, 1, [2], INDEX)),
    "from_index return_ids": (lambda bad: Ragged.from_index(x, INDEX, bad, return_ids=True), (2, 3)),
    "from_ptr": (lambda bad: Ragged.from_ptr(x, bad), (*NO_TENSOR, META, INDEX, INDEX.to("meta"))),
    "from_nested": (Ragged.from_nested, (*NO_TENSOR, x)),
    "fill": (THREE.to(torch.int64).to_padded, ("abc", None, 0.5, float("nan"), 1j)),
    "with_values": (THREE.with_values, (*NO_TENSOR, x[0, 0], x[:2])),
    "key": (
        lambda bad: THREE[bad],
        (None, 2.5, "abc", {}, object(), 3, -4, [0.5], [None], [True], slice("a"), INDEX.to("meta"), INDEX + 2),
    ),
    "cat": (Ragged.cat, (None, 3, "abc", [x], [THREE, None], [], [THREE, THREE.to("meta")], [THREE, sets_of([1], ())])),
}


@pytest.mark.parametrize("name", DOORS)
def test_every_door_refuses_in_its_own_words(name):
    door, wrong = DOORS[name]
    for bad in wrong:
        with pytest.raises((TypeError, ValueError, IndexError)) as raised:
            door(bad)
        message = str(raised.value)
        assert "\n" not in message and len(message) < 400, message
        own = raised.traceback[-1].path.parent.name == "sets"
        assert own and ("expects" in message or "expected" in message or "needs" in message or "slice" in message), (
            message
        )


def test_offsets_that_are_no_tensor():
    with pytest.raises(TypeError, match=r"integer tensor.*got list\. Ragged"):
        Ragged(x, [0, 3])


@pytest.mark.parametrize("key", [3, -4, [0, 3], torch.tensor([-4]), [0.5], torch.tensor([1.0])])
def test_set_numbers_out_of_range(key):
    with pytest.raises(IndexError, match="expected set numbers from -3 to 2; got"):
        sets_of([1, 2, 0])[key]


def test_flags_of_the_wrong_length():
    with pytest.raises(IndexError, match="3 sets needs one flag per set; got 2"):
        sets_of([1, 2, 0])[torch.tensor([True, False])]


@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=5), data=st.data())
def test_a_corrupted_ptr_is_refused(sizes, data):
    sets = sets_of(sizes)
    ptr = sets.offsets.clone()
    place = data.draw(st.integers(0, len(sizes)))
    wrong = data.draw(st.sampled_from([-1, int(ptr[-1]) + 1]))
    ptr[place] = wrong
    with pytest.raises(ValueError, match="Ragged expects offsets that rise from 0 to the number of elements"):
        Ragged.from_ptr(sets.values, ptr)


# As a tensor


def test_in_place_and_by_dtype():
    sets = sets_of([2, 0, 1])
    assert sets.share_memory_() is sets and sets.values.is_shared() and sets.offsets.is_shared()
    assert sets.requires_grad_() is sets and sets.values.requires_grad
    assert [each.dtype for each in (sets.float(), sets.double(), sets.half())] == [
        torch.float32,
        torch.float64,
        torch.float16,
    ]
    assert sets.shape == (3, None, *sets.values.shape[1:]) and sets.sizes == sets.half().sizes


def test_allclose():
    sets = sets_of([2, 0, 1])
    assert sets.allclose(sets.clone()) and sets.allclose(sets.float())
    assert not sets.allclose(sets.map(lambda x: x + 1e-3))
    assert not sets.allclose(sets_of([1, 1, 1])) and not sets.allclose(sets_of([2, 0, 1], (3,)))
    assert sets.allclose(sets.map(lambda x: x + 1e-3), atol=1e-2)


@given(sizes=sizes, num=st.integers(1, 4))
def test_parts_share_their_values(sizes, num):
    sets = sets_of(sizes)
    parts, chunks = sets.split(num), sets.chunk(num) if sizes else []
    assert [len(part) for part in parts] == [len(some) for some in torch.arange(len(sizes)).split(num)]
    assert not chunks or [len(x) for x in chunks] == [len(x) for x in torch.arange(len(sizes)).chunk(num)]
    storage = sets.values.untyped_storage().data_ptr()
    for part in parts:
        assert part.values.untyped_storage().data_ptr() == storage
        same(Ragged(part.values, part.offsets), part)


@pytest.mark.parametrize(
    "bad",
    [
        lambda s: s.split(0),
        lambda s: s.split([1, 1]),
        lambda s: s.split([-1, 4]),
        lambda s: s.split(1.5),
        lambda s: s.chunk(0),
        lambda s: s.map(3),
        lambda s: s.map(lambda x: x[:1]),
        lambda s: s.allclose(s.values),
        lambda s: Ragged.cat([s], dim=9),
        lambda s: Ragged.cat([s, s[:2]], dim=1),
        lambda s: Ragged.from_sets([], features=2),
    ],
)
def test_bad_arguments(bad):
    with pytest.raises((TypeError, ValueError, IndexError), match=r"expects .*got|by features"):
        bad(sets_of([2, 0, 1]))


def test_no_sets_of_known_features():
    assert Ragged.from_sets([], features=(2, 3)).shape == (0, None, 2, 3)
    assert Ragged.from_sets([[], []], features=[2]).shape == (2, None, 2)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(3, 2)[::-1],
        np.arange(6.0).reshape(3, 2)[:, ::-1],
        np.arange(2.0).reshape(1, 2)[::-1],
        np.arange(6.0).reshape(3, 2).astype(">f8"),
    ],
    ids=["backwards", "columns backwards", "one element backwards", "big-endian"],
)
def test_arrays_that_torch_does_not_read_itself(array):
    sets = Ragged.from_sets([array, np.zeros((1, 2))])
    assert sets.dtype == torch.float64
    assert np.array_equal(sets[0].numpy(), array)


@pytest.mark.parametrize(
    "key",
    [
        np.array([0, 2])[::-1],
        np.array([2, 0], dtype=">i4"),
        torch.tensor([2, 0], dtype=torch.uint8),
        np.array([2, 0], dtype=np.uint16),
        torch.tensor([-1, 0], dtype=torch.int8),
    ],
    ids=str,
)
def test_indices_of_every_integer_type(key):
    sets = Ragged.from_sizes(torch.arange(300.0), [1, 199, 100])
    assert sets[key].sizes == (100, 1)
    with pytest.raises(IndexError, match="from -3 to 2"):
        sets[torch.tensor([200], dtype=torch.uint8)]


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        (torch.uint8, -1),
        (torch.uint8, 300),
        (torch.bool, 2),
        (torch.int64, 2**70),
        (torch.int64, float("nan")),
        (torch.float16, 1e6),
        (torch.float32, 10**400),
    ],
)
def test_a_fill_that_the_dtype_does_not_hold(dtype, fill):
    with pytest.raises(ValueError, match=f"expects a fill that {dtype} holds"):
        Ragged.from_sizes(torch.zeros(3, dtype=dtype), [1, 2]).to_padded(fill)


@pytest.mark.parametrize("fill", [float("inf"), float("nan"), -1e4, True])
def test_a_fill_that_half_precision_holds(fill):
    x, mask = Ragged.from_sizes(torch.zeros(3, dtype=torch.float16), [1, 2]).to_padded(fill)
    assert torch.equal(x[~mask], torch.full((1,), fill, dtype=torch.float16)) or (fill != fill and x[~mask].isnan())
