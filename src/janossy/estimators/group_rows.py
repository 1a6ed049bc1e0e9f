"""GroupRows: a long table, one row per element, as sets in scikit-learn's pipelines."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from janossy.tables.forms import as_sets
from janossy.tables.table import SetTable

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils import Tags
except ImportError as error:
    raise ImportError("GroupRows needs scikit-learn: pip install 'janossy[estimators]'") from error


class GroupRows(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """A transformer from a long table to sets. Rows with one id are a set; sets are in the order of their first rows.

    A step of a pipeline may change the number of rows, but y and the splitters of X do not learn of it. Therefore y has
    one row per set, as ``target`` returns it, and the pipeline takes the long table. Functions that split sets, such as
    ``cross_val_score``, ``GridSearchCV`` or ``train_test_split``, take grouped sets:

        pipeline = make_pipeline(GroupRows("event"), model)
        pipeline.fit(long, GroupRows("event").target(long, "label")).predict(new)

        sets, y = as_sets(long, "label", set_id="event")
        cross_val_score(model, sets, y)

    The transformer does not see y, and would read a target in the table as a column of elements. Name it in ``drop``.

    Args:
        set_id: the column that identifies the set of a row, or another form that ``as_sets`` takes.
        set_columns: the columns that are constant in each set, and belong to the set.
        numeric, categorical: columns whose kind differs from their dtype.
        drop: columns to leave out, such as the target.

    Shapes: a table of N rows -> a ``SetTable`` of B sets, named by its ``ids``.
    Raises: the errors of ``as_sets``.

    Example:
        >>> long = {"event": [7, 7, 3], "energy": [1.0, 13.0, 5.0], "label": [1, 1, 0]}
        >>> GroupRows("event", drop="label").fit_transform(long).shape
        (2,)
        >>> GroupRows("event").target(long, "label")
        array([1, 0])
    """

    def __init__(
        self,
        set_id: str | Sequence[str],
        *,
        set_columns: str | Sequence[str] | None = None,
        numeric: str | Sequence[str] = (),
        categorical: str | Sequence[str] = (),
        drop: str | Sequence[str] = (),
    ) -> None:
        self.set_id = set_id
        self.set_columns = set_columns
        self.numeric = numeric
        self.categorical = categorical
        self.drop = drop

    def fit(self, X: Any, y: Any = None) -> "GroupRows":
        """Checks that X is such a table. y is ignored."""
        self.transform(X)
        return self

    def transform(self, X: Any) -> SetTable:
        """Returns the sets of X, one row per set."""
        return cast(SetTable, as_sets(X, **self.get_params(deep=False)))

    def fit_transform(self, X: Any, y: Any = None) -> SetTable:
        """Returns the sets of X, one row per set."""
        return self.transform(X)

    def target(self, X: Any, y: Any) -> np.ndarray:
        """Returns the target of each set of X, in the order of the sets: (B,), or (B, t) for several.

        y is the name of a column of X that is constant in each set, or any targets that ``as_sets`` takes.
        """
        return cast(np.ndarray, as_sets(X, y, **self.get_params(deep=False))[1])

    def set_output(self, *, transform: Any = None) -> "GroupRows":
        """Returns the transformer unchanged. Its output stays a ``SetTable``, which cannot be a frame."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags
