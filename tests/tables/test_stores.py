"""Files in stores, by their addresses: what a local folder gives, through Arrow's file systems and fsspec's."""

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from janossy.estimators import SetRegressor
from janossy.tables import SetStream
from janossy.tables.files import open_files
from janossy.tables.paths import stored_files

NUM = 40


def sets(begin: int = 0) -> pa.Table:
    rng = np.random.default_rng(begin)
    lists = [rng.normal(size=rng.integers(1, 4)).tolist() for _ in range(NUM)]
    return pa.table({"x": lists, "y": [sum(each) for each in lists]})


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path):
    """Gives the address of a folder with two files, one of them in a subfolder, and hidden ones."""
    address = f"{'file' if request.param == 'file' else 'memory'}://{tmp_path}/data"
    for place in ("year=2023/a.parquet", "year=2024/b.parquet", "year=2024/_hidden.parquet", "readme.txt"):
        with fsspec.open(f"{address}/{place}", "wb", auto_mkdir=True) as file:
            if place.endswith("txt"):
                file.write(b"text")
            else:
                parquet.write_table(sets(int(place[5:9])), file, row_group_size=16)
    yield address
    if request.param == "memory":
        fsspec.filesystem("memory").rm(f"{tmp_path}/data", recursive=True)


def test_a_store_is_a_folder(store):
    files = open_files(store)
    assert [name.rsplit("/", 1)[1] for name in files.names] == ["a.parquet", "b.parquet"]
    assert files.schema.names == ["x", "y", "year"]
    stream = SetStream(store, "y")
    expected = [*sets(2023)["y"].to_pylist(), *sets(2024)["y"].to_pylist()]
    assert np.concatenate([part.targets for part in stream]).tolist() == expected
    years = np.concatenate([part.sets.context["year"].decoded() for part in stream])
    assert years.tolist() == [2023] * NUM + [2024] * NUM
    one = SetStream(f"{store}/year=2023/a.parquet", "y")
    assert len(one) == NUM and one.read(0).sets.elements.keys() == {"x"}


def test_a_prediction_of_a_list_opens_each_file_for_its_footer_and_for_its_rows(tmp_path, monkeypatch):
    memory, names = fsspec.filesystem("memory"), [f"{tmp_path}/{i}.parquet" for i in range(3)]
    for i, name in enumerate(names):
        with memory.open(name, "wb") as file:
            parquet.write_table(sets(i), file)
    addresses, opened = [f"memory:/{name}" for name in names], []
    model = SetRegressor("k1", max_epochs=1, random_state=0).fit(addresses, "y")
    open_one = type(memory).open

    def counted(self, path, *arguments, **options):
        opened.append(path)
        return open_one(self, path, *arguments, **options)

    monkeypatch.setattr(type(memory), "open", counted)
    assert model.predict(addresses).shape == (3 * NUM,)
    assert sorted(opened) == sorted(2 * names)
    memory.rm(str(tmp_path), recursive=True)


def test_a_fit_to_a_store(store, tmp_path):
    """The same as one to a local copy of its files."""
    fsspec.filesystem(store.split(":")[0]).get(store.split("//")[1], str(tmp_path / "copy"), recursive=True)
    found = [
        SetRegressor("k1", max_epochs=2, random_state=0).fit(place, "y") for place in (store, str(tmp_path / "copy"))
    ]
    assert np.array_equal(found[0].predict(store), found[1].predict(str(tmp_path / "copy")))
    assert found[0].predict(store).shape == (2 * NUM,)


def test_what_is_not_there(store):
    for address in (f"{store}/nothing", f"{store}/*.parquet"):
        with pytest.raises(FileNotFoundError, match="there is no file or folder"):
            open_files(address)
    with pytest.raises(ValueError, match=r"expects a file in \.parquet, \.pq; got \.txt"):
        open_files(f"{store}/readme.txt")
    with pytest.raises(ValueError, match="names a store that is not known"):
        stored_files("nostore://bucket/x.parquet", {})
    with pytest.raises(ValueError, match="expected different files"):
        open_files([store, f"{store}/year=2023"])
