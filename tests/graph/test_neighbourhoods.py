"""Neighbourhoods: those of the edges, sampled uniformly without replacement; TwoHops: what two layers read.

What is drawn at random is seeded; each χ² test fails by chance for one seed in 10^6.
"""

import doctest
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from janossy.graph import neighbourhoods
from janossy.graph.neighbourhoods import Neighbourhoods, two_hops
from tests.laws import law_uniform


def generator(seed=0, device="cpu"):
    return torch.Generator(device).manual_seed(seed)


def of_edges(edges, num_nodes=None) -> Neighbourhoods:
    return Neighbourhoods.from_edge_index(torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T, num_nodes)


def lists_of(edges, num_nodes) -> list[list[int]]:
    """Returns the neighbours of every vertex, edge by edge."""
    lists = [[] for _ in range(num_nodes)]
    for source, target in edges:
        lists[target].append(source)
    return lists


def tuples(sets) -> list[tuple[int, ...]]:
    return [tuple(each.tolist()) for each in sets]


def fans(sizes, num_vertices=100) -> Neighbourhoods:
    """Returns a graph in which vertex v has the neighbours 0 … sizes[v] - 1, numbered by their place."""
    return of_edges([(u, v) for v, n in enumerate(sizes) for u in range(n)], num_vertices)


edge_lists = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20)
chosen_vertices = st.lists(st.integers(0, 6), max_size=8)
some_k = st.none() | st.integers(1, 7)


# The neighbourhoods themselves


def test_offsets_of_small_integers_that_fall_are_refused():
    with pytest.raises(ValueError, match="offsets that rise from 0"):
        Neighbourhoods(torch.tensor([0, 2, 1, 2], dtype=torch.uint8), torch.tensor([0, 1]))


@given(edges=edge_lists, vertices=chosen_vertices)
def test_whole_neighbourhoods_are_those_of_the_edges(edges, vertices):
    """In their order, with loops and parallel edges; 6 has none."""
    graph, lists = of_edges(edges, 7), lists_of(edges, 7)
    assert len(graph) == 7
    assert graph.degrees.tolist() == [len(each) for each in lists]
    found = graph.whole(torch.tensor(vertices, dtype=torch.long))
    assert tuples(found) == [tuple(lists[v]) for v in vertices]
    assert found.dtype == torch.long and found.offsets.tolist() == [0, *torch.tensor(found.sizes).cumsum(0).tolist()]
    assert tuples(graph.whole(torch.tensor(vertices, dtype=torch.uint8))) == tuples(found)
    again = Neighbourhoods(graph.offsets.int(), graph.neighbours.int())
    assert tuples(again.whole(torch.arange(7))) == tuples(graph.whole(torch.arange(7)))


def test_edges_go_from_source_to_target():
    assert tuples(of_edges([(0, 1), (2, 1)]).whole(torch.arange(3))) == [(), (0, 2), ()]


def test_as_many_vertices_as_the_largest_or_as_said():
    assert len(of_edges([(0, 4), (1, 0)])) == 5
    assert len(of_edges([(0, 4)], 9)) == 9
    assert len(of_edges([])) == 0
    assert tuples(of_edges([], 2).sample(torch.tensor([1, 0]), 3)) == [(), ()]


def test_pyg_s_edge_index():
    data = pytest.importorskip("torch_geometric")
    edges = data.EdgeIndex([[0, 2, 1], [1, 1, 0]], sparse_size=(3, 3))
    graph = Neighbourhoods.from_edge_index(edges, 3)
    assert tuples(graph.whole(torch.arange(3))) == [(1,), (0, 2), ()]
    assert type(graph.neighbours) is torch.Tensor and type(graph.offsets) is torch.Tensor


# Samples


def law_sample(sets, vertices, lists, k) -> None:
    """Checks that each set has min(k, degree) edges of its vertex, none of them twice."""
    assert len(sets) == len(vertices)
    for drawn, v in zip(tuples(sets), vertices, strict=True):
        n = len(lists[v])
        assert len(drawn) == (n if k is None else min(k, n)), f"{len(drawn)} of {n} with k = {k}"
        left = list(lists[v])
        for u in drawn:
            assert u in left, f"{u} of {drawn} is not left of {lists[v]}"
            left.remove(u)


@given(edges=edge_lists, vertices=chosen_vertices, k=some_k)
def test_samples_are_of_the_neighbourhood_without_replacement(edges, vertices, k):
    drawn = of_edges(edges, 7).sample(torch.tensor(vertices, dtype=torch.long), k, generator())
    law_sample(drawn, vertices, lists_of(edges, 7), k)


