"""Sensitivity: the remaining dependence of a trained network's outputs on the order."""

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from torch import Tensor, nn

from janossy.checks import check_generator, check_integer
from janossy.evaluate.validation import check_context
from janossy.inference.draws import is_of_its_rows
from janossy.inference.models import network_in
from janossy.inference.prediction import Link, named_link
from janossy.nn.modes import evaluating
from janossy.nn.network import JanossyNetwork
from janossy.orderings import Sampled
from janossy.orderings.contract import Orderings, as_random
from janossy.orderings.drawn import Drawn
from janossy.orderings.rows import Rows, build_rows
from janossy.orderings.source import Source
from janossy.sets import Ragged, check_ragged
from janossy.sets.transfer import widest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SWAPS_A_STEP = 100
"""The most swaps of a set in one step of the search: all n(n - 1)/2 for n <= 14."""


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The result of ``sensitivity``: B sets under num_permutations orders each.

    Shapes: within, between, order_share and intraclass_correlation (out,). standard_deviation (B, out). worst_sampled
        and worst_deviation (B,). worst_order a Ragged of int64 positions (N,), an order of each set.

    - ``within`` is the variance of a prediction over orders, averaged over the sets.
    - ``between`` is the variance over the sets of the mean over all orders. It is unbiased, so it can be negative. It
      is NaN for fewer than two sets. Both are those of a one-way random-effects analysis of variance.
    - ``standard_deviation`` is that of each set over orders.
    - ``worst_deviation`` is the largest distance found between one order's prediction and the set's mean prediction,
      Euclidean over outputs. ``sets[b][worst_order[b]]`` is the order that attains it.
    - ``worst_sampled`` is the largest such distance among the sampled orders.
    - ``num_evaluations`` counts rows of f.
    """

    within: Tensor
    between: Tensor
    standard_deviation: Tensor
    worst_sampled: Tensor
    worst_deviation: Tensor
    worst_order: Ragged
    num_permutations: int
    num_evaluations: int

    @property
    def order_share(self) -> Tensor:
        """within / (within + between): the share of one prediction's variance that is due to its order.

        It is one minus the intraclass correlation. A negative between counts as zero. If within is 0, the share is 0,
        whatever between is. Otherwise it is NaN for fewer than two sets.
        """
        share = self.within / (self.within + self.between.clamp_min(0))
        return share.where(self.within != 0, self.within)

    @property
    def intraclass_correlation(self) -> Tensor:
        """ICC(1) = between / (between + within): the correlation of two predictions of one set by different orders."""
        return 1 - self.order_share

    def __str__(self) -> str:
        spread, across = self._spreads()
        lines = [
            f"{len(spread)} sets, {self.num_permutations} permutations each, {self.num_evaluations} evaluations of f",
            f"share of a prediction's variance due to the order: {_numbers(self.order_share)}",
            f"standard deviation over permutations: {_centre(spread)}; of the mean over sets: {across:.3g}",
            f"farthest from the mean, of the sampled: {_centre(self.worst_sampled)}",
            f"farthest from the mean, of all tried: {_centre(self.worst_deviation)}",
        ]
        return "\n".join(lines)

    def plot(self, path: str | PathLike[str] | None = None) -> "Figure":
        """Plots each set's standard deviation over orders beside that over sets, and its worst order.

        Several outputs count together, by their Euclidean norm. With ``path``, the figure is written there too. It
        needs ``janossy[plot]``.
        """
        try:
            from matplotlib.figure import Figure  # noqa: PLC0415
        except ImportError as error:
            raise ImportError("Sensitivity.plot needs matplotlib: pip install 'janossy[plot]'.") from error
        spread, across = self._spreads()
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        relative = across > 0
        left.hist((spread / across if relative else spread).tolist(), bins=40, color="#2b83c6")
        unit = f"in units of that over sets, {across:.3g}" if relative else "in units of the prediction"
        left.set_xlabel(f"a set's standard deviation over orders,\n{unit}")
        left.set_ylabel("sets")
        left.set_title(f"share of variance due to the order: {_numbers(self.order_share)}", fontsize=10, loc="left")
        x = spread.tolist()
        sampled = f"worst of {self.num_permutations} sampled"
        if not torch.equal(self.worst_deviation, self.worst_sampled):
            right.scatter(x, self.worst_deviation.tolist(), s=9, color="#d55e00", linewidth=0, label="worst found")
        right.scatter(x, self.worst_sampled.tolist(), s=9, color="#2b83c6", linewidth=0, label=sampled)
        right.axline((0, 0), slope=3, color="#888888", linewidth=0.8, label="3 standard deviations")
        right.set_xlabel("a set's standard deviation over orders,\nin units of the prediction")
        right.set_ylabel("distance from the mean prediction,\nin units of the prediction")
        left.set_xlim(left=0)
        right.set_xlim(left=0)
        right.set_ylim(bottom=0)
        right.legend(frameon=False, fontsize=8)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        if path is not None:
            figure.savefig(path, dpi=130)
        return figure

    def _spreads(self) -> tuple[Tensor, float]:
        """Returns standard deviations over orders (B,), and the one over sets, of all outputs together."""
        return self.standard_deviation.norm(dim=1), self.between.clamp_min(0).sum().sqrt().item()


@torch.no_grad()
def sensitivity(
    network: JanossyNetwork | nn.Module,
    sets: Ragged,
    num_permutations: int = 20,
    *,
    context: Tensor | None = None,
    link: str | Link | None = None,
    num_swaps: int = 0,
    generator: torch.Generator | None = None,
) -> Sensitivity:
    """Measures how much link(ρ(f(h(x)_π))) still depends on the order π, for a network trained by π-SGD.

    The variance is estimated from random permutations. With ``num_swaps`` a search also looks for the worst order of
    each set. It starts from the sampled permutation whose prediction is farthest from their mean. It makes up to
    num_swaps swaps of two positions. Each swap is the best of all n(n - 1)/2, or of 100 random ones if there are more.
    The search stops when no swap helps. It gives a lower bound of the worst over n! orders. The network is put into
    evaluation mode.

    The orderings must be random. Of their settings only k is used: f then reads the first k elements of an order, and
    swaps of other elements are not tried. The audit is of single permutations, uniform over all n! and independent,
    whatever the network's ``num``, ``seed`` and weights. It is not of the mean over num permutations, which varies
    less.

    Args:
        network: a ``JanossyNetwork``, or a wrapper that ``predict`` sees through, such as an ``AveragedModel``.
        num_permutations: the random permutations per set.
        context: the features of each set as a whole, (B, *any), for the network's rho.
        link: as in ``predict``.
        num_swaps: steps of the search for the worst order; 0 reports the worst of the sampled orders.
        generator: the source of the permutations and of the swaps, on the sets' device.

    Shapes: sets.values (N, *features) -> as in ``Sensitivity``, in float64 (on MPS float32).
    Invariance: within and between are unbiased over the draw of sets and permutations.
    Cost: num_permutations·B rows of f, and up to min(100, n(n - 1)/2)·num_swaps for each set.
    Raises:
        TypeError: for a network, sets or an argument of another type.
        ValueError: if the orderings are not random, num_permutations < 2, or num_swaps < 0.
        ValueError: if the link is unknown, or the generator is on another device.

    Example:
        >>> network = JanossyNetwork(None, JanossyPooling(GRU(3, 8), Sampled(1)), nn.Linear(8, 1))
        >>> sets = Ragged.from_sets([torch.randn(4, 3), torch.randn(6, 3)])
        >>> sensitivity(network, sets, num_swaps=10).worst_order.sizes
        (4, 6)
    """
    network = network_in(network, "sensitivity")
    check_ragged(sets, "sensitivity")
    check_context(context, sets, "sensitivity")
    check_integer("sensitivity", "num_permutations", num_permutations)
    check_integer("sensitivity", "num_swaps", num_swaps, 0)
    check_generator("sensitivity", generator, sets.device)
    if num_permutations < 2:
        raise ValueError(f"sensitivity expects num_permutations >= 2, to see a variance; got {num_permutations}.")
    linked = named_link(link, "sensitivity")
    orderings = network.pooling.orderings.in_prediction()
    if as_random(orderings, "sensitivity") is None:
        raise ValueError(
            f"sensitivity expects a network whose orderings draw, such as Sampled; got {orderings}, which draws no "
            "permutation: the variance is zero by construction. To audit its f, build a JanossyNetwork of it with "
            "Sampled()."
        )
    max_rows = orderings.max_rows
    with evaluating(network):
        predictions = _Predictions(network, sets, context, orderings.k, linked)
        drawn = Sampled(num_permutations, scheme="independent", max_rows=max_rows).enumerate(sets, generator)
        orders = _padded(drawn, sets)
        everything = torch.arange(len(sets), device=sets.device)
        outputs = predictions(everything, orders)
        mean, variance = outputs.mean(1), outputs.var(1)
        worst_sampled, choice = (outputs - mean[:, None]).norm(dim=2).max(1)
        start = orders[everything, choice], worst_sampled.clone()
        order, worst = _search(predictions, *start, mean, num_swaps, generator)
    within = variance.mean(0)
    between = mean.var(0) if len(sets) > 1 else torch.full_like(within, torch.nan)
    mask = torch.arange(order.shape[1], device=sets.device) < sets.offsets.diff()[:, None]
    return Sensitivity(
        within,
        between - within / num_permutations,
        variance.sqrt(),
        worst_sampled,
        worst,
        sets.with_values(order[mask]),
        num_permutations,
        predictions.num_evaluations,
    )


class _Predictions:
    """link(ρ(f(·))) of given orders, with a count of evaluations."""

    def __init__(
        self, network: JanossyNetwork, sets: Ragged, context: Tensor | None, k: int | None, link: Link
    ) -> None:
        self.network = network
        self.sets = sets
        self.elements = network.elements(sets)
        self.context = context
        self.sizes = sets.offsets.diff()
        self.k = k
        self.link = link
        self.num_evaluations = 0

    def __call__(self, chosen: Tensor, orders: Tensor) -> Tensor:
        """Returns the outputs of the chosen sets (S,), in orders (S, R, max n): (S, R, out)."""
        given = _Given(orders, self.sizes[chosen], self.k)
        sets, elements = self.sets[chosen], self.elements[chosen]
        context = None if self.context is None else self.context[chosen]
        if is_of_its_rows(self.network):
            rows = self.network.pooling.rows(elements, orderings=given)
            of_rows = None if context is None else context.repeat_interleave(orders.shape[1], 0)
            outputs = self.link(self.network.read_out(rows.values, of_rows))
        else:
            apart = Drawn(given.enumerate(sets), sets.sizes, self.k).apart(lambda n: 1)
            outputs = self.link(self.network(sets, apart, context=context, elements=elements))
        self.num_evaluations += len(outputs)
        return cast(Tensor, outputs.to(widest(outputs.device)).unflatten(0, orders.shape[:2]))


@dataclass(frozen=True, eq=False)
class _Given(Orderings):
    """Orderings: the first n_b positions of orders (B, R, max n), or the first k of them."""

    orders: Tensor
    sizes: Tensor
    k: int | None
    draws: ClassVar[bool] = False

    def num_rows(self, n: int) -> int:
        return self.orders.shape[1]

    def row_length(self, n: int) -> int:
        return n if self.k is None else self.k

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        return build_rows(keys, lambda n, _: self._rows(n), k=self.k)

    def _rows(self, n: int) -> Tensor:
        rows = self.orders[self.sizes == n, :, : min(n, self.row_length(n))]
        return nn.functional.pad(rows, (0, self.row_length(n) - rows.shape[2]), value=-1)


def _padded(rows: Rows, sets: Ragged) -> Tensor:
    """Returns the positions (B, R, max n) of R rows per set, with zeros behind each."""
    orders = sets.offsets.new_zeros(len(sets), rows.buckets[0].num_rows, max(sets.sizes, default=0))
    for bucket in rows.buckets:
        orders[slice(None) if bucket.sets is None else bucket.sets, :, : bucket.length] = bucket.local
    return orders


def _search(
    predictions: _Predictions,
    orders: Tensor,
    deviations: Tensor,
    mean: Tensor,
    num_steps: int,
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    """Climbs by swaps of two positions from orders (B, max n), with these deviations from mean (B, out)."""
    n, device = orders.shape[1], orders.device
    # Pairs are sorted by their later position, so that those within a smaller set come first.
    later, earlier = torch.tril_indices(n, n, -1, device=device)
    if predictions.k is not None:
        later, earlier = later[earlier < predictions.k], earlier[earlier < predictions.k]
    num_pairs = torch.searchsorted(later, predictions.sizes)
    active = num_pairs.nonzero()[:, 0]
    for _ in range(num_steps):
        if not len(active):
            break
        num_tried = min(SWAPS_A_STEP, int(num_pairs[active].max()))
        bound = num_pairs[active, None]
        drawn = Source(device, generator).bits(len(active), num_tried) % bound
        every = torch.arange(num_tried, device=device) % bound
        tried = every.where(bound <= num_tried, drawn)
        candidates = _swapped(orders[active], earlier[tried], later[tried])
        farthest, choice = (predictions(active, candidates) - mean[active, None]).norm(dim=2).max(1)
        better = farthest > deviations[active]
        active, choice = active[better], choice[better]
        deviations[active] = farthest[better]
        orders[active] = candidates[better, choice]
    return orders, deviations


def _swapped(orders: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Returns orders (A, n) with the positions first and second (A, S) exchanged: (A, S, n)."""
    swapped = orders[:, None].repeat(1, first.shape[1], 1)
    swapped.scatter_(2, first[..., None], orders.gather(1, second)[..., None])
    return swapped.scatter_(2, second[..., None], orders.gather(1, first)[..., None])


def _numbers(values: Tensor) -> str:
    """Returns the first numbers as text, and the mean if there are more."""
    shown = ", ".join(f"{value:.3g}" for value in values[:3].tolist())
    return shown if len(values) <= 3 else f"{shown}, … (mean {values.mean():.3g})"


def _centre(values: Tensor) -> str:
    if not len(values):
        return "none"
    return f"{values.median():.3g} (median set), {values.max():.3g} (worst set)"
