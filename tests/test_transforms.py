"""torch.func over layers: each cell of the table in docs/transforms.md, against plain autograd or a loop."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.functional import hessian as hessian_by_autograd
from torch.autograd.functional import jacobian
from torch.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state, vmap

from janossy import (
    GRU,
    AllPermutations,
    Canonical,
    JanossyEquivariant,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Spectral,
    TupleMLP,
    TupleProduct,
    Tuples,
)
from janossy.nn import Relations, SelfAttention
from janossy.orderings import AsGiven
from tests.examples import D
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

SIZES = (3, 1, 2)

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "`Tuples(1)`, any module": lambda: JanossyPooling(nn.Sequential(nn.Linear(D, 3), nn.Tanh()), Tuples(1)),
    "`Tuples(2)`, deep `TupleMLP`": lambda: JanossyPooling(TupleMLP(2, D, (3, 3)), Tuples(2)),
    '`Tuples(2)`, `"fused"`': lambda: JanossyPooling(TupleMLP(2, D, 3), Tuples(2), evaluate="fused"),
    '`Tuples(2)`, `"spectral"`': lambda: JanossyPooling(
        TupleMLP(2, D, 3), Tuples(2), evaluate=Spectral(enumerate_up_to=0)
    ),
    "`Tuples(2)`, `TupleProduct`": lambda: JanossyPooling(TupleProduct(2, D, 3), Tuples(2)),
    "`Tuples(2)`, several reductions": lambda: JanossyPooling(TupleMLP(2, D, 3), Tuples(2), reduce=("max", "std")),
    "`AllPermutations`, `GRU`": lambda: JanossyPooling(GRU(D, 3), AllPermutations()),
    "`Canonical`, `GRU`": lambda: JanossyPooling(GRU(D, 3), Canonical()),
    "`JanossyEquivariant`": lambda: JanossyEquivariant(GRU(D, 3, per_position=True), AsGiven()),
    "`JanossyNetwork`": lambda: JanossyNetwork(
        nn.Linear(D, 3), JanossyPooling(TupleMLP(2, 3, 4), Tuples(2)), nn.Linear(4, 1)
    ),
}


def tensor(outputs: Tensor | Ragged) -> Tensor:
    return outputs.values if isinstance(outputs, Ragged) else outputs


def of_elements(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    """Returns the layer as a function of the elements of sets of these sizes."""
    return lambda x: tensor(layer(Ragged.from_sizes(x, SIZES)))


def loss(layer: nn.Module) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    """Returns the sum of squared outputs as a function of the weights and the elements."""
    return lambda weights, x: tensor(functional_call(layer, weights, (Ragged.from_sizes(x, SIZES),))).square().sum()


def by_grad(layer, x):
    f, values = of_elements(layer), x.clone().requires_grad_()
    want = torch.autograd.grad(f(values).square().sum(), values)[0]
    return grad(lambda v: f(v).square().sum())(x), want


def by_jacrev(layer, x):
    return jacrev(of_elements(layer))(x), jacobian(of_elements(layer), x)


def by_jvp(layer, x):
    tangent = torch.ones_like(x)
    return jvp(of_elements(layer), (x,), (tangent,))[1], jacobian(of_elements(layer), x).sum((-1, -2))


def by_hessian(layer, x):
    def f(v):
        return of_elements(layer)(v).square().sum()

    return hessian(f)(x), hessian_by_autograd(f, x)


def by_weights(layer, x):
    weights = {name: (2 * weight).detach() for name, weight in layer.named_parameters()}
    learnt = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    want = torch.autograd.grad(loss(layer)(learnt, x), list(learnt.values()))
    got = grad(loss(layer))(weights, x)
    return torch.cat([g.flatten() for g in got.values()]), torch.cat([g.flatten() for g in want])


def by_ensemble(layer, x):
    members = [deepcopy(layer) for _ in range(3)]
    for member in members:
        for weight in member.parameters():
            weight.data.normal_()
    weights, buffers = stack_module_state(members)

    def f(weights, buffers):
        return tensor(functional_call(layer, (weights, buffers), (Ragged.from_sizes(x, SIZES),)))

    return vmap(f)(weights, buffers), torch.stack([of_elements(member)(x) for member in members])


def by_vmap(layer, x):
    several = torch.stack((x, 2 * x, -x))
    return vmap(of_elements(layer))(several), torch.stack([of_elements(layer)(each) for each in several])


def by_each_batch(layer, x):
    several, weights = torch.stack((x, 2 * x)), dict(layer.named_parameters())
    got = vmap(grad(loss(layer)), (None, 0))(weights, several)
    want = [torch.autograd.grad(loss(layer)(weights, each), list(weights.values())) for each in several]
    flat = [torch.cat([g.flatten() for g in each]) for each in want]
    return torch.cat([g.flatten(1) for g in got.values()], 1), torch.stack(flat)


TRANSFORMS = {
    "`grad`": by_grad,
    "`jacrev`": by_jacrev,
    "`jvp`": by_jvp,
    "`hessian`": by_hessian,
    "`grad` by weights": by_weights,
    "`vmap` over weights": by_ensemble,
    "`vmap` over elements": by_vmap,
    "`vmap` of `grad`": by_each_batch,
}

FAILS = {("`Canonical`, `GRU`", transform) for transform in ("`vmap` over elements", "`vmap` of `grad`")}
"""Sorting by elements that are mapped over is not known to vmap."""


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", LAYERS)
def test_a_cell_of_the_table(name, transform):
    torch.manual_seed(0)
    layer, x = LAYERS[name](), torch.randn(sum(SIZES), D)
    if (name, transform) in FAILS:
        with pytest.raises(RuntimeError, match="vmap"):
            TRANSFORMS[transform](layer, x)
        return
    close(*TRANSFORMS[transform](layer, x), atol=1e-9, rtol=1e-9)


def test_the_table_is_what_is_tested():
    page = (Path(__file__).parents[1] / "docs" / "transforms.md").read_text(encoding="utf-8")
    table = page[page.index("| layer | `grad`") :].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    head, _, *body = rows
    assert head[1:] == list(TRANSFORMS) and [row[0] for row in body] == list(LAYERS)
    said = {
        (row[0], transform) for row in body for transform, cell in zip(TRANSFORMS, row[1:], strict=True) if cell == "no"
    }
    assert said == FAILS


CHUNKED: dict[str, Callable[[int], nn.Module]] = {
    "rows": lambda budget: JanossyPooling(nn.Sequential(nn.Linear(D, 3), nn.Tanh()), Tuples(1), memory_budget=budget),
    "whole sets": lambda budget: JanossyPooling(GRU(D, 3), AllPermutations(), memory_budget=budget),
    "equivariant": lambda budget: JanossyEquivariant(
        GRU(D, 3, per_position=True), AllPermutations(), memory_budget=budget
    ),
    "tuples of elements": lambda budget: Relations(TupleMLP(3, D, 3), memory_budget=budget),
}


def gradients_in_chunks(make, small, transform):
    torch.manual_seed(0)
    layer, x = make(2**30), torch.randn(sum(SIZES), D)
    chunked = make(small)
    chunked.load_state_dict(layer.state_dict())
    return transform(chunked, x)[0], transform(layer, x)[0]


@pytest.mark.parametrize("transform", [by_grad, by_weights, by_each_batch])
@pytest.mark.parametrize("name", CHUNKED)
def test_gradients_of_what_is_computed_in_chunks(name, transform):
    close(*gradients_in_chunks(CHUNKED[name], 64, transform))


def test_a_bias_of_pairs_in_chunks(monkeypatch):
    layer, x = SelfAttention(D, num_heads=1, bias=TupleMLP(2, D, 1)), torch.randn(sum(SIZES), D)
    want = by_grad(layer, x)[1]
    monkeypatch.setattr("janossy.nn.encoder.pair_bias.MEMORY_BUDGET", 64)
    close(grad(lambda v: of_elements(layer)(v).square().sum())(x), want)


def test_autograd_through_vmap_over_chunks():
    torch.manual_seed(0)
    x = torch.randn(2, sum(SIZES), D, requires_grad=True)
    layer = CHUNKED["rows"](64)
    (got,) = torch.autograd.grad(vmap(of_elements(layer))(x).square().sum(), x)
    want = torch.stack([by_grad(layer, each.detach())[1] for each in x])
    close(got, want)
