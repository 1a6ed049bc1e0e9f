"""A network with the scale of its targets, and what its predictions score."""

import torch
from torch import Tensor

from janossy import JanossyNetwork, Ragged, predict
from janossy.paper.arithmetic.tasks import Task

EVALUATION_BATCH = 1000

Examples = tuple[Tensor, Tensor]
"""Integers (B, n) and targets (B,)."""


class Scaled:
    """A network, and the affine map from its outputs to targets."""

    def __init__(self, network: JanossyNetwork, shift: float, scale: float) -> None:
        self.network, self.shift, self.scale = network, shift, scale

    def loss(self, x: Tensor, y: Tensor, squared: bool) -> Tensor:
        error = self.network(Ragged.from_padded(x))[:, 0] - (y - self.shift) / self.scale
        return (error.square() if squared else error.abs()).mean()

    def outputs(self, x: Tensor, num_permutations: int) -> Tensor:
        """The prediction of each permutation, (B, num_permutations)."""
        predictions = []
        for batch in x.split(EVALUATION_BATCH):
            outputs = predict(self.network, Ragged.from_padded(batch), num_permutations, keep_outputs=True).outputs
            assert outputs is not None
            predictions.append(outputs[:, :, 0] * self.scale + self.shift)
        return torch.cat(predictions)


def score(outputs: Tensor, y: Tensor, vote: str, task: Task) -> dict[str, float]:
    """Accuracy, RMSE and mean absolute error of the outputs (B, m), merged into one prediction each.

    Predictions of integer targets are rounded first; so are the paper's, whose MAE is 0 where its accuracy is 1.
    """
    merged = outputs.mean(1) if vote == "mean" else outputs.round().mode(1).values
    predictions = merged.round() if task.is_integer else merged
    error = (predictions - y).double()
    return {
        "accuracy": (merged.round() == y).double().mean().item(),
        "rmse": error.square().mean().sqrt().item(),
        "mae": error.abs().mean().item(),
    }
