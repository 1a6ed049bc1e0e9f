"""Graphs: GraphSAGE against a loop over vertices, layers of whole neighbourhoods against PyG's, sampled neighbours.

Float32, forward and backward. The loop is in the style of the paper's released code: it embeds one vertex at a time,
anew for each use. Both sides have the same weights and read the same sampled neighbours.

The loop's graph has as many vertices and edges as Cora, and degrees of a power law. Its features have 18 ones each,
like Cora's on average. Cora itself is in docs/results/graphs/speed.md.
"""

import random
from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import LSTMAggregation, SAGEConv

from benchmarks.harness import Row, backward, torch_module
from janossy import GRU, LSTM
from janossy.graph import JanossyAggregation, JanossySAGEConv
from janossy.graph.layers import InOrder, PoolingLayer
from janossy.graph.neighbourhoods import Neighbourhoods, TwoHops, two_hops
from janossy.graph.sage import GraphSAGE

PPI_DEGREES = (
    (0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99, 0.995, 0.999, 1),
    (1, 2, 3, 6, 8, 12, 16, 21, 29, 41, 51, 68, 81, 102, 137, 193, 238, 378, 722),
)
"""The quantiles of the numbers of neighbours in PPI's 24 graphs, whose mean size is 2373 vertices."""


def rows() -> Iterator[Row]:
    """Yields a training step, layers of whole neighbourhoods, sampling of neighbours, and their canonical order."""
    yield step_row(*cora_like(), sparse=True)
    yield whole_row()
    yield in_place_row()
    yield sampling_row()


def power_law_graph(num_vertices: int, num_edges: int, seed: int = 0) -> Neighbourhoods:
    """Returns a graph of about ``num_edges`` undirected edges, between ends sampled by weights with a power-law
    tail."""
    source = torch.Generator().manual_seed(seed)
    weights = (1 - torch.rand(num_vertices, generator=source)) ** (-1 / 1.6)
    ends = weights.multinomial(2 * num_edges, replacement=True, generator=source).view(2, num_edges)
    ends = ends[:, ends[0] != ends[1]].sort(0).values.unique(dim=1)
    return Neighbourhoods.from_edge_index(torch.cat((ends, ends.flip(0)), 1), num_vertices)


def cora_like() -> tuple[Tensor, Neighbourhoods]:
    """Returns features (2708, 1433), 18 of them 1 and the others 0, and a graph of 5278 edges."""
    features = torch.zeros(2708, 1433)
    features.scatter_(1, torch.rand(2708, 1433).argsort(1)[:, :18], 1.0)
    return features, power_law_graph(2708, 5278)


def step_row(
    x: Tensor, graph: Neighbourhoods, *, sparse: bool, resample: bool = False, num_vertices: int = 256, k: int = 5
) -> Row:
    """Returns the row of a step of LSTM(1433, 256) and LSTM(256, 256). Ours also samples the neighbours."""
    model = GraphSAGE(x.shape[1], 7, aggregation="lstm")
    vertices = torch.randperm(len(graph))[:num_vertices]
    labels = torch.randint(7, (num_vertices,))
    features = x.to_sparse() if sparse else x

    def draw() -> TwoHops:
        return two_hops(graph, vertices, k_1=k, k_2=k, resample=resample, generator=torch.Generator().manual_seed(0))

    def ours() -> Tensor:
        model.zero_grad()
        logits = model.of_hops(features, draw())
        backward(nn.functional.cross_entropy(logits, labels))
        return _flat(logits, [layer.pool.f for layer in loop.layers], model)

    def reference() -> Tensor:
        model.zero_grad()
        loop.zero_grad()
        logits = loop()
        backward(nn.functional.cross_entropy(logits, labels))
        return _flat(logits, loop.lstms, model)

    loop = LoopedSAGE(model, x, draw())
    uses = "each use with a sample of its own" if resample else "a vertex used twice embedded once"
    about = (
        f"a step of {num_vertices} vertices, k_1 = k_2 = {k}, LSTM, {'sparse' if sparse else 'dense'} features, {uses}"
    )
    return Row(f"GraphSAGE on a graph of {len(graph)} vertices, {about}, against a loop over vertices", ours, reference)


def _flat(logits: Tensor, recurrences: Sequence[nn.Module], model: GraphSAGE) -> Tensor:
    """Returns the logits, the gradients of these recurrences' weights, and those of the model's other weights."""
    others = [p for name, p in model.named_parameters() if ".pool.f." not in name]
    weights = [p for f in recurrences for p in f.parameters()] + others
    return torch.cat([logits.detach().flatten(), *(cast(Tensor, p.grad).flatten() for p in weights)])


