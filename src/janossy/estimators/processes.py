"""The processes of one fit: their exchange, and the share of each."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from inspect import signature
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from janossy.nn import PooledNorm

PATIENCE = timedelta(hours=12)
"""The longest time that processes wait for each other, such as for the search of the first."""

STARTED_BY = {
    "RANK": "WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK": "PMI_SIZE",
}
"""The variables of rank and number of processes, set by torchrun, Open MPI, and MPICH or Intel MPI.

accelerate uses MPI to start processes without GPUs."""


@dataclass(frozen=True)
class Processes:
    """This process, number ``rank`` of the ``num`` that fit one model. All call the same methods in the same order."""

    rank: int = 0
    num: int = 1

    @classmethod
    def found(cls, device: str) -> "Processes":
        """Returns the processes of an existing group, or of one that torchrun or ``accelerate launch`` has started.

        Without a group it is one process.
        """
        if not dist.is_available():
            return cls()
        if not dist.is_initialized() and (started := _started()):
            backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
            dist.init_process_group(backend, timeout=PATIENCE, rank=started[0], world_size=started[1])
        return cls(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else cls()

    def device(self, name: str) -> str:
        """Returns the device of this process. If there are several processes and GPUs, each process has its own GPU."""
        several = self.num > 1 and name == "cuda"
        return f"cuda:{os.environ.get('LOCAL_RANK', self.rank)}" if several else name

    def mine(self, num: int) -> range:
        """Returns the share of this process in ``num`` tasks."""
        return range(self.rank, num, self.num)

    def gathered(self, x: Any) -> list[Any]:
        """Returns the x of every process, by rank."""
        if self.num == 1:
            return [x]
        all_of_them: list[Any] = [None] * self.num
        dist.all_gather_object(all_of_them, x)
        return all_of_them

    def of_first(self, x: Any) -> Any:
        """Returns the x of the first process."""
        if self.num == 1:
            return x
        given = [x]
        dist.broadcast_object_list(given, device=None)
        return given[0]

    def total(self, x: Tensor) -> Tensor:
        """Returns the sum over all processes, with a gradient."""
        return cast(Tensor, SumOverProcesses.apply(x)) if self.num > 1 else x  # type: ignore[no-untyped-call]

    def trained(self, network: nn.Module) -> nn.Module:
        """Returns the network for training: gradients are averaged over processes, and norms use all sets."""
        if self.num == 1:
            return network
        for part in network.modules():
            if isinstance(part, PooledNorm):
                part.total = self.total
        # Before torch 2.13, the argument had another name.
        names = signature(nn.parallel.DistributedDataParallel).parameters
        name = "forward_sync_buffers" if "forward_sync_buffers" in names else "broadcast_buffers"
        options: dict[str, Any] = {name: False}
        return nn.parallel.DistributedDataParallel(network, **options)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Turns torch's errors about lost connections into a ConnectionError: another process has ended."""
        try:
            yield
        except RuntimeError as error:
            if self.num > 1 and any(word in str(error).lower() for word in ("connection", "gloo", "nccl")):
                raise ConnectionError(
                    "another process of this fit has ended, and this one ends too. Saved files stay, and the same "
                    f"command resumes from its checkpoint ({str(error).splitlines()[0][:120]})"
                ) from error
            raise

    def leave(self, network: nn.Module) -> None:
        """Restores the network for one process."""
        for part in network.modules():
            if isinstance(part, PooledNorm):
                part.total = None


class SumOverProcesses(torch.autograd.Function):
    """The sum over processes. Its gradient is the sum of their gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        there = x.to(_meeting_device(x), copy=True)
        dist.all_reduce(there)
        return there.to(x.device)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return cast(Tensor, SumOverProcesses.apply(gradient.contiguous()))  # type: ignore[no-untyped-call]


def _meeting_device(x: Tensor) -> torch.device:
    """Returns the device on which processes exchange x. A group of NCCL alone, as in Accelerate, needs a GPU."""
    tells = x.device.type in dist.get_backend_config()
    return x.device if tells else torch.device("cuda", torch.cuda.current_device())


def _started() -> tuple[int, int] | None:
    """Returns rank and number of processes if several were started. Warns if a launcher meant to start several."""
    for rank, num in STARTED_BY.items():
        there = rank in os.environ and (rank == "RANK" or "MASTER_ADDR" in os.environ)
        if there and int(os.environ.get(num, "1")) > 1:
            return int(os.environ[rank]), int(os.environ[num])
    if "ACCELERATE_USE_CPU" in os.environ and "MASTER_ADDR" in os.environ and "RANK" not in os.environ:
        warnings.warn(
            "accelerate launch was asked for several processes and has started one, as it does without several GPUs: "
            "this fit is of one process. Start it by torchrun --nproc-per-node, or give accelerate launch --multi_gpu "
            "(also without GPUs), or --cpu and an --mpirun_hostfile.",
            stacklevel=2,
        )
    return None
