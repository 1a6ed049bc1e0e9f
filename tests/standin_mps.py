"""A stand-in for MPS: tensors that claim to be there, hold numbers on the CPU, and refuse float64 as MPS does."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter, tree_map

from janossy import Ragged

DEVICE = torch.device("mps")


class OnMps(Tensor):
    """A tensor on the device, whose numbers are in ``raw``."""

    raw: Tensor
    device = property(lambda self: DEVICE)  # type: ignore[assignment]
    is_cpu = property(lambda self: False)  # type: ignore[assignment]
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, raw: Tensor) -> "OnMps":
        if raw.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64, which the MPS framework does not support.")
        layout = {"strides": raw.stride(), "storage_offset": raw.storage_offset(), "dtype": raw.dtype}
        made = torch.Tensor._make_wrapper_subclass(cls, raw.shape, device="cpu", **layout)
        made.raw = raw
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        given = {id(x.raw): x for x in tree_iter((args, kwargs)) if isinstance(x, OnMps)}
        raw = tree_map(numbers, (args, kwargs or {}))
        out = func(*raw[0], **raw[1])
        return tree_map(lambda x: given[id(x)] if id(x) in given else wrapped(x), out)


def numbers(x: Any) -> Any:
    return x.raw if isinstance(x, OnMps) else x


def wrapped(x: Any) -> Any:
    return OnMps(x) if isinstance(x, Tensor) and not isinstance(x, OnMps) else x


def is_mps(device: Any) -> bool:
    return isinstance(device, torch.device | str) and torch.device(device).type == "mps"


class Mps(TorchFunctionMode):
    """A mode in which tensors are made and moved as if there were a device."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if name in ("cpu", "numpy", "tolist", "item"):
            return func(*tree_map(numbers, args), **kwargs)
        if name == "to":
            devices = [each for each in (*args[1:], kwargs.pop("device", None)) if isinstance(each, torch.device | str)]
            like = next((each for each in args[1:] if isinstance(each, Tensor)), None)
            there = any(map(is_mps, devices)) if devices else isinstance(args[0] if like is None else like, OnMps)
            rest = [x for x in args[1:] if isinstance(x, torch.dtype)] if like is None else [like.dtype]
            moved = func(numbers(args[0]), *rest, **kwargs) if rest or kwargs else numbers(args[0])
            return wrapped(moved) if there else moved
        if is_mps(kwargs.get("device")):
            return tree_map(wrapped, func(*args, **kwargs | {"device": "cpu"}))
        return func(*args, **kwargs)


def on_mps(x: Any) -> Any:
    if isinstance(x, Ragged):
        return Ragged(OnMps(x.values), OnMps(x.offsets), sizes=x.sizes)
    for module in x.modules():
        for name, parameter in module._parameters.items():
            module._parameters[name] = None if parameter is None else nn.Parameter(OnMps(parameter.detach()))
    return x
