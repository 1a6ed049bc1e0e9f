"""scikit-learn's own checks of estimators, on matrices: sets of one element."""

import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from janossy.estimators import SetClassifier, SetRegressor

CHEAP = {"strategy": "k1", "max_epochs": 3, "validation": 0.2, "random_state": 0}

WEIGHTS = "a weight of 2 is not the same as a set twice: those may fall on both sides of the validation split"
LISTS = "a list of lists of numbers is read as sets of numbers, and not as a matrix"

CANNOT_APPLY = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_classifiers_train": LISTS,
    "check_regressors_train": LISTS,
}
"""All of scikit-learn's checks that sets cannot pass, and why."""


@pytest.fixture(autouse=True)
def one_thread():
    """Sets one thread, because batches are tiny and threads would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@parametrize_with_checks([SetClassifier(**CHEAP)], expected_failed_checks=lambda estimator: CANNOT_APPLY)
def test_check(estimator, check):
    check(estimator)


@pytest.mark.only_all
@parametrize_with_checks([SetRegressor(**CHEAP)], expected_failed_checks=lambda estimator: CANNOT_APPLY)
def test_check_of_a_regressor(estimator, check):
    check(estimator)
