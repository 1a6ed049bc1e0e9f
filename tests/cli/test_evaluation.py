"""Scores of validation sets, by brute force, with the networks that were trained and their training sets."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.metrics import balanced_accuracy_score, mean_squared_error, r2_score

from janossy.cli.workflow.evaluation import by_permutations, evaluate, worst_predictions
from janossy.cli.workflow.record import in_words, shown
from janossy.cli.workflow.scoring import scores
from janossy.estimators import SetClassifier, SetRegressor, ensemble, out_of_fold, trainer
from janossy.tables import as_sets
from tests.cli.commands import FIT, janossy, orders, write

__all__ = ["janossy"]

NUM, LARGEST = 45, 7
COLUMNS = orders(NUM)
SETS = as_sets({name: COLUMNS[name] for name in ("order", "item", "price")}, set_id="order")
RETURNED = as_sets(COLUMNS, "returned", set_id="order")[1]
TOTALS = np.stack([as_sets(COLUMNS, name, set_id="order")[1] for name in ("total", "hour")], 1)
QUICK = {"max_epochs": 2, "random_state": 0, "learning_rate": 1e-3}


@pytest.fixture(scope="module")
def models():
    """Fits a classifier by 3 folds, with two candidates and random orders, and a regressor by a part of the sets.

    The third result returns the numbers of the sets that a network of a model was trained on.
    """
    trained = []
    real = trainer.Training

    def training(network, source, *others, **options):
        trained.append((network, source.examples))
        return real(network, source, *others, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "Training", training)
        classifier = SetClassifier(
            ["gru", {"strategy": "gru", "width": 8}], **QUICK, validation=3, num_permutations=4
        ).fit(SETS, RETURNED)
        regressor = SetRegressor("k1", **QUICK, validation=0.3).fit(SETS, TOTALS)
    encoded = {id(m): m.encoder_.transform(SETS).elements for m in (classifier, regressor)}

    def learnt_from(model, network):
        """Returns the sets that it was trained on, by their elements, which no two sets share."""
        training = next(given for known, given in trained if known is network)
        values = [each.tobytes() for each in map(np.asarray, training.sets.to_sets())]
        return {b for b, each in enumerate(encoded[id(model)].to_sets()) if np.asarray(each).tobytes() in values}

    return classifier, regressor, learnt_from


def of_unseen(model, learnt_from, predict):
    """Returns, per set that a network left out, the weighed prediction of the networks that did: (V,), and (V, out)."""
    networks, weights = model.ensemble_.networks, model.ensemble_.weights
    unseen = [set(range(NUM)) - learnt_from(model, network) for network in networks]
    found = {}
    for b in sorted(set.union(*unseen)):
        chosen = [i for i, sets in enumerate(unseen) if b in sets]
        total = sum(weights[i] for i in chosen)
        found[b] = sum(weights[i] / total * predict(networks[i], b) for i in chosen)
    return np.array(list(found)), np.array(list(found.values()))


def alone(model, of):
    """Returns the prediction of a model of one network alone."""

    def predict(network, b):
        ensemble = model.ensemble_
        model.ensemble_ = type(ensemble)([network], [1.0], ensemble.task, ensemble.temperature)
        try:
            return of(SETS[[b]])[0]
        finally:
            model.ensemble_ = ensemble

    return predict


def test_classes_are_judged_by_networks_that_had_not_seen_the_set(models):
    model, _, learnt_from = models
    evaluation = evaluate(model, RETURNED)
    sets, expected = of_unseen(model, learnt_from, alone(model, model.predict_proba))
    order = np.argsort(evaluation.sets)
    assert evaluation.sets[order].tolist() == sets.tolist() == list(range(NUM))
    assert np.allclose(evaluation.probabilities[order], expected, atol=1e-6)
    assert not np.allclose(
        evaluation.probabilities[order], model.predict_proba(SETS), atol=1e-3
    )  # all networks: another
    assert evaluation.predictions[order].tolist() == [bool(p[1] > p[0]) for p in expected]
    assert evaluation.targets[order].tolist() == RETURNED.tolist()
    lacks = [1 - p[int(true)] for p, true in zip(expected, RETURNED, strict=True)]
    assert np.allclose(evaluation.losses()[order], lacks, atol=1e-6)
    found = scores(evaluation.targets, evaluation.predictions, "classification")
    assert found["accuracy"] == np.mean([(p[1] > p[0]) == true for p, true in zip(expected, RETURNED, strict=True)])


def test_numbers_are_judged_by_networks_that_had_not_seen_the_set(models):
    _, model, learnt_from = models
    evaluation = evaluate(model, TOTALS)
    sets, expected = of_unseen(model, learnt_from, alone(model, model.predict))
    order = np.argsort(evaluation.sets)
    assert 1 < len(sets) < NUM / 2 and evaluation.sets[order].tolist() == sets.tolist()
    assert np.allclose(evaluation.predictions[order], expected, rtol=1e-5)
    assert np.array_equal(evaluation.targets[order], TOTALS[sets])
    errors = np.abs(expected - TOTALS[sets]) / TOTALS[sets].std(0)
    assert np.allclose(evaluation.losses()[order], errors.max(1), rtol=1e-5)


def test_the_whole_is_the_mean_of_models_of_new_sets(models):
    model, _, _ = models
    parts = [part.predict_proba(SETS) for part, _ in model.as_of_new_sets()]
    assert np.allclose(np.mean(parts, 0), model.predict_proba(SETS), atol=1e-5)


def test_more_permutations_are_judged_alike(models):
    model, regressor, _ = models
    found = by_permutations(model, RETURNED)
    evaluation = evaluate(model, RETURNED)
    assert [num for num, _ in found] == [1, 2, 4]
    assert found[-1][1] == evaluation.right.mean() and model.num_permutations == 4
    assert by_permutations(regressor, TOTALS) == []


def test_fewer_permutations_are_some_of_those_that_were_drawn(models):
    model, _, _ = models
    sets, probabilities = model.validation_predictions(1)
    drawn = np.concatenate([np.stack([x.numpy() for x in fold.outputs], 1) for fold in model.folds_])  # (V, w, m, C)
    weights = np.concatenate([[fold.weights] * len(fold.sets) for fold in model.folds_])
    each = softmax(drawn / model.temperature_, -1)
    for p, of_set, weight in zip(probabilities, each, weights, strict=True):
        chosen = product(*([x for x in of_network if not np.isnan(x).any()] for of_network in of_set))
        assert any(np.allclose(p, weight @ np.array(some), atol=1e-6) for some in chosen)
    assert sorted(sets) == list(range(NUM))


def test_a_fit_predicts_each_validation_set_once_per_network(janossy, monkeypatch):
    """Apart from the sets that the report takes apart, which are predicted by one or two at a time."""
    write("orders.csv", orders())
    seen = Counter()
    for module in (out_of_fold, ensemble):

        def counted(network, sets, *arguments, real=module.predict_by, **options):
            if len(sets) > LARGEST:  # no set without each of its elements in turn
                seen[network] += len(sets)
            return real(network, sets, *arguments, **options)

        monkeypatch.setattr(module, "predict_by", counted)
    code, stdout, _ = janossy(*FIT, "--strategy", "gru", "--validation", "3", "--out", "model")
    assert code == 0 and "on 40 validation sets" in stdout and sorted(seen.values()) == [13, 13, 14]


def test_what_is_most_wrong_is_named_with_what_mattered(models):
    _, model, _ = models
    evaluation = evaluate(model, TOTALS, ("total", "hour"))
    errors = np.abs(evaluation.predictions - evaluation.targets) / evaluation.targets.std(0)
    wrong = list(worst_predictions(model, SETS, evaluation))
    worst = int(errors.max(1).argmax())
    assert wrong[0].name == f"set {evaluation.sets[worst]}" and wrong[0].of == ("total", "hour")[errors[worst].argmax()]
    assert wrong[0].target == f"total {evaluation.targets[worst, 0]:.5g}, hour {evaluation.targets[worst, 1]:.5g}"
    part = next(part for part, sets in model.as_of_new_sets() if evaluation.sets[worst] in sets)
    one = SETS[[int(evaluation.sets[worst])]]
    changes = part.element_importance(one)[0][:, errors[worst].argmax()]
    assert sorted(abs(change) for _, change in wrong[0].elements) == pytest.approx(
        sorted(np.abs(changes).tolist())[-8:]
    )


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=20))
def test_scores_of_classes(pairs):
    targets, said = (np.array(each) for each in zip(*pairs, strict=True))
    found = scores(targets, said, "classification")
    share = [np.mean([s == t for t, s in pairs if t == name]) for name in set(targets.tolist())]
    assert found["balanced accuracy"] == pytest.approx(np.mean(share))
    assert found["accuracy"] == np.mean([s == t for t, s in pairs])
    if set(said.tolist()) <= set(targets.tolist()):
        assert found["balanced accuracy"] == pytest.approx(balanced_accuracy_score(targets, said))


def test_scores_of_several_targets():
    rng = np.random.default_rng(0)
    targets, said = rng.normal(size=(2, 9, 2))
    found = scores(targets, said, "regression", ["a", "b"])
    assert next(iter(found)) == "R²" and found["R²"] == pytest.approx(r2_score(targets, said))
    assert found["R² of b"] == pytest.approx(r2_score(targets[:, 1], said[:, 1]))
    error = mean_squared_error(targets[:, 0], said[:, 0]) ** 0.5
    assert found["root mean squared error of a"] == pytest.approx(error)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_score_is_shown_in_any_unit(score):
    assert float(shown(score)) == pytest.approx(score, rel=5e-4 if abs(score) >= 10 or abs(score) < 0.001 else 0.05)
    assert len(shown(score)) <= len("-1.235e-308")


def test_scores_in_a_line():
    assert in_words({"R²": -3.25, "error": 1.23456e20, "other": None}) == "R² -3.2500, error 1.235e+20"
