"""Modules in evaluation mode for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from weakref import WeakKeyDictionary

import torch
from torch import nn

_lock = Lock()

_held: WeakKeyDictionary[nn.Module, tuple[int, bool]] = WeakKeyDictionary()
"""The modules that are in evaluation mode for a while: for how many contexts, and the mode that they come back to."""


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Puts the network into evaluation mode meanwhile, and every module back into its own mode afterwards.

    Contexts may be nested and may overlap in several threads: a module comes back to its mode when the last of them
    ends. A thread that trains a network while another predicts with it is outside this: its steps would run in
    evaluation mode.
    """
    modules = list(network.modules())
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


@contextmanager
def untouched(network: nn.Module) -> Iterator[None]:
    """For a trial: in evaluation mode, without gradients, and with torch's random numbers as they were afterwards."""
    devices = {weight.device for weight in network.parameters() if weight.device.type == "cuda"}
    with evaluating(network), torch.no_grad(), torch.random.fork_rng(devices):
        yield
