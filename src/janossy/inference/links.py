"""Links: what is done to an output before outputs are averaged."""

from collections.abc import Callable

import torch
from torch import Tensor

from janossy.inference.error_bars import Sample

Link = Callable[[Tensor], Tensor]

LINKS: dict[str | None, Link] = {
    None: lambda outputs: outputs,
    "sigmoid": torch.sigmoid,
    "softmax": lambda outputs: outputs.softmax(-1),
}


def named_link(link: str | Link | None, owner: str) -> Link:
    """The link of that name, or the one given.

    Raises: TypeError for what is neither, ValueError for an unknown name, in the name of ``owner``.
    """
    if callable(link):
        return link
    expected = f"{owner} expects a link among {', '.join(map(repr, LINKS))} or a function"
    if link is not None and not isinstance(link, str):
        raise TypeError(f"{expected}; got {link!r}, of type {type(link).__name__}.")
    if link not in LINKS:
        raise ValueError(f"{expected}; got {link!r}.")
    return LINKS[link]


def change_probability(sample: Sample, link: str | Link | None) -> Tensor | None:
    """About how probable it is that the mean over all draws gives another label, (B,); None for other links."""
    if link == "softmax":
        return sample.change_probability()
    return sample.crossing_probability(0.5) if link == "sigmoid" else None
