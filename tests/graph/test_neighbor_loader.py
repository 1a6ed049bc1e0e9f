"""TwoHops.of_batch: GraphSAGE reads what a NeighborLoader of torch_geometric has sampled, each set in random order."""

import pytest
import torch

from janossy.graph import GraphSAGE, Neighbourhoods, TwoHops, two_hops
from tests.laws import close, law_uniform

pytest.importorskip("torch_geometric")

from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import NeighborLoader
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE

from tests.graph.by_hand import ByHand

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore:.*without a 'pyg-lib' installation is deprecated"),
]

D, C = 4, 3

EDGES = torch.tensor([[1, 2, 3, 4, 6, 0, 2, 3, 0, 0, 1, 5, 7, 4], [0, 0, 0, 0, 0, 1, 1, 3, 2, 4, 4, 6, 6, 7]])
"""A hub, a loop, and vertex 5, to which no edge goes."""

SEEDS = torch.tensor([6, 0, 5, 1])


SAMPLERS = [
    "by hand",
    pytest.param(
        "by torch_geometric",
        marks=pytest.mark.skipif(
            not (WITH_PYG_LIB or WITH_TORCH_SPARSE), reason="NeighborLoader samples with pyg-lib or torch-sparse"
        ),
    ),
]


def batch_of(k_2, k_1, sampler="by hand") -> Data:
    """Returns the only batch of a NeighborLoader, of the seeds."""
    data, num_neighbors = Data(x=features(), edge_index=EDGES), [k_2, k_1]
    (batch,) = NeighborLoader(
        data,
        num_neighbors,
        SEEDS,
        neighbor_sampler=ByHand(EDGES, num_neighbors) if sampler == "by hand" else None,
        batch_size=len(SEEDS),
    )
    return batch


def features() -> torch.Tensor:
    return torch.randn(8, D, generator=torch.Generator().manual_seed(7))


def model_of(aggregation) -> GraphSAGE:
    torch.manual_seed(3)
    return GraphSAGE(D, C, aggregation=aggregation, hidden_features=8)


# Of all neighbours


def law_whole(model, batch) -> None:
    """Checks that the logits of the seeds are those of the whole graph if every neighbour was sampled."""
    expected = model(features(), Neighbourhoods.from_edge_index(EDGES, 8), SEEDS)
    close(model.of_hops(batch.x, TwoHops.of_batch(batch)), expected)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("aggregation", ["mean", "max", "k2"])
def test_of_all_neighbours_it_is_the_whole_graph(aggregation, sampler):
    law_whole(model_of(aggregation), batch_of(-1, -1, sampler))
    law_whole(model_of(aggregation), batch_of(9, 9, sampler))


@pytest.mark.parametrize("wrong", ["edges the other way", "other vertices", "one hop", "an edge less", "fewer seeds"])
def test_another_batch_is_found(wrong):
    batch = batch_of(-1, -1)
    match wrong:
        case "edges the other way":
            batch.edge_index = batch.edge_index.flip(0)
        case "other vertices":
            batch.x = batch.x.roll(1, 0)
        case "one hop":
            batch.edge_index = batch.edge_index[:, batch.edge_index[1] < batch.batch_size]
        case "an edge less":
            batch.edge_index = batch.edge_index[:, 1:]
        case "fewer seeds":
            batch.batch_size -= 1
    with pytest.raises(AssertionError):
        law_whole(model_of("mean"), batch)


# Of samples


def law_edges(hops, batch, k_2, k_1) -> None:
    """Checks that each set is the batch's edges that end at its vertex.

    A seed has k_2 of them, in both layers; any other vertex has k_1.
    """
    edges, names, inner = batch.edge_index.T.tolist(), batch.n_id.tolist(), hops.inner.tolist()
    assert {(names[source], names[target]) for source, target in edges} <= set(map(tuple, EDGES.T.tolist()))
    seeds = [inner[i] for i in hops.targets.tolist()]
    assert [names[v] for v in seeds] == SEEDS.tolist()
    read = [(v, [inner[i] for i in each.tolist()]) for v, each in zip(seeds, hops.second, strict=True)]
    read += [(v, each.tolist()) for v, each in zip(inner, hops.first, strict=True)]
    for v, neighbours in read:
        assert sorted(neighbours) == sorted(source for source, target in edges if target == v)
        degree = int((EDGES[1] == names[v]).sum())
        assert len(neighbours) == min(k_2 if names[v] in SEEDS else k_1, degree)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("sizes", [(2, 1), (1, 2), (3, 3)], ids=str)
def test_reads_the_edges_that_were_sampled(sizes, sampler, device):
    batch = batch_of(*sizes, sampler).to(device)
    hops = TwoHops.of_batch(batch)
    law_edges(hops, batch, *sizes)
    logits = model_of("lstm").to(device).of_hops(batch.x, hops)
    assert logits.shape == (len(SEEDS), C) and logits.device.type == device


def test_other_edges_are_found():
    batch, graph = batch_of(9, 9), Neighbourhoods.from_edge_index(EDGES, 8)
    hops = TwoHops.of_batch(batch)
    law_edges(hops, batch, 9, 9)
    repeated = TwoHops(
        hops.inner, hops.first.with_values(hops.first.values[[0, 0, *range(2, 14)]]), hops.second, hops.targets
    )
    for wrong, sizes in (
        (hops, (4, 9)),
        (hops, (9, 1)),
        (repeated, (9, 9)),
        (two_hops(graph, SEEDS, k_1=None, k_2=None), (9, 9)),
    ):
        with pytest.raises(AssertionError):
            law_edges(wrong, batch, *sizes)


@pytest.mark.statistical
def test_they_come_in_random_order():
    """The hub has three, in both layers: fails by chance for one seed in 10^6."""
    batch, source = batch_of(3, 1), torch.Generator().manual_seed(0)
    place = SEEDS.tolist().index(0)
    assert int((batch.edge_index[1] == place).sum()) == 3
    orders = []
    for _ in range(600):
        hops = TwoHops.of_batch(batch, source)
        orders.append([tuple(x.argsort().tolist()) for x in (hops.second[place], hops.first[int(hops.targets[place])])])
    for layer in zip(*orders, strict=True):
        law_uniform(list(layer), 3, 3)
    with pytest.raises(AssertionError):
        law_uniform([tuple(batch.edge_index[0, batch.edge_index[1] == place].argsort().tolist())] * 600, 3, 3)


def test_a_generator_fixes_the_orders():
    batch = batch_of(-1, -1)
    first, again, other = (
        TwoHops.of_batch(batch, torch.Generator().manual_seed(seed)).first.values.tolist() for seed in (0, 0, 1)
    )
    assert first == again != other


# At the door


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (Data(x=features(), edge_index=EDGES), "got Data without batch_size. Of a whole graph, use two_hops"),
        (Data(x=features(), batch_size=4), "got Data without edge_index"),
        (HeteroData(), "one kind of vertices .* got HeteroData without edge_index"),
        (EDGES, "got Tensor without edge_index"),
        (Batch.from_data_list([Data(x=features(), edge_index=EDGES)] * 2), "got whole graphs, a DataBatch with ptr"),
        (Data(x=features(), edge_index=EDGES, batch_size=9), "0 to 7, in a graph of 8 vertices; got 0 to 8"),
    ],
)
def test_refuses(batch, message):
    with pytest.raises(ValueError, match=message):
        TwoHops.of_batch(batch)
