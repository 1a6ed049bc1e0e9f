"""Predictions: links, means of draws with their errors, and the joining of several predictions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from janossy.inference.error_bars import Sample, check_confidence, margin
from janossy.sets.transfer import upload, widest

Link = Callable[[Tensor], Tensor]

LINKS: dict[str | None, Link] = {
    None: lambda outputs: outputs,
    "sigmoid": torch.sigmoid,
    "softmax": lambda outputs: outputs.softmax(-1),
}


def named_link(link: str | Link | None, owner: str) -> Link:
    """Returns the link of that name, or the one given.

    Raises: TypeError for other objects, ValueError for an unknown name; the error names ``owner``.
    """
    if callable(link):
        return _checked(link, owner)
    expected = f"{owner} expects a link among {', '.join(map(repr, LINKS))} or a function"
    if link is not None and not isinstance(link, str):
        raise TypeError(f"{expected}; got {link!r}, of type {type(link).__name__}.")
    if link not in LINKS:
        raise ValueError(f"{expected}; got {link!r}.")
    return LINKS[link]


def _checked(link: Link, owner: str) -> Link:
    """Returns the link, which raises a ValueError unless it gives a row for each row."""

    def linked(outputs: Tensor) -> Tensor:
        found = link(outputs)
        if not isinstance(found, Tensor) or found.dim() != outputs.dim() or found.shape[:-1] != outputs.shape[:-1]:
            got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ValueError(
                f"{owner} expects a link that maps outputs {tuple(outputs.shape)} to ({len(outputs)}, any); got {got}. "
                "Keep the rows: a single column is outputs[:, :1]."
            )
        return found

    return linked


def change_probability(sample: Sample, link: str | Link | None) -> Tensor | None:
    """Returns the approximate probability that the mean over all draws gives another label, (B,).

    It is None for links other than "softmax" and "sigmoid".
    """
    if link == "softmax":
        return sample.change_probability()
    return sample.crossing_probability(0.5) if link == "sigmoid" else None


@dataclass(frozen=True)
class Prediction:
    """The result of ``predict``.

    Shapes:
        mean, standard_error: (B, out).
        num_permutations, num_blocks, finished: (B,).
        change_probability: (B,) or None.
        outputs: (B, m, out) or None; m is the most draws of a set, and NaN fills up sets with fewer.
        members: (R, B, out), for a ``Stack``.
        spread: (B, out), for a ``Stack``.
        sample: the T draws of ``outputs`` as a ``Sample``, or None.

    ``mean`` is the mean of link(network(sets)) over draws. A draw is the num permutations that the network averages
    before ρ. So it is a mean of linked values of ρ, each of a mean over num permutations.

    ``standard_error`` is that of the mean, over random permutations. It is about the order alone: it tells how far the
    mean over all draws may be, and not if that mean is right. Permutations that were drawn together, a block, depend on
    each other and count as one. It is NaN after a single block. It is zero if all orders were taken, or for a network
    that samples none (``num_permutations`` is then 0).

    ``num_permutations`` counts the permutations of each set that f was applied to. ``finished`` is True for sets that
    met the tolerance; for all, without a tolerance.

    ``change_probability`` is the approximate probability that the mean over all draws gives another label, by Student's
    t. For link="softmax" that is another arg-max, summed over the rival classes. For link="sigmoid" it is the other
    side of 1/2, summed over the outputs. It is about the order alone, and not the probability that the label is wrong.

    In ``sample``, ``outputs`` (T, out) are the linked outputs of the draws. ``sets`` and ``blocks`` (T,), on the host,
    are the set and the block of each. ``block_means`` (B, q, out) are the means of independent blocks. Orderings that
    are not random give one draw per set, which is the whole population.
    """

    mean: Tensor
    standard_error: Tensor
    num_permutations: Tensor
    num_blocks: Tensor
    finished: Tensor
    change_probability: Tensor | None = None
    outputs: Tensor | None = None
    members: Tensor | None = None
    spread: Tensor | None = None
    sample: Sample | None = None

    def margin(self, confidence: float = 0.95) -> Tensor:
        """Returns half the width of each mean's confidence interval, (B, out), by Student's t over the blocks.

        Raises: TypeError if confidence is not a number; ValueError if it is not between 0 and 1, or if a set has a
            single block.
        """
        check_confidence(confidence)
        if (self.standard_error.isnan().any(1) & (self.num_blocks == 1)).any():
            raise ValueError(
                "an error bar expects at least 2 independent blocks of permutations for each set; got 1. "
                "Predict with num_permutations >= 2, and with a smaller block= if that was given."
            )
        return margin(self.standard_error, self.num_blocks, confidence)


def exact(mean: Tensor, keep_outputs: bool) -> Prediction:
    """Returns the prediction of a network that is not random."""
    none = torch.zeros(len(mean), dtype=torch.long, device=mean.device)
    outputs = sample = None
    if keep_outputs:
        outputs, sets = mean[:, None], torch.arange(len(mean), device="cpu")
        sample = Sample(mean, sets, torch.zeros_like(sets), none.to(widest(mean.device)) + 1)
    return Prediction(mean, torch.zeros_like(mean), none, none, none == 0, outputs=outputs, sample=sample)


def of_groups(parts: Sequence[Prediction], groups: Sequence[Tensor]) -> Prediction:
    """Returns one prediction of all sets, in their order.

    ``groups`` are the numbers of each part's sets, on the host.
    """
    if len(parts) == 1:
        return parts[0]
    joined, numbers = together(parts), torch.cat(list(groups))
    places = torch.empty_like(numbers).scatter_(0, numbers, torch.arange(len(numbers), device="cpu"))

    def ordered(value: Any) -> Any:
        if isinstance(value, Sample):
            population = value.population[upload(places, value.population.device)]
            return Sample(value.outputs, numbers[value.sets], value.blocks, population)
        return value if value is None else value[upload(places, value.device)]

    return Prediction(**{field.name: ordered(getattr(joined, field.name)) for field in fields(Prediction)})


def together(parts: Sequence[Prediction]) -> Prediction:
    """Returns one prediction of the sets of all parts."""
    most = max((part.outputs.shape[1] for part in parts if part.outputs is not None), default=0)

    def joined(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        if name == "outputs" and values[0] is not None:
            pad = torch.nn.functional.pad
            values = [pad(x, (0, 0, 0, most - x.shape[1]), value=torch.nan) for x in values]
        if name == "sample" and values[0] is not None:
            return Sample.cat(values)
        return None if values[0] is None else torch.cat(values)

    return Prediction(**{field.name: joined(field.name) for field in fields(Prediction)})


def of_members(members: Sequence[Prediction], same_draws: bool) -> Prediction:
    """Returns the prediction by the mean of several networks; ``same_draws`` if their permutations are the same."""
    means = torch.stack([member.mean for member in members])
    errors = torch.stack([member.standard_error for member in members])
    error = errors.mean(0) if same_draws else errors.square().sum(0).sqrt() / len(members)
    return Prediction(
        means.mean(0),
        error,
        torch.stack([member.num_permutations for member in members]).sum(0),
        torch.stack([member.num_blocks for member in members]).amin(0),
        torch.stack([member.finished for member in members]).all(0),
        members=means,
        spread=means.std(0) if len(members) > 1 else torch.full_like(error, torch.nan),
    )
