"""BesidePooled: each element beside a pooled vector of its set."""

import torch

from janossy.functions.weights import draw_anew
from janossy.nn.encoder.layer import SetLayer
from janossy.nn.pooling import JanossyPooling
from janossy.sets import Ragged


class BesidePooled(SetLayer):
    """[x_i, f̄(x)] for each element x_i of a set x, f̄ any ``JanossyPooling``.

    With a linear layer after it, it is the equivariant layer of DeepSets (Zaheer et al., 2017, Eq. 4) and of DSS
    (Maron et al., 2020). With a maximum and a perceptron it is PointNet's segmentation head (Qi et al., 2017).

    Shapes: sets.values (N, d), pooling (N, d) -> (B, c) -> Ragged of values (N, d + c), the same sets.
    Invariance: equivariant, exactly.
    Cost: that of the pooling.
    Raises: TypeError if ``pooling`` is not a JanossyPooling.

    Example:
        >>> layer = BesidePooled(JanossyPooling(torch.nn.Flatten(), Tuples(1)))
        >>> layer(Ragged.from_sets([torch.tensor([[1.0], [3.0]])])).values
        tensor([[1., 2.],
                [3., 2.]])
    """

    def __init__(self, pooling: JanossyPooling) -> None:
        super().__init__()
        if not isinstance(pooling, JanossyPooling):
            raise TypeError(f"BesidePooled expects a JanossyPooling; got {type(pooling).__name__}.")
        self.pooling = pooling

    def reset_parameters(self) -> None:
        """Draws the weights of its parts anew."""
        draw_anew(self)

    def forward(self, sets: Ragged) -> Ragged:
        self.check(sets)
        pooled = self.pooling(sets)[sets.to_index()[1]]
        return sets.with_values(torch.cat((sets.values, pooled), dim=1))

    def seconds(self, sets: Ragged) -> float:
        return self.pooling.cost(sets).seconds
