"""Neighbourhoods of a graph as sets, for torch_geometric. Needs the extra ``graph``."""

from janossy.graph.aggregation import JanossyAggregation

__all__ = ["JanossyAggregation"]