class LoopedSAGE:
    """A GraphSAGE with the LSTM, one vertex after the other, which reads the sampled neighbours of ``hops``."""

    def __init__(self, model: GraphSAGE, x: Tensor, hops: TwoHops) -> None:
        self.model, self.x = model, x
        self.layers = [cast(PoolingLayer, layer) for layer in (model.layer_one, model.layer_two)]
        self.lstms = [torch_module(cast(InOrder, layer.pool).f) for layer in self.layers]
        self.inner, self.targets = hops.inner.tolist(), hops.targets.tolist()
        self.first, self.second = ([each.tolist() for each in sets] for sets in (hops.first, hops.second))

    def zero_grad(self) -> None:
        for lstm in self.lstms:
            lstm.zero_grad()

    def __call__(self) -> Tensor:
        return torch.cat([self.vertex(b) for b in range(len(self.targets))])

    def vertex(self, b: int) -> Tensor:
        own, neighbours = self.inner_embedding(self.targets[b]), [self.inner_embedding(i) for i in self.second[b]]
        output = self.layer(1, own, torch.cat([own[:0], *neighbours]))
        return self.model.rho(nn.functional.normalize(output, dim=1))

    def inner_embedding(self, i: int) -> Tensor:
        own, neighbours = self.x[self.inner[i], None], self.x[torch.tensor(self.first[i], dtype=torch.long)]
        return self.layer(0, own, neighbours).relu()

    def layer(self, number: int, own: Tensor, neighbours: Tensor) -> Tensor:
        layer, lstm = self.layers[number], self.lstms[number]
        last = own.new_zeros(1, lstm.hidden_size)
        if len(neighbours):
            last = lstm(neighbours[None])[0][:, -1]
        return torch.cat((layer.own(own), layer.neighbours(last)), dim=1)


def ppi_like(num_vertices: int) -> Neighbourhoods:
    """Returns random neighbours, in the numbers of PPI's vertices."""
    points = (np.arange(num_vertices) + 0.5) / num_vertices
    degrees = np.interp(points, *PPI_DEGREES).astype(int)
    degrees[-1] = PPI_DEGREES[1][-1]
    degrees = torch.from_numpy(np.random.default_rng(0).permutation(degrees))
    offsets = nn.functional.pad(degrees.cumsum(0), (1, 0))
    return Neighbourhoods(offsets, torch.randint(num_vertices, (int(degrees.sum()),)))


def whole_row(num_vertices: int = 2373) -> Row:
    """Returns the row of LSTM(64, 64) over whole neighbourhoods of PPI's sizes, in random order, as in a layer."""
    graph = ppi_like(num_vertices)
    largest = int(graph.degrees.max())
    x = torch.randn(num_vertices, 64, requires_grad=True)
    pool = InOrder(LSTM(64, 64))
    aggregation = LSTMAggregation(64, 64)
    aggregation.lstm.load_state_dict(pool.f.state_dict())
    vertices = torch.arange(num_vertices)

    def reference() -> Tensor:
        sets = graph.sample(vertices, None)
        return backward(aggregation(x[sets.values], sets.to_index()[1], dim_size=num_vertices))

    name = f"LSTM(64, 64), {num_vertices} whole neighbourhoods, PPI's degrees (largest {largest})"
    return Row(
        f"{name}, against PyG's LSTMAggregation",
        lambda: backward(pool(x, graph.sample(vertices, None))),
        reference,
        agree=False,  # both sample their orders, and LSTMAggregation reads padding
    )


def in_place_row(num_vertices: int = 2373) -> Row:
    """Returns the row of a mean layer on PPI's sizes: vertices read in place, against one copy per edge."""
    graph = ppi_like(num_vertices)
    edges = torch.stack((graph.neighbours, torch.arange(len(graph)).repeat_interleave(graph.degrees)))
    x = torch.randn(len(graph), 128, requires_grad=True)
    layers = [kind(128, 128, aggr=["mean", JanossyAggregation(GRU(128, 128))]) for kind in (JanossySAGEConv, SAGEConv)]
    layers[1].load_state_dict(layers[0].state_dict())

    def step(layer: SAGEConv) -> Tensor:
        layer.zero_grad()
        torch.manual_seed(0)
        return torch.cat([backward(layer(x, edges)).flatten(), *(p.grad.flatten() for p in layer.parameters())])

    name = (
        f"JanossySAGEConv of the mean and a GRU(128, 128), {len(graph)} vertices, {edges.shape[1]} edges, PPI's degrees"
    )
    return Row(f"{name}, against SAGEConv", lambda: step(layers[0]), lambda: step(layers[1]))


def sampling_row(num_vertices: int = 20_000, k: int = 25) -> Row:
    """Returns the row of sampling k neighbours each in a power-law graph of mean degree 28, as in PPI."""
    graph = power_law_graph(num_vertices, 14 * num_vertices)
    lists = [each.tolist() for each in graph.whole(torch.arange(num_vertices))]
    vertices = torch.randperm(num_vertices)[:13_000]
    numbers = vertices.tolist()

    def reference() -> Tensor:
        drawn = [random.sample(lists[v], min(k, len(lists[v]))) for v in numbers]
        return torch.tensor([u for each in drawn for u in each])

    name = f"sampling {k} of the neighbours of {len(vertices)} vertices, power-law degrees, against random.sample"
    return Row(name, lambda: graph.sample(vertices, k).values, reference, agree=False)
