"""PooledNorm: batch normalisation of pooled vectors, which takes a single set too."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class PooledNorm(nn.BatchNorm1d):
    """Batch normalisation of pooled vectors (Ioffe and Szegedy, 2015): torch's, and a batch of one set is no error.

    In training a single set has no spread, and is normalised by the running statistics, as every set is in evaluation.

    ``total``, where it is set, adds a tensor up over processes, with a gradient: the mean and the variance are then
    those of the sets of all of them (torch's SyncBatchNorm, which has no CPUs).

    Shapes: (B, num_features) -> (B, num_features).
    Invariance: in evaluation a set's result depends on that set alone; in training, on its batch-mates.

    Example:
        >>> PooledNorm(3)(torch.randn(1, 3)).shape
        torch.Size([1, 3])
    """

    total: Callable[[Tensor], Tensor] | None = None

    def forward(self, input: Tensor) -> Tensor:
        if self.training and self.total is not None:
            return self._of_all(input, self.total)
        if len(input) > 1 or not self.training:
            return super().forward(input)
        return nn.functional.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps
        )

    def config(self) -> dict[str, Any]:
        """Returns the arguments that build it again."""
        return {
            "num_features": self.num_features,
            "eps": self.eps,
            "momentum": self.momentum,
            "affine": self.affine,
            "track_running_stats": self.track_running_stats,
        }

    def _of_all(self, input: Tensor, total: Callable[[Tensor], Tensor]) -> Tensor:
        """Normalised by the mean and variance of the batches of all processes, of which some may have no set."""
        sums = total(torch.cat((input.sum(0), input.new_full((1,), len(input)))))
        num, mean = sums[-1].item(), sums[:-1] / sums[-1]
        variance = total((input - mean).square().sum(0)) / num
        assert self.running_mean is not None and self.running_var is not None and self.momentum is not None
        if num > 1:
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (num / (num - 1)), self.momentum)
        else:
            mean, variance = self.running_mean, self.running_var
        return (input - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias
