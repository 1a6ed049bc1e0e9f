"""Graphs: neighbourhoods as sets, GraphSAGE, and, with the extra ``graph``, the aggregation for torch_geometric."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from janossy.graph.neighbourhoods import Neighbourhoods, TwoHops, two_hops
from janossy.graph.sage import GraphSAGE

if TYPE_CHECKING:
    from janossy.graph.aggregation import JanossyAggregation
    from janossy.graph.centrality import neighbour_keys
    from janossy.graph.conv import JanossySAGEConv

__all__ = [
    "GraphSAGE",
    "JanossyAggregation",
    "JanossySAGEConv",
    "Neighbourhoods",
    "TwoHops",
    "neighbour_keys",
    "two_hops",
]

LATE = {"JanossyAggregation": "aggregation", "JanossySAGEConv": "conv", "neighbour_keys": "centrality"}
"""The names that import torch_geometric, which takes seconds, and networkx. The other names do not."""


def __getattr__(name: str) -> Any:
    if name not in LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"janossy.graph.{LATE[name]}"), name)
