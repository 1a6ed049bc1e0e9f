"""The neighbourhoods of a graph's vertices as sets, whole or sampled, and the reading order of two layers."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from janossy.checks import check_flag, check_generator, check_integer
from janossy.orderings.source import Source, arrangements
from janossy.sets import Ragged
from janossy.sets.transfer import upload


class Neighbourhoods:
    """The neighbours of every vertex of a graph of V vertices and E edges, stored end to end (CSR).

    Vertex v has ``neighbours[offsets[v] : offsets[v + 1]]``. Parallel edges and loops are kept as they are.

    Shapes: offsets (V + 1,), int64, from 0 up to E; neighbours (E,), int64, from 0 to V - 1.
    Invariance: the order of a neighbourhood is that of its edges. ``sample`` draws a random order.
    Raises: TypeError or ValueError if these are not the neighbourhoods of V vertices.

    Example:
        >>> graph = Neighbourhoods.from_edge_index(torch.tensor([[1, 2, 0], [0, 0, 1]]))
        >>> graph.whole(torch.tensor([0, 2])).to_sets()
        [tensor([1, 2]), tensor([], dtype=torch.int64)]
        >>> graph.sample(torch.tensor([0, 1]), 1).sizes
        (1, 1)
    """

    def __init__(self, offsets: Tensor, neighbours: Tensor) -> None:
        _check_numbers(offsets, "Neighbourhoods", "offsets (V + 1,)")
        _check_numbers(neighbours, "Neighbourhoods", "neighbours (E,)")
        offsets, neighbours = offsets.long(), neighbours.long()  # differences of uint8 would wrap
        ends = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (-1, -1)
        if ends != (0, len(neighbours)) or bool((offsets.diff() < 0).any()):
            raise ValueError(
                f"Neighbourhoods expects offsets that rise from 0 to the number of edges, {len(neighbours)}; got "
                f"{ends[0]} … {ends[1]}. Neighbourhoods.from_edge_index makes them of edges in any order."
            )
        _check_range(neighbours, len(offsets) - 1, "Neighbourhoods expects neighbours")
        self.offsets = offsets
        self.neighbours = neighbours

    @classmethod
    def from_edge_index(cls, edge_index: Tensor, num_nodes: int | None = None) -> "Neighbourhoods":
        """Builds the neighbourhoods of edges source -> target (2, E), in any order, as in PyG.

        A vertex's neighbours are the sources of the edges that end at it, in the order of the edges. ``num_nodes``
        defaults to the largest vertex + 1.

        Raises: TypeError if the edges are not an integer tensor; ValueError for another shape, or vertices out of
            range.
        """
        expected = "from_edge_index expects edges of shape (2, E), sources and targets"
        if not isinstance(edge_index, Tensor):
            raise TypeError(f"{expected}, as a tensor; got {type(edge_index).__name__}. Use torch.tensor(pairs).T.")
        if edge_index.dim() != 2 or len(edge_index) != 2:
            raise ValueError(f"{expected}; got {tuple(edge_index.shape)}. Transpose a list of pairs.")
        check_integer("from_edge_index", "num_nodes", num_nodes, 0, optional=True)
        if hasattr(edge_index, "as_tensor"):  # PyG's EdgeIndex, whose every part is another subclass
            edge_index = edge_index.as_tensor()
        sources, targets = edge_index.unbind()
        _check_numbers(sources, "from_edge_index", "edges (2, E)")
        if num_nodes is None:
            num_nodes = int(edge_index.max()) + 1 if edge_index.numel() else 0
        _check_range(edge_index, num_nodes, "from_edge_index expects vertices")
        degrees = torch.bincount(targets, minlength=num_nodes)
        return cls(_bounds(degrees), sources[targets.argsort(stable=True)])

    def to(self, device: torch.device | str) -> "Neighbourhoods":
        """Returns the same graph on a device."""
        moved = object.__new__(Neighbourhoods)
        moved.offsets, moved.neighbours = self.offsets.to(device), self.neighbours.to(device)
        return moved

    @property
    def degrees(self) -> Tensor:
        """The number of edges that end at each vertex, (V,)."""
        return self.offsets.diff()

    @property
    def device(self) -> torch.device:
        return self.offsets.device

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"Neighbourhoods({len(self)} vertices, {len(self.neighbours)} edges, {self.device})"

    def whole(self, vertices: Tensor) -> Ragged:
        """Returns all neighbours of each of these vertices, in the order of the edges.

        Shapes: vertices (B,) -> values (Σ degrees,), int64, of B sets.
        """
        edges = self.edges(vertices)
        return edges.with_values(self.neighbours.index_select(0, edges.values))

    def edges(self, vertices: Tensor) -> Ragged:
        """Returns the places in ``neighbours`` of all edges that end at each of these vertices.

        Use them to look up features of edges.

        Shapes: vertices (B,) -> values (Σ degrees,), int64, of B sets.
        """
        starts, degrees = self._spans(vertices)
        positions, owners = _ragged_arange(degrees)
        return positions.with_values(positions.values + starts.index_select(0, owners))

    def sample(self, vertices: Tensor, k: int | None, generator: torch.Generator | None = None) -> Ragged:
        """Draws k neighbours of each of these vertices without replacement; all if there are at most k, or k is None.

        They come in uniformly random order. Any k of a neighbourhood's edges, in any order, are equally likely (up to
        degree / 2^62). So a function that reads them in this order is trained by π-SGD. The draws for two vertices are
        independent, also if a vertex comes twice.

        Shapes: vertices (B,) -> values (Σ min(k, degree),), int64, of B sets.
        Cost: B·k²/2 additions, whatever the degrees. With None, a sort of Σ degrees numbers, which is less for a k in
            the hundreds.
        Raises:
            TypeError: for an argument of another type.
            ValueError: if k < 1, a vertex is not in the graph, or the generator is not on the graph's device.
        """
        check_integer("sample", "k", k, 1, "neighbours", optional=True)
        check_generator("sample", generator, self.device)
        starts, degrees = self._spans(vertices)
        source = Source(self.device, generator)
        if k is None:
            positions, owners = _ragged_arange(degrees)
            return self._at(positions, _shuffled(positions, owners, source), starts, owners)
        chosen, owners = _ragged_arange(degrees.clamp(max=k))
        drawn = _distinct(source, degrees, max(chosen.sizes, default=0)).flatten()
        return self._at(chosen, drawn.index_select(0, chosen.values * len(degrees) + owners), starts, owners)

    def _at(self, like: Ragged, positions: Tensor, starts: Tensor, owners: Tensor) -> Ragged:
        """Returns the neighbours at these positions within neighbourhoods."""
        # index_select takes a quarter of indexing's time.
        return like.with_values(self.neighbours.index_select(0, positions + starts.index_select(0, owners)))

    def _spans(self, vertices: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the beginnings of the vertices' neighbours, and their numbers."""
        _check_numbers(vertices, "Neighbourhoods", "vertices (B,)")
        _check_range(vertices, len(self), "Neighbourhoods expects vertices")
        vertices = vertices.long()  # torch would use uint8 as a mask
        starts = self.offsets[vertices]
        return starts, self.offsets[vertices + 1] - starts


