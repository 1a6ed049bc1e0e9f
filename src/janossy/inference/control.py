"""ControlVariate: less variance between permutations, by a surrogate with a known mean over all of them."""

from dataclasses import dataclass, replace
from math import inf
from typing import cast

import torch
from torch import Tensor, nn

from janossy.checks import check_generator, check_integer, check_number
from janossy.evaluate import Function
from janossy.functions import TupleMLP
from janossy.functions.shown import arguments_shown
from janossy.inference.draws import mean_of_draws
from janossy.inference.models import network_in
from janossy.inference.prediction import Link, named_link
from janossy.nn.modes import evaluating
from janossy.nn.network import JanossyNetwork, check_module
from janossy.nn.pooling import JanossyPooling
from janossy.orderings import Bucket, Orderings, RandomOrderings, Rows, Tuples
from janossy.orderings.contract import as_random
from janossy.orderings.drawn import Drawn, draws_of
from janossy.sets import Ragged, check_ragged

SETS_A_STEP = 64
"""The sets in one step of the fit of a ``ControlVariate``."""


class ControlVariate(nn.Module):
    """g_π = g(the last k elements of h(x)_π), a surrogate of y_π = link(ρ(f(h(x)_π))) with a known mean ḡ over all π.

    By symmetry ḡ is the mean over all k-tuples of distinct elements (Prop. 2.1). ``JanossyPooling(g, Tuples(k))``
    computes it exactly and fast. mean_s[y_s − g_s] + ḡ is then unbiased for E_π[y_π], whatever g is, if g does not
    depend on the permutations s. Its variance is that of y − g. A recurrence depends most on the elements that it reads
    last. If a draw of the network has several permutations, the mean of g over them is the surrogate of its output.

    It helps as far as the effect of those elements is the same in every set. Training a network reduces just that
    effect, so measure it (docs/results/sampling/control.md). A corrected mean of probabilities can leave [0, 1].

    Args:
        h: the network's h; None for identity. It is shared and not owned. It is not part of the parameters, the
            state_dict or ``.to()``, and is never trained through. Give it again to load a state.
        g: maps rows (T, k, d) to (T, out), as ``TupleMLP`` does.
        k: the number of elements that g reads.

    Shapes: sets.values (N, *features), B sets of m rows each -> ``rows`` (B·m, out), ``mean`` (B, out).
    Invariance: ``mean`` is exact, to the tolerance of the evaluator that "auto" takes. Each row must be
        uniform over permutations, or over their beginnings.
    Cost: g on every row, and ḡ. ḡ is linear in the set for a ``TupleMLP`` of one layer, else n!/(n − k)! tuples.
    Raises:
        TypeError: for an argument of another type.
        ValueError: if k < 1, for rows that are cut to fewer than k elements, or rows of another number of sets.

    Example:
        >>> control = ControlVariate(nn.Embedding(10, 4), TupleMLP(2, 4, 8, out_features=1), k=2)
        >>> sets = Ragged.from_sets([torch.tensor([3, 1, 4]), torch.tensor([1, 5])])
        >>> control.rows(sets, Sampled(20).enumerate(sets)).shape, control.mean(sets).shape
        (torch.Size([40, 1]), torch.Size([2, 1]))
    """

    def __init__(self, h: nn.Module | None, g: Function, k: int) -> None:
        super().__init__()
        check_module("ControlVariate", "h", h)
        self.pooling = JanossyPooling(g, Tuples(k))
        self.k = k
        self._h = (nn.Identity() if h is None else h,)  # in a tuple, nn.Module does not register it

    @property
    def h(self) -> nn.Module:
        """The module that each element goes through; it is not a part of this one."""
        return self._h[0]

    def rows(self, sets: Ragged, rows: Rows) -> Tensor:
        """Returns g of the last k elements of every row, set by set: (Σ_b r_b, out).

        A smaller set has zeros behind it.
        """
        check_ragged(sets, "ControlVariate")
        if not isinstance(rows, Rows):
            raise TypeError(
                f"ControlVariate expects Rows; got {type(rows).__name__}. Write Sampled(20).enumerate(sets)."
            )
        if rows.num_sets != len(sets):
            raise ValueError(f"ControlVariate expects the rows of these {len(sets)} sets; got {rows.num_sets}.")
        last = Rows(tuple(self._last(bucket, sets) for bucket in rows.buckets), rows.num_sets)
        return self.pooling.rows(self._elements(sets), orderings=Drawn(last, sets.sizes)).values

    def mean(self, sets: Ragged) -> Tensor:
        """Returns ḡ, the mean of g over all permutations: (B, out)."""
        check_ragged(sets, "ControlVariate")
        return cast(Tensor, self.pooling(self._elements(sets)))

    def _elements(self, sets: Ragged) -> Ragged:
        with torch.no_grad():
            return sets.with_values(self.h(sets.values))

    def _last(self, bucket: Bucket, sets: Ragged) -> Bucket:
        """Returns the rows cut to their last k elements; −1 fills up a smaller set (Def. 2.2)."""
        n = max((sets.sizes[b] for b in bucket.members(len(sets))[:1]), default=0)
        if bucket.length < min(n, self.k):
            raise ValueError(
                f"a ControlVariate of the last k={self.k} elements expects rows of at least {min(n, self.k)} for a "
                f"set of {n}; got rows of {bucket.length}. Use one with k <= {bucket.length}."
            )
        filled = nn.functional.pad(bucket.local, (0, self.k), value=-1)
        first = ((filled >= 0).sum(-1, keepdim=True) - self.k).clamp_min(0)
        places = first + torch.arange(self.k, device=filled.device)
        return replace(bucket, local=filled.gather(-1, places), padded=n < self.k)

    def extra_repr(self) -> str:
        return arguments_shown(self)


