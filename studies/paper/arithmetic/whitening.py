"""The frozen embedding in coordinates in which training is well-conditioned."""

import torch

from janossy import JanossyNetwork, TupleMLP
from janossy.functions import Recurrence

NEGLIGIBLE = 1e-6
"""Singular values so small, beside the largest, are of directions that no integer has."""


@torch.no_grad()
def whiten(network: JanossyNetwork) -> None:
    """Makes the columns of h orthogonal and equally long, and let f's input weights undo it: f(h(x)) stays as it is.

    With h = U S Vᵀ (rows are integers) f reads W h(x). It then reads W' h'(x), h' = c U and W' = W V S / c, c² the mean
    of the squared singular values: the same functions of x, and as many weights. A random embedding of 100 integers
    in 100 numbers has singular values that differ by factors of 200 to 4000, and Adam, which looks at each weight by
    itself, is slow along the small ones.

    Raises: TypeError if f is neither a recurrence nor a TupleMLP.
    """
    f = network.pooling.f
    if isinstance(f, Recurrence):
        weight = f.get_parameter("weight_ih_l0")
    elif isinstance(f, TupleMLP):
        weight = f.get_parameter("hidden.0.weight")
    else:
        raise TypeError(f"whiten expected a recurrence or a TupleMLP as f, got {type(f).__name__}.")
    h = network.h.get_parameter("weight")
    each = weight.view(len(weight), -1, h.shape[1])  # one for each place of a tuple
    u, s, vt = torch.linalg.svd(h.double(), full_matrices=False)
    rank = int((s > NEGLIGIBLE * s[0]).sum())
    u, s, vt = u[:, :rank], s[:rank], vt[:rank]
    c = s.square().mean().sqrt()
    there = each.double() @ vt.T * s / c
    h.zero_()
    each.zero_()
    h[:, :rank] = (c * u).float()
    each[..., :rank] = there.float()
