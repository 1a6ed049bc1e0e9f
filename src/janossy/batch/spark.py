"""Predictions by Spark."""

try:
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
except ImportError as error:
    raise ImportError("on_spark needs Spark: pip install 'janossy[spark]'.") from error

from janossy.batch.predictor import SetPredictor


def on_spark(sets: DataFrame, predictor: SetPredictor) -> DataFrame:
    """Predicts a frame with one row per set, by ``mapInArrow``. Each Python worker reads the model once.

    Spark decides the size of a batch: spark.sql.execution.arrow.maxRecordsPerBatch.

    Shapes: B rows -> B rows, when the frame is computed.
    Raises: ValueError for a frame that lacks a column of the model. When it is computed, the predictor's errors, as
        Spark wraps them.

    Example::

        on_spark(spark.read.parquet("sets"), SetPredictor("model")).write.parquet("predictions")
    """
    schema = predictor.schema(to_arrow_schema(sets.schema))
    return sets.mapInArrow(predictor.batches, from_arrow_schema(schema))
