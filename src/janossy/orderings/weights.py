"""Weights of several orders, learned."""

from typing import Any

import torch
from torch import Tensor, nn

from janossy.checks import check_integer


class OrderWeights(nn.Module):
    """The weights softmax(a) of several orders, with learned logits a, which are 0 at first.

    Of ``Canonical(key=(0, 1), order_weights=OrderWeights(2))`` the pooled vector is Σ_r w_r f(h_π_r), differentiable in
    the logits, which are parameters of the layer.

    Shapes: () -> (num_keys,), positive, of sum 1.
    Raises: TypeError if num_keys is no integer; ValueError if it is below 1.

    Example:
        >>> OrderWeights(2)()
        tensor([0.5000, 0.5000], grad_fn=<SoftmaxBackward0>)
    """

    def __init__(self, num_keys: int) -> None:
        super().__init__()
        check_integer("OrderWeights", "num_keys", num_keys, 1, "orders")
        self.logits = nn.Parameter(torch.zeros(num_keys))

    def forward(self) -> Tensor:
        return self.logits.softmax(0)

    def config(self) -> dict[str, Any]:
        """Returns the arguments that build it again."""
        return {"num_keys": len(self.logits)}

    def extra_repr(self) -> str:
        return f"num_keys={len(self.logits)}"
