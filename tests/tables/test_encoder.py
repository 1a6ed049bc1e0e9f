"""TableEncoder: what each kind of column becomes, by training alone; states; columns that do not match."""

import json
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from janossy.tables import Layout, TableEncoder, as_sets
from janossy.tables.encoder import columns_by_count
from janossy.tables.running_statistics import RunningStatistics

TRAIN = {
    "pt": [[1.0, 2.0], [], [6.0]],
    "kind": [["mu", "e"], [], ["mu"]],
    "isolated": [[True, False], [], [True]],
    "mass": [[None, 3.0], [], [5.0]],
    "run": [10, 10, 40],
    "site": ["x", None, "y"],
    "day": np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[s]"),
}


def encoded(data, encoder):
    result = encoder.transform(as_sets(data))
    return result.elements.values.numpy(), result.context.numpy(), result.unseen


def test_by_definition():
    encoder = TableEncoder()
    assert encoder.fit(as_sets(TRAIN)) is encoder
    for layout, like in ((encoder.element_layout, Layout((3,), 4)), (encoder.context_layout, Layout((4,), 2))):
        assert (layout.vocabularies, layout.num_numbers) == (like.vocabularies, like.num_numbers)
        assert (
            len(layout.names) == layout.num_columns and len(layout.scales) == len(layout.periods) == layout.num_numbers
        )
    assert encoder.element_names == ("kind", "pt", "isolated", "mass", "mass missing")
    assert encoder.context_names == ("site", "run", "day")
    elements, context, unseen = encoded(TRAIN, encoder)
    assert elements.dtype == context.dtype == np.float32 and not unseen

    def standard(x, of=None):
        of = np.array(x if of is None else of, float)
        return (np.array(x, float) - of.mean()) / of.std()

    expected = [[2, 1, 2], standard([1, 2, 6]), standard([1, 0, 1]), standard([4, 3, 5], of=[3, 5]), [1, 0, 0]]
    np.testing.assert_allclose(elements, np.array(expected).T, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(context, np.array([[1, 3, 2], standard([10, 10, 40]), standard([0, 1, 2])]).T, rtol=1e-6)


@pytest.mark.parametrize(
    ("angle", "period"),
    [
        (lambda u: np.pi * (2 * u - 1), 2 * np.pi),
        (lambda u: (2 * np.pi * u).astype(np.float32), 2 * np.pi),
        (lambda u: np.floor(360 * u), 360),
        (lambda u: 360 * u - 180, 360),
        (lambda u: 2 * u - 1, 0),  # within a turn, and not around it
        (lambda u: 300 * u, 0),
        (lambda u: 400 * u, 0),
        (lambda u: 2 * np.pi * np.where(u < 0.9, u / 2, u), 0),  # an empty side
    ],
)
def test_angles_are_told_by_their_turn(angle, period):
    values = angle(np.random.default_rng(0).random(2000))
    layout = TableEncoder().fit(as_sets([values[:, None]])).element_layout
    assert layout.periods == (pytest.approx(period),)
    assert TableEncoder().fit(as_sets([values[:50, None]])).element_layout.periods == (0,)  # too few to tell


def test_what_training_had_not():
    encoder = TableEncoder().fit(as_sets(TRAIN))
    data = TRAIN | {"kind": [["tau", "e"], [], [None]], "pt": [[None, 2.0], [], [6.0]], "site": ["z", "x", None]}
    with pytest.warns(UserWarning) as told:
        elements, context, unseen = encoded(data, encoder)
    assert [str(warning.message).split(":")[0] for warning in told] == [
        "values that are new since training in column 'kind' (2) and column 'site' (1)"
    ]
    assert unseen == {"kind": 2, "site": 1}
    assert elements[:, 0].tolist() == [0, 1, 0] and context[:, 0].tolist() == [0, 1, 3]
    assert elements[0, 1] == 0 and elements.shape == (3, 5)  # missing, and no indicator: training missed none
    with warnings.catch_warnings(action="error"):  # told once
        assert encoded(data, encoder)[2] == {"kind": 2, "site": 1}


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({"a": 1}, "column 'a' (1)"),
        ({"a": 1, "b": 1000}, "column 'b' (1,000) and column 'a' (1)"),
        ({"a": 1, "b": 3, "c": 2}, "column 'b' (3), column 'c' (2) and column 'a' (1)"),
        ({"a": 1, "b": 4, "c": 3, "d": 2}, "column 'b' (4), column 'c' (3), column 'd' (2) and another column"),
        (dict.fromkeys(range(9), 1), "column 0 (1), column 1 (1), column 2 (1) and 6 other columns"),
    ],
)
def test_columns_are_named_by_count(counts, text):
    assert columns_by_count(counts) == text


