"""Graphs: neighbourhoods as sets, GraphSAGE, and, with the extra ``graph``, the aggregation for torch_geometric."""

from typing import TYPE_CHECKING, Any

from janossy.graph.neighbourhoods import Neighbourhoods, TwoHops, two_hops
from janossy.graph.sage import GraphSAGE
from janossy.inference.passes import predict_passes

if TYPE_CHECKING:
    from janossy.graph.aggregation import JanossyAggregation

__all__ = ["GraphSAGE", "JanossyAggregation", "Neighbourhoods", "TwoHops", "predict_passes", "two_hops"]


def __getattr__(name: str) -> Any:
    # torch_geometric takes seconds to import, and the others do without.
    if name != "JanossyAggregation":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from janossy.graph.aggregation import JanossyAggregation  # noqa: PLC0415

    return JanossyAggregation
