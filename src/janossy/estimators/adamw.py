"""AdamW with little work in Python, and without the compiler that torch's optimisers import."""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

BETAS, EPSILON = (0.9, 0.999), 1e-8


class AdamW:
    """An optimiser equal to ``torch.optim.AdamW(…, fused=True)`` (Loshchilov and Hutter, 2019), to the last bit.

    The first step of torch's optimiser imports a compiler, which takes longer than training a small network.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], weight_decay: float) -> None:
        self.parameters, self.weight_decay = [each for each in parameters if each.requires_grad], weight_decay
        self.firsts = [torch.zeros_like(each) for each in self.parameters]
        self.seconds = [torch.zeros_like(each) for each in self.parameters]
        self.steps = [torch.zeros((), device=each.device) for each in self.parameters]

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Takes a step along the gradients. A parameter without a gradient stays unchanged."""
        used = [i for i, each in enumerate(self.parameters) if each.grad is not None]
        if not used:
            return
        gradients = [cast(Tensor, self.parameters[i].grad) for i in used]
        parameters = [cast(Tensor, self.parameters[i]) for i in used]
        firsts, seconds, steps = ([each[i] for i in used] for each in (self.firsts, self.seconds, self.steps))
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            parameters,
            gradients,
            firsts,
            seconds,
            [],
            steps,
            lr=learning_rate,
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=self.weight_decay,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def zero_grad(self) -> None:
        """Drops the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def state_dict(self) -> dict[str, list[Tensor]]:
        """Returns the moments and the number of steps of each parameter."""
        return {"firsts": self.firsts, "seconds": self.seconds, "steps": self.steps}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state that ``state_dict`` returned."""
        for name, values in self.state_dict().items():
            for value, saved in zip(values, state[name], strict=True):
                value.copy_(saved)
