"""P(n): distributions of the size of a set."""

from collections.abc import Sequence
from math import inf
from operator import index
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, NegativeBinomial
from torch.nn.functional import softplus

from janossy.checks import check_integer, check_number
from janossy.functions.shown import arguments_shown


class CategoricalSizes(nn.Module):
    """P(n) = softmax(logits)_n for n = 0 … max_size, uniform at first and learned with the density.

    Shapes: sizes (B,), int64 -> log P (B,).
    Raises: TypeError if max_size is not an integer; ValueError if it is below 0.

    Example:
        >>> CategoricalSizes.fitted([2, 2, 3]).log_prob(torch.tensor([2])).exp()  # (2 + 1) / (3 + 4): counts plus one
        tensor([0.4286], grad_fn=<ExpBackward0>)
    """

    def __init__(
        self, max_size: int, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        check_integer("CategoricalSizes", "max_size", max_size, 0, "elements")
        self.max_size = max_size
        self.logits = nn.Parameter(torch.zeros(max_size + 1, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Makes all sizes as likely as each other."""
        nn.init.zeros_(self.logits)

    @classmethod
    def fitted(cls, sizes: Sequence[int], *, max_size: int | None = None, pseudo_count: float = 1.0) -> Self:
        """Fits P(n) to the shares of these sizes, with pseudo_count > 0 added to each count.

        So no size is impossible.

        Raises: TypeError for sizes that are not integers; ValueError for no sizes, or sizes outside 0 … max_size.
        """
        sizes = _some_sizes(sizes, "CategoricalSizes.fitted")
        check_number("CategoricalSizes.fitted", "pseudo_count", pseudo_count, 1.0)
        if not 0 < pseudo_count < inf:
            raise ValueError(f"CategoricalSizes.fitted expects pseudo_count > 0; got {pseudo_count}. Write 1.0.")
        fitted = cls(max(sizes) if max_size is None else max_size)
        if max(sizes) > fitted.max_size:
            raise ValueError(
                f"CategoricalSizes.fitted expects sizes up to max_size={max_size}; got {max(sizes)}. Raise max_size."
            )
        counts = torch.bincount(torch.as_tensor(sizes), minlength=fitted.max_size + 1)
        with torch.no_grad():
            fitted.logits.copy_((counts + pseudo_count).log())
        return fitted

    def log_prob(self, n: Tensor) -> Tensor:
        """Returns log P(n) of sizes (B,), −∞ above ``max_size``."""
        beyond = n > self.max_size
        return self.logits.log_softmax(0)[n.masked_fill(beyond, 0)].masked_fill(beyond, -torch.inf)

    def sample(self, num: int) -> Tensor:
        """Draws sizes (num,), int64, from torch's global generator."""
        return cast(Tensor, Categorical(logits=self.logits.detach()).sample((num,)))

    def extra_repr(self) -> str:
        return arguments_shown(self)


class NegativeBinomialSizes(nn.Module):
    """A negative binomial P(n) over all n >= 0, which is a Poisson number with gamma-distributed mean.

    It is learned with the density.

    Args:
        mean: the mean of the sizes, > 0.
        dispersion: the variance over the mean, > 1; near 1 for a Poisson distribution.

    Shapes: sizes (B,), int64 -> log P (B,).
    Raises: TypeError if an argument is not a number; ValueError if it is out of range.
    """

    max_size = None

    def __init__(
        self,
        mean: float = 5.0,
        dispersion: float = 2.0,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_number("NegativeBinomialSizes", "mean", mean, 5.0)
        check_number("NegativeBinomialSizes", "dispersion", dispersion, 2.0)
        if not (0 < mean < inf and 1 < dispersion < inf):
            raise ValueError(
                f"NegativeBinomialSizes expects mean > 0 and dispersion > 1; got {mean} and {dispersion}. Sizes that "
                "vary less than a Poisson number are CategoricalSizes."
            )
        self._first = float(mean), float(dispersion)
        self.logit = nn.Parameter(torch.empty(()))
        self.raw_count = nn.Parameter(torch.empty(()))
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Sets the first mean and dispersion again."""
        mean, dispersion = self._first
        # dispersion = 1 + exp(logit), mean = r·exp(logit) for r failures.
        odds = torch.tensor(dispersion) - 1
        with torch.no_grad():
            self.logit.copy_(odds.log())
            self.raw_count.copy_(_inverse_softplus(mean / odds))

    @classmethod
    def fitted(cls, sizes: Sequence[int]) -> Self:
        """Fits P(n) to the mean and the variance of these sizes; if the variance is below the mean, nearly Poisson."""
        n = torch.as_tensor(_some_sizes(sizes, "NegativeBinomialSizes.fitted"), dtype=torch.float64)
        mean = max(float(n.mean()), 1e-3)
        return cls(mean, max(float(n.var(correction=0)) / mean, 1.01))

    def log_prob(self, n: Tensor) -> Tensor:
        """Returns log P(n) of sizes (B,)."""
        return cast(Tensor, self._distribution().log_prob(n.to(self.logit)))

    def sample(self, num: int) -> Tensor:
        """Draws sizes (num,), int64, from torch's global generator."""
        with torch.no_grad():
            return cast(Tensor, self._distribution().sample((num,)).long())

    def _distribution(self) -> NegativeBinomial:
        return NegativeBinomial(softplus(self.raw_count), logits=self.logit, validate_args=False)

    def extra_repr(self) -> str:
        return arguments_shown(self, mean=self._first[0], dispersion=self._first[1])


Sizes = CategoricalSizes | NegativeBinomialSizes


def _inverse_softplus(x: Tensor) -> Tensor:
    return x + (-torch.expm1(-x)).log()


def whole_sizes(sizes: Any, owner: str) -> list[int]:
    """Returns these sizes as integers. Raises: TypeError if they are not integers."""
    try:
        return [index(n) for n in (sizes.tolist() if isinstance(sizes, Tensor) else sizes)]
    except TypeError:
        raise TypeError(
            f"{owner} expects sizes as a sequence of integers, one per set; got {sizes!r}. Write [5] * 100."
        ) from None


def _some_sizes(sizes: Any, owner: str) -> list[int]:
    numbers = whole_sizes(sizes, owner)
    if not numbers or min(numbers) < 0:
        raise ValueError(f"{owner} expects the sizes of sets, at least one, all >= 0; got {numbers[:10]}.")
    return numbers
