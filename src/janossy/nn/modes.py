"""Contexts in which modules are in evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from weakref import WeakKeyDictionary

import torch
from torch import nn

_lock = Lock()

_held: WeakKeyDictionary[nn.Module, tuple[int, bool]] = WeakKeyDictionary()
"""The modules in evaluation mode, each with its number of contexts and the mode that it comes back to."""


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Puts the network into evaluation mode, and every module back into its own mode afterwards.

    Contexts may be nested and may overlap in several threads. A module comes back to its mode when the last of them
    ends. Training in one thread while another predicts with the same network is not supported: the training steps would
    run in evaluation mode.
    """
    modules = list(_modules(network))
    with _lock:
        for module in modules:
            count, was_training = _held.get(module, (0, module.training))
            _held[module] = count + 1, was_training
        if any(module.training for module in modules):
            network.eval()
    try:
        yield
    finally:
        with _lock:
            for module in modules:
                count, was_training = _held.pop(module)
                if count > 1:
                    _held[module] = count - 1, was_training
                else:
                    module.training = was_training


def _modules(network: nn.Module) -> Iterator[nn.Module]:
    """Yields all modules that ``network.eval()`` sets, with those that a module holds without registering them."""
    for module in network.modules():
        yield module
        if callable(unregistered := getattr(type(module), "unregistered", None)):
            for other in unregistered(module):
                yield from _modules(other)


@contextmanager
def untouched(network: nn.Module) -> Iterator[None]:
    """Runs a trial in evaluation mode, without gradients; torch's random state is restored afterwards."""
    devices = {weight.device for weight in network.parameters() if weight.device.type == "cuda"}
    with evaluating(network), torch.no_grad(), torch.random.fork_rng(devices):
        yield
