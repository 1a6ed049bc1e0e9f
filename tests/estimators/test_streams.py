"""Sets in Parquet files: pieces hold sets whole, passes every set once; fits go on after they were stopped."""

from math import ceil

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from janossy.estimators import SetClassifier, SetRegressor
from janossy.estimators import checkpoint as checkpoints
from janossy.estimators.batches import num_batches
from janossy.estimators.processes import Processes
from janossy.estimators.strategies import build_network
from janossy.estimators.streams import order as orders
from janossy.estimators.streams.fitting import validation_numbers
from janossy.estimators.streams.order import Order
from janossy.estimators.streams.scan import scan
from janossy.estimators.training import Training
from janossy.tables import TableEncoder, as_sets
from janossy.tables.files import open_files
from janossy.tables.stream import SetStream


def grouped(num: int = 60, seed: int = 0, empty: bool = True) -> pa.Table:
    """Returns sets of 0 to 5 numbers, angles and words. y is their sum, and large if positive."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0 if empty else 1, 6, num)
    x = [rng.normal(3.0, 2.0, n).astype(np.float32) for n in sizes]
    columns = {"id": np.arange(num) * 2, "x": x, "turn": [rng.uniform(-np.pi, np.pi, n) for n in sizes]}
    columns |= {"word": [rng.choice(["a", "b", "c", None], n).tolist() for n in sizes]}
    columns |= {"of_set": rng.integers(0, 3, num), "y": np.array([each.sum() for each in x])}
    columns["large"] = np.where(columns["y"] > 7, "yes", "no")
    return pa.table({name: list(v) if name in ("x", "turn") else v for name, v in columns.items()})


def long(table: pa.Table) -> pa.Table:
    """Returns the same, one row per element."""
    rows = [
        {**row, "x": x, "turn": turn, "word": word}
        for row in table.to_pylist()
        for x, turn, word in zip(row["x"], row["turn"], row["word"], strict=True)
    ]
    return pa.Table.from_pylist(rows)


def of_stream(stream: SetStream) -> tuple[list, list, list]:
    """Returns ids, x and y of all sets, piece by piece."""
    parts = [stream.read(i, ids=True) for i in range(len(stream.pieces))]
    ids = [name for part in parts for name in part.sets.ids.tolist()]
    x = [one.elements["x"].values.tolist() for part in parts for one in part.sets]
    return ids, x, [y for part in parts for y in part.targets.tolist()]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_pieces_hold_every_set_whole(tmp_path_factory, num, rows_a_group, num_files, of_lists, seed):
    """Against the table in memory, with row groups that cut sets in several parts."""
    folder = tmp_path_factory.mktemp("sets")
    table = grouped(num, seed, empty=of_lists)
    step = ceil(num / num_files)
    for number, begin in enumerate(range(0, num, step)):
        some = table.slice(begin, step)
        parquet.write_table(some if of_lists else long(some), folder / f"{number}.parquet", row_group_size=rows_a_group)
    stream = SetStream(folder, "y", set_id="id", set_columns="of_set", drop=["large"])
    ids, x, y = of_stream(stream)
    assert len(stream) == num and ids == table["id"].to_pylist() and y == table["y"].to_pylist()
    assert x == table["x"].to_pylist()
    assert sum(piece.num_elements for piece in stream.pieces) >= sum(map(len, x))


def test_a_scan_learns_what_memory_would(tmp_path):
    table = grouped(200)
    parquet.write_table(table, tmp_path / "sets.parquet", row_group_size=17)
    stream = SetStream(tmp_path / "sets.parquet", "y", set_id="id", categorical=["of_set"], drop=["large"])
    found = scan(stream, False, np.array([3, 40]), np.array([41, 199]), Processes())
    kept = table.take([i for i in range(200) if i not in (3, 40)]).drop(["id", "large"])
    sets, y = as_sets(kept, "y", categorical=["of_set"])
    expected = TableEncoder().fit(sets).state()
    for side in ("elements", "context"):
        for mine, theirs in zip(found.encoder[side], expected[side], strict=True):
            theirs = theirs | ({"quantiles": ()} if "quantiles" in theirs else {})  # those of pieces do not add up
            assert mine == {k: pytest.approx(v, rel=1e-12) if isinstance(v, float) else v for k, v in theirs.items()}
    assert [code["period"] for code in found.encoder["elements"] if code["name"] == "turn"] == [2 * np.pi]
    assert found.means == pytest.approx([y.mean()]) and found.scales == pytest.approx([y.std()])
    assert (found.num_sets, found.num_elements) == (198, sets.num_elements)
    assert found.validation_sets["y"].to_pylist() == table["y"].take([3, 40]).to_pylist()
    assert found.sample["y"].to_pylist() == table["y"].take([41, 199]).to_pylist()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(any),
    st.integers(1, 16),
    st.integers(1, 4),
    st.integers(1, 60),
)
def test_a_pass_takes_every_set_once_and_all_processes_as_many_steps(sizes, batch_size, num_processes, buffer):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orders, "BUFFER_SETS", buffer)
        order = Order(sizes, sizes, batch_size, num_processes, seed=3)
        per_rank = [order.windows(0, rank) for rank in range(num_processes)]
        read = sorted(i for windows in per_rank for window in windows for i in window.pieces)
        assert read == [i for i, size in enumerate(sizes) if size]
        for windows in per_rank:
            for window in windows:
                assert sum(window.batches) == sum(sizes[i] for i in window.pieces) and min(window.batches) > 0
        steps = max(sum(len(window.batches) for window in windows) for windows in per_rank)
        shared = num_batches(sum(sizes), batch_size)  # an epoch is a pass, also where all but one wait
        assert order.steps_an_epoch() == (shared if num_processes == 1 else max(shared, steps))
        places = [order.places(rank, 0) for rank in range(num_processes)]
        first = [[next(each) for each in places] for _ in range(steps)]
        assert sum(step[0].num_sets for step in first) == sum(sizes)
        assert all(place.number == 0 and place.num_sets == step[0].num_sets for step in first for place in step)
        assert {place.number for place in (next(each) for each in places)} == {1}
        later = [next(order.places(0, begin)) for begin in range(steps)]
        assert later == [step[0] for step in first]


def test_windows_change_with_passes_and_seeds():
    sizes = [10] * 20
    one, other = Order(sizes, sizes, 5, 2, seed=0), Order(sizes, sizes, 5, 2, seed=1)
    assert one.windows(0, 0) == one.windows(0, 0) != one.windows(1, 0) != other.windows(1, 0)
    assert not torch.equal(one.shuffled(0, 0, 0, 100), one.shuffled(0, 0, 1, 100))


def test_a_fit_to_files_is_as_good_as_one_in_memory(tmp_path):
    table, new = grouped(700), grouped(200, seed=1)
    parquet.write_table(table, tmp_path / "sets.parquet", row_group_size=100)
    parquet.write_table(new, tmp_path / "new.parquet", row_group_size=37)
    options = {"max_epochs": 12, "random_state": 0, "batch_size": 64, "time_budget": None}
    settings_ = {"set_id": "id", "categorical": ["of_set"]}
    for kind, target, least in ((SetRegressor, "y", 0.9), (SetClassifier, "large", 0.9)):
        other = "large" if target == "y" else "y"
        stream = SetStream(tmp_path / "sets.parquet", target, drop=[other], **settings_)
        model = kind("sum", **options).fit(stream)
        in_memory = as_sets(new.drop(["y", "large"]), **settings_)
        assert model.score(in_memory, np.array(new[target].to_pylist())) > least
        of_file = model.predict(SetStream(tmp_path / "new.parquet", target, drop=[other], **settings_))
        if kind is SetClassifier:
            assert np.array_equal(model.predict(in_memory), of_file)
        else:  # other batches, other rounding
            assert np.allclose(model.predict(in_memory), of_file, rtol=1e-4, atol=1e-4)
        assert len(model.validation_sets_.sets) == 70 and model.trials_[-1].weight == 1.0
        known = model.set_params(categorical=["of_set"]).predict(tmp_path / "new.parquet")
        assert np.array_equal(known, of_file)


@pytest.mark.parametrize("strategy", ["gru", {"strategy": "k2", "dropout": 0.2, "width": 8}], ids=["gru", "k2"])
def test_a_fit_that_was_stopped_anywhere_goes_on_to_the_same_result(tmp_path, strategy):
    """To the last bit, with dropout and permutations that are drawn, whether or not it is stopped within an epoch."""
    parquet.write_table(grouped(150).drop(["id", "large"]), tmp_path / "sets.parquet", row_group_size=40)
    options = {"max_epochs": 3, "batch_size": 16, "random_state": 0, "time_budget": None}
    expected = SetRegressor(strategy, **options).fit(tmp_path / "sets.parquet", "y")
    model = SetRegressor(strategy, checkpoint=tmp_path / "checkpoint", **options)
    steps, step = [], Training.step

    def stopped(self, *arguments):
        steps.append(self.state.step)
        if len(steps) in (1, 5, 6, 14):
            raise OSError("no space left")
        return step(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "SECONDS", 0.0)
        patch.setattr(Training, "step", stopped)
        for _ in range(4):
            with pytest.raises(OSError, match="no space"):
                model.fit(tmp_path / "sets.parquet", "y")
        model.fit(tmp_path / "sets.parquet", "y")
    sets = tmp_path / "sets.parquet"
    assert np.array_equal(model.predict(sets), expected.predict(sets))
    histories = [[{**row, "dur": 0} for row in each.trials_[-1].history[0]] for each in (model, expected)]
    assert (
        histories[0] == histories[1]
        and steps[-1] == max(steps) == len(set(steps)) - 1
        and len(steps) == len(set(steps)) + 4
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "step", None)  # what is finished is not done again
        assert np.array_equal(model.fit(sets, "y").predict(sets), expected.predict(sets))


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    write(tmp_path / "a.parquet", {"x": [[1.0], [2.0]] * 8, "y": [1.0, 2.0] * 8})
    options = {"checkpoint": tmp_path / "checkpoint", "max_epochs": 1, "random_state": 0}
    SetRegressor("k1", **options).fit(tmp_path / "a.parquet", "y")
    with pytest.raises(ValueError, match=r"of another fit: strategy is .'k1'. there, and .'k2'. here"):
        SetRegressor("k2", **options).fit(tmp_path / "a.parquet", "y")
    write(tmp_path / "a.parquet", {"x": [[1.0], [2.0]] * 9, "y": [1.0, 2.0] * 9})
    with pytest.raises(ValueError, match="of another fit: stream is"):
        SetRegressor("k1", **options).fit(tmp_path / "a.parquet", "y")
    (tmp_path / "checkpoint/prepared.pt").write_bytes(b"")
    with pytest.raises(ValueError, match=r"prepared.pt is not a checkpoint of janossy"):
        SetRegressor("k1", **options).fit(tmp_path / "a.parquet", "y")
    (tmp_path / "checkpoint/prepared.pt").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"prepared.pt is not a checkpoint of janossy"):
        SetRegressor("k1", **options).fit(tmp_path / "a.parquet", "y")


@pytest.mark.parametrize("strategy", ["gru", ["k1", "max"]], ids=str)
def test_a_fit_in_memory_goes_on_to_the_same_result(tmp_path, strategy):
    """Stopped in several networks of a search and of folds. What is finished is not done again."""
    rng = np.random.default_rng(0)
    sets = {"x": [rng.normal(size=n) for n in rng.integers(1, 6, 60)]}
    y = np.array([x.sum() for x in sets["x"]])
    options = {"max_epochs": 3, "batch_size": 8, "random_state": 0, "time_budget": None, "validation": 3}
    expected = SetRegressor(strategy, **options).fit(sets, y)
    model = SetRegressor(strategy, checkpoint=tmp_path / "checkpoint", **options)
    steps, step = [], Training.step

    def stopped(self, *arguments):
        steps.append((self.stage, self.state.step))
        if len(steps) in (1, 7, 8, 30, 40):
            raise OSError("no space left")
        return step(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "SECONDS", 0.0)
        patch.setattr(Training, "step", stopped)
        for _ in range(5):
            with pytest.raises(OSError, match="no space"):
                model.fit(sets, y)
        model.fit(sets, y)
    assert np.array_equal(model.predict(sets), expected.predict(sets))
    assert len(steps) == len(set(steps)) + 5  # none but those that were stopped was begun twice
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "step", None)
        assert np.array_equal(model.fit(sets, y).predict(sets), expected.predict(sets))
    with pytest.raises(ValueError, match="checkpoint of another fit: sets is"):
        model.fit(sets, y[::-1].copy())


def test_a_network_is_chosen_by_a_sample(tmp_path):
    parquet.write_table(grouped(400).drop(["id", "large"]), tmp_path / "sets.parquet", row_group_size=64)
    model = SetRegressor(["max", "sum"], max_epochs=4, random_state=0).fit(tmp_path / "sets.parquet", "y")
    tried = model.trials_[:2]
    best = min(tried, key=lambda trial: trial.loss).strategy
    assert [trial.strategy for trial in model.trials_] == ["max", "sum", best]
    assert [trial.weight for trial in model.trials_] == [0, 0, 1] and len(model.ensemble_.networks) == 1


def test_the_loss_of_a_streamed_fit_is_that_of_its_best_epoch(tmp_path):
    """By class probabilities as the network gives them."""
    parquet.write_table(grouped(200).drop(["id", "y"]), tmp_path / "sets.parquet", row_group_size=64)
    (trial,) = SetClassifier("max", max_epochs=3, random_state=0).fit(tmp_path / "sets.parquet", "large").trials_
    assert trial.loss == pytest.approx(min(row["valid_loss"] for row in trial.history[0]), rel=1e-5)


@pytest.mark.parametrize("of_lists", [True, False], ids=["lists", "elements"])
def test_as_many_sets_as_targets_are_no_targets(tmp_path, of_lists):
    """A list of as many words as a table has rows is data for as_sets, and never for a stream."""
    table = pa.table({"id": [1, 2], "x": [[1.0], [2.0]], "a": ["u", "v"], "b": ["w", "u"]})
    parquet.write_table(
        table if of_lists else table.set_column(1, "x", table["x"].combine_chunks().flatten()), tmp_path / "t.parquet"
    )
    part = SetStream(tmp_path / "t.parquet", ["b", "a"], set_id="id").read(0)
    assert part.targets.tolist() == [["w", "u"], ["u", "v"]] and [*part.sets.elements, *part.sets.context] == ["x"]
    one = SetStream(tmp_path / "t.parquet", ["b"], set_id="id", drop=["a"]).read(0)
    assert one.targets.tolist() == [["w"], ["u"]] and [*one.sets.elements, *one.sets.context] == ["x"]
    with pytest.raises(ValueError, match="expects the name of a column; got 'id'"):
        SetStream(tmp_path / "t.parquet", ["id", "a"], set_id="id").read(0)


def test_a_fit_of_several_targets_with_two_validation_sets(tmp_path):
    table = grouped(20).drop(["id", "large"])
    parquet.write_table(table.append_column("z", table["y"]), tmp_path / "t.parquet", row_group_size=7)
    model = SetRegressor("k1", max_epochs=1, random_state=0).fit(tmp_path / "t.parquet", ["y", "z"])
    assert model.validation_sets_.targets.shape == (2, 2) and model.predict(tmp_path / "t.parquet").shape == (20, 2)


def test_several_files_predict_with_columns_that_a_fit_did_not_know(tmp_path):
    parquet.write_table(grouped(40).drop(["id", "large"]), tmp_path / "a.parquet")
    parquet.write_table(grouped(30, seed=1).drop(["id", "large"]), tmp_path / "b.parquet")
    files = [tmp_path / "a.parquet", str(tmp_path / "b.parquet")]
    model = SetRegressor("k1", max_epochs=1, random_state=0).fit(files, "y")
    one_by_one = np.concatenate([model.predict(file) for file in files])
    assert np.array_equal(model.predict(files), one_by_one) and len(one_by_one) == 70
    assert np.array_equal(model.predict(tuple(files)), one_by_one)
    with pytest.raises(FileNotFoundError, match="A list of text names files; sets of words are lists"):
        model.predict(["a", "b"])


def test_a_sample_is_of_all_files():
    validation, sample = validation_numbers(2_000, 0.4, 200, seed=0)
    assert len(sample) == 200 == len(np.unique(sample)) and (np.diff(sample) > 0).all()
    assert not np.isin(sample, validation).any()
    assert sample[0] < 100 and sample[-1] >= 1_900 and 70 <= (sample < 1_000).sum() <= 130


def pooled_by(reduce):
    """Returns a strategy that is a function. All of them have one name."""

    def build(element_layout, context_layout, num_outputs):
        return build_network(reduce, element_layout, context_layout, num_outputs, width=8)

    return build


@pytest.mark.parametrize("strategies", [("max", "sum"), ("sum", "max")], ids=" ".join)
def test_the_function_that_is_preferred_is_the_one_that_is_trained(tmp_path, strategies):
    parquet.write_table(grouped(400).drop(["id", "large"]), tmp_path / "sets.parquet", row_group_size=64)
    options = {"max_epochs": 4, "random_state": 0, "checkpoint": tmp_path / "checkpoint"}
    model = SetRegressor([pooled_by(each) for each in strategies], **options).fit(tmp_path / "sets.parquet", "y")
    preferred = min(model.trials_[:2], key=lambda trial: trial.loss).candidate
    again = SetRegressor([pooled_by(each) for each in strategies], **options).fit(tmp_path / "sets.parquet", "y")
    for each in (model, again):  # the second takes the choice from the checkpoint
        assert each.trials_[-1].candidate == preferred
        assert each.ensemble_.networks[0].pooling.reduce == strategies[preferred]


def write(path, columns, rows=None):
    parquet.write_table(pa.table(columns), path, row_group_size=rows)


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ([{"i": [1, 1, 2, 1], "x": [1, 2, 3, 4]}], {"set_id": "i"}, r"ascending ids, i; got .*/0.parquet, row 4"),
        ([{"i": [1, 2], "x": [1, 2]}, {"i": [2, 3], "x": [1, 2]}], {"set_id": "i"}, r"set 2 is in .*0.parquet and"),
        ([{"i": [1, 5], "x": [1, 2]}, {"i": [2, 5], "x": [1, 2]}], {"set_id": "i"}, r"set 5 is in .*0.parquet and"),
        ([{"i": [1], "x": [[1]]}, {"i": [0, 1], "x": [[1], []]}], {"set_id": "i"}, r"set 1 is in .*0.parquet and"),
        ([{"i": ["a", "c", "b"], "x": [1, 2, 3]}], {"set_id": "i"}, r"row 3\. Sort the file, or group it"),
        ([{"i": [1, None], "x": [1, 2]}], {"set_id": "i"}, r"got none in .*0.parquet, row 2"),
        ([{"x": [[1]]}, {"z": [[1]]}], {}, r"1.parquet has no column 'x', which .*0.parquet has"),
        ([{"x": [[1]]}, {"x": [[1.5]]}], {}, r"column 'x' is list<element: int64> in .*0.parquet, and"),
        ([{"i": [1], "x": [1]}], {}, "has no column of lists: set_id="),
        ([{"x": [[1]]}], {"y": "z"}, "has no column 'z'; it has x"),
        ([{"x": pa.array([], pa.list_(pa.int64()))}], {}, "but no rows"),
    ],
    ids=["sort", "in two", "overlap", "lists in two", "words", "no id", "columns", "types", "long", "no y", "no row"],
)  # fmt: skip
def test_files_that_are_refused(tmp_path, files, options, message):
    for number, columns in enumerate(files):
        write(tmp_path / f"{number}.parquet", columns, rows=2)
    with pytest.raises(ValueError, match=message):
        SetStream(tmp_path, **options)


def test_ids_may_overlap_where_no_set_is_in_two_files(tmp_path):
    write(tmp_path / "0.parquet", {"i": [1, 1, 5], "j": ["a", "b", "a"], "x": [1, 2, 3]}, 2)
    write(tmp_path / "1.parquet", {"i": [1, 4, 6], "j": ["c", "a", "a"], "x": [1, 2, 3]}, 2)
    assert len(SetStream(tmp_path, set_id="i+j")) == 6


def test_a_weight_is_no_target(tmp_path):
    parquet.write_table(grouped(9).append_column("w", pa.array([1.0] * 9)), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="y expects the name of a column; got 'w'"):
        SetStream(tmp_path / "a.parquet", ["y", "w"], sample_weight="w").read(0)


def test_one_set_is_left_to_train_on(tmp_path):
    parquet.write_table(grouped(3), tmp_path / "a.parquet")
    model = SetRegressor("k1", max_epochs=1, validation=0.9).fit(tmp_path / "a.parquet", "y")
    assert len(model.validation_sets_.sets) == 2


def test_files_that_are_no_parquet(tmp_path):
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(ValueError, match=r"a.parquet cannot be read"):
        SetStream(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        SetStream(tmp_path / "b.parquet")


def test_what_is_read_of_a_file_does_not_stay_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": rng.normal(size=2**23)}), path, row_group_size=2**16)
    (fragment,) = open_files(path).fragments
    before, most = pa.total_allocated_bytes(), 0
    for _ in fragment.to_batches(batch_size=2**14, batch_readahead=2):
        most = max(most, pa.total_allocated_bytes() - before)
    assert 2**17 <= most < path.stat().st_size / 4


def test_a_value_that_is_wrong_is_named_in_a_fit(tmp_path):
    write(tmp_path / "a.parquet", {"x": [[1.0], [2.0], [np.inf]] * 4, "y": [1.0, 2.0, 3.0] * 4}, 2)
    with pytest.raises(ValueError, match=r"column 'x' expects finite"):
        SetRegressor("k1", max_epochs=1, validation=0.1).fit(tmp_path / "a.parquet", "y")
    write(tmp_path / "b.parquet", {"x": [[1.0], [2.0]] * 4, "y": [1.0, 2.0] * 3 + [1.0, None]}, 2)
    with pytest.raises(ValueError, match=r"got none for set 1, in .*b.parquet, row 8"):
        SetRegressor("k1", max_epochs=1).fit(tmp_path / "b.parquet", "y")


@pytest.mark.parametrize(
    ("settings", "given", "message"),
    [
        ({"validation": 3}, {}, "expects validation as a fraction of sets in files"),
        ({}, {"sample_weight": np.ones(2)}, "sets in files expect sample_weight as the name of a column"),
        ({}, {"y": None}, "y is None"),
        ({}, {"y": [1, 2]}, "expect y as the name of a column"),
    ],
    ids=["folds", "weights", "no y", "values"],
)
def test_settings_that_are_not_of_files(tmp_path, settings, given, message):
    write(tmp_path / "a.parquet", {"x": [[1.0], [2.0]], "y": [1.0, 2.0]})
    with pytest.raises(ValueError, match=message):
        SetRegressor("k1", **settings).fit(tmp_path / "a.parquet", **{"y": "y", **given})
