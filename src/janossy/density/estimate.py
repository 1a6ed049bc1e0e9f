"""Log densities that are exact or bounds, with their standard errors."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from janossy.inference.error_bars import Sample
from janossy.orderings.contract import RandomOrderings
from janossy.sets import Ragged
from janossy.sets.transfer import upload


@dataclass(frozen=True, eq=False)
class Estimate:
    """Log densities of B sets.

    Shapes: log_prob, standard_error, num_permutations, exact (B,).

    ``log_prob`` is exact, or the logarithm of a mean over ``num_permutations`` drawn orders (0 if exact). Its
    expectation is then a lower bound. The bound rises with the number of orders to the exact value (independent orders:
    Burda et al., 2016).

    ``standard_error`` is that of ``log_prob``, over random orders, by the delta method from independent blocks. It is 0
    if exact, and NaN after a single block. The bound is below the exact value by about half its square, on average. If
    it is near 1 or above, both are underestimates: a few orders then hold most of the density, and may not have been
    drawn.
    """

    log_prob: Tensor
    standard_error: Tensor
    num_permutations: Tensor
    exact: Tensor

    def shifted(self, by: Tensor) -> "Estimate":
        """Returns the estimate with ``by`` (B,) added to the logarithms."""
        return replace(self, log_prob=self.log_prob + by)


def log_mean_exp(rows: Ragged, orderings: RandomOrderings, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Returns the logarithm of the mean of each set's exp(rows), (T, 1), and its standard error; both (B,).

    The rows were drawn by these orderings. The mean is differentiable in the rows, the error is not.
    """
    numbers = torch.arange(len(rows)).repeat_interleave(torch.tensor(rows.sizes, dtype=torch.long))
    owners, values = upload(numbers, rows.device), rows.values[:, 0]
    largest = values.detach().new_full((len(rows),), -torch.inf).scatter_reduce(0, owners, values.detach(), "amax")
    largest = largest.nan_to_num(neginf=0.0)
    blocks = [
        torch.arange(len(of_size)).repeat_interleave(torch.tensor(of_size)) for of_size in _blocks(orderings, sizes)
    ]
    population = torch.tensor([orderings.population(n) for n in sizes], device=rows.device)
    weights = (values - largest[owners]).exp()[:, None]
    sample = Sample(weights, numbers, torch.cat(blocks) if blocks else numbers, population)
    return sample.mean[:, 0].log() + largest, (sample.standard_error.detach() / sample.mean.detach())[:, 0]


def _blocks(orderings: RandomOrderings, sizes: tuple[int, ...]) -> list[list[int]]:
    of_size = {n: orderings.blocks(n) for n in set(sizes)}
    return [of_size[n] for n in sizes]
