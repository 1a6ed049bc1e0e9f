"""IidMixture: k = 1, with elements independent and alike, given one of C kinds of sets (de Finetti)."""

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution, MixtureSameFamily

from janossy.density.contract import Head, SequenceDensity
from janossy.functions.checks import check_widths
from janossy.functions.shown import arguments_shown


class IidMixture(SequenceDensity):
    """log q(x_1 … x_L) = log Σ_c w_c Π_t q_c(x_t): k-ary Janossy pooling of log densities with k = 1.

    Given its kind c, a set's elements are independent and identically distributed. This is de Finetti's form of all
    *infinitely* exchangeable sequences, with C kinds in place of a measure. It is the same for all orders, so one order
    is exact. Elements cannot repel each other: within a kind they are independent, and the common kind only makes them
    more alike.

    Shapes: rows (T, L, *event_shape) -> (T, 1).
    Raises: TypeError for another head; TypeError or ValueError unless num_components is an integer >= 1.
    """

    def __init__(
        self,
        head: Head,
        *,
        num_components: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(head, Head):
            raise TypeError(f"IidMixture expects a head, such as Normals(2); got {head!r}.")
        check_widths(self, num_components=num_components)
        self.head = head
        self.logits = nn.Parameter(torch.empty(num_components))
        self.each = nn.Parameter(torch.empty(num_components, head.num_parameters))
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the components anew, which weigh alike."""
        alike = torch.stack([self.head.initial() for _ in self.logits])
        with torch.no_grad():
            self.logits.zero_()
            self.each.copy_(alike + 0.3 * torch.randn(alike.shape))

    def forward(self, rows: Tensor) -> Tensor:
        return self._joint(rows).logsumexp(-1, keepdim=True)

    def next(self, prefix: Tensor) -> Distribution:
        """Returns the distribution of the element after prefixes (T, t, *event_shape), of batch shape (T,)."""
        kinds = Categorical(logits=self._joint(prefix), validate_args=False)
        components = self.head.distribution(self.each.expand(len(prefix), -1, -1))
        return MixtureSameFamily(kinds, components, validate_args=False)

    def _joint(self, rows: Tensor) -> Tensor:
        """Returns log w_c + Σ_t log q_c(x_t), (T, C)."""
        of_kinds = self.logits.log_softmax(0)
        if rows.shape[1] == 0:  # torch's mixtures do not take empty rows
            return of_kinds.expand(len(rows), -1)
        return of_kinds + self.head.distribution(self.each).log_prob(rows.unsqueeze(2)).sum(1)

    def extra_repr(self) -> str:
        return arguments_shown(self, num_components=len(self.logits))
