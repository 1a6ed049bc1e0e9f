"""Survival analysis: the partial likelihood of hazards, and their concordance with times of events."""

import torch
from torch import Tensor

from janossy.sets.transfer import widest

PAIRS = 2**24
"""The most pairs of sets that are compared at once."""


def partial_likelihood_losses(risks: Tensor, targets: Tensor) -> Tensor:
    """Returns the negative partial log-likelihood of each event (Cox, 1972), and 0 for a set without an event.

    The sets at risk are those of the batch whose time is not before the event's time. Events at the same time share
    them (Breslow, 1974). A constant added to all risks changes nothing.

    Shapes: risks (B,), logarithms of hazards; targets (B, 2), times and events -> (B,). An event is 1, or 0 if the
        observation ended before an event.
    """
    times, events = targets[:, 0].contiguous(), targets[:, 1]
    order = times.argsort()
    ascending = times[order]
    at_risk = risks[order].flip(0).logcumsumexp(0).flip(0)
    return events * (at_risk[torch.searchsorted(ascending, times)] - risks)


def concordance(risks: Tensor, targets: Tensor, weights: Tensor) -> float:
    """Returns the fraction of the comparable pairs whose risks are in the right order (Harrell et al., 1982).

    A pair is comparable if its earlier time is that of an event. Equal risks count half. The result is 0.5 if no pair
    is comparable.

    Shapes: as for ``partial_likelihood_losses``; weights (B,), whose products weigh the pairs.
    """
    times, events = targets[:, 0], targets[:, 1] > 0
    total = torch.zeros(2, dtype=torch.float64)
    for some in events.nonzero()[:, 0].split(max(1, PAIRS // max(1, len(times)))):
        later = times[None] > times[some, None]
        later |= (times[None] == times[some, None]) & ~events[None]  # observed alive after the event
        pairs = later * weights[some, None] * weights[None]
        right = (risks[some, None] > risks[None]).to(widest(risks.device)) + 0.5 * (risks[some, None] == risks[None])
        total += torch.stack([(pairs * right).sum(), pairs.sum()]).cpu().double()
    return float(total[0] / total[1]) if total[1] else 0.5
