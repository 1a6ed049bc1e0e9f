"""Modules in evaluation mode for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """The network in evaluation mode meanwhile, and every module in its own mode afterwards."""
    training = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, was_training in training.items():
            module.training = was_training
