"""Modules in evaluation mode for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
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


@contextmanager
def untouched(network: nn.Module) -> Iterator[None]:
    """For a trial: in evaluation mode, without gradients, and with torch's random numbers as they were afterwards."""
    devices = {weight.device for weight in network.parameters() if weight.device.type == "cuda"}
    with evaluating(network), torch.no_grad(), torch.random.fork_rng(devices):
        yield