@dataclass(frozen=True)
class TwoHops:
    """The vertices that two layers of a graph network read for the outputs of B vertices.

    Layer one computes the embeddings of the vertices ``inner`` from the features of ``first``. Layer two reads these
    embeddings, by their places in ``inner``.

    Shapes:
        inner: (U,), vertices.
        first: Ragged of U sets, the neighbours (vertices) of each vertex of ``inner``.
        second: Ragged of B sets, the neighbours of each vertex of the batch, as places in ``inner``.
        targets: (B,), the vertices of the batch themselves, as places in ``inner``.
    """

    inner: Tensor
    first: Ragged
    second: Ragged
    targets: Tensor

    def to(self, device: torch.device | str) -> "TwoHops":
        """Returns a copy on a device; to CUDA without waiting for it."""
        there = torch.device(device)

        def moved(sets: Ragged) -> Ragged:
            return Ragged(upload(sets.values, there), upload(sets.offsets, there), sizes=sets.sizes)

        return TwoHops(upload(self.inner, there), moved(self.first), moved(self.second), upload(self.targets, there))

    @classmethod
    def of_batch(cls, batch: Any, generator: torch.Generator | None = None) -> "TwoHops":
        """Reads the sample of torch_geometric's ``NeighborLoader(data, num_neighbors=[k_2, k_1])``, in random order.

        ``model.of_hops(batch.x, TwoHops.of_batch(batch))`` are then a ``GraphSAGE``'s logits of the seeds, the first
        batch.batch_size vertices. The loader samples once per vertex. So layer one reads the same k_2 neighbours of a
        seed as layer two, and not k_1 others, as with ``two_hops``.

        Shapes: batch.edge_index (2, E), of places in the batch -> B = batch.batch_size sets in ``second``.
        Raises: ValueError if it is not such a batch.

        ``generator`` is the source of the orders, on the batch's device. For a GPU, build it from the loader's batch on
        the host, and move it by ``to``. From a batch on the GPU, every number of neighbours would be read back.
        """
        edges, size = getattr(batch, "edge_index", None), getattr(batch, "batch_size", None)
        if edges is None or size is None:
            raise ValueError(
                "of_batch expects a batch of NeighborLoader, one kind of vertices with edge_index and batch_size; got "
                f"{type(batch).__name__} without {'edge_index' if edges is None else 'batch_size'}. Of a whole graph, "
                "use two_hops."
            )
        if getattr(batch, "ptr", None) is not None:
            raise ValueError(
                "of_batch expects a batch of NeighborLoader, whose first vertices are the seeds; got whole graphs, a "
                f"{type(batch).__name__} with ptr. Give the loader a "
                "Data, or use two_hops for the vertices that you want."
            )
        graph = Neighbourhoods.from_edge_index(edges, batch.num_nodes)
        return two_hops(graph, torch.arange(size, device=graph.device), k_1=None, k_2=None, generator=generator)


