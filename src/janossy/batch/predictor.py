"""SetPredictor: a saved model as a function from a table of sets to a table of predictions, for use in any worker."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from socket import gethostname
from threading import Lock
from typing import Any

import pyarrow as pa

from janossy.checks import check_integer
from janossy.estimators.networks import SEED
from janossy.estimators.predictions import beside_ids, num_target_names, prediction_schema, predictions
from janossy.estimators.predictor import AnyPredictor
from janossy.estimators.saved_predictor import read_predictor
from janossy.saving import SavedModelError, digest
from janossy.tables import as_sets
from janossy.tables.forms import names_of
from janossy.tables.lists import holds_lists, leaf_names


@dataclass(frozen=True)
class SetPredictor:
    """A saved model as a function of Arrow tables: one row per set goes in, one row per set comes out.

    A row holds a set's elements as lists, as ``janossy group`` writes them. The output has two parts:

    - the columns that the model does not read, such as ids, unchanged
    - the columns that ``janossy predict`` writes, such as ``prediction`` and ``standard_error``, with the same types
      for every table (docs/commands.md)

    A row's prediction depends only on the model, the seed and the elements of its own set, to the rounding of float32.
    The batch has no effect, because permutations are a function of the seed and the set.

    It pickles as its arguments and the model's digest. Each process reads the model itself, once, from a path that all
    processes see, and refuses a model that has changed. Threads share the model, and get the same results as alone.

    Args:
        model: the folder or zip that ``janossy fit`` or ``janossy.estimators.save`` wrote.
        keep: the columns that are passed on. None passes on all that the model does not read.
        targets: the names of several targets. Columns are then prediction_NAME, with names instead of numbers.
        num_permutations: the number of orders to average, for a model that samples orders. None for that of training.
        seed: the seed of the permutations. 0 gives the predictions of the estimator's own ``predict``.
        device: the device of the networks, such as "cuda".

    Shapes: a pyarrow.Table or RecordBatch of B rows -> a pyarrow.Table of B rows, in the same order. B may be 0.
    Raises: SavedModelError for a model that cannot be read in this process. TypeError for an object that is not an
        Arrow table. ValueError for a table that lacks a column of the model, or has one row per element.
        FloatingPointError for a prediction that is not finite.

    Example:
        >>> from janossy.estimators import SetRegressor, save
        >>> model = SetRegressor("k1", max_epochs=2).fit({"x": [[1.0, 2.0], [3.0]] * 10}, [3.0, 3.0] * 10)
        >>> predictor = SetPredictor(save(model, tempfile.mkdtemp() + "/model"))
        >>> predictor(pa.table({"id": ["a", "b"], "x": [[1.0], []]})).column_names
        ['id', 'prediction', 'standard_error']
    """

    model: str | PathLike[str]
    keep: Sequence[str] | None = field(default=None, kw_only=True)
    targets: Sequence[str] = field(default=(), kw_only=True)
    num_permutations: int | None = field(default=None, kw_only=True)
    seed: int = field(default=SEED, kw_only=True)
    device: str = field(default="cpu", kw_only=True)
    digest: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.model, str | PathLike):
            raise TypeError(
                f"SetPredictor expects the path of a saved model, which every worker reads; got "
                f"{type(self.model).__name__}. janossy.estimators.save writes one."
            )
        check_integer("SetPredictor", "num_permutations", self.num_permutations, 1, optional=True)
        check_integer("SetPredictor", "seed", self.seed, 0)
        for name in ("keep", "targets"):
            if isinstance(given := getattr(self, name), str):
                raise TypeError(f"SetPredictor expects {name} as a list of names; got {given!r}. Write [{given!r}].")
            object.__setattr__(self, name, None if given is None else tuple(given))
        object.__setattr__(self, "model", str(Path(self.model).absolute()))
        object.__setattr__(self, "digest", _digest(str(self.model)))
        loaded = self._loaded
        if loaded.encoder.inner:
            raise ValueError(
                "SetPredictor expects a model of sets, one row per set; got one of sets of sets. Predict with the "
                "estimator, or with janossy predict and a file as --out."
            )
        if self.targets and len(self.targets) != num_target_names(loaded):
            raise ValueError(
                f"SetPredictor expects a name for each of {num_target_names(loaded)} targets; got {self.targets}. "
                "Leave them out."
            )

    def __call__(self, table: pa.Table | pa.RecordBatch) -> pa.Table:
        """Returns the predictions of the sets, one row per row of the table."""
        if not isinstance(table, pa.Table | pa.RecordBatch):
            raise TypeError(
                f"SetPredictor expects a pyarrow.Table or RecordBatch; got {type(table).__name__}. Ray gives them with "
                'batch_format="pyarrow".'
            )
        schema = self.schema(table.schema)
        try:
            table.validate(full=True)
        except pa.ArrowInvalid as error:  # damaged offsets or text, which would end the process
            raise ValueError(f"the table is damaged: {str(error).splitlines()[0][:200]}") from error
        if table.num_rows == 0:
            return schema.empty_table()
        kept, read = self.columns(table.schema)
        kinds = self._kinds()
        sets = as_sets(
            table.select(read),
            set_columns=[code.name for code in self._loaded.encoder.context],
            numeric=[name for name in map(str, names_of(self._loaded.columns.get("numeric"))) if name in kinds],
            categorical=[name for name, kind in kinds.items() if kind == "categorical"],
        )
        predicted = predictions(self._loaded, sets, self.targets, self.seed)
        return pa.Table.from_arrays([*(table.column(name) for name in kept), *predicted.columns], schema=schema)

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the predictions batch by batch, as Spark's ``mapInArrow`` requires."""
        for batch in batches:
            yield from self(batch).to_batches()

    def schema(self, of: pa.Schema) -> pa.Schema:
        """Returns the schema of the output for a table with this schema. Raises: ValueError as the call does."""
        kept, _ = self.columns(of)
        return beside_ids(pa.schema([of.field(name) for name in kept]), prediction_schema(self._loaded, self.targets))

    def columns(self, schema: pa.Schema) -> tuple[list[str], list[str]]:
        """Returns the names of the columns that are passed on, and of those that the model reads.

        Raises: ValueError for a table that lacks a column of the model, or has one row per element.
        """
        kinds = self._kinds()
        leaves = {field.name: leaf_names(field, kinds) for field in schema}
        if len(leaves) < len(schema):
            raise ValueError(f"a table expects columns of different names; got {', '.join(schema.names)}. Rename one.")
        has = f"It has {', '.join(schema.names[:20])}{', …' if len(schema) > 20 else ''}."
        present = {leaf for each in leaves.values() for leaf in each}
        for name in kinds:
            if name not in present:
                raise ValueError(f"the table has no column {name!r}, which the model reads. {has}")
        read = [name for name, each in leaves.items() if kinds.keys() & set(each)]
        elements = {code.name for code in self._loaded.encoder.elements}
        for name in read:
            if elements & set(leaves[name]) and not holds_lists(schema.field(name).type):
                raise ValueError(
                    f"SetPredictor expects one row per set, with lists in {name!r}; got {schema.field(name).type}. "
                    "Group rows of one set first: janossy group TABLE --set-id COL --out SETS.parquet."
                )
        kept = [name for name in schema.names if name not in read] if self.keep is None else list(self.keep)
        for name in kept:
            if name not in leaves:
                raise ValueError(f"the table has no column {name!r} to keep. {has}")
        return kept, read

    @property
    def _loaded(self) -> AnyPredictor:
        with _loading:  # the cache alone would let every thread of a worker read the model
            return load_once(str(self.model), self.digest, self.num_permutations, self.device)

    def _kinds(self) -> dict[str, str]:
        encoder = self._loaded.encoder
        return {code.name: code.kind for code in (*encoder.elements, *encoder.context)}


_loading = Lock()


@lru_cache(maxsize=8)
def load_once(path: str, expected: str, num_permutations: int | None, device: str) -> AnyPredictor:
    """Returns the model, read once per process."""
    if _digest(path) != expected:
        raise SavedModelError(
            f"{path}, read on {gethostname()}, is not the model that was asked for. Leave a model unchanged while "
            "workers read it, and save a new one beside it."
        )
    try:
        model = read_predictor(path)[1]
    except SavedModelError as error:
        raise _unread(path, error) from error
    settings: dict[str, Any] = {"device": device}
    if num_permutations is not None:
        settings["num_permutations"] = num_permutations
    return replace(model, **settings)


def _digest(path: str) -> str:
    try:
        return digest(path)
    except (OSError, SavedModelError) as error:
        raise _unread(path, error) from error


def _unread(path: str, error: Exception) -> SavedModelError:
    return SavedModelError(
        f"the model {path} cannot be read on {gethostname()}: {error} Every worker reads it itself: put it where all "
        "workers see it."
    )
