"""A search's time budget is kept by the clock that there is."""

from itertools import count

import numpy as np

from janossy.estimators import SetClassifier
from janossy.estimators.interrupts import now, time_by


def note(**settings):
    sets = [np.full((2, 1), float(i % 2)) for i in range(40)]
    model = SetClassifier("k1", max_epochs=20, validation=0.5, random_state=0, **settings)
    (trial,) = model.fit(sets, [i % 2 for i in range(40)]).trials_
    return trial.note, trial.epochs


def test_a_search_ends_by_the_clock_that_is_given():
    with time_by(count(0.0, 1.0).__next__):
        assert now() == 0.0
        message, epochs = note(time_budget=25.0)
        assert message == "out of time" and 0 < epochs < 20
    assert note(time_budget=1000.0) == ("", 20)
