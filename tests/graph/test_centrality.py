"""Centralities against networkx and by hand; neighbourhoods in their order, whatever the order of the edges."""

import networkx as nx
import numpy as np
import pytest
import torch

from janossy import GRU, Canonical, JanossyPooling
from janossy.graph import Neighbourhoods, neighbour_keys

NAMES = ("degree", "pagerank", "personalised_pagerank", "betweenness")


def a_graph(seed=0, num_nodes=12, num_edges=40) -> torch.Tensor:
    """Edges of both directions or one, parallel ones, loops; some vertices without an edge."""
    return torch.randint(num_nodes - 2, (2, num_edges), generator=torch.Generator().manual_seed(seed))


def of_networkx(edges: torch.Tensor, num_nodes: int, parallel: bool = True):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(num_nodes))
    for u, v in edges.T.tolist():
        more = graph[u][v]["weight"] + 1 if graph.has_edge(u, v) else 1
        graph.add_edge(u, v, weight=more)
    return graph


@pytest.mark.parametrize("seed", range(3))
def test_equals_networkx(seed):
    edges, num_nodes = a_graph(seed), 12
    graph, theirs = Neighbourhoods.from_edge_index(edges, num_nodes), of_networkx(a_graph(seed), num_nodes)
    keys = neighbour_keys(graph, NAMES)
    assert keys.shape == (40, 4) and keys.dtype == torch.float64
    degrees = torch.bincount(edges[1], minlength=num_nodes)
    ranks, between = nx.pagerank(theirs, tol=1e-13, max_iter=1000), nx.betweenness_centrality(theirs)
    for v in range(num_nodes):
        of_v = nx.pagerank(theirs, personalization={v: 1.0}, tol=1e-13, max_iter=1000)
        for e in range(graph.offsets[v], graph.offsets[v + 1]):
            u = int(graph.neighbours[e])
            expected = [-float(degrees[u]), -ranks[u], -of_v[u], -between[u]]
            np.testing.assert_allclose(keys[e], expected, atol=1e-9, rtol=0)


def test_a_star_by_hand():
    """Vertex 0 in the middle of 1, 2 and 3, of which 3 has one more neighbour, 4."""
    pairs = torch.tensor([[0, 1], [0, 2], [0, 3], [3, 4]])
    edges = torch.cat((pairs, pairs.flip(1))).T
    graph = Neighbourhoods.from_edge_index(edges)
    keys = neighbour_keys(graph, ["degree", "betweenness"])
    middle = graph.edges(torch.tensor([0])).values
    assert graph.neighbours[middle].sort().values.tolist() == [1, 2, 3]
    # 3 lies on the shortest paths from 4 to 0, 1 and 2, and back: 6 of the 4·3 ordered pairs of the others
    expected = {1: [-1.0, 0.0], 2: [-1.0, 0.0], 3: [-2.0, -0.5]}
    assert {int(graph.neighbours[e]): keys[e].tolist() for e in middle} == expected


@pytest.mark.parametrize("by", range(4))
def test_neighbourhoods_are_read_in_their_order_whatever_the_order_of_the_edges(by):
    """Ties of the key alone are broken by the neighbours' numbers, given as a second column."""
    torch.manual_seed(0)
    x, f = torch.randn(12, 3, dtype=torch.float64), GRU(3, 4).double()
    edges = a_graph(5).unique(dim=1)

    def pooled(edges):
        graph = Neighbourhoods.from_edge_index(edges, 12)
        number = graph.neighbours[:, None].double()
        keys = torch.cat((neighbour_keys(graph, NAMES[by]).round(decimals=8), number), 1)
        places = graph.edges(torch.arange(12))
        sets = places.with_values(x[graph.neighbours[places.values]])
        return JanossyPooling(f, Canonical(0))(sets, keys=places.with_values(keys[places.values]))

    turned = edges[:, torch.randperm(edges.shape[1])]
    torch.testing.assert_close(pooled(edges), pooled(turned), atol=1e-12, rtol=0)


def test_no_edges_and_no_vertices():
    for num_nodes in (0, 3):
        graph = Neighbourhoods.from_edge_index(torch.zeros(2, 0, dtype=torch.long), num_nodes)
        assert neighbour_keys(graph, NAMES).shape == (0, 4)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3, "degree"), TypeError, "neighbour_keys expects the Neighbourhoods of a graph; got int"),
        ((None, "closeness"), ValueError, "expects a centrality among 'degree', .*, or several; got 'closeness'"),
        ((None, ["degree", 3]), TypeError, "or several; got 3, of type int"),
        ((None, []), ValueError, "or several; got 'none'"),
    ],
)
def test_bad_input(arguments, error, message):
    graph = Neighbourhoods.from_edge_index(a_graph())
    with pytest.raises(error, match=message):
        neighbour_keys(graph if arguments[0] is None else arguments[0], arguments[1])
