"""Groups of sets are never on both sides of a split, and weights of sets count, in memory and in streams."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from sklearn.model_selection import GroupKFold, cross_val_score

from janossy.estimators import SetClassifier, SetRegressor
from janossy.estimators.splits import splits
from janossy.estimators.streams import fitting
from janossy.tables import SetStream


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=3, max_size=80).filter(lambda groups: len(set(groups)) > 1),
    st.sampled_from([None, 2, 5, 0.1, 0.4, 0.9, 0.003]),
    st.booleans(),
    st.integers(0, 99),
)
def test_no_group_is_on_both_sides(groups, validation, classes, seed):
    rng = np.random.default_rng(seed)
    numbered = np.unique(groups, return_inverse=True)[1]
    num = len(groups)
    targets = torch.from_numpy(rng.integers(0, 3, num) if classes else rng.normal(size=(num, 2)))
    parts = splits(targets, validation, rng, numbered).all
    folds = 5 if validation is None else validation if isinstance(validation, int) else 1
    assert len(parts) == min(folds, len(set(groups)))
    for training, held_out in parts:
        assert len(training) and len(held_out) and not set(numbered[training.numpy()]) & set(numbered[held_out.numpy()])
        assert sorted(torch.cat((training, held_out)).tolist()) == list(range(num))
    if folds > 1:
        assert sorted(torch.cat([held_out for _, held_out in parts]).tolist()) == list(range(num))


@pytest.mark.parametrize("part", [0.03, 0.1, 0.37, 0.5, 0.9])
def test_a_part_is_that_part(part):
    """A part of sets is exact to one set in each class, and that of many groups nearly so."""
    targets = torch.arange(1000) % 2
    for _, held_out in splits(targets, part, np.random.default_rng(0)).all:
        assert len(held_out) == round(1000 * part) and abs(int(targets[held_out].sum()) - 500 * part) <= 1
    for num_groups in (500, 2000):
        groups = np.arange(4000) % num_groups
        for _, held_out in splits(torch.arange(4000) % 2, part, np.random.default_rng(0), groups).all:
            assert len(held_out) == pytest.approx(4000 * part, rel=0.15)


def patients(num: int = 16, each: int = 8, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Returns sets that reveal their patient, targets that depend on the patient by chance, and the patients."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(num), each)
    centres, labels = rng.normal(size=(num, 3)), rng.permutation(num) % 2
    return [centres[g] + 0.01 * rng.normal(size=(rng.integers(1, 5), 3)) for g in groups], labels[groups], groups


def sets_in_file(folder, sets, **columns) -> str:
    """Returns the sets as Parquet, a row each."""
    lists = {f"x{j}": [each[:, j].tolist() for each in sets] for j in range(sets[0].shape[1])}
    parquet.write_table(pa.table({**lists, **columns}), folder / "sets.parquet", row_group_size=31)
    return str(folder / "sets.parquet")


def judged(kind, in_memory: bool, folder, groups, strategy) -> float:
    """Returns the score of validation sets, of targets that nothing but the patient tells."""
    sets, y, of_patients = patients()
    model = kind(strategy, max_epochs=40, validation=0.3, random_state=0)
    if in_memory:
        model.fit(sets, y, groups=of_patients if groups else None)
    else:
        names = [f"p{g}" for g in of_patients]
        path = sets_in_file(folder, sets, y=y, patient=names)
        stream = partial(SetStream, path, "y")
        model.fit(stream(groups="patient") if groups else stream(drop=["patient"]))
        held_out = {names[b] for b in model_numbers(model, sets)}
        assert not groups or len(model.validation_sets_.sets) == sum(name in held_out for name in names)
    return max(model.trials_, key=lambda trial: trial.weight).score


def model_numbers(model, sets) -> list[int]:
    """Returns the numbers of the sets that a fit to a file held out."""
    first = {float(np.float64(each[0, 0])): b for b, each in enumerate(sets)}
    held_out = model.validation_sets_.sets
    return [first[x] for x in held_out.elements["x0"].values[held_out.offsets[:-1]].tolist()]


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "stream"])
@pytest.mark.parametrize("kind", [SetClassifier, SetRegressor])
@pytest.mark.cover(1)  # splits know no task
def test_groups_keep_a_leak_out(tmp_path, kind, in_memory):
    """Without groups a network seems to predict what is chance; with them its score is that of chance."""
    leaks = judged(kind, in_memory, tmp_path, False, "k1")
    told = judged(kind, in_memory, tmp_path, True, "k1")
    assert leaks > 0.9 and told < 0.75


def test_a_streamed_choice_is_by_groups_too(tmp_path, monkeypatch):
    sets, y, groups = patients()
    path = sets_in_file(tmp_path, sets, y=y, patient=groups)
    seen = []

    def spied(targets, validation, generator, numbers):
        seen.append((numbers, splits(targets, validation, generator, numbers)))
        return seen[-1][1]

    monkeypatch.setattr(fitting, "splits", spied)
    model = SetClassifier(["k1", "max"], max_epochs=1, validation=0.3, random_state=0)
    model.fit(path, "y", groups="patient")
    ((numbers, parts),) = seen
    held_out = {groups[b] for b in model_numbers(model, sets)}
    assert len(set(numbers)) == 16 - len(held_out) and len(numbers) == 8 * len(set(numbers))
    for training, validation_sets in parts.all:
        assert not set(numbers[training.numpy()]) & set(numbers[validation_sets.numpy()])


def test_two_streamed_groups_are_enough(tmp_path):
    """One of them is learnt from, and the other validates."""
    sets, y, groups = patients(2)
    path = sets_in_file(tmp_path, sets, y=y, patient=groups)
    model = SetClassifier("k1", max_epochs=1, random_state=0).fit(path, "y", groups="patient")
    assert len({groups[b] for b in model_numbers(model, sets)}) == 1
    with pytest.raises(ValueError, match="two groups or more"):
        model.fit(sets_in_file(tmp_path, sets, y=y, patient=0 * groups), "y", groups="patient")


def test_of_two_streamed_groups_one_is_enough_to_choose_by(tmp_path):
    """Its sets are split, as there is no other group to judge by."""
    sets, _, groups = patients(2)
    path = sets_in_file(tmp_path, sets, y=np.arange(16) % 2, patient=groups)
    model = SetClassifier(["k1", "max"], max_epochs=1, random_state=0).fit(path, "y", groups="patient")
    assert len(model.trials_) == 3 and len({groups[b] for b in model_numbers(model, sets)}) == 1


def test_out_of_fold_predictions_are_by_groups(tmp_path):
    sets, y, groups = patients(num=9)
    model = SetClassifier("k1", max_epochs=2, random_state=0).fit(sets, y, groups=[f"p{g}" for g in groups])
    parts = [set(groups[numbers].tolist()) for _, numbers in model.as_of_new_sets()]
    assert len(parts) == 5 and sum(map(len, parts)) == 9 == len(set.union(*parts))
    cross_val_score(
        SetClassifier("k1", max_epochs=1), sets, y, groups=groups, cv=GroupKFold(3), params={"groups": groups}
    )


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([1] * 16, "two groups or more"),
        ([1, None] * 8, "got none for set 1"),
        ([1, 2], "one value per set, 16 in all; got 2"),
    ],
)
def test_groups_that_are_none(groups, message):
    sets, y, _ = patients(2)
    with pytest.raises(ValueError, match=message):
        SetClassifier("k1", max_epochs=1).fit(sets, y, groups=groups)


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "stream"])
@pytest.mark.parametrize("kind", [SetClassifier, SetRegressor])
@pytest.mark.cover(1)
def test_weights_count(tmp_path, kind, in_memory):
    """Sets that are alike, with targets 0 and 1 of weights 3 and 1: the prediction is their weighted mean."""
    num = 400
    sets, y = [np.ones((2, 1)) * (b % 5) for b in range(num)], np.arange(num) // 5 % 2
    weights = np.where(y == 1, 0.7, 2.1)
    model = kind("k1", max_epochs=15, validation=0.25, random_state=0)
    if in_memory:
        model.fit(sets, y, sample_weight=weights)
    else:
        model.fit(sets_in_file(tmp_path, sets, y=y, w=weights), "y", sample_weight="w")
    found = model.predict_proba(sets)[:, 1] if kind is SetClassifier else model.predict(sets)
    assert found == pytest.approx(0.25, abs=0.1)


def test_weights_in_files_that_are_none(tmp_path):
    sets, y, _ = patients(2)
    for weights, message in (
        ([-1.0] * 16, "got -1.0 in .*row 1"),
        ([1.0, 1e45] * 8, r"numbers from 1e-18 to 1e\+18; got 1e\+45 in .*row 2"),
        ([0.0] * 16, "above 0 for some"),
        (["a"] * 16, "'a'"),
    ):
        path = sets_in_file(tmp_path, sets, y=y, w=weights)
        with pytest.raises(ValueError, match=message):
            SetClassifier("k1", max_epochs=1).fit(path, "y", sample_weight="w")
