"""scikit-learn's warning of many classes, which each of its learners repeats: fits give one of their own."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_many_classes() -> Iterator[None]:
    """Ignores scikit-learn's warning that most sets have a class of their own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater")
        yield
