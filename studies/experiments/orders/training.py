"""One training loop for networks on sets of one size, with given, sampled or learned orders."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from janossy import JanossyNetwork, PermutationLoss, Ragged
from janossy.losses.order_loss import OrderLoss
from janossy.orderings import Learned


@dataclass(frozen=True)
class Plan:
    """A plan in which f reads ``num_rows`` sequences per step: of that many sets, or of fewer sets m times each.

    ``rate`` is Adam's for the network, and ``scorer_rate`` for the scorer, at the top of one cycle.
    """

    steps: int
    num_rows: int
    rate: float
    scorer_rate: float


def batch_of(x: Tensor, which: Tensor) -> Ragged:
    """Returns some of the sets (num, n, …)."""
    return Ragged.from_sizes(x[which].flatten(0, 1), [x.shape[1]] * len(which))


def fit(network: JanossyNetwork, loss: nn.Module, x: Tensor, y: Tensor, plan: Plan, seed: int) -> float:
    """Trains, and returns the CPU seconds of this process. A loss of m samples has batches of num_rows / m sets."""
    generator = torch.Generator().manual_seed(seed)
    orderings = network.pooling.orderings
    scorer = list(orderings.scorer.parameters()) if isinstance(orderings, Learned) else []
    ours = {id(p) for p in scorer}
    others = [p for p in network.parameters() if id(p) not in ours]
    groups = [{"params": others, "lr": plan.rate}, {"params": scorer, "lr": plan.scorer_rate}]
    groups = [group for group in groups if group["params"]]
    optimizer = torch.optim.Adam(groups)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, [g["lr"] for g in groups], total_steps=plan.steps)
    draws = loss.num_permutations if isinstance(loss, OrderLoss) else 1
    begin = time.process_time()
    network.train()
    for _ in range(plan.steps):
        which = torch.randint(len(x), (plan.num_rows // draws,), generator=generator)
        sets, target = batch_of(x, which), y[which, None]
        optimizer.zero_grad()
        if isinstance(loss, OrderLoss | PermutationLoss):
            value = loss(network, sets, target, generator=generator)
        else:
            value = loss(network(sets), target)
        value.backward()
        nn.utils.clip_grad_norm_(others, 1.0)
        optimizer.step()
        cycle.step()
    return round(time.process_time() - begin, 1)


def kendall(scores: Tensor, truth: Tensor) -> float:
    """Returns the mean Kendall's tau over sets, scores and truth (num, n): 1 for equal orders, -1 for reversed ones."""
    pairs = (scores[:, :, None] - scores[:, None]).sign() * (truth[:, :, None] - truth[:, None]).sign()
    n = scores.shape[1]
    return float(pairs.sum() / (len(scores) * n * (n - 1)))
