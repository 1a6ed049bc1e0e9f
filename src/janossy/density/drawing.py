"""Draws of torch.distributions, which take no generator, by one."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def drawing_by(generator: torch.Generator | None) -> Iterator[None]:
    """torch's global random numbers follow this generator meanwhile, and are as they were afterwards."""
    if generator is None:
        yield
        return
    seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    devices = [generator.device] if generator.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        # Those of this device alone: torch.manual_seed would leave the others' changed.
        own = torch.cuda.default_generators[generator.device.index or 0] if devices else torch.default_generator
        own.manual_seed(seed)
        yield
