"""Links: what is done to an output before outputs are averaged."""

from collections.abc import Callable

import torch
from torch import Tensor

Link = Callable[[Tensor], Tensor]

LINKS: dict[str | None, Link] = {
    None: lambda outputs: outputs,
    "sigmoid": torch.sigmoid,
    "softmax": lambda outputs: outputs.softmax(-1),
}


def named_link(link: str | Link | None, owner: str) -> Link:
    """The link of that name, or the one given.

    Raises: ValueError for an unknown name, in the name of ``owner``.
    """
    if callable(link):
        return link
    if link not in LINKS:
        raise ValueError(f"{owner} expects a link among {', '.join(map(repr, LINKS))} or a function; got {link!r}.")
    return LINKS[link]
