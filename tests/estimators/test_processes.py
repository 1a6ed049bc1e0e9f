"""Two processes fit as one would: gradients, files that do not suffice for both, empty batches, one that dies."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from filelock import FileLock
from pyarrow import parquet

from janossy.estimators.processes import Processes, SumOverProcesses
from tests.estimators import two_processes
from tests.estimators.two_processes import FITS, STRATEGIES, fits, gradients, lost


@pytest.fixture(scope="session")
def found(tmp_path_factory, worker_id):
    """Returns the folder and the results of both processes.

    Pytest's workers share one start of the two processes, which takes seconds.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "two"
    works = [gradients, fits, lost]
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            folder.mkdir()
            write_files(folder)
            two_processes.run(works, folder)
    return folder, *two_processes.found(works, folder)


def write_files(folder):
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 8, 90)
    table = pa.table({"x": [rng.normal(size=n) for n in sizes], "y": rng.normal(size=90)})
    empty = pa.table({"x": pa.array([[]] * 40, table["x"].type), "y": rng.normal(size=40)})
    parquet.write_table(table, folder / "uneven.parquet", row_group_size=35)
    parquet.write_table(table.slice(0, 40), folder / "one group.parquet")
    parquet.write_table(pa.concat_tables([table.slice(0, 40), empty]), folder / "half empty.parquet", row_group_size=40)
    wrong = pa.table({"x": [[1.0]] * 7 + [[np.inf]] * 5, "y": rng.normal(size=12)})
    parquet.write_table(wrong, folder / "infinite.parquet", row_group_size=7)


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


def test_a_fit_of_two_that_was_stopped_goes_on_to_the_same_result(found):
    """Also where the second process does not see the checkpoint."""
    _, _, (first, second), _ = found
    for rank, each in enumerate((first, second)):
        predictions, has_folder = each["stopped"]
        assert np.array_equal(predictions, first["uneven"]) and has_folder == (rank == 0)


def test_what_is_wrong_for_one_is_told_by_both(found):
    _, _, errors, _ = found
    assert errors[0]["wrong"] == errors[1]["wrong"] and "column 'x' expects finite numbers" in errors[0]["wrong"]


def test_one_that_dies_ends_the_other_with_one_error(found):
    _, _, _, (message,) = found
    assert message.startswith("another process of this fit has ended") and "Saved files stay" in message


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3", "MASTER_ADDR": "a"}, (2, 3)),
        ({"PMI_RANK": "0", "PMI_SIZE": "2", "MASTER_ADDR": "a"}, (0, 2)),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, None),
        ({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "a"}, None),
        ({}, None),
    ],
    ids=["torchrun", "open mpi", "mpich", "mpi alone", "one", "none"],
)
def test_what_has_started_processes(environment, expected, monkeypatch):
    """By the variables that each launcher sets; MPI alone says nothing of where the first process listens."""
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "PMI_RANK", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    calls = []
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda *_, **given: calls.append(given))
    assert Processes.found("cpu") == Processes()
    assert [(call["rank"], call["world_size"]) for call in calls] == ([] if expected is None else [expected])


def test_accelerate_that_has_started_one_of_several_is_told(monkeypatch):
    for name, value in {"ACCELERATE_USE_CPU": "False", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.warns(UserWarning, match="has started one, .* Start it by torchrun"):
        assert Processes.found("cpu") == Processes()


def test_a_sum_over_processes_leaves_its_term(monkeypatch):
    monkeypatch.setattr(torch.distributed, "get_backend_config", lambda: "cpu:gloo")
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda x: x.mul_(2))
    term = torch.ones(1)
    assert SumOverProcesses.apply(term).item() == 2 and term.item() == 1


def test_a_group_of_gpus_alone_is_told_on_gpus(monkeypatch):
    """The group is like that of NCCL, which Accelerate and Ray Train make."""
    places = []
    monkeypatch.setattr(torch.distributed, "get_backend_config", lambda: "cuda:nccl")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.Tensor, "to", lambda x, device, **options: places.append(device) or x.clone())
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda x: x.mul_(2))
    assert SumOverProcesses.apply(torch.ones(1)).item() == 2
    assert places == [torch.device("cuda", 3), torch.device("cpu")]


@pytest.mark.parametrize(
    ("num", "said", "raised"),
    [(2, "[gloo] Connection closed by peer", ConnectionError), (1, "gloo", RuntimeError), (2, "shapes", RuntimeError)],
)
def test_a_lost_connection_says_that_another_process_has_ended(num, said, raised):
    with pytest.raises(raised) as caught, Processes(0, num).together():
        raise RuntimeError(said)
    assert type(caught.value) is raised and said in str(caught.value)
