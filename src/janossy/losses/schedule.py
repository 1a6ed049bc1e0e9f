"""RobbinsMonro: the learning rates with which π-SGD converges."""

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from janossy.checks import check_number


class RobbinsMonro(LRScheduler):
    """η_t = η_0 / (1 + t/τ)^p at step t, for every parameter group: rates for which π-SGD converges (Prop. 2.2).

    1/2 < p <= 1 makes Σ η_t = ∞, so that every point can be reached. It makes Σ η_t² < ∞, so that the noise dies out
    (Robbins & Monro, 1951). With p < 1, the mean of the iterates converges at the best rate (Polyak & Juditsky, 1992).

    Args:
        optimizer: the optimizer, such as ``torch.optim.SGD``, whose learning rates are η_0.
        tau: τ, the number of steps at almost the first rate.
        power: p.
        last_epoch: the number of the last step, to go on with a schedule; -1 for a new one.

    Shapes: none. Call ``step()`` once per step of the optimizer.
    Raises: TypeError for an argument of another type; ValueError unless tau > 0 and 1/2 < power <= 1.

    Example:
        >>> optimizer = torch.optim.SGD(nn.Linear(3, 1).parameters(), lr=0.1)
        >>> schedule = RobbinsMonro(optimizer, tau=100)
        >>> for _ in range(100):
        ...     optimizer.step()
        ...     schedule.step()
        >>> schedule.get_last_lr()
        [0.05]
    """

    def __init__(self, optimizer: Optimizer, *, tau: float = 1000.0, power: float = 1.0, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"RobbinsMonro expects a torch.optim.Optimizer; got {type(optimizer).__name__}. "
                "Write torch.optim.SGD(network.parameters(), lr=0.1)."
            )
        check_number("RobbinsMonro", "tau", tau, 1000)
        check_number("RobbinsMonro", "power", power, 1)
        if not 0 < tau < float("inf"):
            raise ValueError(f"RobbinsMonro expects a finite tau > 0; got {tau}.")
        if not 0.5 < power <= 1:
            raise ValueError(
                f"RobbinsMonro expects 1/2 < power <= 1; got {power}: the rates would "
                f"{'stop short' if power > 1 else 'leave noise that does not die out'}. Use power=1."
            )
        self.tau = tau
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        return [rate / (1 + self.last_epoch / self.tau) ** self.power for rate in self.base_lrs]
