"""SetStatistics: sets as rows of fixed statistics, for learners of scikit-learn."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from janossy.checks import check_integer
from janossy.estimators.classical.choosing import Sizes, choose_statistics
from janossy.estimators.classical.paths import BAGS
from janossy.nn.statistics import PooledStatistics
from janossy.nn.statistics.names import ColumnNames
from janossy.tables.codes import CategoryCodes, Code
from janossy.tables.encoder import TableEncoder
from janossy.tables.forms import as_sets
from janossy.tables.table import SetTable


class SetStatistics(TransformerMixin, BaseEstimator):
    """A transformer from sets to one row of statistics each, the same for every order of the elements.

    The statistics depend on the kinds of the columns:

    - The size, and its logarithm.
    - For each column of numbers: mean, standard deviation, minimum, maximum, sum and quartiles. With six columns or
      fewer, also bins, and the other numbers of the elements with the smallest and the largest value.
    - For each column of categories: the fraction of the elements, and with six columns or fewer, sums and means of
      numbers by category. Sums are those of amounts, which are numbers that are never negative. Means are those of
      other numbers, and of amounts if a set holds half of the categories or more on average, as with readings by
      sensor. A bag keeps the categories that most sets hold; the others share buckets by a hash.
    - For each column of categories, and with six columns or fewer for each column of numbers: the number of different
      values, if sets hold a value twice.
    - With six columns or fewer: combinations of the values of two columns, and of all.
    - In small sets: pairs of categories that occur in one set.
    - The sets' own columns: numbers, and an indicator per category.

    Missing numbers count as their column's mean, with an indicator column. A category that is absent from a set has
    the mean number of all sets that hold it. Other statistics of empty sets are 0.

    Args:
        scheme: the values in bags: "fraction" of the elements, "count", "tf-idf", or "share" of each column of amounts.
            With "share" there are only these, or counts if there are no amounts, and the sums of numbers.
        max_categories: the number of categories that each bag keeps.
        numeric, categorical, set_columns: as in ``as_sets``, for X that is not a ``SetTable``.

    Attributes:
        statistics_: the ``PooledStatistics`` that computes them.
        encoder_: the ``TableEncoder`` of the columns.

    Shapes: B sets -> (B, statistics), float32.
    Invariance: exact, to the last bit. A set's row does not depend on the other sets of a call either.
    Raises: ValueError for an unknown scheme, or columns other than those of training.

    Example:
        >>> baskets = [["tea", "milk"], ["tea"], ["milk", "milk"], ["tea", "milk"], ["tea"], ["milk"]]
        >>> statistics = SetStatistics().fit(baskets)
        >>> statistics.transform([["milk", "tea", "tea"]])[0, :1]
        array([3.], dtype=float32)
        >>> statistics.get_feature_names_out()[:4].tolist()
        ['size', 'log size', 'fraction of x=milk', 'fraction of x=tea']
    """

    encoder_: TableEncoder
    statistics_: PooledStatistics

    def __init__(
        self,
        scheme: str = "fraction",
        *,
        max_categories: int = 512,
        numeric: Any = (),
        categorical: Any = (),
        set_columns: Any = None,
    ) -> None:
        self.scheme = scheme
        self.max_categories = max_categories
        self.numeric = numeric
        self.categorical = categorical
        self.set_columns = set_columns

    def fit(self, X: Any, y: Any = None) -> Self:
        """Chooses the statistics for these sets. y is ignored."""
        if self.scheme not in BAGS:
            raise ValueError(f"SetStatistics expects a scheme among {', '.join(BAGS)}; got {self.scheme!r}.")
        check_integer("SetStatistics", "max_categories", self.max_categories, 0)
        sets = self._sets(X)
        self.encoder_ = TableEncoder(standardize=False).fit(sets)
        encoded = self.encoder_.transform(sets)
        layouts = self.encoder_.element_layout, self.encoder_.context_layout
        context = encoded.context if encoded.context.shape[1] else None
        most = Sizes(cells=self.max_categories, hashed=max(1, self.max_categories // 8))
        self.statistics_ = choose_statistics(
            encoded.elements, context, layouts, most=most, scheme=self.scheme, standardised=False
        )
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Returns the statistics of each set (B, statistics)."""
        check_is_fitted(self, "statistics_")
        encoded = self.encoder_.transform(self._sets(X))
        context = encoded.context if encoded.context.shape[1] else None
        with torch.no_grad():
            found: np.ndarray = self.statistics_(encoded.elements, context).numpy()
        return found

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Returns the names of the statistics. ``input_features`` is ignored."""
        check_is_fitted(self, "statistics_")
        names = ColumnNames(
            self.encoder_.element_names,
            self.encoder_.context_names,
            _labels(self.encoder_.elements),
            _labels(self.encoder_.context),
            self.statistics_.num_codes,
        )
        return np.array(self.statistics_.names(names), dtype=object)

    def _sets(self, X: Any) -> SetTable:
        return as_sets(X, set_columns=self.set_columns, numeric=self.numeric, categorical=self.categorical)


def _labels(codes: tuple[Code, ...]) -> dict[int, list[str]]:
    """Returns the names of the codes of each categorical column."""
    categorical = [code for code in codes if isinstance(code, CategoryCodes)]
    return {
        i: ["unknown", *map(str, code.categories), *["missing"] * code.missing] for i, code in enumerate(categorical)
    }
