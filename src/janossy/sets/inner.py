"""Inner sets: the grouping of the elements of each set by a number."""

import torch
from torch import Tensor


def inner_groups(owners: Tensor, numbers: Tensor, num_sets: int) -> tuple[Tensor, Tensor, Tensor]:
    """Groups the elements of sets into inner sets: those of one set with one number.

    Returns the order that puts elements of one inner set end to end, the size of each inner set, and the number of
    inner sets of each set. Inner sets are in the order of sets and numbers; elements of one keep their order.

    Shapes: owners (N,), numbers (N,), int64 -> (N,), (M,), (num_sets,), int64.
    """
    order = numbers.argsort(stable=True)
    order = order[owners[order].argsort(stable=True)]
    pairs, sizes = torch.stack((owners[order], numbers[order]), 1).unique_consecutive(dim=0, return_counts=True)
    return order, sizes, torch.bincount(pairs[:, 0], minlength=num_sets)