def test_bad_samples_are_found():
    lists = [[1, 2, 3], [0, 0]]
    law_sample(torch.tensor([[1, 3]]), [0], lists, 2)
    for bad in ([[1, 1]], [[1, 0]], [[1, 2, 3]], [[1]]):
        with pytest.raises(AssertionError):
            law_sample(torch.tensor(bad), [0], lists, 2)
    law_sample(torch.tensor([[0, 0]]), [1], lists, 2)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n", "k"), [(1, 1), (3, 1), (3, 2), (3, 5), (4, 4), (5, 2), (5, 3), (6, 3), (3, None), (5, None)]
)
def test_samples_are_uniform_in_every_order(n, k, device):
    """One vertex among others of other degrees comes thousands of times in the batch."""
    graph = fans([n, 0, 2, 9]).to(device)
    vertices = torch.tensor([3, 0, 1, 0, 2], device=device).repeat(1500)
    drawn = tuples(graph.sample(vertices, k, generator(n, device)).to("cpu"))
    length = n if k is None else min(n, k)
    if n > 1:
        for place in (1, 3):
            law_uniform(drawn[place::5], n, length)
    assert set(drawn[2::5]) == {()}


@pytest.mark.statistical
def test_a_vertex_that_comes_twice_is_drawn_for_independently():
    drawn = tuples(fans([3]).sample(torch.zeros(4000, dtype=torch.long), 1, generator()))
    pairs = [(3 * a[0] + b[0],) for a, b in zip(drawn[::2], drawn[1::2], strict=True)]
    law_uniform(pairs, 9, 1)
    with pytest.raises(AssertionError):
        law_uniform([(3 * a[0] + a[0],) for a in drawn], 9, 1)


@pytest.mark.statistical
@pytest.mark.parametrize("bad", ["sorted", "replaced", "first"])
def test_samples_that_are_not_uniform_are_found(bad):
    source = random.Random(0)
    draw = {
        "sorted": lambda: tuple(sorted(source.sample(range(4), 2))),
        "replaced": lambda: tuple(source.choices(range(4), k=2)),
        "first": lambda: (0, source.randrange(1, 4)),
    }[bad]
    with pytest.raises(AssertionError):
        law_uniform([draw() for _ in range(3000)], 4, 2)


@pytest.mark.statistical
def test_orders_are_uniform_at_the_end_of_a_large_batch():
    """Noise behind the number of the set would have five bits in a float32 there."""
    drawn = fans([4]).sample(torch.zeros(2**19, dtype=torch.long), None, generator())
    law_uniform(tuples(drawn.values.view(-1, 4)[-30_000:]), 4, 4)
    owners = torch.arange(2**19).repeat_interleave(4)
    noise = torch.rand(2**21, generator=generator())
    lost = (owners.float() + noise).argsort(stable=True).view(-1, 4)[-30_000:] % 4
    with pytest.raises(AssertionError):
        law_uniform(tuples(lost), 4, 4)


