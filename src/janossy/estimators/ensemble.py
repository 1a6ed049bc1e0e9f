"""Ensemble: the weighted mean of several networks, its errors over random orders, and its temperature."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from janossy.estimators.description import LargerSets
from janossy.estimators.networks import SEED, predict_by, steps
from janossy.estimators.tasks import Task
from janossy.inference import Prediction
from janossy.inference.error_bars import Sample
from janossy.kernels.compilation import waiting
from janossy.sets import Ragged
from janossy.sets.transfer import upload, widest


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predictions of B sets.

    Shapes: mean, standard_error (B, out); change_probability (B,).

    - ``standard_error`` is the standard error of the mean over sampled permutations. It is 0 if none are sampled, and
      NaN after a single one.
    - ``change_probability`` is the probability that more permutations would give another class.
    """

    mean: Tensor
    standard_error: Tensor
    change_probability: Tensor

    @staticmethod
    def cat(parts: Sequence["Outcome"]) -> "Outcome":
        """Returns the predictions of several batches of sets, end to end."""
        means, errors, changes = (
            torch.cat([getattr(part, name) for part in parts])
            for name in ("mean", "standard_error", "change_probability")
        )
        return Outcome(means, errors, changes)

    def __getitem__(self, key: Tensor) -> "Outcome":
        """Returns the predictions of the sets with these numbers."""
        key = upload(key, self.mean.device)
        return Outcome(self.mean[key], self.standard_error[key], self.change_probability[key])

    def cpu(self) -> "Outcome":
        return Outcome(self.mean.cpu(), self.standard_error.cpu(), self.change_probability.cpu())


@dataclass(eq=False)
class Ensemble:
    """Networks in evaluation mode, with the weight of each.

    Predictions are averaged over permutations and networks after the task's link. ``temperature`` divides logits.
    ``larger`` has other weights for sets larger than in training, or is None. Networks of weight 0 are not called.
    """

    networks: Sequence[nn.Module]
    weights: list[float]
    task: Task
    temperature: float = 1.0
    larger: LargerSets | None = None

    def to(self, device: str | torch.device) -> "Ensemble":
        """Moves the networks to a device, and returns the ensemble itself."""
        for network in self.networks:
            network.to(device)
        return self

    @waiting()
    def predict(
        self,
        sets: Ragged,
        context: Tensor | None,
        num_permutations: int,
        seed: int = SEED,
        *,
        sizes: Sequence[int] | None = None,
    ) -> Outcome:
        """Returns the mean over ``num_permutations`` orders of each set.

        A set's prediction depends only on that set and on the seed. ``sizes`` (B,) are those by which the weights are
        chosen; None for the sets' own.
        """
        sizes = sets.sizes if sizes is None else sizes
        parts = [
            self._predict(sets[some], None if context is None else context[some], num_permutations, seed, sizes[some])
            for some in steps(sets)
        ]
        return Outcome.cat(parts)

    def _predict(
        self, sets: Ragged, context: Tensor | None, num_permutations: int, seed: int, sizes: Sequence[int]
    ) -> Outcome:
        if self.larger is None or max(sizes, default=0) <= self.larger.size:
            return self._average(self.weights, sets, context, num_permutations, seed)
        is_larger = torch.tensor(sizes) > self.larger.size
        parts, places = [], []
        for chosen, weights in ((~is_larger, self.weights), (is_larger, self.larger.weights)):
            if len(numbers := chosen.nonzero()[:, 0]):
                of_some = None if context is None else context[upload(numbers, context.device)]
                parts.append(self._average(weights, sets[numbers], of_some, num_permutations, seed))
                places.append(numbers)
        return Outcome.cat(parts)[torch.cat(places).argsort()]

    def _average(
        self, weights: Sequence[float], sets: Ragged, context: Tensor | None, num_permutations: int, seed: int
    ) -> Outcome:
        link = self.task.link(self.temperature)
        weighted = [
            (weight, predict_by(network, sets, context, link, num_permutations, seed=seed))
            for weight, network in zip(weights, self.networks, strict=True)
            if weight
        ]
        each = [prediction for _, prediction in weighted]
        mean = torch.stack([weight * prediction.mean for weight, prediction in weighted]).sum(0)
        if not any((prediction.standard_error != 0).any() for prediction in each):
            return Outcome(mean, torch.zeros_like(mean), mean.new_zeros(len(mean)))
        sample = _together(mean, weighted)
        return Outcome(mean, sample.standard_error, sample.change_probability())


def check_outputs_finite(outputs: Tensor, owner: str, what: str = "set") -> None:
    """Raises a FloatingPointError if outputs (B, out), one row per set, are not finite."""
    wrong = (~outputs.isfinite().all(1)).nonzero()[:, 0].tolist()
    if wrong:
        others = f", and for {len(wrong) - 1} more," if len(wrong) > 1 else ""
        raise FloatingPointError(
            f"{owner} expects finite predictions; got {outputs[wrong[0]].tolist()} for {what} {wrong[0]}{others} of "
            f"{len(outputs)}. Look for values far outside those of training, and for damaged weights of the model."
        )


def _together(mean: Tensor, drawn: list[tuple[float, Prediction]]) -> Sample:
    """Returns block means of the average of all networks. Blocks with one number are combined, with the exact means.

    A network whose mean of a set is exact adds nothing to the error of that set. Blocks of a network that has more than
    another are joined to as many. For draws without replacement, deviations shrink by the root of the share of the
    population that is not drawn.
    """
    num_blocks = torch.full((len(mean),), 2**62, device=mean.device)
    for _, prediction in drawn:
        sure = (prediction.standard_error == 0).all(1)
        num_blocks = torch.minimum(num_blocks, prediction.num_blocks.where(~sure, 2**62))
    num_blocks = num_blocks.where(num_blocks < 2**62, 2)  # all exact: two equal blocks
    most = int(num_blocks.max())
    inside = torch.arange(most, device=mean.device) < num_blocks[:, None]
    deviations, num_on_host = mean.new_zeros(len(mean), most, mean.shape[1]), num_blocks.cpu()
    for weight, prediction in drawn:
        assert prediction.sample is not None
        sure = (prediction.standard_error == 0).all(1)
        sample = _joined(prediction.sample, num_on_host)
        left = (1 - sample.num_draws / sample.population).clamp_min(0).sqrt().to(mean)[:, None, None]
        blocks = sample.block_means[:, :most]
        blocks = pad(blocks, (0, 0, 0, most - blocks.shape[1]))
        used = inside & ~sure[:, None]
        blocks = blocks.where(used[..., None], 0)
        average = blocks.sum(1, keepdim=True) / num_blocks[:, None, None]
        deviations = deviations + weight * left * (blocks - average).where(used[..., None], 0)
    sets, numbers = inside.cpu().nonzero(as_tuple=True)
    unlimited = torch.full((len(mean),), torch.inf, dtype=widest(mean.device), device=mean.device)
    return Sample((mean[:, None] + deviations)[inside], sets, numbers, unlimited)


def _joined(sample: Sample, num_blocks: Tensor) -> Sample:
    """Returns the same draws in at most ``num_blocks`` (B,) blocks per set, each of neighbouring blocks."""
    own = sample.num_blocks.cpu()
    blocks = sample.blocks * torch.minimum(num_blocks, own)[sample.sets] // own[sample.sets]
    return Sample(sample.outputs, sample.sets, blocks, sample.population)
