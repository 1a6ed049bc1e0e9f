"""Graphs: neighbourhoods as sets, GraphSAGE, and the aggregation for torch_geometric. The extra ``graph``."""

from janossy.graph.aggregation import JanossyAggregation
from janossy.graph.neighbourhoods import Neighbourhoods, TwoHops, two_hops
from janossy.graph.sage import GraphSAGE

__all__ = ["GraphSAGE", "JanossyAggregation", "Neighbourhoods", "TwoHops", "two_hops"]
