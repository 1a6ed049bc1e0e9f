"""A stand-in for a GPU: tensors that claim to be on CUDA, hold numbers on the CPU, and fail if the host waits.

Inside ``with cuda():``, torch makes and moves tensors "on CUDA" as ``OnCuda``. The numbers are right, so that results
can be compared. The difference is that the host may not know them. These operations raise ``Waited``:

- reading a number back: ``item``, ``tolist``, ``cpu``, ``if``
- a result whose shape depends on numbers: ``nonzero``, ``unique``, a mask as an index, ``repeat_interleave`` without
  ``output_size``
- sending a tensor up by an ordinary copy

Tensors of two devices do not mix.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter, tree_map

from janossy import Ragged
from janossy.evaluate import choose, gpu, on_kernels
from janossy.evaluate.gpu import Gpu

DEVICE = torch.device("cuda", 0)

A100 = Gpu("NVIDIA A100", 108, 1.41e9, 2.039e12, (8, 0))
"""The GPU that it claims to be: SXM, with 80 GB."""


class Waited(AssertionError):
    """An error: the host has waited for the device."""


class TwoDevices(RuntimeError):
    """An error: tensors of two devices in one operation, which torch refuses."""


OF_NUMBERS = [
    "_local_scalar_dense",
    "nonzero",
    "_unique",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "masked_select",
    "bincount",
    "equal",
    "is_nonzero",
    "histc",
    "argwhere",
]
"""Operators whose result is a number, or has a shape that depends on numbers."""


class OnCuda(Tensor):
    """A tensor on the device, whose numbers are in ``raw``."""

    raw: Tensor
    device = property(lambda self: DEVICE)  # type: ignore[assignment]
    is_cuda = property(lambda self: True)  # type: ignore[assignment]
    is_cpu = property(lambda self: False)  # type: ignore[assignment]
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, raw: Tensor) -> "OnCuda":
        layout = {"strides": raw.stride(), "storage_offset": raw.storage_offset(), "dtype": raw.dtype}
        made = torch.Tensor._make_wrapper_subclass(cls, raw.shape, device="cpu", **layout)
        made.raw = raw
        return made

    def __repr__(self, **_: Any) -> str:
        return f"OnCuda{tuple(self.shape)}"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        _check_waits(func, args, kwargs or {})
        given = {id(x.raw): x for x in tree_iter((args, kwargs)) if isinstance(x, OnCuda)}
        raw = tree_map(lambda x: x.raw if isinstance(x, OnCuda) else x, (args, kwargs or {}))
        out = func(*raw[0], **raw[1])
        return tree_map(lambda x: given[id(x)] if id(x) in given else _wrapped(x), out)


def _check_waits(func: Any, args: tuple, kwargs: dict) -> None:
    name = func.overloadpacket.__name__
    if name in OF_NUMBERS:
        raise Waited(f"{name} waits for the device")
    if name == "repeat_interleave" and func._overloadname == "Tensor" and kwargs.get("output_size") is None:
        raise Waited("repeat_interleave without output_size waits for the device")
    if name in ("index", "index_put", "index_put_"):
        by_mask = any(isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8) for i in args[1])
        if by_mask and not (name != "index" and args[2].numel() == 1):  # the exception is a masked_fill
            raise Waited("a mask as an index waits for the device")


READING = ["item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__", "__array__"]
"""Methods of tensors that read numbers back."""

TAKING_BATCH_SIZES = {torch.lstm, torch.gru, torch.rnn_tanh}
"""Functions that take integers on the host."""


class _Cuda(TorchFunctionMode):
    """A mode in which tensors are made and moved as if there were a device."""

    def __init__(self, sends: bool) -> None:
        super().__init__()
        self.sends = sends

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        tensors = [x for x in tree_iter((args, kwargs)) if isinstance(x, Tensor)]
        there = any(isinstance(x, OnCuda) for x in tensors)
        if name == "pin_memory" and not there:
            made = args[0].view(args[0].shape)
            made.pinned = True
            return made
        if there and name in READING:
            raise Waited(f"{name} waits for the device")
        if name == "backward":
            # What backward recomputes is on the device too; torch.autograd.backward would return here.
            run, options = (
                torch.autograd.graph._engine_run_backward,
                {"allow_unreachable": True, "accumulate_grad": True},
            )
            with self:
                return run((args[0],), (torch.ones_like(args[0]),), False, False, (), **options)
        if name == "to":
            return self._moved(func, args, kwargs)
        if name == "cuda":
            return self._moved(Tensor.to, (*args, DEVICE), kwargs)
        if func in TAKING_BATCH_SIZES:
            tensors = [x for x in tensors if x.dtype != torch.int64]
        if there and name not in ("__get__", "__set__", "requires_grad_", "copy_"):
            for x in tensors:
                if not isinstance(x, OnCuda) and x.dim() > 0 and type(x) in (Tensor, nn.Parameter):
                    if name == "__getitem__":
                        raise Waited("an index on the host is sent by an ordinary copy, which waits for the device")
                    raise TwoDevices(f"Expected all tensors to be on the same device; got cuda:0 and cpu in {name}")
        made_there = kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cuda"
        if made_there:
            if name in ("tensor", "as_tensor") and not isinstance(args[0], Tensor):
                raise Waited(f"torch.{name} on the device is an ordinary copy, which waits for the device")
            kwargs["device"] = "cpu"
        out = func(*args, **kwargs)
        return tree_map(_wrapped, out) if made_there else out

    def _moved(self, func, args, kwargs):
        x, *rest = args
        device = kwargs.pop("device", None)
        device = next((each for each in rest if isinstance(each, torch.device | str)), device)
        rest = [each for each in rest if not isinstance(each, torch.device | str)]
        like = next((each for each in rest if isinstance(each, OnCuda)), None)
        if like is not None:
            device, rest = DEVICE, [like.dtype, *(each for each in rest if each is not like)]
        waits_not = kwargs.pop("non_blocking", False)
        to_cuda = device is not None and torch.device(device).type == "cuda"
        if isinstance(x, OnCuda):
            if device is not None and not to_cuda:
                raise Waited("to(cpu) waits for the device")
        elif to_cuda:
            if not self.sends:
                raise Waited("nothing may be sent to the device here")
            if not (waits_not and getattr(x, "pinned", False)) and x.dim() > 0:
                raise Waited("an ordinary copy to the device waits for it")
            x = OnCuda(x.detach().clone())
        return func(x, *rest, **kwargs) if rest or kwargs else x


def _wrapped(x: Any) -> Any:
    return OnCuda(x) if isinstance(x, Tensor) and not isinstance(x, OnCuda) else x


_group = torch._C._group_tensors_by_device_and_dtype


def _grouped(*args: Any) -> dict:
    """Returns tensors by device and dtype, as optimisers and gradient clipping need them."""
    groups = {}
    for (device, dtype), (lists, places) in _group(*args).items():
        groups[DEVICE if isinstance(lists[0][0], OnCuda) else device, dtype] = lists, places
    return groups


@contextmanager
def cuda(sends: bool = True, kernels: bool = False) -> Iterator[None]:
    """Stands in for a GPU inside ``with``.

    ``sends=False`` forbids sending anything to it, as while a CUDA graph is recorded. ``kernels`` calls those of Triton
    (tests/cuda); otherwise torch operations replace them.
    """
    with pytest.MonkeyPatch.context() as patch, _Cuda(sends):
        # torch keeps the state of a GPU's random numbers on the host; here there is none.
        patch.setattr(torch.utils.checkpoint, "get_device_states", lambda *args: ([], []))
        # C++ asks the tensors, whose device is the CPU.
        patch.setattr(torch._C, "_group_tensors_by_device_and_dtype", _grouped)
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: not sends)
        patch.setattr(on_kernels, "_loaded_on", lambda device: kernels)
        patch.setattr(gpu, "gpu_of", lambda device: A100)
        patch.setattr(choose, "gpu_of", lambda device: A100)
        yield


def on_cuda(x: Any) -> Any:
    """Returns a tensor, sets or a module on the device, moved before the test begins (a module itself, not a copy)."""
    if isinstance(x, Tensor):
        there = OnCuda(x.detach().clone())
        return (
            nn.Parameter(there, x.requires_grad)
            if isinstance(x, nn.Parameter)
            else there.requires_grad_(x.requires_grad)
        )
    if isinstance(x, Ragged):
        return Ragged(on_cuda(x.values), on_cuda(x.offsets), sizes=x.sizes)
    for module in x.modules():
        for name, parameter in module._parameters.items():
            module._parameters[name] = None if parameter is None else on_cuda(parameter)
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else on_cuda(buffer)
    return x


def numbers(x: Tensor) -> Tensor:
    """Returns the numbers of a tensor on the device."""
    return x.raw if isinstance(x, OnCuda) else x
