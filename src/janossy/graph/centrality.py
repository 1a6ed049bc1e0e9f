"""Keys by which a vertex's neighbours are ordered: degree, PageRank, personalised PageRank, betweenness."""

from collections.abc import Callable, Sequence
from typing import cast

import networkx as nx
import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from torch import Tensor

from janossy.graph.neighbourhoods import Neighbourhoods, check_graph

DAMPING = 0.85
"""The probability of following an edge (Page et al., 1999)."""

STEPS = 150
"""The number of power iterations, each of which multiplies the error by DAMPING at most: 3e-11 in all."""

CENTRES = 256
"""The centres whose personalised PageRanks are computed together, with one number per centre and vertex."""


def neighbour_keys(graph: Neighbourhoods, centrality: str | Sequence[str]) -> Tensor:
    """Returns keys to sort each vertex's neighbours from the most to the least central: minus their centralities.

    - "degree": the number of edges that end at the neighbour.
    - "pagerank": the PageRank of the walk along edges source -> target (damping 0.85).
    - "personalised_pagerank": the PageRank of the walk that restarts at the centre, the vertex whose neighbours are
      sorted. It is the order of Moore & Neville (AAAI 2017).
    - "betweenness": the share of shortest paths, with parallel edges taken once (Brandes, 2001). It is an order of
      PATCHY-SAN (Niepert, Ahmed & Kutzkov, ICML 2016).

    Compute them once for a graph, and look them up for a batch::

        keys = neighbour_keys(graph, ("degree", "pagerank"))
        edges = graph.edges(vertices)
        sets = edges.with_values(x[graph.neighbours[edges.values]])
        pooled = JanossyPooling(f, Canonical(key=(0, 1)))(sets, keys=edges.with_values(keys[edges.values]))

    Neighbours of equal keys come in the order of the edges, and ``explain`` reports them. Further columns, such as the
    neighbours' features or numbers, order them.

    Shapes: a graph of V vertices and E edges -> (E, j), float64, on the graph's device. Row e is the key of
        graph.neighbours[e], seen from the vertex at which edge e ends.
    Invariance: to the numbers of vertices and the order of edges, beyond rounding (1e-10).
    Cost: degree O(E); pagerank 150·E; personalised_pagerank 150·V·E; betweenness V·E in Python (networkx), half a
        minute for Cora's 2,708 vertices.
    Raises: TypeError unless the arguments are a graph and names; ValueError for an unknown name, or no names.

    Example:
        >>> graph = Neighbourhoods.from_edge_index(torch.tensor([[1, 2, 0, 0], [0, 0, 1, 2]]))
        >>> neighbour_keys(graph, "degree").T
        tensor([[-1., -1., -2., -2.]], dtype=torch.float64)
    """
    check_graph(graph, "neighbour_keys")
    names = [centrality] if isinstance(centrality, str) else list(centrality)
    expected = f"neighbour_keys expects a centrality among {', '.join(map(repr, CENTRALITIES))}, or several"
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise TypeError(f"{expected}; got {wrong[0]!r}, of type {type(wrong[0]).__name__}.")
    if not names or (wrong := [name for name in names if name not in CENTRALITIES]):
        raise ValueError(f"{expected}; got {wrong[0] if names else 'none'!r}.")
    edges = csr_matrix(
        (np.ones(len(graph.neighbours)), graph.neighbours.cpu().numpy(), graph.offsets.cpu().numpy()),
        shape=(len(graph), len(graph)),
    )
    columns = [-CENTRALITIES[name](edges, edges.indices) for name in names]
    return torch.from_numpy(np.stack(columns, 1)).to(graph.device)


def _degree(edges: csr_matrix, neighbours: np.ndarray) -> np.ndarray:
    return cast(np.ndarray, np.diff(edges.indptr)[neighbours].astype(float))


def _pagerank(edges: csr_matrix, neighbours: np.ndarray) -> np.ndarray:
    anywhere = np.full((edges.shape[0], 1), 1 / max(1, edges.shape[0]))
    return cast(np.ndarray, _stationary(edges, anywhere)[neighbours, 0])


def _personalised_pagerank(edges: csr_matrix, neighbours: np.ndarray) -> np.ndarray:
    ranks = np.empty(len(neighbours))
    for begin in range(0, edges.shape[0], CENTRES):
        centres = np.arange(begin, min(begin + CENTRES, edges.shape[0]))
        starts = np.zeros((edges.shape[0], len(centres)))
        starts[centres, centres - begin] = 1
        here = slice(edges.indptr[begin], edges.indptr[centres[-1] + 1])
        of_centre = np.repeat(centres - begin, np.diff(edges.indptr)[centres])
        ranks[here] = _stationary(edges, starts)[neighbours[here], of_centre]
    return ranks


def _stationary(edges: csr_matrix, starts: np.ndarray) -> np.ndarray:
    """Returns the distribution (V, c) of walks that restart by ``starts`` (V, c), also where no edge leads on."""
    leaving = np.asarray(edges.sum(0)).ravel()
    step = edges @ diags(1 / np.maximum(leaving, 1))
    ends = leaving == 0
    rank = starts
    for _ in range(STEPS):
        rank = DAMPING * (step @ rank + starts * rank[ends].sum(0)) + (1 - DAMPING) * starts
    return rank


def _betweenness(edges: csr_matrix, neighbours: np.ndarray) -> np.ndarray:
    # networkx has edges row -> column.
    of_vertices = nx.betweenness_centrality(nx.from_scipy_sparse_array(edges.T, create_using=nx.DiGraph))
    return cast(np.ndarray, np.array([of_vertices[v] for v in range(edges.shape[0])])[neighbours])


CENTRALITIES: dict[str, Callable[[csr_matrix, np.ndarray], np.ndarray]] = {
    "degree": _degree,
    "pagerank": _pagerank,
    "personalised_pagerank": _personalised_pagerank,
    "betweenness": _betweenness,
}