def two_hops(
    graph: Neighbourhoods,
    vertices: Tensor,
    *,
    k_1: int | None,
    k_2: int | None,
    resample: bool = False,
    generator: torch.Generator | None = None,
) -> TwoHops:
    """Draws k_2 neighbours of each vertex, and k_1 neighbours of each of these and of the vertices, for GraphSAGE.

    A vertex whose embedding is used twice is embedded once, from one sample of its neighbours. With ``resample`` each
    use has a separate sample, as in the paper's code. ``inner`` then holds a vertex as often as it is used. In both
    cases every single embedding has the same distribution.

    Shapes: vertices (B,) -> U <= B·(1 + k_2) sets of at most k_1 neighbours, B sets of at most k_2; None for all.
    Cost: two calls of ``Neighbourhoods.sample``, and a sort of U numbers unless resample.
    Raises: TypeError for an argument of another type; ValueError if k_1 or k_2 < 1, or a vertex is not in the graph.

    Example:
        >>> graph = Neighbourhoods.from_edge_index(torch.tensor([[1, 2, 0, 0], [0, 0, 1, 2]]))
        >>> hops = two_hops(graph, torch.tensor([0, 1]), k_1=None, k_2=None)
        >>> hops.inner, hops.first.sizes, hops.targets
        (tensor([0, 1, 2]), (2, 1, 1), tensor([0, 1]))
    """
    check_graph(graph, "two_hops")
    for name, k in {"k_1": k_1, "k_2": k_2}.items():
        check_integer("two_hops", name, k, 1, "neighbours", optional=True)
    check_flag("two_hops", "resample", resample)
    neighbours = graph.sample(vertices, k_2, generator)
    inner = torch.cat((vertices.long(), neighbours.values))
    if resample:
        places = torch.arange(len(inner), device=inner.device)
    else:
        inner, places = inner.unique(return_inverse=True)
    targets, others = places.split([len(vertices), len(neighbours.values)])
    return TwoHops(inner, graph.sample(inner, k_1, generator), neighbours.with_values(others), targets)


def _distinct(source: Source, sizes: Tensor, k: int) -> Tensor:
    """Returns min(k, n) distinct numbers below n per size n, all choices and orders equally likely, (k, B).

    Entries behind the first n are meaningless.
    """
    left = sizes - torch.arange(k, device=sizes.device)[:, None]
    # The j-th digit chooses among the remaining n - j numbers.
    return arrangements(source.bits(k, len(sizes)) % left.clamp(min=1))


def _shuffled(positions: Ragged, owners: Tensor, source: Source) -> Tensor:
    """Returns the positions within each set, in uniformly random order."""
    # The set's number is in the upper bits, noise in the lower ones: integers, so that a large batch loses no bits.
    # With 2^20 sets 41 bits of noise are left. Two of 10^5 elements of one set then tie in a batch of 500, and their
    # order is not random.
    num_bits = 62 - len(positions).bit_length()
    order = (owners * 2**num_bits + source.bits(len(owners)) % 2**num_bits).argsort()
    return positions.values.index_select(0, order)


def _ragged_arange(sizes: Tensor) -> tuple[Ragged, Tensor]:
    """Returns the numbers below each size, and the set of each number."""
    on_host = sizes.tolist()
    offsets, total = _bounds(sizes), sum(on_host)
    owners = torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes, output_size=total)
    numbers = torch.arange(total, device=sizes.device) - offsets.index_select(0, owners)
    return Ragged(numbers, offsets, sizes=on_host), owners


def _bounds(sizes: Tensor) -> Tensor:
    return torch.nn.functional.pad(sizes.cumsum(0), (1, 0))


def check_graph(graph: Any, owner: str) -> None:
    """Raises a TypeError unless this is a ``Neighbourhoods``."""
    if not isinstance(graph, Neighbourhoods):
        raise TypeError(
            f"{owner} expects the Neighbourhoods of a graph; got {type(graph).__name__}. "
            "Neighbourhoods.from_edge_index makes them of edges (2, E)."
        )


def _check_numbers(x: Any, owner: str, what: str) -> None:
    wrong = not isinstance(x, Tensor) or x.is_floating_point() or x.is_complex() or x.dtype == torch.bool
    if wrong or x.dim() != 1 or x.is_meta:
        got = f"{x.dtype} of shape {tuple(x.shape)} on {x.device}" if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"{owner} expects {what} as an integer tensor; got {got}. Use torch.tensor(numbers).")


def _check_range(x: Tensor, num_vertices: int, expected: str) -> None:
    low, high = (int(x.min()), int(x.max())) if x.numel() else (0, -1)
    if low < 0 or high >= num_vertices:
        raise ValueError(
            f"{expected} from 0 to {num_vertices - 1}, in a graph of {num_vertices} vertices; got {low} to {high}. "
            "Give the graph more vertices by num_nodes, or drop these."
        )
