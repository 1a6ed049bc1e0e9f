"""A network with the scale of its targets, and the scores of its predictions."""

from collections.abc import Mapping
from math import inf, isfinite

import torch
from torch import Tensor

from janossy import JanossyNetwork, Ragged, predict
from studies.paper.arithmetic.tasks import Task

EVALUATION_BATCH = 1000

Examples = tuple[Tensor, Tensor]
"""Integers (B, n) and targets (B,)."""


class Scaled:
    """A network with the affine map from its outputs to targets."""

    def __init__(self, network: JanossyNetwork, shift: float, scale: float) -> None:
        self.network, self.shift, self.scale = network, shift, scale

    def scaled(self, y: Tensor) -> Tensor:
        """Returns the targets in the scale that the network predicts."""
        return (y - self.shift) / self.scale

    def outputs(self, x: Tensor, num_permutations: int, generator: torch.Generator | None = None) -> Tensor:
        """Returns the prediction of each permutation, (B, num_permutations)."""
        predictions = []
        for batch in x.split(EVALUATION_BATCH):
            sets = Ragged.from_padded(batch)
            outputs = predict(self.network, sets, num_permutations, generator=generator, keep_outputs=True).outputs
            assert outputs is not None
            predictions.append(outputs[:, :, 0] * self.scale + self.shift)
        return torch.cat(predictions)


def score(outputs: Tensor, y: Tensor, vote: str, task: Task) -> dict[str, float]:
    """Returns accuracy, RMSE and mean absolute error of the outputs (B, m), merged into one prediction each.

    Predictions of integer targets are rounded first. So are the paper's, because its MAE is 0 where its accuracy is 1.
    """
    merged = outputs.mean(1) if vote == "mean" else outputs.round().mode(1).values
    predictions = merged.round() if task.is_integer else merged
    error = (predictions - y).double()
    return {
        "accuracy": (merged.round() == y).double().mean().item(),
        "rmse": error.square().mean().sqrt().item(),
        "mae": error.abs().mean().item(),
    }


def error_of(scores: Mapping[str, float], task: Task) -> float:
    """Returns what validation minimises: the error in the paper's score, or infinity for a network that diverged."""
    if not isfinite(scores["rmse"]):
        return inf
    return 1 - scores["accuracy"] if task.is_integer else scores["rmse"]
