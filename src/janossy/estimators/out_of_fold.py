"""Out-of-fold outputs: those of networks for sets that they did not learn from, computed once and kept.

Their sensitivity to single orders is measured on the same sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from janossy.estimators.batches import Examples
from janossy.estimators.networks import draws, draws_single_orders, predict_by, steps
from janossy.estimators.tasks import Task
from janossy.inference import Link, Sensitivity, sensitivity
from janossy.inference.draws import is_of_its_rows

MAX_AUDITED = 500
"""The most sets whose sensitivity to the order is measured."""


@dataclass(frozen=True, eq=False)
class Fold:
    """Networks that left out the same V sets in training, with the weight of each and its outputs for these sets.

    Shapes: sets (V,), the sets' numbers; each of outputs (V, m, out), as ``outputs_by_draw`` gives them.
    """

    networks: list[nn.Module]
    weights: list[float]
    sets: Tensor
    outputs: list[Tensor]

    def mean(self, link: Link, num_permutations: int | None = None) -> Tensor:
        """Returns the weighted mean of the linked outputs, (V, out): the prediction of these networks together.

        Args:
            num_permutations: the number of orders of each set that count, for networks that sample single orders. None
                for all.
        """
        total = self.outputs[0].new_zeros(())
        for network, weight, outputs in zip(self.networks, self.weights, self.outputs, strict=True):
            if num_permutations is not None and draws_single_orders(network):
                outputs = _few(outputs, num_permutations)
            total = total + weight * linked_mean(outputs, link)
        return total

    def on_host(self, numbers: Tensor) -> "Fold":
        """Returns the fold with its tensors on the CPU, and its sets as their entries in ``numbers``."""
        return Fold(self.networks, self.weights, numbers[self.sets.cpu()], [each.cpu() for each in self.outputs])


def linked_mean(outputs: Tensor, link: Link) -> Tensor:
    """Returns the mean over samples of linked outputs: (V, m, out), NaN for absent samples, -> (V, out)."""
    return link(outputs[:, 0]) if outputs.shape[1] == 1 else link(outputs).nanmean(1)


@torch.no_grad()
def outputs_by_draw(network: nn.Module, examples: Examples, num_permutations: int) -> Tensor:
    """Returns the outputs of each set and sample before the link: logits, or numbers. Samples are those of prediction.

    Shapes: B sets -> (B, m, out), where m is the most samples of a set. Sets with fewer are filled with NaN.
    """
    parts = []
    for step in steps(examples.sets):
        some = examples[step]
        prediction = predict_by(network, some.sets, some.context, None, num_permutations)
        assert prediction.outputs is not None
        parts.append(prediction.outputs)
    most = max(part.shape[1] for part in parts)
    return torch.cat([pad(part, (0, 0, 0, most - part.shape[1]), value=nan) for part in parts])


def order_sensitivity(folds: Sequence[Fold], examples: Examples, task: Task, seed: int) -> Sensitivity | None:
    """Returns the sensitivity to single orders of validation sets, for the heaviest network that samples orders."""
    drawing = [
        (weight, network, fold.sets)
        for fold in folds
        for network, weight in zip(fold.networks, fold.weights, strict=True)
        if draws(network) and is_of_its_rows(network)
    ]
    if not drawing:
        return None
    _, network, sets = max(drawing, key=lambda each: each[0])
    some = examples[sets[:MAX_AUDITED]]
    generator = torch.Generator(some.sets.device).manual_seed(seed)
    return sensitivity(network, some.sets, context=some.context, link=task.link(1.0), generator=generator)


def _few(outputs: Tensor, num: int) -> Tensor:
    """Returns ``num`` samples of each set, chosen at random: those of small sets cycle through all orders."""
    if num >= outputs.shape[1]:
        return outputs
    random = torch.rand(outputs.shape[:2], generator=torch.Generator().manual_seed(num)).to(outputs.device)
    chosen = random.masked_fill(outputs.isnan().all(2), torch.inf).argsort(1)[:, :num]
    return outputs.gather(1, chosen[..., None].expand(-1, -1, outputs.shape[2]))