def fit_control_variate(
    network: JanossyNetwork | nn.Module,
    sets: Ragged,
    k: int = 2,
    hidden_features: int = 32,
    *,
    link: str | Link | None = None,
    num_steps: int = 500,
    num_permutations: int = 8,
    learning_rate: float = 1e-2,
    generator: torch.Generator | None = None,
) -> ControlVariate:
    """Fits a ``ControlVariate`` with a ``TupleMLP`` that minimises the variance over permutations within these sets.

    It minimises E‖(y_π − ȳ) − (g_π − ḡ)‖², with means over fresh permutations for ȳ and ḡ. Each output is in units of
    its standard deviation. Then each output of g is scaled by least squares on an eighth of the sets, which is kept out
    of the fit. If g would add variance, the scale is about 0.

    Fit it on sets, or at least on permutations, other than those of the predictions. The result is frozen, so
    predictions stay unbiased. The network's parameters, gradients and modes do not change.

    Args:
        network: a trained network with random orderings, and elements h(x) of shape (N, d); or a wrapper of one, as in
            ``predict``.
        k: the number of elements that g reads.
        hidden_features: the width of g.
        link: the link of ``predict``.
        num_steps: the steps of Adam, with a rate that falls to 0. Each is on num_permutations of at most 64 sets.
        num_permutations: independent draws of each set, each of the num permutations of the network's orderings.
        learning_rate: the first rate of Adam.
        generator: the source of all random numbers, including g's first weights; on the sets' device.

    Shapes: sets.values (N, *features) -> a ControlVariate of (B, out).
    Invariance: g need not be invariant, as its mean is.
    Cost: num_steps·num_permutations·64 rows of the network and of g, forward; the backward pass is g's alone.
    Raises:
        TypeError: for a network, sets or a number of another type.
        ValueError: for an unknown link, orderings that are not random, or rows of fewer than k elements.
        ValueError: if k, hidden_features or num_steps is below 1, num_permutations below 2, or learning_rate not > 0.
        ValueError: for no sets, elements that are not vectors, or a generator on another device.

    Example:
        >>> network = JanossyNetwork(nn.Embedding(10, 4), JanossyPooling(GRU(4, 8), Sampled()), nn.Linear(8, 1))
        >>> sets = Ragged.from_sets([torch.tensor([3, 1, 4]), torch.tensor([1, 5])])
        >>> fit_control_variate(network, sets, k=2, num_steps=1).mean(sets).shape
        torch.Size([2, 1])
    """
    owner = "fit_control_variate"
    network = network_in(network, owner)
    check_ragged(sets, owner)
    numbers = {"k": k, "hidden_features": hidden_features, "num_steps": num_steps, "num_permutations": num_permutations}
    for name, number in numbers.items():
        check_integer(owner, name, number)
    check_number(owner, "learning_rate", learning_rate, 1e-2)
    if not 0 < learning_rate < inf:
        raise ValueError(f"{owner} expects a finite learning_rate > 0; got {learning_rate}.")
    check_generator(owner, generator, sets.device)
    if min(num_steps, hidden_features, len(sets)) < 1 or num_permutations < 2:
        raise ValueError(
            "fit_control_variate expects num_steps, hidden_features and the number of sets, all >= 1, and "
            f"num_permutations >= 2; got num_steps={num_steps}, hidden_features={hidden_features}, {len(sets)} sets "
            f"and num_permutations={num_permutations}."
        )
    linked = named_link(link, owner)
    source = _Source(network, _random(network.pooling.orderings, k), linked, num_permutations, generator)
    num_kept = len(sets) // 8
    fitted, kept = (sets[:-num_kept], sets[-num_kept:]) if num_kept else (sets, sets)
    with evaluating(network):
        g = _first(source, sets[:1], k, hidden_features)
        control = ControlVariate(network.h, g, k)
        _train(control, source, fitted, num_steps, learning_rate)
        _scale(control, g, source, kept)
    return control.eval().requires_grad_(False)


