"""Means of draws that were made in independent blocks, and their standard errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, cast

import scipy
import torch
from torch import Tensor

from janossy.checks import check_number
from janossy.evaluate.reduce import widened
from janossy.sets.transfer import upload


@dataclass(frozen=True, eq=False)
class Sample:
    """The outputs of several draws for each of B sets.

    Shapes:
        outputs: (T, out).
        sets: (T,), the set of each draw, on the host.
        blocks: (T,), the block of each draw within its set, counted from 0 without gaps, on the host.
        population: (B,), the number of draws to choose from without replacement, or infinity.
    """

    outputs: Tensor
    sets: Tensor
    blocks: Tensor
    population: Tensor

    @staticmethod
    def cat(samples: Sequence["Sample"]) -> "Sample":
        """Returns the sample of the sets of all samples, one after the other."""
        firsts = accumulate((len(sample.population) for sample in samples), initial=0)
        return Sample(
            torch.cat([sample.outputs for sample in samples]),
            torch.cat([sample.sets + first for sample, first in zip(samples, firsts, strict=False)]),
            torch.cat([sample.blocks for sample in samples]),
            torch.cat([sample.population for sample in samples]),
        )

    def and_more(self, more: "Sample") -> "Sample":
        """Returns this sample with further draws of the same sets."""
        outputs, sets, blocks = (
            torch.cat(pair)
            for pair in ((self.outputs, more.outputs), (self.sets, more.sets), (self.blocks, more.blocks))
        )
        return Sample(outputs, sets, blocks, self.population)

    @cached_property
    def num_draws(self) -> Tensor:
        """The number of draws of each set, (B,)."""
        return upload(torch.bincount(self.sets, minlength=len(self.population)), self.outputs.device)

    @cached_property
    def num_blocks(self) -> Tensor:
        """The number of blocks of each set, (B,)."""
        none = torch.zeros(len(self.population), dtype=torch.long, device="cpu")
        return upload(none.scatter_reduce(0, self.sets, self.blocks + 1, "amax"), self.outputs.device)

    @cached_property
    def mean(self) -> Tensor:
        """The mean of each set's draws, (B, out)."""
        return self._wide_mean.to(self.outputs.dtype)

    @cached_property
    def block_means(self) -> Tensor:
        """The mean of each block, (B, q, out), for at most q blocks per set; NaN behind a set's last block."""
        most = int(self.blocks.max()) + 1 if len(self.blocks) else 0
        places = self.sets * most + self.blocks
        counts = torch.bincount(places, minlength=len(self.population) * most)
        outputs = widened(self.outputs)
        sums = outputs.new_zeros(len(counts), outputs.shape[1]).index_add(0, upload(places, outputs.device), outputs)
        means = (sums / upload(counts, sums.device)[:, None]).to(self.outputs.dtype)
        return cast(Tensor, means.unflatten(0, (len(self.population), most)))

    @cached_property
    def standard_error(self) -> Tensor:
        """The standard error of the mean, (B, out): NaN after one block, unless that is the whole population.

        Var = q/(q − 1) · Σ_b (m_b/m)² (mean_b − mean)² over q independent blocks of m_b draws. It is unbiased for
        blocks of one size, and nearly so otherwise.
        """
        return self._error(self._deviations)

    def change_probability(self) -> Tensor:
        """Returns the approximate probability that the true means have another arg-max, (B,).

        It is summed over the rival outputs.
        """
        top = self.mean.argmax(1, keepdim=True)
        lead = self.mean.gather(1, top) - self.mean
        of_top = self._deviations.gather(2, top[:, None].expand(-1, self._deviations.shape[1], 1))
        error = self._error(of_top - self._deviations)
        behind = _numpy_like(scipy.special.stdtr, self.num_blocks[:, None] - 1, -lead / error).where(error != 0, 0)
        return behind.scatter(1, top, 0).sum(1).clamp_max(1)

    def crossing_probability(self, threshold: float) -> Tensor:
        """Returns the approximate probability that a true mean is on the other side of the threshold, (B,).

        It is summed over the outputs.
        """
        distance = (self.mean - threshold).abs()
        beyond = _numpy_like(scipy.special.stdtr, self.num_blocks[:, None] - 1, -distance / self.standard_error)
        return beyond.where(self.standard_error != 0, 0).sum(1).clamp_max(1)

    def margin(self, confidence: float | Tensor) -> Tensor:
        """Returns half the width of a two-sided interval, (B, out).

        It is by Student's t with one degree of freedom less than there are blocks.
        """
        return margin(self.standard_error, self.num_blocks, confidence)

    def padded(self) -> Tensor:
        """Returns the outputs of each set in turn, (B, m, out), with NaN behind a set's last draw."""
        order = torch.argsort(self.sets, stable=True)
        sets, num_draws = self.sets[order], torch.bincount(self.sets, minlength=len(self.population))
        place = torch.arange(len(order), device="cpu") - (num_draws.cumsum(0) - num_draws)[sets]
        most = max(num_draws.tolist(), default=0)
        padded = self.outputs.new_full((len(self.population) * most, self.outputs.shape[1]), torch.nan)
        places, order = (upload(x, padded.device) for x in (sets * most + place, order))
        return cast(
            Tensor, padded.index_copy(0, places, self.outputs[order]).unflatten(0, (len(self.population), most))
        )

    @cached_property
    def _sets(self) -> Tensor:
        return upload(self.sets, self.outputs.device)

    @cached_property
    def _wide_mean(self) -> Tensor:
        """The mean of each set's draws, (B, out), in the precision in which draws are added up."""
        outputs = widened(self.outputs)
        total = outputs.new_zeros(len(self.population), outputs.shape[1])
        return total.index_add(0, self._sets, outputs) / self.num_draws[:, None]

    @cached_property
    def _deviations(self) -> Tensor:
        """The sum of each block's outputs minus the mean, (B, q, out), in that precision."""
        most = int(self.blocks.max()) + 1 if len(self.blocks) else 0
        outputs = widened(self.outputs)
        sums = outputs.new_zeros(len(self.population) * most, outputs.shape[1])
        places = upload(self.sets * most + self.blocks, sums.device)
        sums = sums.index_add(0, places, outputs - self._wide_mean[self._sets])
        return cast(Tensor, sums.unflatten(0, (len(self.population), most)))

    def _error(self, deviations: Tensor) -> Tensor:
        q = self.num_blocks[:, None]
        variance = q / (q - 1) * deviations.square().sum(1) / self.num_draws[:, None] ** 2
        left = 1 - self.num_draws[:, None] / self.population[:, None]
        return (variance * left).where(q > 1, torch.nan).where(left > 0, 0).sqrt().to(self.outputs)


def margin(standard_error: Tensor, num_blocks: Tensor, confidence: float | Tensor) -> Tensor:
    """Returns half the width of a two-sided interval, by Student's t with num_blocks - 1 degrees of freedom.

    ``confidence`` is one number, or one per set (B,).
    """
    both = (1 + torch.as_tensor(confidence, dtype=torch.float64, device="cpu")) / 2
    reach = _numpy_like(scipy.special.stdtrit, num_blocks - 1, both)[:, None].to(standard_error)
    return (reach * standard_error).where(standard_error != 0, 0)


def check_confidence(confidence: Any) -> None:
    """Raises a TypeError unless confidence is a number, a ValueError unless it is between 0 and 1."""
    check_number("an error bar", "confidence", confidence, 0.95)
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence is expected between 0 and 1, such as 0.95; got {confidence}.")


def _numpy_like(function: Any, first: Tensor, second: Tensor) -> Tensor:
    return torch.as_tensor(function(first.cpu().double().numpy(), second.cpu().double().numpy()), device="cpu").to(
        second
    )
