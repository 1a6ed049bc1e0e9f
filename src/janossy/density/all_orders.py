"""The mean of a density of sequences over all orders of a set, computing each beginning once."""

from functools import lru_cache
from math import lgamma, perm

import numpy as np
import torch
from torch import Tensor, nn

from janossy.density.autoregressive import Autoregressive
from janossy.evaluate.cells.layers import project, run
from janossy.evaluate.cells.prefix_tree import prefix_tree, prefixes
from janossy.evaluate.rows.recompute import computed_again
from janossy.functions.structure import Recurrent, structure
from janossy.orderings.templates import injective_tuples

NUMBERS_A_STATE, NUMBERS_A_PARAMETER = 14, 12
"""The numbers kept per beginning, forward and backward together: an upper estimate for an LSTM and for mixtures."""


def log_mean_over_orders(q: Autoregressive, x: Tensor, memory_budget: int) -> Tensor:
    """Returns log 1/n! Σ_π q(x_π) of sets of one size, (S, n, *event_shape) -> (S,).

    Beginnings form a tree, with n!/(n − t)! beginnings of t elements. The mean is taken from the leaves up. A density
    of sequences depends on the order of its inputs, so beginnings of the same elements are not merged.
    """
    n = x.shape[1]
    num_numbers = NUMBERS_A_STATE * q.readout.in_features + NUMBERS_A_PARAMETER * q.head.num_parameters
    of_one = num_beginnings(n) * num_numbers * q.start.element_size()
    num_sets = max(1, memory_budget // of_one)
    if len(x) <= num_sets:
        return _log_mean(q, x)
    return torch.cat([computed_again(_log_mean, q, part) for part in x.split(num_sets)])


def num_beginnings(n: int) -> int:
    """Counts the beginnings of all orders of n elements, without the whole orders: about (e − 1)·n!."""
    return sum(perm(n, t) for t in range(max(1, n)))


def _log_mean(q: Autoregressive, x: Tensor) -> Tensor:
    S, n = x.shape[:2]
    reach = n - 1 if q.k is None else min(n - 1, q.k - 1)
    states = _states(q.reader, q.encode(x), reach) if reach > 0 else []
    parameters = [q.start.expand(S, 1, -1), *(q.readout(level) for level in states)]
    windows = q.head.distribution(parameters[reach][:, :, None]).log_prob(x[:, None]) if reach < n - 1 else None
    total = x.new_zeros(S, perm(n, n), dtype=q.start.dtype)
    for t in reversed(range(n)):
        following = torch.from_numpy(_following(n, t)).to(x.device)
        if windows is not None and t >= reach:
            each = torch.from_numpy(_window(n, t, reach)).to(x.device)
            of_next = windows[:, each[:, None], following]
        else:
            of_next = q.head.distribution(parameters[t][:, :, None]).log_prob(x[:, following])
        total = (of_next + total.view(of_next.shape)).logsumexp(-1)
    return total[:, 0] - lgamma(n + 1)


def _states(reader: nn.Module, x: Tensor, length: int) -> list[Tensor]:
    """Returns the state behind each beginning of t = 1 … length elements of x (S, n, d), in lexicographic order.

    Shapes: (S, n!/(n − t)!, H) for each t.
    """
    S, n = x.shape[:2]
    declared = structure(reader)
    if isinstance(declared, Recurrent) and declared.per_position and all(len(layer) == 1 for layer in declared.layers):
        return _states_by_cells(reader, declared, x, length)
    rows = x[:, injective_tuples(n, length).to(x.device)].flatten(0, 1)
    states = reader(rows).unflatten(0, (S, -1))
    # Rows that begin alike follow each other, so the first of them gives the state of their beginning.
    return [states[:, :: perm(n - t, length - t), t - 1] for t in range(1, length + 1)]


def _states_by_cells(reader: nn.Module, declared: Recurrent, x: Tensor, length: int) -> list[Tensor]:
    S, n = x.shape[:2]
    places = torch.arange(S * n, device=x.device).view(S, n)
    forest = prefixes(prefix_tree((1,) * n, length, increasing=False), torch.cat((places, places[:, :1]), 1))
    states = run(reader, (project(reader, declared, x.flatten(0, 1)), forest))
    cells_of_depths = forest.shape.by_depth[0]
    return [states[torch.from_numpy(cells).to(x.device)].unflatten(0, (S, -1)) for cells in cells_of_depths]


@lru_cache(maxsize=64)
def _following(n: int, t: int) -> np.ndarray:
    """Returns the elements that may follow each beginning of t of n elements, (n!/(n − t)!, n − t)."""
    return injective_tuples(n, t + 1)[:, -1].reshape(-1, n - t).numpy()


@lru_cache(maxsize=64)
def _window(n: int, t: int, reach: int) -> np.ndarray:
    """Returns the place, per beginning of t elements, of its last ``reach`` elements among such beginnings."""
    last = injective_tuples(n, t)[:, t - reach :]
    digits = n ** torch.arange(reach)
    places = torch.empty(n**reach, dtype=torch.long)
    windows = injective_tuples(n, reach)
    places[windows @ digits] = torch.arange(len(windows))
    return places[last @ digits].numpy()
