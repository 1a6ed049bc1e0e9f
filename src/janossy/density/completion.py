"""Completion: draws of missing elements from their conditional density, by weighted walks."""

from collections import defaultdict
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from janossy.checks import check_generator, check_integer
from janossy.density.checks import check_elements, check_sizes
from janossy.density.exchangeable import ExchangeableDensity, drawing_by
from janossy.nn.modes import evaluating
from janossy.sets import Ragged


@dataclass(frozen=True, eq=False)
class Completion:
    """Completed sets.

    Shapes: log_marginal, standard_error, effective (B,).

    - ``sets`` holds the elements of each set, followed by the drawn ones.
    - ``log_marginal`` is the logarithm of ∫ p(x, y | n) dy, the density of the given elements within a set of the
      completed size.
    - ``standard_error`` is that of ``log_marginal``, by the delta method.
    - ``effective`` is the effective number of walks, (Σ w)²/Σ w². If it is near 1, take more walks.
    """

    sets: Ragged
    log_marginal: Tensor
    standard_error: Tensor
    effective: Tensor


@torch.no_grad()
def complete(
    density: ExchangeableDensity,
    sets: Ragged,
    *,
    num_missing: int,
    num_walks: int = 200,
    generator: torch.Generator | None = None,
) -> Completion:
    """Draws ``num_missing`` more elements y of each set x, by p(y | x, n) ∝ p(x, y | n).

    The marginal density of some elements of a set has no closed form. A finite exchangeable density of n elements
    determines that of r < n of them, which is not the model's density of sets of r. So walks go through a random order
    of all n places. At a known element, the walk's weight is multiplied by q of the element. At a missing element, one
    is drawn from q. The mean weight is unbiased for the marginal density. A walk chosen by weight is a draw of y, which
    is exact as the number of walks grows (likelihood weighting).

    Shapes: sets of n_b elements -> sets of n_b + num_missing.
    Raises: TypeError or ValueError for num_missing < 0, num_walks < 1, and as a call of the density.
    """
    check_integer("complete", "num_missing", num_missing, 0, "elements")
    check_integer("complete", "num_walks", num_walks, 1)
    check_elements(density.q, sets, "complete")
    check_sizes(density.sizes, [n + num_missing for n in sets.sizes], "complete")
    check_generator("complete", generator, sets.device)
    members: dict[int, list[int]] = defaultdict(list)
    for b, n in enumerate(sets.sizes):
        members[n].append(b)
    completed: dict[int, Tensor] = {}
    summaries = torch.zeros(3, len(sets), dtype=next(density.parameters()).dtype, device=sets.device)
    with evaluating(density), drawing_by(generator):
        for n, numbers in members.items():
            x = sets[numbers].values.unflatten(0, (len(numbers), n))
            walks, log_weights = _walk(density, x, num_missing, num_walks)
            chosen = torch.multinomial(log_weights.softmax(1), 1)[:, 0]
            y = walks[torch.arange(len(numbers), device=x.device), chosen]
            completed |= {b: torch.cat((x[i], y[i])) for i, b in enumerate(numbers)}
            summaries[:, numbers] = _summary(log_weights)
    together = Ragged.from_sets([completed[b] for b in range(len(sets))]) if len(sets) else sets
    return Completion(together, *summaries)


def _walk(density: ExchangeableDensity, x: Tensor, num_missing: int, num: int) -> tuple[Tensor, Tensor]:
    """Returns the draws for sets x (S, r, …), (S, num, num_missing, …), and the walks' log weights (S, num)."""
    S, r = x.shape[:2]
    n = r + num_missing
    order = torch.rand(S * num, n, device=x.device).argsort(1)
    known = x.repeat_interleave(num, 0)
    filled = torch.cat((known, x.new_zeros(S * num, num_missing, *x.shape[2:])), 1)
    rows = x.new_zeros(S * num, n, *x.shape[2:])
    every = torch.arange(S * num, device=x.device)
    log_weights = torch.zeros(S * num, dtype=next(density.parameters()).dtype, device=x.device)
    for t in range(n):
        place = order[:, t]
        after = density.q.next(rows[:, :t])
        is_known = place < r
        drawn = density.q.head.clip(after.sample())
        element = torch.where(is_known.view(-1, *(1,) * (x.dim() - 2)), filled[every, place], drawn)
        log_weights += torch.where(is_known, after.log_prob(element), 0)
        filled[every, place] = element
        rows[:, t] = element
    return filled[:, r:].unflatten(0, (S, num)), log_weights.view(S, num)


def _summary(log_weights: Tensor) -> Tensor:
    """Returns the logarithm of the mean weight, its standard error, and the effective number of walks, (3, S)."""
    num = log_weights.shape[1]
    weights = log_weights.softmax(1)
    effective = 1 / weights.square().sum(1)
    error = (num * weights).std(1) / num**0.5 if num > 1 else torch.full_like(effective, torch.nan)
    log_mean = log_weights.logsumexp(1) - log(num)
    return torch.stack((log_mean, error, effective))
