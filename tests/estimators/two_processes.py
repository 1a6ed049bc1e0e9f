"""Work of two processes together, each a process: ``run(works, folder)``, then ``found(works, folder)``."""

import os
import socket
import warnings
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
import torch.multiprocessing as mp

from janossy import Ragged
from janossy.estimators import SetRegressor, checkpoint, training
from janossy.estimators.batches import Examples
from janossy.estimators.processes import Processes
from janossy.estimators.strategies import build_network
from janossy.estimators.streams.order import Order, Reader
from janossy.estimators.tasks import Regression
from janossy.estimators.training import Plan
from janossy.tables import SetStream
from janossy.tables.layout import Layout

STRATEGIES = ("k1", "k2", "k3", "k2+features", "attention", "max", "gru", "lstm")
FITS = (("uneven", "gru"), ("one group", "k2"), ("half empty", "gru"))
"""The files, and the strategies that are fitted to them."""

OPTIONS = {"max_epochs": 2, "random_state": 0, "time_budget": None, "batch_size": 16}


def gradients(folder: Path) -> dict[str, dict[str, torch.Tensor]]:
    """Returns the gradients of one step per strategy, on a batch dealt to the processes: 5 sets, and 2 with an empty
    one.
    """
    processes = Processes.found("cpu")
    found = {}
    for strategy in STRATEGIES:
        for case, cut in (("dealt", 5), ("one has none", 8)):
            torch.manual_seed(0)
            network = build_network(strategy, Layout((4,), 2), Layout(), 1, width=8, num_heads=2)
            mine = slice(None) if processes.num == 1 else (slice(0, cut), slice(cut, 8))[processes.rank]
            batch = examples()[mine]
            reader = Reader(None, Order([8], [8], 8, processes.num, 0), processes.rank)
            criterion, plan = Regression(1).criterion, Plan(1, 8, 1e-2, None)
            each = training.Training(network, reader, batch, criterion, plan, print, processes=processes)
            called = processes.trained(network)
            each.step(called, batch if len(batch) else None, 8)
            processes.leave(network)
            found[f"{strategy}, {case}"] = {name: x.grad.clone() for name, x in network.named_parameters()}
            found[f"{strategy}, {case}"] |= {name: x.clone() for name, x in network.named_buffers()}
    return found


def examples() -> Examples:
    """Returns sets of equal elements. All their orders are the same, so that samples make no difference."""
    source = torch.Generator().manual_seed(5)
    sizes = [3, 1, 4, 2, 3, 5, 0, 2]
    rows = torch.cat((torch.randint(4, (8, 1), generator=source).float(), torch.randn(8, 2, generator=source)), 1)
    sets = Ragged.from_sizes(rows.repeat_interleave(torch.tensor(sizes), 0), sizes)
    targets = torch.randn(8, 1, generator=source)
    return Examples(sets, None, targets, torch.rand(8, generator=source) + 0.5)


def fits(folder: Path) -> dict[str, object]:
    """Returns predictions after fits to files with too few row groups for two processes, or with empty sets only."""
    found: dict[str, object] = {}
    seeds: list[int] = []
    seed_of = training.seed_of
    training.seed_of = lambda *numbers: seeds.append(seed_of(*numbers)) or seeds[-1]
    for name, strategy in FITS:
        stream = SetStream(folder / f"{name}.parquet", "y")
        seeds.clear()
        model = SetRegressor(strategy, checkpoint=folder / f"{name} checkpoint", **OPTIONS).fit(stream)
        found[name] = model.predict(stream, return_std=True)
        found[f"{name}, seeds"] = list(seeds)
        found[f"{name}, epochs"] = model.trials_[-1].epochs
    found["stopped"] = stopped(folder)
    again = SetRegressor("gru", **OPTIONS).fit(stream)
    found["again"] = again.predict(stream, return_std=True)
    try:
        SetRegressor("k1", max_epochs=1).fit(folder / "infinite.parquet", "y")
    except ValueError as error:
        found["wrong"] = str(error)
    return found


def stopped(folder: Path) -> object:
    """Returns predictions of the first fit, stopped and resumed. Only the first process sees the checkpoint."""
    rank, (name, strategy), step = torch.distributed.get_rank(), FITS[0], training.Training.step
    stream = SetStream(folder / f"{name}.parquet", "y")
    model = SetRegressor(strategy, checkpoint=folder / f"stopped {rank}", **OPTIONS)

    def stops(self, *arguments):
        if self.state.step == 4:
            raise OSError("no space left")
        return step(self, *arguments)

    with patch.object(checkpoint, "SECONDS", 0.0), patch.object(training.Training, "step", stops):
        try:
            model.fit(stream)
        except OSError:
            torch.distributed.barrier()
    return model.fit(stream).predict(stream, return_std=True), (folder / f"stopped {rank}").exists()


def lost(folder: Path) -> str:
    """Returns the message of the first process when the second is killed in training."""
    step = training.Training.step

    def dies(self, *arguments):
        if self.state.step == 3 and self.processes.rank == 1:
            os._exit(1)
        return step(self, *arguments)

    training.Training.step = dies
    try:
        SetRegressor("k1", max_epochs=3, batch_size=8, random_state=0).fit(folder / "uneven.parquet", "y")
    except ConnectionError as error:
        return str(error)
    return "nothing"


def run(works: list, folder: Path) -> None:
    """Runs each function of ``works`` on this folder in two processes, which are started once."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = mp.get_context("spawn")
    workers = [context.Process(target=_work, args=(works, folder, rank, port)) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(240)
        worker.kill()


def found(works: list, folder: Path) -> list[list]:
    """Returns the results of each of these works, by process."""
    return [
        [torch.load(folder / f"{work.__name__}-{rank}.pt", weights_only=False) for rank in range(2 - (work is lost))]
        for work in works
    ]


def _work(works: list, folder: Path, rank: int, port: int) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    np.seterr(all="raise", under="ignore")
    warnings.simplefilter("error", FutureWarning)  # about torch's own names
    for work in works:
        torch.save(work(folder), folder / f"{work.__name__}-{rank}.pt")