def test_categories_of_other_sets_are_not_learnt():
    sets = as_sets(TRAIN)
    encoder = TableEncoder().fit(sets[:2])
    assert encoder.state()["elements"][1]["categories"] == ["e", "mu"]
    assert TableEncoder().fit(sets[2:]).element_layout.vocabularies == (2,)


numbers = st.floats(-1e300, 1e300) | st.sampled_from([0.0, 1e-300, 5e-324, 1e15 + 0.5])


@given(x=st.lists(numbers | st.none(), min_size=1, max_size=8), standardize=st.booleans())
def test_numbers_are_standardised_whatever_their_range(x, standardize):
    table = as_sets({"x": [[*x, 1.0]]}, numeric="x")
    there = np.array([v for v in [*x, 1.0] if v is not None])
    encoder = TableEncoder(standardize).fit(table)
    if not standardize and np.abs(there).max() > np.finfo(np.float32).max:
        with pytest.raises(ValueError, match="column 'x' expects finite numbers that fit float32"):
            encoder.transform(table)
        return
    found = encoder.transform(table).elements.values[:, 0].double().numpy()
    assert np.isfinite(found).all()
    missing = np.array([v is None for v in [*x, 1.0]])
    assert encoder.element_layout.num_numbers == 1 + missing.any()
    if standardize:
        assert (found[missing] == 0).all()
        if found.any():
            assert abs(found[~missing].mean()) < 1e-5 and abs(found[~missing].std() - 1) < 1e-5
        else:
            assert np.ptp(there) <= 1e-14 * np.abs(there).max()
    else:
        np.testing.assert_array_equal(found[~missing], there.astype(np.float32))


@given(offset=st.sampled_from([0.0, 1.0, 1e9, -1e12]), scale=st.sampled_from([1e-2, 1.0, 1e6]), seed=st.integers(0, 99))
def test_a_large_mean_does_not_swallow_the_spread(offset, scale, seed):
    x = np.random.default_rng(seed).normal(offset, scale, 500)
    found = TableEncoder().fit_transform(as_sets([x])).elements.values[:, 0].double().numpy()
    exact = np.array(x, np.longdouble)
    rounding = np.spacing(abs(offset)) / scale  # of the mean
    np.testing.assert_allclose(found, (exact - exact.mean()) / exact.std(), atol=1e-6 + rounding, rtol=1e-6)


@pytest.mark.parametrize("x", [[0.1] * 7, [0.1 + 0.2, 0.3, 0.3], [1e300] * 3, [None, 3.0], [None, None], [True, True]])
def test_a_constant_column_stays_zero(x):
    encoder = TableEncoder().fit(as_sets({"x": [x], "y": [[1.0] * len(x)]}))
    other = encoder.transform(as_sets({"x": [[0.0, 1.0]], "y": [[5.0, -5.0]]}))
    assert not other.elements.values.any()


@given(data=st.data())
def test_a_set_is_encoded_alike_whatever_its_batch(data):
    encoder = TableEncoder().fit(as_sets(TRAIN))
    chosen = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=5))
    whole, part = encoder.transform(as_sets(TRAIN)), encoder.transform(as_sets(TRAIN)[chosen])
    assert torch.equal(part.elements.values, whole.elements[chosen].values) and len(part) == len(chosen)
    assert part.elements.sizes == whole.elements[chosen].sizes
    assert torch.equal(part.context, whole.context[chosen])


