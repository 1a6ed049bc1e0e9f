"""Predictions by Daft."""

import pyarrow as pa

try:
    import daft
except ImportError as error:
    raise ImportError("on_daft needs Daft: pip install 'janossy[daft]'.") from error

from janossy.batch.predictor import SetPredictor


def on_daft(
    sets: daft.DataFrame, predictor: SetPredictor, *, workers: int | None = None, batch_size: int = 4096
) -> daft.DataFrame:
    """Predicts a frame with one row per set, by a class UDF in ``workers`` processes; None leaves the number to Daft.

    Shapes: B rows -> B rows, when the frame is collected.
    Raises: ValueError for a frame that lacks a column of the model. When it is collected, the predictor's errors.

    Example::

        on_daft(daft.read_parquet("sets"), SetPredictor("model")).write_parquet("predictions")
    """
    schema = predictor.schema(sets.schema().to_pyarrow_schema())
    kind = daft.DataType.struct({field.name: daft.DataType.from_arrow_type(field.type) for field in schema})

    @daft.cls(max_concurrency=workers)
    class Predict:
        def __init__(self, predictor: SetPredictor) -> None:
            self.predictor = predictor

        @daft.method.batch(return_dtype=kind, unnest=True, batch_size=batch_size)
        def predict(self, rows: daft.Series) -> pa.Array:
            predictions = self.predictor(pa.Table.from_struct_array(rows.to_arrow()))
            return predictions.combine_chunks().to_struct_array().combine_chunks()

    return sets.select(Predict(predictor).predict(daft.functions.to_struct(*map(daft.col, sets.column_names))))
