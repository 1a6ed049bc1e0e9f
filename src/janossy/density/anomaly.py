"""Anomaly scores: how unusual sets are, compared with the model's own sets of their size."""

from dataclasses import dataclass

import torch
from torch import Tensor

from janossy.checks import check_integer
from janossy.density.exchangeable import NUM_ORDERS, ExchangeableDensity
from janossy.sets import Ragged, check_ragged


@dataclass(frozen=True, eq=False)
class Anomaly:
    """Anomaly scores of B sets.

    Shapes: surprise, size_surprise, tail (B,).

    - ``surprise`` is −log p(x | n), in nats. Among sets of one size, larger is more unusual. It grows with n, and is
      not comparable between sizes.
    - ``size_surprise`` is −log P(n), 0 without P(n).
    - ``tail`` is the share of the model's own sets of that size that are at least as surprising, the set itself among
      them. Small is unusual, whatever the size. For sets drawn from the model it is uniform: ten of a thousand are at
      0.01 or below.
    """

    surprise: Tensor
    size_surprise: Tensor
    tail: Tensor


@torch.no_grad()
def anomaly_scores(
    density: ExchangeableDensity,
    sets: Ragged,
    *,
    num_samples: int = 200,
    num_permutations: int = NUM_ORDERS,
    max_exact: int = 6,
    generator: torch.Generator | None = None,
) -> Anomaly:
    """Scores each set by its log density, and by its rank among ``num_samples`` sets of its size.

    Log densities are those of ``log_prob``, with num_permutations orders above ``max_exact`` elements. A bound's error
    makes ``tail`` rougher, but not biased, as the model's own sets have it too.

    Shapes: B sets -> an ``Anomaly`` of B scores.
    Cost: num_samples sets for each size that occurs.
    Raises: as ``log_prob``; ValueError if num_samples < 1.
    """
    check_ragged(sets, "anomaly_scores")
    check_integer("anomaly_scores", "num_samples", num_samples, 1, "sets of each size")

    def surprise(batch: Ragged) -> Tensor:
        estimate = density.log_prob(batch, num_permutations, max_exact=max_exact, generator=generator)
        return density.log_size(batch) - estimate.log_prob

    of_sets = surprise(sets)
    sizes = torch.tensor(sets.sizes, dtype=torch.long, device=sets.device)
    tail = torch.ones_like(of_sets)
    for n in sorted(set(sets.sizes)):
        own = surprise(density.sample(sizes=[n] * num_samples, generator=generator))
        of_size = sizes == n
        at_least = (own >= of_sets[of_size, None]).sum(1)
        tail[of_size] = (1 + at_least).to(tail.dtype) / (num_samples + 1)
    return Anomaly(of_sets, -density.log_size(sets), tail)
