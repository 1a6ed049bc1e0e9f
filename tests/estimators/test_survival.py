"""Cox's partial likelihood and the concordance, against plain sums over pairs; fits that find hazards."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from janossy.estimators import SetRegressor, load, save
from janossy.estimators.survival import concordance, partial_likelihood_losses


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(-3, 3), st.integers(0, 2)), max_size=12))
def test_the_definitions(sets):
    """With ties of times and of risks, without events, and of no set at all."""
    times, events, risks, weights = (
        (np.array(column, float) for column in zip(*sets, strict=True)) if sets else [np.zeros(0)] * 4
    )
    losses, pairs, right = [], 0.0, 0.0
    for i in range(len(sets)):
        at_risk = [np.exp(risks[j]) for j in range(len(sets)) if times[j] >= times[i]]
        losses.append(events[i] * (np.log(sum(at_risk)) - risks[i]))
        for j in range(len(sets)):
            if events[i] and (times[j] > times[i] or (times[j] == times[i] and not events[j])):
                pairs += weights[i] * weights[j]
                right += weights[i] * weights[j] * ((risks[i] > risks[j]) + 0.5 * (risks[i] == risks[j]))
    targets = torch.from_numpy(np.stack([times, events], 1))
    found = partial_likelihood_losses(torch.from_numpy(risks), targets)
    assert found.numpy() == pytest.approx(np.array(losses), abs=1e-12)
    shifted = partial_likelihood_losses(torch.from_numpy(risks) + 7, targets)
    assert torch.allclose(found, shifted)
    expected = right / pairs if pairs else 0.5
    assert concordance(torch.from_numpy(risks), targets, torch.from_numpy(weights)) == pytest.approx(expected)


def times_of_sets(num: int = 300) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Returns sets (n, 1) whose sum is the log-hazard, with times (B, 2), some censored, and hazards."""
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(n, 1)) for n in rng.integers(1, 4, num)]
    risks = np.array([each.sum() for each in sets])
    times, ends = rng.exponential(np.exp(-risks)), rng.exponential(2.0, num)
    return sets, np.stack([np.minimum(times, ends), times <= ends], 1), risks


def test_a_fit_finds_hazards(tmp_path):
    sets, y, risks = times_of_sets()
    model = SetRegressor("k1", loss="cox", max_epochs=20, validation=0.2, random_state=0).fit(sets, y)
    found = model.predict(sets)
    assert found.shape == (300,) and np.corrcoef(found, risks)[0, 1] > 0.9
    assert abs(found.mean()) < 0.5  # the zero that networks share
    best = concordance(torch.from_numpy(risks), torch.from_numpy(y), torch.ones(300))
    assert best - 0.03 < model.score(sets, y) and model.trials_[0].score > 0.75
    changed = SetRegressor("k1", loss="cox", max_epochs=20, validation=0.2, random_state=0)
    changed.fit(sets, np.stack([y[:, 0] ** 3 * 1e9, y[:, 1]], 1))  # only the order of times counts
    assert (changed.predict(sets) == found).all()
    again = load(save(model, tmp_path / "model"))
    assert (again.predict(sets) == found).all() and again.task_.loss == "cox"
    assert model.element_importance(sets[:1])[0].shape == (len(sets[0]),)


def test_files(tmp_path):
    sets, y, risks = times_of_sets(200)
    rows = {"x0": [each[:, 0].tolist() for each in sets], "time": y[:, 0], "died": y[:, 1] > 0}
    parquet.write_table(pa.table(rows), tmp_path / "sets.parquet")
    model = SetRegressor("k1", loss="cox", max_epochs=15, random_state=0)
    model.fit(str(tmp_path / "sets.parquet"), ["time", "died"])
    assert np.corrcoef(model.predict(sets), risks)[0, 1] > 0.8


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, 2.0], r"shape \(B, 2\), a time and an event; got \(10, 1\)"),
        ([[1.0, 2.0], [2.0, 1.0]], "events that are 0 or 1 in the second column of y; got 2.0"),
    ],
)
def test_what_is_no_survival(y, message):
    with pytest.raises(ValueError, match=message):
        SetRegressor("k1", loss="cox", max_epochs=1).fit([[1.0], [2.0]] * 5, y * 5)
