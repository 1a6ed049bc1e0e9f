"""Two processes fit as one would: gradients, files that do not suffice for both, empty batches, one that dies."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from tests.estimators import two_processes
from tests.estimators.two_processes import FITS, STRATEGIES, fits, gradients, lost


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 8, 90)
    table = pa.table({"x": [rng.normal(size=n) for n in sizes], "y": rng.normal(size=90)})
    empty = pa.table({"x": pa.array([[]] * 40, table["x"].type), "y": rng.normal(size=40)})
    parquet.write_table(table, folder / "uneven.parquet", row_group_size=35)
    parquet.write_table(table.slice(0, 40), folder / "one group.parquet")
    parquet.write_table(pa.concat_tables([table.slice(0, 40), empty]), folder / "half empty.parquet", row_group_size=40)
    wrong = pa.table({"x": [[1.0]] * 7 + [[np.inf]] * 5, "y": rng.normal(size=12)})
    parquet.write_table(wrong, folder / "infinite.parquet", row_group_size=7)
    return folder, *two_processes.run([gradients, fits, lost], folder)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("case", ["dealt", "one has none"])
def test_gradients_are_those_of_one_process(found, strategy, case):
    _, by_rank, _, _ = found
    alone = one_process()[f"{strategy}, {case}"]
    for of_rank in by_rank:
        for name, gradient in of_rank[f"{strategy}, {case}"].items():
            assert torch.allclose(gradient, alone[name], rtol=1e-4, atol=1e-6), name


_alone: dict = {}


def one_process():
    if not _alone:
        _alone.update(gradients(None))
    return _alone


@pytest.mark.parametrize(("name", "strategy"), FITS)
def test_fits_end_alike_in_both(found, name, strategy):
    """With error bars, from permutations that were drawn anew in each; checkpoints are one's."""
    folder, _, (first, second), _ = found
    assert np.array_equal(first[name], second[name]) and np.isfinite(first[name]).all()
    assert bool(np.any(first[name][1])) == (strategy == "gru")
    assert first[f"{name}, epochs"] == second[f"{name}, epochs"] == 2
    seeds = first[f"{name}, seeds"], second[f"{name}, seeds"]
    assert len(seeds[0]) > 2 and set(seeds[0]).isdisjoint(seeds[1])
    assert {file.name for file in (folder / f"{name} checkpoint").iterdir()} == {"prepared.pt", "training.pt"}


def test_fits_of_two_repeat(found):
    _, _, (first, second), _ = found
    assert np.array_equal(first["again"], first["half empty"])
    assert np.array_equal(second["again"], first["again"])


def test_what_is_wrong_for_one_is_told_by_both(found):
    _, _, told, _ = found
    assert told[0]["wrong"] == told[1]["wrong"] and "column 'x' expects finite numbers" in told[0]["wrong"]


def test_one_that_dies_ends_the_other_with_one_error(found):
    _, _, _, (told,) = found
    assert told.startswith("another process of this fit has ended") and "what was saved stays" in told
