"""The processes of one fit: what they tell each other, and what each of them alone does."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from janossy.tabular import PooledNorm

PATIENCE = timedelta(hours=12)
"""The first of them may search for as long, while the others wait."""


@dataclass(frozen=True)
class Processes:
    """This process, ``rank`` of ``num`` that fit one model together. Each calls the same methods in the same order."""

    rank: int = 0
    num: int = 1

    @classmethod
    def found(cls, device: str) -> "Processes":
        """Those of a process group that is there, or that torchrun or ``accelerate launch`` has started; else one."""
        if not dist.is_available():
            return cls()
        if not dist.is_initialized() and int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ:
            dist.init_process_group("cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo", timeout=PATIENCE)
        return cls(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else cls()

    def device(self, name: str) -> str:
        """Of several GPUs each process takes its own."""
        several = self.num > 1 and name == "cuda"
        return f"cuda:{os.environ.get('LOCAL_RANK', self.rank)}" if several else name

    def mine(self, num: int) -> range:
        """Which of so many things this one does."""
        return range(self.rank, num, self.num)

    def gathered(self, x: Any) -> list[Any]:
        """What each of them gives, by rank."""
        if self.num == 1:
            return [x]
        all_of_them: list[Any] = [None] * self.num
        dist.all_gather_object(all_of_them, x)
        return all_of_them

    def of_first(self, x: Any) -> Any:
        """What the first of them gives."""
        if self.num == 1:
            return x
        given = [x]
        dist.broadcast_object_list(given, device=None)
        return given[0]

    def total(self, x: Tensor) -> Tensor:
        """The sum over all of them, with a gradient."""
        return _Sum.apply(x) if self.num > 1 else x

    def trained(self, network: nn.Module) -> nn.Module:
        """The network as it is called in training: gradients are averaged over processes, norms are of all sets."""
        if self.num == 1:
            return network
        for part in network.modules():
            if isinstance(part, PooledNorm):
                part.total = self.total
        return nn.parallel.DistributedDataParallel(network, broadcast_buffers=False)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Say in a ConnectionError that another process has ended, of which torch speaks as of its own connections."""
        try:
            yield
        except RuntimeError as error:
            if self.num > 1 and any(word in str(error).lower() for word in ("connection", "gloo", "nccl")):
                raise ConnectionError(
                    "another process of this fit has ended, and this one ends too; what was saved stays, and the same "
                    f"command goes on from its checkpoint ({str(error).splitlines()[0][:120]})"
                ) from error
            raise

    def leave(self, network: nn.Module) -> None:
        """The network for one process again."""
        for part in network.modules():
            if isinstance(part, PooledNorm):
                part.total = None


class _Sum(torch.autograd.Function):
    """The sum over processes, whose gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _Sum.apply(gradient.contiguous())
