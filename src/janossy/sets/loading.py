"""Batches for training by hand: the collate function of a ``DataLoader``, and a sampler of sets of similar size."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import Sampler, default_collate

from janossy.checks import check_flag, check_integer
from janossy.sets.conversion import as_numbers, is_integer
from janossy.sets.ragged import Ragged


def collate(samples: Sequence[Any]) -> Any:
    """Batches samples of a data set: the ``collate_fn`` of a ``torch.utils.data.DataLoader``.

    A sample is a set, as ``Ragged.from_sets`` takes it, or a tuple whose first entry is one: (set, target), or
    (set, target, context). The sets become a ``Ragged``. The other entries become what torch's ``default_collate``
    makes of them, such as tensors with one row per set.

    Shapes: B samples of sets (n_b, *features) -> a Ragged of B sets, and (B, *any) of the other entries.
    Raises:
        TypeError: if the samples are not a sequence, and as ``Ragged.from_sets``.
        ValueError: for an empty sequence, sets mixed with tuples, or tuples of different lengths, and as
            ``Ragged.from_sets``.

    Example:
        >>> sets, targets = collate([(torch.ones(3, 2), 0.5), (torch.ones(1, 2), 1.5)])
        >>> sets.sizes, targets
        ((3, 1), tensor([0.5000, 1.5000], dtype=torch.float64))
    """
    if not isinstance(samples, Sequence) or isinstance(samples, str):
        raise TypeError(
            f"collate expects a sequence of samples, sets or tuples (set, target, …); got {type(samples).__name__}. "
            "Pass collate_fn=collate to a DataLoader."
        )
    are_tuples = {isinstance(sample, tuple) for sample in samples}
    if not samples or len(are_tuples) > 1:
        got = "sets beside tuples" if samples else "no samples"
        raise ValueError(f"collate expects samples that are all sets, or all tuples (set, target, …); got {got}.")
    if are_tuples == {False}:
        return Ragged.from_sets(samples)
    lengths = sorted({len(sample) for sample in samples})
    if len(lengths) > 1 or lengths[0] == 0:
        raise ValueError(f"collate expects tuples of one length, at least 1; got lengths {lengths}.")
    sets, *others = zip(*samples, strict=True)
    return Ragged.from_sets(sets), *(default_collate(list(each)) for each in others)


class SimilarSizes(Sampler[list[int]]):
    """Batches of sets of similar size, in random order: the ``batch_sampler`` of a ``DataLoader``.

    In each epoch the sets are shuffled and cut into pools of ``pool`` batches. Each pool is sorted by size and cut into
    batches, and all batches come in random order. Every set comes once per epoch. A network that pads its batches, or
    is called once per size, then has less to compute. A smaller pool makes the batches more random.

    Args:
        sizes: the number of elements of each set.
        batch_size: the number of sets in a batch. The last batch of an epoch's last pool may be smaller.
        pool: the number of batches that are sorted together.
        shuffle: False for batches in order of size, the same in every epoch.
        drop_last: True to leave out batches that are smaller.
        seed: the number that fixes the order, together with the epoch. ``set_epoch`` sets the epoch, and each
            iteration moves on to the next one.

    Raises: TypeError or ValueError for sizes that are not whole numbers >= 0, or arguments of another type or range.

    Example:
        >>> sampler = SimilarSizes([5, 1, 4, 1], batch_size=2, shuffle=False)
        >>> list(sampler)
        [[1, 3], [2, 0]]
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        batch_size: int,
        pool: int = 50,
        shuffle: bool = True,
        drop_last: bool = False,
        seed: int = 0,
    ) -> None:
        try:
            self.sizes = as_numbers(sizes)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"SimilarSizes expects sizes as whole numbers >= 0, one per set; got {type(sizes).__name__}. Write "
                "[len(x) for x, _ in dataset]."
            ) from None
        if self.sizes.dim() != 1 or not is_integer(self.sizes) or bool((self.sizes.long() < 0).any()):
            raise ValueError(
                f"SimilarSizes expects sizes as whole numbers >= 0, one per set; got {self.sizes.dtype} of shape "
                f"{tuple(self.sizes.shape)}. Write [len(x) for x, _ in dataset]."
            )
        self.sizes = self.sizes.long()
        for name, value, least in (("batch_size", batch_size, 1), ("pool", pool, 1), ("seed", seed, 0)):
            check_integer("SimilarSizes", name, value, least)
        check_flag("SimilarSizes", "shuffle", shuffle)
        check_flag("SimilarSizes", "drop_last", drop_last)
        self.batch_size = batch_size
        self.pool = pool
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, which fixes the order together with the seed, as in torch's ``DistributedSampler``."""
        check_integer("set_epoch", "epoch", epoch, 0)
        self.epoch = epoch

    def __len__(self) -> int:
        num = len(self.sizes)
        return num // self.batch_size if self.drop_last else -(-num // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed)
        orders = [torch.argsort(self.sizes, stable=True)]
        if self.shuffle:
            generator.manual_seed((self.seed + 0x9E3779B97F4A7C15 * (self.epoch + 1)) % 2**63)
            shuffled = torch.randperm(len(self.sizes), generator=generator, device="cpu")
            orders = [
                some[self.sizes[some].argsort(stable=True)] for some in shuffled.split(self.batch_size * self.pool)
            ]
            self.epoch += 1
        batches = [batch.tolist() for order in orders for batch in order.split(self.batch_size)]
        fewest = self.batch_size if self.drop_last else 1
        batches = [batch for batch in batches if len(batch) >= fewest]
        if self.shuffle:
            batches = [batches[i] for i in torch.randperm(len(batches), generator=generator, device="cpu").tolist()]
        return iter(batches)