def test_columns_match_by_name_in_any_order():
    encoder = TableEncoder().fit(as_sets(TRAIN))
    turned = dict(reversed(TRAIN.items()))
    for one, other in zip(encoded(TRAIN, encoder), encoded(turned, encoder), strict=True):
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


def test_kinds_match_where_values_allow():
    encoder = TableEncoder().fit(as_sets(TRAIN))
    alike = TRAIN | {
        "isolated": [[1, 0], [], [1.0]],
        "run": ["10", "10", "40"],
        "mass": [[None, None], [], [None]],
        "site": [None] * 3,
        "day": [None] * 3,
    }
    elements, context, unseen = encoded(alike, encoder)
    whole = encoded(TRAIN, encoder)
    assert np.array_equal(elements[:, :3], whole[0][:, :3]) and np.array_equal(context[:, 1], whole[1][:, 1])
    assert not elements[:, 3].any() and elements[:, 4].all() and not context[:, 2].any()
    assert (context[:, 0] == 3).all() and not unseen


def test_numbers_as_categories_match_across_dtypes():
    encoder = TableEncoder().fit(as_sets({"x": [[1, 2, 5]]}, categorical="x"))
    for x, expected in (([1, 5, 7], [1, 3, 0]), ([1.0, 5.0, 7.5], [1, 3, 0]), ([True, False], [1, 0])):
        with warnings.catch_warnings(action="ignore"):
            codes = encoder.transform(as_sets({"x": [x]})).elements.values[:, 0].tolist()
        assert codes == expected


