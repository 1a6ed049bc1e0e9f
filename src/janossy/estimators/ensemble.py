"""Ensemble: the weighted mean of several networks' predictions, and how far the order still matters to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from janossy.estimators.networks import drawn_for, exact_outputs, rows_of
from janossy.estimators.tasks import Task
from janossy.inference import Link, Prediction, predict
from janossy.inference.error_bars import Sample
from janossy.inference.prediction import exact
from janossy.nn.network import JanossyNetwork
from janossy.sets import Ragged

BLOCKS = 5
"""Independent blocks of permutations that an error bar is made from."""

MOST_SETS, MOST_ROWS, MOST_ELEMENTS = 4096, 2_000_000, 1_000_000
"""Of one step of prediction."""

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
        """The mean over ``num_permutations`` orders of each set, in steps that fit the memory.

        A set's prediction depends on that set and the seed alone.
        """
        parts = [
            self._predict(sets[some], None if context is None else context[some], num_permutations, seed)
            for some in steps(self.networks, sets)
        ]
        means, errors, changes = zip(*parts, strict=True)
        return Outcome(torch.cat(means), torch.cat(errors), torch.cat(changes))

    def _predict(
        self, sets: Ragged, context: Tensor | None, num_permutations: int, seed: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        link = self.task.link(self.temperature)
        means: list[Tensor] = []
        drawn: list[tuple[float, Prediction]] = []
        for network, weight in zip(self.networks, self.weights, strict=True):
            prediction = predict_step(network, sets, context, link, num_permutations, seed=seed)
            means.append(weight * prediction.mean)
            if prediction.sample is not None and (prediction.standard_error != 0).any():
                drawn.append((weight, prediction))
        mean = torch.stack(means).sum(0)
        if not drawn:
            return mean, torch.zeros_like(mean), mean.new_zeros(len(mean))
        sample = _together(mean, drawn)
        return mean, sample.standard_error, sample.change_probability()


def predict_step(
    network: nn.Module,
    sets: Ragged,
    context: Tensor | None,
    link: Link | None,
    num_permutations: int,
    *,
    seed: int = SEED,
    error_bar: bool = True,
) -> Prediction:
    """Predicts the sets of one of ``steps``, and keeps what was averaged.

    ``error_bar``: permutations come in at least ``BLOCKS`` blocks, where any are drawn.
    """
    orderings = drawn_for(network, max(sets.sizes, default=0))
    if orderings is None:
        outputs = exact_outputs(network, sets, context)
        return exact(outputs if link is None else link(outputs), keep_outputs=True)
    assert isinstance(network, JanossyNetwork)
    num, block = num_permutations, None
    if error_bar and orderings.num_permutations == 1:
        block = max(1, num // BLOCKS)
    elif error_bar:
        num = max(num, BLOCKS * orderings.num_permutations)
    options: dict[str, Any] = {"context": context, "link": link, "block": block, "seed": seed}
    return predict(network, sets, num, orderings=orderings, keep_outputs=True, **options)


def steps(networks: Sequence[nn.Module], sets: Ragged) -> Iterator[slice]:
    """Stretches of sets that are predicted at once: of all of which each network takes all, or draws."""
    sizes = set(sets.sizes)
    rows = {n: max(rows_of(network, n) for network in networks) for n in sizes}
    drawing = {n: [drawn_for(network, n) is not None for network in networks] for n in sizes}
    begin, num_rows, num_elements = 0, 0.0, 0
    for b, n in enumerate(sets.sizes):
        num_rows, num_elements = num_rows + rows[n], num_elements + n
        is_full = b - begin >= MOST_SETS or num_rows > MOST_ROWS or num_elements > MOST_ELEMENTS
        if b > begin and (is_full or drawing[n] != drawing[sets.sizes[begin]]):
            yield slice(begin, b)
            begin, num_rows, num_elements = b, rows[n], n
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
