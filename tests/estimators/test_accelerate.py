"""Accelerate starts the processes of a fit, which end as torchrun's do, to the last bit; or it is not installed."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.only_all  # test_processes.py starts two processes, and reads the variables of each launcher


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Returns a folder of sets with too few row groups for two processes, and the predictions after torchrun."""
    pytest.importorskip("accelerate", minversion="1.0", reason="needs Accelerate: pip install accelerate")
    folder = tmp_path_factory.mktemp("accelerate")
    rng = np.random.default_rng(0)
    table = pa.table({"x": [rng.normal(size=n) for n in rng.integers(0, 8, 90)], "y": rng.normal(size=90)})
    parquet.write_table(table, folder / "uneven.parquet", row_group_size=35)
    run = ["torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port())]
    found, _ = launched(folder, [*run, "-m", "tests.estimators.launched", folder])
    return folder, found


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def launched(folder, words):
    """Returns what each process predicts after the launch, and what was said."""
    for file in folder.glob("launched-*.npy"):
        file.unlink()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-m", *map(str, words)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment, cwd=folder)
    assert run.returncode == 0, run.stderr
    return {file.stem: np.load(file) for file in folder.glob("launched-*.npy")}, run.stderr


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["--multi_gpu"], []),
        (["--multi_gpu"], ["--accelerator"]),
        (["--cpu", "--mpirun_hostfile", "hosts"], []),
        (["--cpu", "--mpirun_hostfile", "hosts"], ["--accelerator"]),
    ],
    ids=["torchrun", "torchrun, its group", "mpi", "mpi, its group"],
)
def test_its_processes_are_torchrun_s(expected, before, after):
    folder, by_torchrun = expected
    if "--cpu" in before and shutil.which("mpirun") is None:
        pytest.skip("needs mpirun, of Open MPI, MPICH or Intel MPI")
    (folder / "hosts").write_text("localhost:2\n")
    words = ["accelerate.commands.launch", "--num_processes", 2, "--num_machines", 1, "--main_process_port", port()]
    found, _ = launched(folder, [*words, *before, "-m", "tests.estimators.launched", folder, *after])
    assert found.keys() == by_torchrun.keys() == {"launched-0", "launched-1"}
    for each in found.values():
        assert np.array_equal(each, by_torchrun["launched-0"])


def test_without_gpus_it_starts_one_and_the_fit_says_so(expected):
    """With several GPUs, the same words start a process for each."""
    folder, _ = expected
    words = ["accelerate.commands.launch", "--num_processes", 2, "--num_machines", 1, "--main_process_port", port()]
    found, said = launched(folder, [*words, "--cpu", "-m", "tests.estimators.launched", folder])
    assert found.keys() == {"launched-alone"} and "accelerate launch was asked for several processes" in said