@pytest.mark.statistical
def test_few_of_a_large_neighbourhood():
    """A hub's degree costs nothing: three thousand samples of 10^5 neighbours."""
    n = 10**5
    graph = Neighbourhoods(torch.tensor([0, n, *[n] * (n - 1)]), torch.arange(n))
    drawn = graph.sample(torch.zeros(3000, dtype=torch.long), 5, generator()).values.view(-1, 5)
    assert drawn.sort(1).values.diff(dim=1).gt(0).all()
    for place in drawn.T:
        law_uniform([(10 * u // n,) for u in place.tolist()], 10, 1)
    law_uniform(tuples(drawn[:, :3].argsort(1)), 3, 3)


@pytest.mark.parametrize("k", [2, None])
def test_a_generator_fixes_the_sample(k, device):
    graph, vertices = fans([9, 30]).to(device), torch.tensor([1, 0, 1, 1], device=device)
    first, second, other = (graph.sample(vertices, k, generator(seed, device)).values.tolist() for seed in (0, 0, 1))
    assert first == second != other
    torch.manual_seed(0)
    first = graph.sample(vertices, k).values.tolist()
    assert first != graph.sample(vertices, k).values.tolist()
    torch.manual_seed(0)
    assert first == graph.sample(vertices, k).values.tolist()


# Two hops


def law_two_hops(hops, vertices, lists, k_1, k_2) -> None:
    """Checks hops against the definition, one vertex after the other."""
    inner = hops.inner.tolist()
    assert [inner[i] for i in hops.targets.tolist()] == vertices
    law_sample(
        [torch.tensor([inner[i] for i in each], dtype=torch.long) for each in tuples(hops.second)], vertices, lists, k_2
    )
    law_sample(hops.first, inner, lists, k_1)


@given(edges=edge_lists, vertices=chosen_vertices, k_1=some_k, k_2=some_k, resample=st.booleans())
def test_two_hops(edges, vertices, k_1, k_2, resample):
    graph, lists = of_edges(edges, 7), lists_of(edges, 7)
    chosen = torch.tensor(vertices, dtype=torch.long)
    hops = two_hops(graph, chosen, k_1=k_1, k_2=k_2, resample=resample, generator=generator())
    law_two_hops(hops, vertices, lists, k_1, k_2)
    used = [*hops.targets.tolist(), *hops.second.values.tolist()]
    inner = hops.inner.tolist()
    if resample:
        assert sorted(used) == list(range(len(inner))), "each use has a place of its own"
    else:
        assert inner == sorted({inner[i] for i in used}), "each vertex that is used has one place"
    # Layer two draws first, and alike, whatever layer one is to do.
    expected = graph.sample(chosen, k_2, generator())
    assert [inner[i] for i in hops.second.values.tolist()] == expected.values.tolist()


@pytest.mark.parametrize("bad", ["another target", "another neighbour", "a neighbour twice", "another sample"])
def test_bad_hops_are_found(bad):
    edges, vertices = [(1, 0), (2, 0), (0, 1), (2, 1)], [0, 1]
    lists = lists_of(edges, 3)
    hops = two_hops(of_edges(edges), torch.tensor(vertices), k_1=None, k_2=None)
    law_two_hops(hops, vertices, lists, None, None)
    match bad:
        case "another target":
            hops.targets[:] = hops.targets.flip(0)
        case "another neighbour":
            hops.second.values[0] = 0
        case "a neighbour twice":
            hops.second.values[0] = hops.second.values[1]
        case "another sample":
            hops.first.values[:] = hops.first.values.flip(0)
    with pytest.raises(AssertionError):
        law_two_hops(hops, vertices, lists, None, None)


@pytest.mark.statistical
@pytest.mark.parametrize("resample", [True, False])
def test_uses_of_a_vertex_share_their_sample_or_do_not(resample):
    """Vertex 4 has three neighbours, and the batch holds it twice."""
    graph = of_edges([(0, 4), (1, 4), (2, 4)])
    pairs = []
    for seed in range(400):
        hops = two_hops(graph, torch.tensor([4, 4]), k_1=1, k_2=1, resample=resample, generator=generator(seed))
        first, second = (hops.first[i].item() for i in hops.targets.tolist())
        pairs.append((3 * first + second,))
    if resample:
        law_uniform(pairs, 9, 1)
    else:
        assert {pair for (pair,) in pairs} == {0, 4, 8}


def test_two_hops_on_the_device(device):
    graph = fans([3, 5, 0, 2], 6).to(device)
    vertices = torch.tensor([3, 1, 2, 1], device=device)
    hops = two_hops(graph, vertices, k_1=2, k_2=3, generator=generator(0, device))
    assert {x.device.type for x in (hops.inner, hops.first.values, hops.second.offsets, hops.targets)} == {device}
    assert repr(graph).endswith(f"{graph.device})") and graph.device.type == device


# At the door

GRAPH = of_edges([(0, 1), (2, 1)])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Neighbourhoods(torch.tensor([0, 2]), torch.tensor([0])), ValueError, "number of edges, 1; got 0 … 2"),
        (lambda: Neighbourhoods(torch.tensor([0, 2, 1]), torch.tensor([0])), ValueError, "rise from 0"),
        (lambda: Neighbourhoods(torch.tensor([]).long(), torch.tensor([]).long()), ValueError, "rise from 0"),
        (lambda: Neighbourhoods(torch.tensor([0, 1]), torch.tensor([1])), ValueError, "0 to 0, .* got 1 to 1"),
        (lambda: Neighbourhoods(torch.tensor([0, 1]), torch.tensor([1.0])), TypeError, r"neighbours \(E,\) .*float32"),
        (lambda: Neighbourhoods([0, 1], torch.tensor([0])), TypeError, r"offsets \(V \+ 1,\) .* got list"),
        (lambda: Neighbourhoods.from_edge_index(torch.zeros(3, 2).long()), ValueError, r"\(2, E\).* got \(3, 2\)"),
        (lambda: Neighbourhoods.from_edge_index(torch.zeros(2, 3)), TypeError, "float32"),
        (lambda: of_edges([(0, 3)], 3), ValueError, "0 to 2, in a graph of 3 vertices; got 0 to 3"),
        (lambda: of_edges([(0, -1)]), ValueError, "got -1 to 0"),
        (lambda: GRAPH.whole(torch.tensor([3])), ValueError, "0 to 2, in a graph of 3 vertices; got 3 to 3"),
        (lambda: GRAPH.sample(torch.tensor([-1]), 2), ValueError, "got -1 to -1"),
        (lambda: GRAPH.sample(torch.tensor([[1]]), 2), TypeError, r"vertices \(B,\) .* \(1, 1\)"),
        (lambda: GRAPH.sample(torch.tensor([True, False, True]), 2), TypeError, "bool"),
        (lambda: GRAPH.sample(torch.tensor([1]), 0), ValueError, "k >= 1 neighbours; got k=0"),
        (lambda: two_hops(GRAPH, torch.tensor([1]), k_1=0, k_2=2), ValueError, "got k_1=0"),
        (lambda: two_hops(GRAPH, torch.tensor([3]), k_1=1, k_2=2), ValueError, "got 3 to 3"),
    ],
)
def test_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("thing", [Neighbourhoods, two_hops])
def test_the_examples_in_docstrings_run(thing):
    names = {"torch": torch, "Neighbourhoods": Neighbourhoods, "two_hops": two_hops}
    found = doctest.DocTestFinder(recurse=False).find(thing, module=neighbourhoods, globs=names)
    assert [doctest.DocTestRunner().run(test).failed for test in found] == [0]
