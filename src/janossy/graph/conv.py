"""JanossySAGEConv: torch_geometric's SAGEConv with f's inputs projected once per vertex and not once per edge."""

from typing import Any, cast

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing, SAGEConv
from torch_geometric.nn.aggr import Aggregation, MultiAggregation

from janossy.functions.structure import hooked, overridden
from janossy.graph.aggregation import JanossyAggregation


class JanossySAGEConv(SAGEConv):
    """W_1 x_v + W_2 f̄(neighbours of v): ``SAGEConv`` of a ``JanossyAggregation``, with equal results in half the time.

    ``SAGEConv`` copies a vertex's features to each edge that starts at it. f's first projection, half of a recurrence's
    arithmetic or more, is then computed for every copy. Here ``JanossyAggregation`` reads the vertices directly, and
    each is projected once. Parameters, their names and initial values, permutations and results (up to rounding) are
    those of ``SAGEConv`` with the same arguments. Its ``state_dict`` loads.

    Args: as ``SAGEConv``. ``aggr`` is a ``JanossyAggregation``, or a list of aggregations with one among them. The
        others get the copies.

    The layer computes as ``SAGEConv`` does unless its input is edges (2, E) of vertices (V, d), with E >= 2 V. That
    holds for an ``EdgeIndex``, a sparse matrix or ``flow="target_to_source"``. It also holds if a part of the layer is
    hooked, explained or overridden.

    Shapes: x (V, in_channels), or sources (S, d_1) and targets (V, d_2); edge_index (2, E), in any order
        -> (V, out_channels).
    Invariance: that of ``JanossyAggregation``.
    Raises: as ``SAGEConv``.

    Example:
        >>> conv = JanossySAGEConv(8, 16, aggr=["mean", JanossyAggregation(GRU(8, 8))])
        >>> conv(torch.randn(6, 8), torch.randint(6, (2, 20))).shape
        torch.Size([6, 16])
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.propagate = cls.propagate  # type: ignore[method-assign]  # an inherited one is replaced by generated code

    @torch.compiler.disable(reason="the sizes of the neighbourhoods would be compiled anew for each batch")  # type: ignore[untyped-decorator, unused-ignore]
    def propagate(self, edge_index: Any, size: Any = None, **given: Any) -> Tensor:
        x, of_targets = given["x"]
        num_targets = 0 if of_targets is None else len(of_targets)
        if not self._reads_in_place(x, num_targets, edge_index, size):
            # SAGEConv's own method may be generated code.
            return cast(Tensor, MessagePassing.propagate(self, edge_index, size=size, **given))
        sources, targets = edge_index
        aggregation = self.aggr_module
        if isinstance(aggregation, JanossyAggregation):
            return cast(Tensor, aggregation.read(x, sources, targets, num_targets))
        messages = x.index_select(0, sources)
        return cast(
            Tensor,
            aggregation.combine(
                [
                    part.read(x, sources, targets, num_targets)
                    if isinstance(part, JanossyAggregation)
                    else part(messages, targets, dim_size=num_targets)
                    for part in aggregation.aggrs
                ]
            ),
        )

    def _reads_in_place(self, x: Tensor, num_targets: int, edges: Any, size: Any) -> bool:
        return (
            type(edges) is Tensor
            and edges.layout == torch.strided
            and edges.dtype == torch.int64
            and edges.dim() == 2
            and len(edges) == 2
            and x.dim() == 2
            and x.layout == torch.strided
            and (size is None or tuple(size) == (len(x), num_targets))
            and 0 < 2 * len(x) <= edges.shape[1]
            and not self._does_more()
            and _within(edges[0], len(x))
            and _within(edges[1], num_targets)
        )

    def _does_more(self) -> bool:
        """Returns True if propagation does more than aggregate the neighbours' features."""
        aggregation = self.aggr_module
        parts: list[Aggregation] = (
            list(aggregation.aggrs) if isinstance(aggregation, MultiAggregation) else [aggregation]
        )
        ours = [part for part in parts if isinstance(part, JanossyAggregation)]
        hooks = (f"_{step}_forward_{when}" for step in STEPS for when in ("pre_hooks", "hooks"))
        return (
            self.flow != "source_to_target"
            or bool(self.explain)
            or self.decomposed_layers > 1
            or any(getattr(self, name) for name in hooks)
            or type(self).message is not SAGEConv.message
            or any(getattr(type(self), name) is not getattr(MessagePassing, name) for name in ("aggregate", "update"))
            or any(map(hooked, {aggregation, *parts}))
            or any(overridden(part, JanossyAggregation.forward) for part in ours)
            or not ours
        )


STEPS = ("propagate", "message", "aggregate")
"""The steps of torch_geometric's layers that take hooks."""


def _within(vertices: Tensor, num: int) -> bool:
    low, high = vertices.aminmax()
    return bool(low >= 0) and bool(high < num)
