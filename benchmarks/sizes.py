"""Layers on sets of different sizes, against the same elements in sets of one size, PyG, and padded attention.

Forward and backward, float32. For k = 1 there are 256 sets of 1 to 39 elements. For outputs per element, sizes are 1 to
100, or power-law sizes. Rows "against equal sizes" do different work of the same amount: their ratio should be near 1.
Rows "against no recomputation" compare ``JanossyEquivariant`` with itself under a memory budget that nothing exceeds.
Rows "against recomputation" have a budget just below the need, so that each call of f is made again in backward.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch_geometric.nn import DeepSetsAggregation

from benchmarks.harness import Row, backward
from janossy import GRU, Canonical, JanossyEquivariant, JanossyPooling, Ragged, TupleMLP, Tuples
from janossy.orderings import AsGiven, Orderings

NUM_SETS, D, H = 256, 16, 64


def rows() -> Iterator[Row]:
    """Yields k = 1 with several kinds of f, then an encoder layer with one output per element."""
    mixed, equal = _sets(torch.randint(1, 40, (NUM_SETS,)).tolist()), _sets([20] * NUM_SETS)
    functions = {
        "TupleMLP of 3 layers": TupleMLP(1, D, (H, H, H), activation="relu"),
        "plain module of 3 layers": _three_layers(),
        "nn.Linear": nn.Linear(D, H),
    }
    for name, f in functions.items():
        pooling = JanossyPooling(f, Tuples(1))
        yield Row(f"k=1, {name}, against equal sizes", _run(pooling, mixed), _run(pooling, equal), agree=False)
    yield _deep_sets(mixed)
    power_law = (torch.rand(NUM_SETS).pow(-1 / 1.5)).clamp(max=200).long().tolist()
    for name, sizes in {
        "equal sizes": [50] * NUM_SETS,
        "sizes 1 to 100": torch.randint(1, 101, (NUM_SETS,)).tolist(),
        "power-law sizes": power_law,
    }.items():
        for orderings in (AsGiven(), Canonical()):
            yield _attention(name, _sets(sizes, H), orderings)
    varied = _sets(torch.randint(1, 101, (NUM_SETS,)).tolist())
    yield _by_size(varied)
    yield from _recomputation(varied)


def _deep_sets(sets: Ragged) -> Row:
    f = _three_layers()
    pooling, peer = JanossyPooling(f, Tuples(1)), DeepSetsAggregation(f, nn.Identity())
    index = sets.to_index()[1]

    def reference() -> Tensor:
        return backward(peer(sets.values, index, dim_size=len(sets)) / sets.offsets.diff()[:, None])

    return Row("k=1, plain module of 3 layers, against PyG's DeepSetsAggregation", _run(pooling, sets), reference)


def _attention(name: str, sets: Ragged, orderings: Orderings) -> Row:
    layer = nn.TransformerEncoderLayer(H, 4, dim_feedforward=2 * H, dropout=0.0, batch_first=True)
    equivariant = JanossyEquivariant(layer, orderings)

    def reference() -> Tensor:
        x, mask = sets.to_padded()
        return backward(layer(x, src_key_padding_mask=~mask)[mask])

    title = f"encoder layer over {type(orderings).__name__}, {name}, against padding to the largest"
    return Row(title, _outputs(equivariant, sets), reference)


def _by_size(sets: Ragged) -> Row:
    """Returns the row of a module without a mask: the reference calls it once per size, with nothing to recompute."""
    f = _three_layers()
    equivariant = JanossyEquivariant(f, AsGiven())
    sizes = sorted(set(sets.sizes))
    chosen = [torch.tensor([b for b, n in enumerate(sets.sizes) if n == size]) for size in sizes]
    index = [sets.offsets[b][:, None] + torch.arange(n) for b, n in zip(chosen, sizes, strict=True)]

    def reference() -> Tensor:
        out = torch.cat([f(sets.values[i]).flatten(0, 1) for i in index])
        return backward(torch.zeros_like(out).index_add(0, torch.cat([i.flatten() for i in index]), out))

    title = "module without a mask over AsGiven, sizes 1 to 100, against a loop over sizes"
    return Row(title, _outputs(equivariant, sets), reference)


def _recomputation(sets: Ragged) -> Iterator[Row]:
    """Yields, for three kinds of f, the default memory budget against none, and against one below the need."""
    attention = nn.TransformerEncoderLayer(D, 4, dim_feedforward=2 * D, dropout=0.0, batch_first=True)
    cases: dict[str, tuple[nn.Module, Orderings, int]] = {
        "module without a mask": (_three_layers(), AsGiven(), 2**24),
        "encoder layer": (attention, AsGiven(), 2**26),
        "GRU": (GRU(D, H, per_position=True), Canonical(), 2**25),
    }
    for name, (f, orderings, too_little) in cases.items():
        ours = _outputs(JanossyEquivariant(f, orderings), sets)
        for title, budget in {"no recomputation": 2**60, "recomputation": too_little}.items():
            other = JanossyEquivariant(f, orderings, memory_budget=budget)
            yield Row(f"{name}, sizes 1 to 100, against {title}", ours, _outputs(other, sets))


def _outputs(layer: JanossyEquivariant, sets: Ragged) -> Callable[[], Tensor]:
    return lambda: backward(layer(sets).values)


def _three_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(D, H), nn.ReLU(), nn.Linear(H, H), nn.ReLU(), nn.Linear(H, H))


def _sets(sizes: list[int], features: int = D) -> Ragged:
    return Ragged.from_sizes(torch.randn(sum(sizes), features, requires_grad=True), sizes)


def _run(pooling: JanossyPooling, sets: Ragged) -> Callable[[], Tensor]:
    return lambda: backward(pooling(sets))
