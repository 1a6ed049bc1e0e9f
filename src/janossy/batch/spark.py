"""Predictions by Spark."""

try:
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
except ImportError as error:
    raise ImportError("on_spark needs Spark: pip install 'janossy[spark]'.") from error

from janossy.batch.predictor import SetPredictor


def on_spark(sets: DataFrame, predictor: SetPredictor) -> DataFrame:
    """Predicts a frame of one row per set, by ``mapInArrow``: each Python worker reads the model once.

    The rows of a batch are Spark's: spark.sql.execution.arrow.maxRecordsPerBatch.

    Shapes: B rows -> B rows, when the frame is computed.
    Raises: ValueError for a frame that lacks a column of the model; then what the predictor raises, as Spark wraps it.

    Example::

        on_spark(spark.read.parquet("sets"), SetPredictor("model")).write.parquet("predictions")
    """
    schema = predictor.schema(to_arrow_schema(sets.schema))
    return sets.mapInArrow(predictor.batches, from_arrow_schema(schema))
