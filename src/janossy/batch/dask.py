"""Predictions by Dask."""

import pandas as pd
import pyarrow as pa

try:
    from dask.dataframe import DataFrame
except ImportError as error:
    raise ImportError("on_dask needs Dask: pip install 'janossy[dask]'.") from error

from janossy.batch.predictor import SetPredictor


def on_dask(sets: DataFrame, predictor: SetPredictor) -> DataFrame:
    """Predicts a frame with one row per set, partition by partition. Index stays; columns are Arrow's.

    Shapes: B rows -> B rows, when the frame is computed.
    Raises: TypeError for columns of pandas' objects. ValueError for a frame that lacks a column of the model. When it
        is computed, the predictor's errors.

    Example::

        on_dask(dask.dataframe.read_parquet("sets", dtype_backend="pyarrow"), SetPredictor("model")).to_parquet("out")
    """
    if objects := [name for name, kind in sets.dtypes.items() if pd.api.types.is_object_dtype(kind)]:
        raise TypeError(
            f'on_dask expects columns of Arrow; got objects in {objects[0]!r}. Read them with dtype_backend="pyarrow".'
        )
    return sets.map_partitions(_predicted, predictor, meta=_predicted(sets._meta, predictor))


def _predicted(part: pd.DataFrame, predictor: SetPredictor) -> pd.DataFrame:
    table = pa.Table.from_pandas(part, preserve_index=False)
    return predictor(table).to_pandas(types_mapper=pd.ArrowDtype).set_index(part.index)
