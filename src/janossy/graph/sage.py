"""GraphSAGE: two layers that pool sampled neighbourhoods, and a linear classifier (Section 3.2)."""

from typing import cast

import torch
from torch import Tensor, nn

from janossy.evaluate.cost import check_memory_budget
from janossy.functions.checks import check_dtype, check_widths
from janossy.functions.shown import arguments_shown
from janossy.functions.weights import draw_anew
from janossy.graph.layers import GCNLayer, MeanLayer, PoolingLayer, linear
from janossy.graph.neighbourhoods import Neighbourhoods, TwoHops, check_graph, two_hops

MEANS = ("mean", "gcn")
"""The aggregations that average, after which layer two has a ReLU."""


class GraphSAGE(nn.Module):
    """ρ(layer two(layer one(x))): the paper's classifier of vertices (Section 3.2; Hamilton et al., 2017).

    A layer with H hidden units, for a vertex v with neighbours u_1 … u_n:

    - "lstm", "gru": [A x_v, B f(x_u_1, …, x_u_n)]. f is the last hidden state, of H units, after reading the neighbours
      in random order, as they were drawn: π-SGD. A and B give H/2 units each.
    - "max": as "lstm", but f is the maximum over the neighbours of relu(W x_u + b).
    - "k2", "k3", …: as "lstm", but f is the exact average of ``TupleMLP(k, d, H)`` over the injective k-tuples of
      neighbours, by the fast paths. They are meant for whole neighbourhoods, k_1 = k_2 = None.
    - "mean", the paper's k = 1 as in its code: W [x_v, Σ x_u_j / n]. W gives H/2 units, in both layers.
    - "gcn": A (x_v + Σ x_u_j) / (1 + n), as in a GCN. A gives H units, in layer two H/2. It has as many parameters as
      "mean", and is worse on Cora and PubMed.

    ReLU follows layer one, and layer two of "mean" and "gcn". Layer two of the others is scaled to norm 1. ρ is linear.
    Linear maps have no bias, and Xavier's initial weights. Without neighbours f is 0, or f(0, …, 0) for k-tuples.

    Args:
        in_features: d, the width of the features.
        num_classes: c, the number of classes.
        aggregation: "mean", "gcn", "max", "lstm", "gru", or "k" and a number.
        hidden_features: H, even.
        memory_budget: the bytes that a layer's recurrence may keep for backward. If it needs more, it runs in chunks
            that are computed again in backward, which takes a quarter more time.

    Shapes: x (V, d), dense or sparse, vertices (B,) -> logits (B, c).
    Invariance: with whole neighbourhoods, all but "lstm" and "gru" are exact under the order of the edges. "lstm" and
        "gru" give one draw: average the probabilities of several calls (Remark 2.2).
    Cost: a vertex's features are projected once, in however many neighbourhoods it is; by k-tuples, once in each. For
        sparse features (Cora's, PubMed's), only nonzero entries are multiplied.
    Raises:
        TypeError: for an argument of another type.
        ValueError: for an unknown aggregation, widths below 1, or an odd hidden_features.
        ValueError: for features that are not (V, d) or in another dtype than the weights, or as ``two_hops``.

    Example:
        >>> graph = Neighbourhoods.from_edge_index(torch.tensor([[1, 2, 0, 0], [0, 0, 1, 2]]))
        >>> model = GraphSAGE(5, 3, aggregation="lstm")
        >>> model(torch.randn(3, 5), graph, torch.tensor([0, 2]), k_1=2, k_2=2).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        aggregation: str = "lstm",
        hidden_features: int = 256,
        memory_budget: int = 2**30,
    ) -> None:
        super().__init__()
        check_widths(self, in_features=in_features, num_classes=num_classes, hidden_features=hidden_features)
        if hidden_features % 2:
            raise ValueError(
                "GraphSAGE expects an even hidden_features, half for each vertex and half for its neighbours; "
                f"got hidden_features={hidden_features}."
            )
        check_memory_budget("GraphSAGE", memory_budget)
        self.in_features = in_features
        self.num_classes = num_classes
        self.aggregation = aggregation
        self.hidden_features = hidden_features
        self.memory_budget = memory_budget
        last = hidden_features if aggregation not in MEANS else hidden_features // 2
        if aggregation == "mean":
            self.layer_one: nn.Module = MeanLayer(in_features, last)
            self.layer_two: nn.Module = MeanLayer(last, last)
        elif aggregation == "gcn":
            self.layer_one = GCNLayer(in_features, hidden_features)
            self.layer_two = GCNLayer(hidden_features, last)
        else:
            self.layer_one = PoolingLayer(in_features, hidden_features, aggregation, memory_budget)
            self.layer_two = PoolingLayer(hidden_features, hidden_features, aggregation, memory_budget)
        self.rho = linear(last, num_classes)

    def reset_parameters(self) -> None:
        """Draws the weights of its parts anew."""
        draw_anew(self)

    def forward(
        self,
        x: Tensor,
        graph: Neighbourhoods,
        vertices: Tensor,
        k_1: int | None = None,
        k_2: int | None = None,
        *,
        resample: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Returns the logits of these vertices, from k_1 and k_2 neighbours drawn by ``two_hops``; None for all."""
        check_graph(graph, "GraphSAGE")
        expected = f"GraphSAGE expects features of shape ({len(graph)}, {self.in_features}), a row for each vertex"
        if not isinstance(x, Tensor):
            raise TypeError(f"{expected}; got {type(x).__name__}. Give a tensor, dense or sparse.")
        if x.shape != (len(graph), self.in_features):
            raise ValueError(
                f"{expected} of the graph; got {tuple(x.shape)}. Build it with other in_features, or the graph with "
                "num_nodes."
            )
        check_dtype(self, x)
        return self.of_hops(x, two_hops(graph, vertices, k_1=k_1, k_2=k_2, resample=resample, generator=generator))

    def of_hops(self, x: Tensor, hops: TwoHops) -> Tensor:
        """Returns the logits (B, c) from drawn neighbours.

        Raises: ValueError for features on another device than the neighbours.
        """
        if x.device != hops.inner.device:
            raise ValueError(
                f"GraphSAGE expects features on the device of the neighbours, {hops.inner.device}; got {x.device}. "
                "Move either by .to()."
            )
        embeddings = self.layer_one(x, hops.first, hops.inner).relu()
        outputs = self.layer_two(embeddings, hops.second, hops.targets)
        outputs = outputs.relu() if self.aggregation in MEANS else nn.functional.normalize(outputs, dim=1)
        return cast(Tensor, self.rho(outputs))

    def extra_repr(self) -> str:
        return arguments_shown(self)
