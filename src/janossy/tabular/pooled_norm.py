"""PooledNorm: batch normalisation of pooled vectors, which takes a single set too."""

from torch import Tensor, nn


class PooledNorm(nn.BatchNorm1d):
    """Batch normalisation of pooled vectors (Ioffe and Szegedy, 2015): torch's, and a batch of one set is no error.

    In training a single set has no spread, and is normalised by the running statistics, as every set is in evaluation.

    Shapes: (B, num_features) -> (B, num_features).
    Invariance: in evaluation a set's result depends on that set alone; in training, on its batch-mates.

    Example:
        >>> PooledNorm(3)(torch.randn(1, 3)).shape
        torch.Size([1, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        if len(input) > 1 or not self.training:
            return super().forward(input)
        return nn.functional.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps
        )
