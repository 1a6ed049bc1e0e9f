"""Predictions by Ray Data."""

import pyarrow as pa

try:
    from ray.data import ActorPoolStrategy, Dataset
except ImportError as error:
    raise ImportError("on_ray needs Ray: pip install 'janossy[ray]'.") from error

from janossy.batch.predictor import SetPredictor


def on_ray(sets: Dataset, predictor: SetPredictor, *, workers: int = 1, batch_size: int = 4096) -> Dataset:
    """Predicts a dataset with one row per set, by ``workers`` actors of one CPU, each of which reads the model once.

    Shapes: B rows -> B rows, when the dataset is consumed.
    Raises: the predictor's errors, as Ray wraps them, when the dataset is consumed.

    Example::

        sets = ray.data.read_parquet("sets")
        on_ray(sets, SetPredictor("model"), workers=8).write_parquet("predictions")
    """
    return sets.map_batches(
        _Actor,
        fn_constructor_args=(predictor,),
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=ActorPoolStrategy(size=workers),
    )


class _Actor:
    """A predictor in a process of its own. It refuses a model that has changed, by the digest that it came with."""

    def __init__(self, predictor: SetPredictor) -> None:
        self.predictor = predictor

    def __call__(self, table: pa.Table) -> pa.Table:
        return self.predictor(table)