MISFITS = {
    "missing": ({"pt": None}, r"lack these columns: pt; and have these besides: none[.]"),
    "more": ({"eta": [[1.0, 2.0], [], [6.0]]}, "lack these columns: none; and have these besides: eta[.]"),
    "many more": (
        {f"n{i:02}": [1, 2, 3] for i in range(30)},
        "besides: n00, n01, n02, n03, n04, n05, n06, n07, ….*Name or",
    ),
    "of the sets": ({"pt": [1.0, 2.0, 6.0]}, "lack these columns: pt; and.*besides: none"),
    "text": (
        {"pt": [["1", "x"], [], ["2"]]},
        "'pt' is numeric, and expects numbers; got the text 'x' in element 1 of set 0",
    ),
    "numbers for words": (
        {"kind": [[1, 2], [], [3]]},
        "'kind' expects categories that are text, as in training; got numbers",
    ),
    "numbers for days": ({"day": [1, 2, 3]}, "column 'day' expects values of kind date; got numeric"),
    "numbers for flags": ({"isolated": [[1, 0], [], [2]]}, "'isolated' is boolean.*got 2 in element 0 of set 2"),
    "words for flags": ({"isolated": [["a", "b"], [], ["c"]]}, "expects values of kind boolean; got categorical"),
    "infinity": ({"pt": [[1.0, 2.0], [], [np.inf]]}, "'pt' expects finite numbers.*in element 0 of set 2"),
    "infinity of a set": ({"run": [1.0, -np.inf, 0.0]}, "'run' expects finite numbers.*in set 1"),
    "too large": ({"pt": [[1.0, 1e300], [], [0.0]]}, "'pt' expects finite.*too large, in element 1 of set 0"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_misfits(name):
    change, message = MISFITS[name]
    encoder = TableEncoder().fit(as_sets(TRAIN))
    data = {key: value for key, value in (TRAIN | change).items() if value is not None}
    with pytest.raises(ValueError, match=message):
        encoder.transform(as_sets(data))


def test_fit_refuses():
    with pytest.raises(ValueError, match=r"column 'x' expects finite numbers.*in element 1 of set b"):
        TableEncoder().fit(as_sets({"id": ["a", "b"], "x": [[1.0], [2.0, np.inf]]}, set_id="id"))
    with pytest.raises(ValueError, match=r"fit\(sets\) before transform"):
        TableEncoder().transform(as_sets([[1.0]]))


# States

texts = st.text(max_size=4)


@given(
    x=st.lists(st.floats(-1e30, 1e30) | st.none(), min_size=1, max_size=5),
    words=st.lists(texts, min_size=1, max_size=5),
    codes=st.lists(st.integers(-(2**62), 2**62), min_size=2, max_size=2)
    | st.lists(st.floats(-9, 9), min_size=2, max_size=2),
    standardize=st.booleans(),
)
def test_a_state_keeps_every_bit(x, words, codes, standardize):
    words = (words * 5)[: len(x)]
    sets = as_sets(
        {"x": [x, []], "word": [words, []], "code": codes, "n": [0.1, 1e-30]}, numeric="x", categorical="code"
    )
    encoder = TableEncoder(standardize).fit(sets)
    text = json.dumps(encoder.state(), allow_nan=False)
    again = TableEncoder.from_state(json.loads(text))
    assert json.dumps(again.state()) == text
    assert again.element_layout == encoder.element_layout and again.context_names == encoder.context_names
    expected, found = encoder.transform(sets), again.transform(sets)
    assert torch.equal(found.elements.values, expected.elements.values) and torch.equal(found.context, expected.context)


def changed(place: tuple, value) -> object:
    """Returns a state of TRAIN in which one thing is another."""
    state = json.loads(json.dumps(TableEncoder().fit(as_sets(TRAIN)).state()))
    if not place:
        return value
    inner = state
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return state


NUMBER, WORDS = ("elements", 0), ("elements", 1)
HOSTILE = {
    "no state": ((), [], "expects what state"),
    "another format": (("format",), "pickle", "expects what state"),
    "a later version": (("version",), 2, r"version 1 is expected; got version 2. Load it with the version"),
    "a long version": (("version",), "9" * 10**6, r"version: Expected `int`, got `str`"),
    "standardize": (("standardize",), 1, "standardize: Expected `bool`, got `int`"),
    "columns as dict": (("elements",), {}, "elements: Expected `array`, got `object`"),
    "no context": (("context",), None, "context: Expected `array`, got `null`"),
    "no columns": (("elements",), [], "columns of the elements"),
    "a column as text": (NUMBER, "pt", r"elements\[0\]: Expected `object`, got `str`"),
    "another kind": ((*NUMBER, "kind"), "__import__", r"elements\[0\]: kind: Invalid enum value '__import__'"),
    "a kind as list": ((*NUMBER, "kind"), ["numeric"], r"elements\[0\]: kind: Expected `str`, got `array`"),
    "another's fields": ((*NUMBER, "kind"), "categorical", r"elements\[0\]: Object contains unknown field `mean`"),
    "a field more": ((*NUMBER, "path"), "../..", r"elements\[0\]: Object contains unknown field `path`"),
    "a name as number": ((*NUMBER, "name"), 3, r"elements\[0\]: name: Expected `str`, got `int`"),
    "a name twice": ((*NUMBER, "name"), "run", "all of different names"),
    "missing as text": ((*NUMBER, "missing"), "no", r"elements\[0\]: missing: Expected `bool`, got `str`"),
    "mean as text": ((*NUMBER, "mean"), "0", r"elements\[0\]: mean: Expected `float`, got `str`"),
    "mean as flag": ((*NUMBER, "mean"), True, r"elements\[0\]: mean: Expected `float`, got `bool`"),
    "mean NaN": ((*NUMBER, "mean"), float("nan"), r"elements\[0\]: mean: finite numbers are expected; got nan"),
    "a scale below 0": ((*NUMBER, "scale"), -1.0, r"elements\[0\]: scale: Expected `float` >= 0"),
    "a huge scale": ((*NUMBER, "scale"), 10**400, r"elements\[0\]: scale: Number out of range"),
    "categories as text": ((*WORDS, "categories"), "mu", r"elements\[1\]: categories: Expected `array`, got `str`"),
    "categories of lists": ((*WORDS, "categories"), [["mu"]], r"categories\[0\]: Expected .*, got `array`"),
    "categories of None": ((*WORDS, "categories"), [None], r"categories\[0\]: Expected .*, got `null`"),
    "categories NaN": ((*WORDS, "categories"), [float("nan")], "categories: finite numbers are expected; got nan"),
    "equal categories": ((*WORDS, "categories"), [1, 1.0], "all different"),
    "too many categories": (
        (*WORDS, "categories"),
        [0] * (2**24 - 1),
        "all different, at most 16,777,214",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_states(name):
    place, value, message = HOSTILE[name]
    with pytest.raises(ValueError, match=message) as raised:
        TableEncoder.from_state(changed(place, value))
    assert len(str(raised.value)) < 400


def test_a_category_that_no_saved_model_holds_is_refused():
    """A model that is saved must load: at the limit it does, and beyond it the fit says so."""
    for length in (2**20, 2**20 + 1):
        sets = as_sets([["a", "b" * length], ["a"]])
        if length <= 2**20:
            state = TableEncoder().fit(sets).state()
            assert TableEncoder.from_state(state).state() == state
        else:
            with pytest.raises(ValueError, match=r"at most 1,048,576 characters.*got one of 1,048,577"):
                TableEncoder().fit(sets)


def test_a_value_is_far_beyond_the_width_of_the_range():
    """Against the definition, for elements and sets, with missing values, booleans and dates."""
    days = np.array(["2024-01-01", "2024-01-03"], "datetime64[s]")
    training = as_sets({"x": [[0.0, 4.0], [1.0]], "day": days, "c": [7.0, 7.0]})
    encoder = TableEncoder().fit(training)
    days = np.array(["2024-01-05", "2024-01-06"], "datetime64[s]")
    found = encoder.far_values(as_sets({"x": [[-4.0, -4.1, np.nan], [8.0, 8.1]], "day": days, "c": [7.0, 99.0]}))
    assert {name: far.tolist() for name, far in found.items()} == {
        "x": [False, True, False, False, True],
        "day": [False, True],
    }
    state = encoder.state()
    for code in (*state["elements"], *state["context"]):
        del code["low"], code["high"]  # as earlier versions wrote it
    assert TableEncoder.from_state(state).far_values(as_sets({"x": [[1e9]], "day": days[:1], "c": [7.0]})) == {}


def test_limits_are_the_range_of_training_a_tenth_wider():
    """Streams have the same. Constants, angles, missing values and unknown ranges have none."""
    source = np.random.default_rng(0)
    columns = {"x": source.normal(size=400), "same": np.ones(400), "angle": source.uniform(0, 360, 400)}
    columns["x"][:9] = np.nan
    sets = as_sets(columns | {"set": np.arange(400) // 4}, set_id="set")
    running = RunningStatistics()
    running.add(sets, np.zeros(len(sets)), False, "set {}".format)
    for encoder in (TableEncoder().fit(sets), running.encoder()):
        layout = encoder.element_layout
        ((j, low, high),) = layout.limits
        x = columns["x"][9:]
        assert layout.names[j] == "x"
        expected = [(x.min() - 0.1 * np.ptp(x) - x.mean()) / x.std(), (x.max() + 0.1 * np.ptp(x) - x.mean()) / x.std()]
        np.testing.assert_allclose([low, high], expected)
    assert Layout(num_numbers=2).limits == []


def test_amounts_are_numbers_that_span_orders_of_magnitude():
    """Shares and prices; no small counts, angles, or numbers of both signs. Pieces together find the same."""
    source = np.random.default_rng(0)
    columns = {
        "share": 10 ** source.uniform(-4, 0, 300),
        "price": np.where(source.random(300) < 0.5, 0.0, source.lognormal(3, 2, 300)),
        "count": source.integers(1, 9, 300).astype(float),
        "angle": source.uniform(0, 360, 300),
        "change": source.normal(size=300),
        "nothing": np.zeros(300),
    }
    table = as_sets(columns | {"set": np.arange(300) // 3}, set_id="set")
    encoder = TableEncoder().fit(table)
    found = encoder.element_layout.amounts
    assert [encoder.element_names[j] for j, *_ in found] == ["share", "price"]
    assert [unit for *_, unit in found] == [columns["share"].min(), columns["price"][columns["price"] > 0].min()]
    assert TableEncoder.from_state(encoder.state()).element_layout == encoder.element_layout
    running = RunningStatistics()
    for some in (slice(0, 30), slice(30, 100)):
        running.add(table[some], np.zeros(len(table[some])), False, "set {}".format)
    assert running.encoder().element_layout.smallest == encoder.element_layout.smallest


def test_a_few_whole_numbers_may_be_codes():
    source = np.random.default_rng(0)
    columns = {
        "suit": source.integers(1, 5, 600),
        "year": source.integers(0, 500, 600),
        "half": source.integers(0, 9, 600) / 2,
        "flag": source.integers(0, 2, 600),
        "rank": np.where(source.random(600) < 0.1, np.nan, source.integers(2, 15, 600)),
        "rare": np.where(np.arange(600) < 599, 1.0, 0.5),
    }
    table = as_sets(columns | {"set": np.arange(600) // 5}, set_id="set")
    encoder = TableEncoder().fit(table)
    layout = encoder.element_layout
    assert [encoder.element_names[j] for j, _ in layout.coded] == ["suit", "rank"]
    numbers = encoder.transform(table).elements.values
    for j, values in layout.coded:
        there = numbers[~np.isnan(columns[encoder.element_names[j]]), j]
        assert values == pytest.approx(there.unique().tolist(), abs=1e-6)
    assert TableEncoder.from_state(json.loads(json.dumps(encoder.state()))).element_layout == layout
    with pytest.raises(ValueError, match="values: ascending numbers"):
        state = encoder.state()
        state["elements"][0]["values"] = [2.0, 1.0]
        TableEncoder.from_state(state)
    running = RunningStatistics()
    running.add(table, np.zeros(len(table)), False, "set {}".format)
    assert running.encoder().element_layout.coded == []


def test_skewed_numbers_are_known_by_their_quantiles():
    """Not normal or uniform ones, angles or constants; and not of pieces, whose quantiles do not add up."""
    source = np.random.default_rng(0)
    columns = {
        "log-normal": source.lognormal(0, 1, 5_000),
        "rare": np.where(source.random(5_000) < 0.8, source.random(5_000), 100 * source.random(5_000)),
        "normal": source.normal(size=5_000),
        "uniform": source.uniform(-1, 1, 5_000),
        "angle": source.uniform(0, 360, 5_000),
        "constant": np.ones(5_000),
        "missing": np.where(source.random(5_000) < 0.1, np.nan, source.normal(size=5_000)),
    }
    table = as_sets(columns | {"set": np.arange(5_000) // 5}, set_id="set")
    encoder = TableEncoder().fit(table)
    layout = encoder.element_layout
    assert [encoder.element_names[j] for j, _ in layout.skewed] == ["log-normal", "rare"]
    numbers = encoder.transform(table).elements.values.numpy()
    for j, knots in layout.skewed:
        assert knots == pytest.approx(np.quantile(numbers[:, j], np.linspace(0, 1, 17)), abs=1e-5)
    assert TableEncoder.from_state(encoder.state()).element_layout == layout
    with pytest.raises(ValueError, match="quantiles: 17 ascending numbers"):
        state = encoder.state()
        state["elements"][0]["quantiles"] = [2.0, 1.0]
        TableEncoder.from_state(state)
    running = RunningStatistics()
    running.add(table, np.zeros(len(table)), False, "set {}".format)
    assert running.encoder().element_layout.skewed == []
