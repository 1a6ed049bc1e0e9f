"""Ensemble: the weighted mean of several networks' predictions, and how far the order still matters to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from janossy.estimators.networks import exact_outputs, orderings_for
from janossy.estimators.tasks import Task
from janossy.inference import Link, Prediction, predict
from janossy.inference.error_bars import Sample
from janossy.inference.prediction import exact, of_groups
from janossy.nn.network import JanossyNetwork
from janossy.orderings.contract import Orderings, as_random
from janossy.sets import Ragged
from janossy.transfer import upload

BLOCKS = 5
"""Independent blocks of permutations that an error bar is made from."""

MAX_SETS, MAX_ELEMENTS = 4096, 1_000_000
"""The sets whose draws are kept at once, and their elements."""

SEED = 0
"""Of the permutations, by default: the same whenever one predicts, so that a set's prediction depends on it alone."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predictions of B sets.

    Shapes: mean, standard_error (B, out); change_probability (B,).

    ``standard_error`` is that of the mean over the draw of the permutations, 0 where none are drawn, and NaN after a
    single one. ``change_probability``: how probable it is that more permutations would give another class.
    """

    mean: Tensor
    standard_error: Tensor
    change_probability: Tensor

    @staticmethod
    def cat(parts: Sequence["Outcome"]) -> "Outcome":
        """Those of several batches of sets, one after the other."""
        means, errors, changes = (
            torch.cat([getattr(part, name) for part in parts])
            for name in ("mean", "standard_error", "change_probability")
        )
        return Outcome(means, errors, changes)

    def cpu(self) -> "Outcome":
        return Outcome(self.mean.cpu(), self.standard_error.cpu(), self.change_probability.cpu())


@dataclass(eq=False)
class Ensemble:
    """Networks, in evaluation mode, and the weight of each.

    Predictions are averaged after the task's link, over permutations and networks. ``temperature`` divides logits.
    """

    networks: Sequence[nn.Module]
    weights: list[float]
    task: Task
    temperature: float = 1.0

    def to(self, device: str | torch.device) -> "Ensemble":
        """The same, its networks moved to a device."""
        for network in self.networks:
            network.to(device)
        return self

    def predict(self, sets: Ragged, context: Tensor | None, num_permutations: int, seed: int = SEED) -> Outcome:
        """Returns the mean over ``num_permutations`` orders of each set.

        A set's prediction depends on that set and the seed alone.
        """
        parts = [
            self._predict(sets[some], None if context is None else context[some], num_permutations, seed)
            for some in steps(sets)
        ]
        return Outcome.cat(parts)

    def _predict(self, sets: Ragged, context: Tensor | None, num_permutations: int, seed: int) -> Outcome:
        link = self.task.link(self.temperature)
        each = [predict_by(network, sets, context, link, num_permutations, seed=seed) for network in self.networks]
        weighted = list(zip(self.weights, each, strict=True))
        mean = torch.stack([weight * prediction.mean for weight, prediction in weighted]).sum(0)
        if not any((prediction.standard_error != 0).any() for prediction in each):
            return Outcome(mean, torch.zeros_like(mean), mean.new_zeros(len(mean)))
        sample = _together(mean, weighted)
        return Outcome(mean, sample.standard_error, sample.change_probability())


def check_finite(outputs: Tensor, owner: str, what: str = "set") -> None:
    """Raises a FloatingPointError if outputs (B, out), one row per set, are not finite."""
    wrong = (~outputs.isfinite().all(1)).nonzero()[:, 0].tolist()
    if wrong:
        others = f", and for {len(wrong) - 1} more," if len(wrong) > 1 else ""
        raise FloatingPointError(
            f"{owner} expects finite predictions; got {outputs[wrong[0]].tolist()} for {what} {wrong[0]}{others} of "
            f"{len(outputs)}. Look for values far outside those of training, and for damaged weights of the model."
        )


def predict_by(
    network: nn.Module,
    sets: Ragged,
    context: Tensor | None,
    link: Link | None,
    num_permutations: int,
    *,
    seed: int = SEED,
    error_bar: bool = True,
) -> Prediction:
    """Predicts the sets of one of ``steps`` by one network, and keeps the draws.

    Large sets may be drawn from where small ones give all: ``orderings_for``.

    ``error_bar``: permutations come in at least ``BLOCKS`` blocks, where any are drawn.
    """
    if not isinstance(network, JanossyNetwork):
        outputs = exact_outputs(network, sets, context)
        return exact(outputs if link is None else link(outputs), keep_outputs=True)
    sizes_by: list[tuple[Orderings, set[int]]] = []
    for n in set(sets.sizes) or {0}:
        orderings = orderings_for(network, n)
        same = next((sizes for other, sizes in sizes_by if other == orderings), None)
        if same is None:
            sizes_by.append((orderings, same := set()))
        same.add(n)
    parts, groups = [], []
    for orderings, sizes in sizes_by:
        numbers = torch.tensor([b for b, n in enumerate(sets.sizes) if n in sizes], dtype=torch.long)
        num, block = num_permutations, None
        drawn = as_random(orderings, "predict") if error_bar else None
        if drawn is not None and drawn.num_permutations == 1:
            block = max(1, num // BLOCKS)
        elif drawn is not None:
            num = max(num, BLOCKS * drawn.num_permutations)
        some, of_some = sets, context
        if len(numbers) < len(sets):
            some, of_some = sets[numbers], None if context is None else context[upload(numbers, context.device)]
        options: dict[str, Any] = {"context": of_some, "link": link, "block": block, "keep_outputs": True}
        parts.append(predict(network, some, num, orderings=orderings, seed=seed, **options))
        groups.append(numbers)
    return of_groups(parts, groups)


def steps(sets: Ragged) -> Iterator[slice]:
    """Yields stretches of sets whose draws are kept at once."""
    begin, num_elements = 0, 0
    for b, n in enumerate(sets.sizes):
        num_elements += n
        if b > begin and (b - begin >= MAX_SETS or num_elements > MAX_ELEMENTS):
            yield slice(begin, b)
            begin, num_elements = b, n
    yield slice(begin, len(sets))


def _together(mean: Tensor, drawn: list[tuple[float, Prediction]]) -> Sample:
    """Blocks of the mean of all networks: block i of one goes with block i of another, and with the exact means.

    A network whose mean of a set is exact adds nothing to the error of that set.
    """
    num_blocks = torch.full((len(mean),), 2**62, device=mean.device)
    for _, prediction in drawn:
        sure = (prediction.standard_error == 0).all(1)
        num_blocks = torch.minimum(num_blocks, prediction.num_blocks.where(~sure, 2**62))
    num_blocks = num_blocks.where(num_blocks < 2**62, 2)  # all exact: two blocks that are alike
    most = int(num_blocks.max())
    inside = torch.arange(most, device=mean.device) < num_blocks[:, None]
    deviations = mean.new_zeros(len(mean), most, mean.shape[1])
    for weight, prediction in drawn:
        assert prediction.sample is not None
        sure = (prediction.standard_error == 0).all(1)
        blocks = prediction.sample.block_means[:, :most]
        blocks = torch.nn.functional.pad(blocks, (0, 0, 0, most - blocks.shape[1]))
        used = inside & ~sure[:, None]
        blocks = blocks.where(used[..., None], 0)
        average = blocks.sum(1, keepdim=True) / num_blocks[:, None, None]
        deviations = deviations + weight * (blocks - average).where(used[..., None], 0)
    sets, numbers = inside.cpu().nonzero(as_tuple=True)
    unlimited = torch.full((len(mean),), torch.inf, dtype=torch.float64, device=mean.device)
    return Sample((mean[:, None] + deviations)[inside], sets, numbers, unlimited)
