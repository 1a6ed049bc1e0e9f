"""Ensemble: the weighted mean of several networks' predictions, and how far the order still matters to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from janossy.estimators.networks import by, drawn_for, exact_outputs, rows_of
from janossy.estimators.tasks import Task
from janossy.inference import Prediction, predict
from janossy.inference.error_bars import Sample
from janossy.nn.network import JanossyNetwork
from janossy.orderings import RandomOrderings
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
        drawn: list[tuple[Tensor, dict[int, list[int]]]] = []
        for network, weight in zip(self.networks, self.weights, strict=True):
            orderings = drawn_for(network, max(sets.sizes, default=0))
            if orderings is None:
                means.append(weight * link(exact_outputs(network, sets, context)))
                continue
            assert isinstance(network, JanossyNetwork)
            num = num_permutations if orderings.num == 1 else max(num_permutations, BLOCKS * orderings.num)
            block = max(1, num // BLOCKS) if orderings.num == 1 else None
            with by(network, orderings):
                prediction = predict(
                    network, sets, num, context=context, link=link, block=block, seed=seed, keep_outputs=True
                )
            means.append(weight * prediction.mean)
            outputs = _as_many_of_each(prediction)
            if outputs is not None:
                drawn.append((weight * outputs, _blocks(orderings, outputs.shape[1], block, set(sets.sizes))))
        mean = torch.stack(means).sum(0)
        if not drawn:
            return mean, torch.zeros_like(mean), mean.new_zeros(len(mean))
        sample = _together(sets, mean, drawn)
        return mean, sample.standard_error, sample.change_probability()


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


def _as_many_of_each(prediction: Prediction) -> Tensor | None:
    """As many draws of each set, (B, m, out): its mean, of one that has no error. None where that are all."""
    assert prediction.outputs is not None
    sure = (prediction.standard_error == 0).all(1)
    if sure.all():
        return None
    outputs = prediction.outputs[:, : int((~prediction.outputs[~sure][0, :, 0].isnan()).sum())]
    return outputs.where(~sure[:, None, None], prediction.mean[:, None])


def _together(sets: Ragged, mean: Tensor, drawn: list[tuple[Tensor, dict[int, list[int]]]]) -> Sample:
    """Blocks of the mean of all networks: block i of one goes with block i of another, and with the exact means."""
    sizes = torch.tensor(sets.sizes)
    outputs, owners, numbers = [], [], []
    for n in sizes.unique().tolist():
        of = (sizes == n).nonzero().flatten()
        num = min(len(blocks[n]) for _, blocks in drawn)
        there = of.to(mean.device)
        together = torch.stack([_means(each[there], blocks[n])[:, :num] for each, blocks in drawn]).sum(0)
        outputs.append((together - together.mean(1, keepdim=True) + mean[there, None]).flatten(0, 1))
        owners.append(of.repeat_interleave(num))
        numbers.append(torch.arange(num).repeat(len(of)))
    unlimited = torch.full((len(sets),), torch.inf, dtype=torch.float64, device=mean.device)
    return Sample(torch.cat(outputs), torch.cat(owners), torch.cat(numbers), unlimited)


def _means(outputs: Tensor, blocks: list[int]) -> Tensor:
    """(B, m, out), and so many of the m in each block -> (B, len(blocks), out)."""
    return torch.stack([block.mean(1) for block in outputs.split(blocks, 1)], 1)


def _blocks(orderings: RandomOrderings, num: int, block: int | None, sizes: set[int]) -> dict[int, list[int]]:
    """How many of so many draws of a set of each size depend on each other."""
    if orderings.num > 1:
        return {n: [1] * num for n in sizes}
    together = orderings.redrawn(num, block=block, seed=SEED)
    return {n: [size // orderings.num_rows(n) for size in together.blocks(n)] for n in sizes}
