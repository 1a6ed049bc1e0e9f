"""torch.compile with dynamic=True: each cell of the table in docs/transforms.md, over batches of other sizes."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._dynamo.exc import RecompileError

from janossy import (
    GRU,
    LSTM,
    RNN,
    AllPermutations,
    Canonical,
    Combinations,
    JanossyEquivariant,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    TupleProduct,
    Tuples,
)
from janossy.functions import GatedAttention
from janossy.kernels import load
from janossy.nn import Quantile, SoftmaxMean
from janossy.nn.encoder import (
    AppendSize,
    InducedAttention,
    Relations,
    SeedAttention,
    SelfAttention,
    SetEncoder,
    SetNorm,
    SlotAttention,
    attention_blocks,
)
from janossy.orderings import AsGiven
from tests.examples import D
from tests.laws import close

pytestmark = [pytest.mark.usefixtures("float64"), pytest.mark.skipif(load() is None, reason="needs numba")]

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "`Tuples(1)`, any module": lambda: JanossyPooling(nn.Sequential(nn.Linear(D, 3), nn.Tanh()), Tuples(1)),
    '`Tuples(1)`, `reduce="max"`': lambda: JanossyPooling(nn.Linear(D, 3), Tuples(1), reduce="max"),
    "`Tuples(2)`, `TupleMLP` of one layer": lambda: JanossyPooling(TupleMLP(2, D, 3), Tuples(2)),
    '`Combinations(2)`, `"fused"`': lambda: JanossyPooling(
        TupleMLP(2, D, 3, activation="relu"), Combinations(2), evaluate="fused"
    ),
    "`Tuples(2)`, `TupleProduct`": lambda: JanossyPooling(TupleProduct(2, D, 3), Tuples(2)),
    "`Tuples(2)`, deep `TupleMLP`": lambda: JanossyPooling(TupleMLP(2, D, (3, 3)), Tuples(2)),
    '`Combinations(2)`, any module, `reduce="max"`': lambda: JanossyPooling(
        SumOfSquares(), Combinations(2), reduce="max"
    ),
    '`Tuples(1)`, `reduce="std"`': lambda: JanossyPooling(nn.Linear(D, 3), Tuples(1), reduce="std"),
    '`Tuples(2)`, `reduce="min"`': lambda: JanossyPooling(TupleMLP(2, D, 3), Tuples(2), reduce="min"),
    "`Tuples(2)`, several reductions": lambda: JanossyPooling(
        TupleMLP(2, D, 3), Tuples(2), reduce=("mean", "std", "min", Quantile(0.4), SoftmaxMean())
    ),
    "`AllPermutations`, `GRU`": lambda: JanossyPooling(GRU(D, 3), AllPermutations()),
    "`Canonical`, `GRU`": lambda: JanossyPooling(GRU(D, 3), Canonical()),
    "`Canonical(k=3)`, any module": lambda: JanossyPooling(Weighed(), Canonical(key=0, k=3)),
    '`AsGiven`, `LSTM` of two layers in two directions, `reduce="max"`': lambda: JanossyPooling(
        LSTM(D, 3, num_layers=2, bidirectional=True), AsGiven(), reduce="max"
    ),
    "`Sampled(seed=0)`, `RNN`": lambda: JanossyPooling(RNN(D, 3), Sampled(4, seed=0)),
    "`Sampled`, `RNN`, `fixed_in_eval=True`": lambda: JanossyPooling(RNN(D, 3), Sampled(4), fixed_in_eval=True).eval(),
    "`Sampled(k=2)`, any module": lambda: JanossyPooling(SumOfSquares(), Sampled(2, k=2, exact_last=2)),
    "`Sampled`, any module": lambda: JanossyPooling(SumOfSquares(), Sampled(2)),
    "`JanossyEquivariant`, `GRU` over `Sampled(seed=0)`": lambda: JanossyEquivariant(
        GRU(D, 3, per_position=True), Sampled(3, seed=0)
    ),
    "`JanossyEquivariant`, any module": lambda: JanossyEquivariant(nn.Linear(D, 3), AsGiven()),
    "`JanossyNetwork` over `Tuples(2)`": lambda: JanossyNetwork(
        nn.Linear(D, 3), JanossyPooling(TupleMLP(2, 3, 4), Tuples(2)), nn.Linear(4, 1)
    ),
    "`Tuples(1)`, `GatedAttention`": lambda: JanossyPooling(
        GatedAttention(TupleMLP(1, D, 4), in_features=4), Tuples(1)
    ),
    "`SelfAttention`": lambda: SelfAttention(D, num_heads=D),
    "`SelfAttention` with a `bias`": lambda: SelfAttention(
        D, num_heads=D, bias=TupleMLP(2, D, 4, out_features=D, activation="tanh")
    ),
    "`InducedAttention`": lambda: InducedAttention(D, num_points=2, num_heads=1),
    "`SeedAttention`": lambda: SeedAttention(D, num_seeds=2, num_heads=1),
    "`SlotAttention`": lambda: SlotAttention(D, num_slots=2, num_rounds=2, num_heads=1),
    "`SlotAttention` with `input_features`": lambda: SlotAttention(
        D, num_slots=2, num_rounds=2, num_heads=1, input_features=D
    ),
    "`Relations`, `TupleMLP`": lambda: Relations(TupleMLP(2, D, 4, out_features=3, activation="tanh")),
    '`Relations`, `TupleProduct`, `reduce="sum"`': lambda: Relations(TupleProduct(3, D, 4), reduce="sum"),
    '`Relations`, any module, `reduce="logmeanexp"`': lambda: Relations(GRU(D, 3), k=2, reduce="logmeanexp"),
    "`SetEncoder` of `attention_blocks` with `SetNorm`": lambda: SetEncoder(
        [AppendSize(), nn.Linear(D + 1, 4), *attention_blocks(4, num_blocks=2, num_heads=2, norm=SetNorm)]
    ),
    "`JanossyNetwork` with induced blocks and `SeedAttention`": lambda: JanossyNetwork(
        nn.Linear(D, 4),
        JanossyPooling(nn.Linear(4, 3), Tuples(1)),
        nn.Linear(3, 1),
        encoder=SetEncoder([*attention_blocks(4, num_points=2), SeedAttention(4, num_seeds=2)]),
    ),
}
BATCHES = [(3, 2, 4), (1, 5, 2, 3), (2, 6, 1, 3, 0)]


class Weighed(nn.Module):
    """Another in every order."""

    def forward(self, x):
        return (x * torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None]).sum(1)


class SumOfSquares(nn.Module):
    def forward(self, x):
        return x.square().sum(1)


def table() -> dict[str, str]:
    page = (Path(__file__).parent.parent / "docs" / "transforms.md").read_text().split("## torch.compile")[1]
    rows = [row.strip("| ").split(" | ") for row in page.split("\n") if row.startswith("| ")][1:]
    return {layer: once for layer, once in rows}


def test_the_table_has_every_layer():
    assert list(table()) == list(LAYERS) and set(table().values()) <= {"yes", "no"}


def gradients(outputs, sets, layer):
    values = outputs.values if isinstance(outputs, Ragged) else outputs
    parameters = list(layer.parameters())
    return [values, *torch.autograd.grad(values.square().sum(), [sets.values, *parameters])]


EVERY_TIME = ("`Tuples(2)`, deep `TupleMLP`", "`Canonical`, `GRU`", "`SelfAttention` with a `bias`")


BY_INDUCTOR = ("`Tuples(2)`, `TupleMLP` of one layer", "`SetEncoder` of `attention_blocks` with `SetNorm`")


@pytest.mark.only_all
@pytest.mark.parametrize("name", BY_INDUCTOR)
def test_other_sizes_by_inductor(name):
    compiles_once(name, "inductor")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in EVERY_TIME else pytest.mark.only_all) for name in LAYERS]
)
def test_other_sizes(name):
    compiles_once(name, "aot_eager")


def compiles_once(name, backend):
    torch.compiler.reset()
    layer = LAYERS[name]()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=backend)
    try:
        for i, sizes in enumerate(BATCHES):
            sets = Ragged.from_sizes(torch.randn(sum(sizes), D, requires_grad=True), sizes)
            last = i == len(BATCHES) - 1
            with torch._dynamo.config.patch(error_on_recompile=last):
                if last and table()[name] == "no":
                    with pytest.raises(RecompileError):
                        compiled(sets)
                    continue
                got = gradients(compiled(sets), sets, layer)
            for x, y in zip(got, gradients(layer(sets), sets, layer), strict=True):
                close(x, y)
    finally:
        torch.compiler.reset()


def test_rows_beyond_the_budget_are_told():
    torch.compiler.reset()
    layer = JanossyPooling(TupleMLP(2, D, (3, 3)), Tuples(2), memory_budget=2000)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="eager")
    few, many = (Ragged.from_sizes(torch.randn(n, D), [n]) for n in (2, 9))
    try:
        close(compiled(few), layer(few))
        with pytest.raises(RuntimeError, match=r"expects rows of at most .* elements in all"):
            compiled(many)
    finally:
        torch.compiler.reset()
