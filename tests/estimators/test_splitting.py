"""scikit-learn counts and splits a Ragged and a SetTable by sets, and pipelines take long tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.utils import _safe_indexing, check_consistent_length, indexable

from janossy import Ragged
from janossy.estimators import GroupRows
from janossy.tables import as_sets

SIZES = [3, 0, 1, 2, 4, 0, 1, 2]
VALUES = np.arange(float(sum(SIZES)))
Y = np.array([0, 1, 0, 1, 0, 1, 0, 1])


def ragged():
    return Ragged.from_sizes(torch.from_numpy(VALUES), SIZES)


FORMS = {"Ragged": ragged, "SetTable": lambda: as_sets(ragged())}


def contents(sets) -> list[list[float]]:
    table = as_sets(sets)
    return [part.tolist() for part in np.split(table.elements["x"].values, table.offsets[1:-1])]


class Size(ClassifierMixin, BaseEstimator):
    """Class 1 for sets of fewer than ``most`` elements; it can be fitted to sets with as many targets only."""

    def __init__(self, most: int = 1):
        self.most = most

    def fit(self, X, y):
        check_consistent_length(X, y)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (as_sets(X).sizes < self.most).astype(int)


@pytest.mark.parametrize("form", FORMS)
def test_splitting_is_by_sets(form):
    sets = FORMS[form]()
    assert sets.shape[0] == len(sets) == 8 and indexable(sets, Y)[0] is sets
    whole = contents(sets)
    mask = Y.astype(bool)
    for key, rows in (
        (np.array([6, 0, 6]), [6, 0, 6]),
        ([1, 2], [1, 2]),
        (mask, np.flatnonzero(mask)),
        (mask.tolist(), np.flatnonzero(mask)),
        (slice(2, 5), range(2, 5)),
    ):
        assert contents(_safe_indexing(sets, key)) == [whole[b] for b in rows]
    train, test, y_train, y_test = train_test_split(sets, Y, test_size=3, random_state=0, stratify=Y)
    assert len(train) == len(y_train) == 5 and len(test) == len(y_test) == 3
    rows = train_test_split(range(8), test_size=3, random_state=0, stratify=Y)[1]
    assert contents(test) == [whole[b] for b in rows] and Y[rows].tolist() == y_test.tolist()
    assert [len(held_out) for _, held_out in KFold(4).split(sets)] == [2] * 4
    expected = np.mean([(np.array(SIZES)[b : b + 2] < 1) == Y[b : b + 2] for b in range(0, 8, 2)], axis=1)
    assert cross_val_score(Size(), sets, Y, cv=KFold(4)).tolist() == expected.tolist()
    assert GridSearchCV(Size(), {"most": [0, 1, 9]}, cv=2).fit(sets, Y).best_params_ == {"most": 1}


LONG = pd.DataFrame({"event": [7, 3, 7, 5], "pt": [1.0, 2.0, 3.0, 4.0], "run": [1, 2, 1, 1], "label": [0, 1, 0, 1]})


def test_group_rows_begins_a_pipeline():
    group = GroupRows("event", set_columns="run", drop="label")
    sets = group.fit_transform(LONG)
    assert sets.ids.tolist() == [7, 3, 5] and list(sets.elements) == ["pt"] and list(sets.context) == ["run"]
    y = group.target(LONG, "label")
    assert y.tolist() == [0, 1, 1]
    pipeline = make_pipeline(group, Size(2)).fit(LONG, y)
    assert pipeline.predict(LONG.drop(columns="label")).tolist() == [0, 1, 1]
    assert pipeline.score(LONG, y) == 1.0
    pipeline.set_params(grouprows__set_id="run", grouprows__set_columns=None)
    assert pipeline.predict(LONG).tolist() == [0, 1]


def test_group_rows_is_cloned_and_needs_no_fit():
    group = GroupRows("event", categorical=["run"], drop=["label"])
    assert clone(group).get_params() == group.get_params() == {
        "set_id": "event", "set_columns": None, "numeric": (), "categorical": ["run"], "drop": ["label"]
    }  # fmt: skip
    assert group.transform(LONG).elements["run"].kind == "categorical"
    assert make_pipeline(clone(group)).transform(LONG).shape == (3,)
    with pytest.raises(ValueError, match="set_id expects the name of a column; got 'set'"):
        GroupRows("set").fit(LONG)