@dataclass(frozen=True)
class _Source:
    """The outputs of a network, which g is fitted to."""

    network: JanossyNetwork
    orderings: RandomOrderings
    link: Link
    num_draws: int
    generator: torch.Generator | None

    @torch.no_grad()
    def draw(self, sets: Ragged) -> tuple[Tensor, Drawn]:
        """Returns the linked outputs (B, m, *out) of fresh draws, minus their mean over m, and the draws."""
        seed, generator = None, self.generator
        if self.orderings.seed is not None:
            seed, generator = int(self.integers(2**31, device=sets.device)), None
        drawn = draws_of(self.orderings, self.num_draws, sets, generator, independent=True, seed=seed)
        outputs = self.link(self.network(sets, drawn.apart(self.orderings.num_rows)))
        return _centred(outputs, sets), drawn

    def controls(self, control: ControlVariate, sets: Ragged, drawn: Drawn) -> Tensor:
        """Returns g of these draws (B, m, out), minus its mean over m."""
        return _centred(mean_of_draws(control.rows(sets, drawn.rows), drawn, self.orderings.num_rows), sets)

    def integers(self, high: int, *shape: int, device: torch.device) -> Tensor:
        return torch.randint(high, shape, generator=self.generator, device=device)


def _random(orderings: Orderings, k: int) -> RandomOrderings:
    """Returns these orderings. Raises: ValueError unless they are random, with at least k elements per row."""
    random = as_random(orderings.in_prediction(), "fit_control_variate")
    if random is None:
        raise ValueError(
            f"fit_control_variate expects a network whose orderings draw, such as Sampled; got {orderings}, which "
            "leaves no variance between permutations."
        )
    length = orderings.k
    if length is not None and length < k:
        raise ValueError(f"fit_control_variate expects k <= {length}, that of the network's orderings; got {k}.")
    return random


def _centred(outputs: Tensor, sets: Ragged) -> Tensor:
    """Returns outputs (B·m, *out) as (B, m, *out), minus their mean over m."""
    outputs = outputs.unflatten(0, (len(sets), -1))
    return outputs - outputs.mean(1, keepdim=True)


def _first(source: _Source, sets: Ragged, k: int, hidden_features: int) -> TupleMLP:
    """Returns an untrained g for these sets, in the dtype and on the device of their elements."""
    outputs, _ = source.draw(sets)
    with torch.no_grad():
        elements = source.network.h(sets.values)
    if elements.dim() != 2 or outputs.dim() != 3:
        raise ValueError(
            "fit_control_variate expects elements h(x) of shape (N, d) and outputs of shape (B, out); got "
            f"{tuple(elements.shape)} and {(len(sets), *outputs.shape[2:])}. Flatten them in h, rho or link."
        )
    seed = int(source.integers(2**62, device=sets.device))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return TupleMLP(k, elements.shape[1], hidden_features, out_features=outputs.shape[2]).to(elements)


def _train(control: ControlVariate, source: _Source, sets: Ragged, num_steps: int, learning_rate: float) -> None:
    """Fits g to the outputs, in units of each output's standard deviation over permutations."""
    spread = source.draw(sets)[0].square().mean((0, 1)).sqrt()
    spread = spread.where(spread > 0, 1)
    optimizer = torch.optim.Adam(control.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_steps)
    for _ in range(num_steps):
        batch = sets[source.integers(len(sets), SETS_A_STEP, device=sets.device)] if len(sets) > SETS_A_STEP else sets
        outputs, drawn = source.draw(batch)
        with torch.enable_grad():
            left = outputs / spread - source.controls(control, batch, drawn)
            optimizer.zero_grad()
            left.square().mean().backward()
        optimizer.step()
        schedule.step()


@torch.no_grad()
def _scale(control: ControlVariate, g: TupleMLP, source: _Source, sets: Ragged) -> None:
    """Multiplies each output of g by α = Σ y·g / Σ g² over fresh permutations, or by 0 if g is constant."""
    outputs, drawn = source.draw(sets)
    controls = source.controls(control, sets, drawn)
    square = controls.square().sum((0, 1))
    alpha = (outputs * controls).sum((0, 1)) / square.where(square > 0, 1)
    assert g.output is not None
    g.output.weight.mul_(alpha[:, None])
    g.output.bias.mul_(alpha)
