"""The engines that drive a SetPredictor: those that are installed give what it gives; others say what they need."""

import importlib
import shutil
import sys

import pyarrow as pa
import pytest
from pyarrow import parquet

from janossy import batch
from tests.batch.models import saved, table
from tests.batch.ray import ray

__all__ = ["ray"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Gives a model, and a folder with two files of sets."""
    folder = tmp_path_factory.mktemp("engines")
    saved("classes", folder)
    (folder / "sets").mkdir()
    for i in range(2):
        parquet.write_table(table(60, seed=1).slice(30 * i, 30), folder / "sets" / f"{i}.parquet")
    return folder


@pytest.fixture
def law(folder):
    """Holds a table from an engine, in whatever order, to what the predictor itself gives."""
    predictor = batch.SetPredictor(folder / "classes")
    expected = predictor(table(60, seed=1)).sort_by("note")

    def check(found: pa.Table) -> None:
        assert found.cast(expected.schema).replace_schema_metadata().sort_by("note") == expected

    return predictor, str(folder / "sets"), check


@pytest.mark.only_all  # an engine that takes long to start
def test_ray(law, ray):
    predictor, sets, check = law
    found = batch.on_ray(ray.data.read_parquet(sets), predictor, batch_size=25)
    check(pa.concat_tables(ray.get(found.to_arrow_refs())))


@pytest.mark.only_all
def test_a_changed_model_is_refused_on_ray(ray, tmp_path):
    model = saved("classes", tmp_path)
    predictor = batch.SetPredictor(model)
    shutil.rmtree(model)
    saved("numbers", tmp_path).rename(model)
    with pytest.raises(Exception, match="is not the model that was asked for"):
        batch.on_ray(ray.data.from_arrow(table(5)), predictor).materialize()


def test_daft(law):
    daft = pytest.importorskip("daft")
    predictor, sets, check = law
    check(batch.on_daft(daft.read_parquet(sets), predictor, batch_size=25).to_arrow())


def test_dask(law):
    frames = pytest.importorskip("dask.dataframe")
    predictor, sets, check = law
    found = batch.on_dask(frames.read_parquet(sets, dtype_backend="pyarrow"), predictor)
    check(pa.Table.from_pandas(found.compute(), preserve_index=False))
    with pytest.raises(TypeError, match="dtype_backend"):
        batch.on_dask(frames.read_parquet(sets), predictor)


def test_spark(law, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("needs Java")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    predictor, sets, check = law
    session = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
    try:
        check(batch.on_spark(session.read.parquet(sets), predictor).toArrow())
    finally:
        session.stop()


@pytest.mark.parametrize(
    ("engine", "package"), [("ray", "ray"), ("daft", "daft"), ("spark", "pyspark"), ("dask", "dask")]
)
def test_a_missing_engine_names_its_extra(engine, package, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"janossy.batch.{engine}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'janossy\[{engine}\]'"):
        importlib.import_module(f"janossy.batch.{engine}")
