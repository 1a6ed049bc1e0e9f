"""Folds of labelled sets: stratified cross-validation, reproducible."""

from collections.abc import Callable

from sklearn.model_selection import RepeatedStratifiedKFold

from studies.bench.data_set import Fold, Sample

NUM_FOLDS = 10


def cross_validation(sample: Sample, num_repetitions: int) -> tuple[int, Callable[[int], Fold]]:
    """Returns the number of folds of all repetitions, and a function that gives each fold.

    Each fold leaves out another tenth of the sets, with all classes in proportion. Every repetition shuffles anew.
    """
    split = RepeatedStratifiedKFold(n_splits=NUM_FOLDS, n_repeats=num_repetitions, random_state=0)
    parts = list(split.split(sample.targets, sample.targets))

    def fold(number: int) -> Fold:
        train, test = (Sample(sample.sets[part], sample.targets[part]) for part in parts[number])
        return Fold(train, {"test": lambda: test})

    return len(parts), fold
