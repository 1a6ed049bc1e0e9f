"""A sampler for torch_geometric's NeighborLoader, whose own sampler needs pyg-lib or torch-sparse."""

import random

import torch
from torch_geometric.sampler import SamplerOutput


class ByHand:
    """A sampler like torch_geometric's, in Python. It samples once per vertex, at the hop that reaches it first."""

    edge_permutation = None

    def __init__(self, edges, num_neighbors) -> None:
        self.edges, self.num_neighbors, self.random = edges.T.tolist(), num_neighbors, random.Random(0)

    def sample_from_nodes(self, inputs, **_) -> SamplerOutput:
        nodes = inputs.node.tolist()
        sources, targets, chosen, begin = [], [], [], 0
        for k in self.num_neighbors:
            end = len(nodes)
            for place in range(begin, end):
                edges = [e for e, (_, target) in enumerate(self.edges) if target == nodes[place]]
                for e in edges if k < 0 else self.random.sample(edges, min(k, len(edges))):
                    if (source := self.edges[e][0]) not in nodes:
                        nodes.append(source)
                    sources.append(nodes.index(source))
                    targets.append(place)
                    chosen.append(e)
            begin = end
        node, row, col, edge = (torch.tensor(x, dtype=torch.long) for x in (nodes, sources, targets, chosen))
        return SamplerOutput(node, row, col, edge, metadata=(inputs.input_id, None))
