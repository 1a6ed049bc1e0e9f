"""Functions of statistics: trees and linear scores, and the network of one of them. A row's bits are its own."""

from math import inf

import torch
from torch import Tensor, nn

from janossy.nn.statistics.on_cpu import OnCpu, with_float64
from janossy.nn.statistics.pooled import PooledStatistics
from janossy.sets import Ragged
from janossy.sets.transfer import widest

LINKS = ("identity", "log")

TREES_AT_ONCE = 64

NUMBERS_AT_ONCE = 2**17
"""Numbers that are added up at once: products of more leave the cache."""


class TreeEnsemble(OnCpu):
    """A sum of decision trees on vectors: the sum of the leaves' values and ``base``.

    A node is the number of an inner node, or ~i for leaf i. Inner nodes send x to the left child if
    x[feature] <= threshold, else to the right child.

    Args:
        in_features, out_features: the widths of vectors and outputs.
        num_trees, num_nodes, num_leaves: the numbers of trees, inner nodes and leaves, over all trees.
        one_output: True if each tree adds one number to one output, ``outputs``; else each leaf has a value per output.
        link: "log" if the sums are probabilities, else "identity". With "log" the outputs are their logarithms, shrunk
            by ``1 / (num_trees + 1)`` towards the uniform distribution, and divided by the temperature.
        temperature: above 0; below 1 if the probabilities are too near to uniform. It has no effect without "log".

    Buffers: ``roots`` (T,), ``below`` (num_nodes, 2), ``feature`` and ``threshold`` (num_nodes,), ``values``
        (num_leaves, 1 or out_features), ``outputs`` (T,), ``base`` (out_features,).
    Shapes: (B, in_features) float32 -> (B, out_features) float64.
    Invariance: a row's result depends on that row alone, to the last bit.
    """

    roots: Tensor
    below: Tensor
    feature: Tensor
    threshold: Tensor
    values: Tensor
    outputs: Tensor
    base: Tensor

    def __init__(
        self,
        in_features: int,
        *,
        out_features: int,
        num_trees: int,
        num_nodes: int,
        num_leaves: int,
        one_output: bool = False,
        link: str = "identity",
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        if link not in LINKS:
            raise ValueError(f"TreeEnsemble expects link among {', '.join(LINKS)}; got {link!r}.")
        if not 0 < temperature < inf:
            raise ValueError(f"TreeEnsemble expects a finite temperature above 0; got {temperature!r}.")
        self.in_features, self.out_features = in_features, out_features
        self.num_trees, self.num_nodes, self.num_leaves = num_trees, num_nodes, num_leaves
        self.one_output, self.link, self.temperature = one_output, link, temperature
        shapes = {
            "roots": (torch.int32, num_trees),
            "below": (torch.int32, num_nodes, 2),
            "feature": (torch.int32, num_nodes),
            "threshold": (torch.float32, num_nodes),
            "values": (torch.float32, num_leaves, 1 if one_output else out_features),
            "outputs": (torch.int32, num_trees if one_output else 0),
            "base": (torch.float64, out_features),
        }
        for name, (dtype, *shape) in shapes.items():
            self.register_buffer(name, torch.zeros(*shape, dtype=dtype))  # type: ignore[arg-type]

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        x = with_float64(x)
        found = self.base.repeat(len(x), 1)
        values = self.values.double()
        for begin in range(0, self.num_trees, TREES_AT_ONCE):
            leaves = self._leaves(x, self.roots[begin : begin + TREES_AT_ONCE])
            for t, leaf in enumerate(leaves.unbind(1), begin):  # one by one, in an order that the batch does not change
                if self.one_output:
                    found[:, self.outputs[t]] += values[leaf, 0]
                else:
                    found += values[leaf]
        if self.link == "log":
            part = 1 / (self.num_trees + 1)
            found = ((1 - part) * found.clamp_min(0) + part / self.out_features).log() / self.temperature
        return found

    def _leaves(self, x: Tensor, roots: Tensor) -> Tensor:
        """Returns the leaf of each row in each of these trees, (B, t)."""
        values, below = x.flatten(), self.below.flatten()
        found = roots.repeat(len(x))
        places = (found >= 0).nonzero()[:, 0]
        node, row = found[places], places // len(roots) * x.shape[1]
        while len(places):  # only what has not reached a leaf goes on: trees differ in depth
            column = self.feature.index_select(0, node)
            right = values.index_select(0, row + column) > self.threshold.index_select(0, node)
            node = below.index_select(0, 2 * node + right)
            found.index_copy_(0, places, node)
            inner = (node >= 0).nonzero()[:, 0]
            places, node, row = places[inner], node[inner], row[inner]
        return ~found.view(len(x), len(roots)).long()

    def check_buffers(self) -> None:
        """Raises a ValueError for cycles, places outside the buffers, and thresholds that are NaN."""
        own = torch.arange(self.num_nodes)[:, None]
        inner = self.below >= 0
        fits = (
            bool(((self.below > own) | ~inner).all())  # children come behind their parents: no path is endless
            and all(
                bool(((places < self.num_nodes) & (~places < self.num_leaves)).all())
                for places in (self.below, self.roots)
            )
            and bool(((self.feature >= 0) & (self.feature < self.in_features)).all())
            and bool(((self.outputs >= 0) & (self.outputs < self.out_features)).all())
            and bool(self.threshold.isfinite().all())
        )
        if not fits:
            raise ValueError(
                "TreeEnsemble expects trees whose children come behind their parents, existing features and leaves, "
                "and finite thresholds; got others."
            )


class LinearScores(OnCpu):
    """x ↦ W·x + b in float64, each row added up separately, so that the batch does not change it.

    Buffers: ``weight`` (out_features, in_features), ``bias`` (out_features,), float64.

    Shapes: (B, in_features) -> (B, out_features) float64.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, in_features: int, *, out_features: int) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.register_buffer("weight", torch.zeros(out_features, in_features, dtype=torch.float64))
        self.register_buffer("bias", torch.zeros(out_features, dtype=torch.float64))

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        some = with_float64(x).split(max(1, NUMBERS_AT_ONCE // max(1, self.in_features)))
        return torch.cat([self._scores(each.double()) for each in some])

    def _scores(self, x: Tensor) -> Tensor:
        return torch.stack([(x * weight).sum(1) for weight in self.weight], dim=1) + self.bias


class StatisticsNetwork(nn.Module):
    """y(x) = scores(statistics(x)), without gradients and without randomness.

    Args:
        statistics: a ``PooledStatistics``.
        scores: maps its vectors (B, c) to outputs (B, out), such as ``TreeEnsemble`` or ``LinearScores``.

    Shapes: sets.values (N, columns), context (B, e) or None -> (B, out), in the elements' dtype; in that of the scores
        if the elements are integers.
    Invariance: exact, to the last bit. The result does not depend on the batch either.
    Raises: ValueError if ``scores`` takes vectors of another width.
    """

    def __init__(self, statistics: PooledStatistics, scores: nn.Module) -> None:
        super().__init__()
        if not isinstance(statistics, PooledStatistics) or scores.in_features != statistics.out_features:
            raise ValueError(
                "StatisticsNetwork expects scores that take as many features as there are statistics; got "
                f"{getattr(scores, 'in_features', None)} and {getattr(statistics, 'out_features', None)}."
            )
        self.statistics, self.scores = statistics, scores

    def forward(
        self, sets: Ragged, *, context: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        outputs: Tensor = self.scores(self.statistics(sets, context))
        dtype = sets.dtype if sets.dtype.is_floating_point else outputs.dtype
        return outputs.to(sets.device, widest(sets.device) if dtype == torch.float64 else dtype)
