"""TupleProduct against its formula, and the structure it declares."""

from math import prod

import pytest
import torch
from torch import nn

from janossy import JanossyPooling, Ragged, TupleProduct, Tuples
from janossy.functions import Product, structure

pytestmark = pytest.mark.usefixtures("float64")


def network(j, rank=4):
    return nn.Sequential(nn.Linear(2, 5 + j), nn.Tanh(), nn.Linear(5 + j, rank))


KINDS = {"linear": lambda k: None, "callable": lambda k: network, "sequence": lambda k: [network(j) for j in range(k)]}


@pytest.mark.parametrize("out_features", [None, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 3])
def test_formula(k, kind, out_features):
    f = TupleProduct(k, 2, 4, out_features=out_features, g=KINDS[kind](k))
    x = torch.randn(6, k, 2)
    y = prod(f.g[j](x[:, j]) for j in range(k))
    if out_features:
        y = sum(f.output.weight[:, r] * y[:, r, None] for r in range(4)) + f.output.bias
    assert y.shape == (6, out_features or 4)
    torch.testing.assert_close(f(x), y, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("out_features", [None, 3])
@pytest.mark.parametrize("k", [1, 3])
def test_structure_is_the_function(k, out_features):
    """rest(Π_j z_j(x_j)) is f."""
    f = TupleProduct(k, 2, 4, out_features=out_features, g=network)
    declared = structure(f)
    assert isinstance(declared, Product)
    rows = torch.randn(6, k, 2)
    factors = declared.factors(rows.flatten(0, 1)).unflatten(0, rows.shape[:2])
    products = prod(factors[:, j, j] for j in range(k))
    assert (declared.k, declared.num_columns) == (k, 4)
    torch.testing.assert_close(declared.rest(products), f(rows), atol=1e-12, rtol=1e-12)


def test_the_product_of_theorem_2_1():
    """Its average over the tuples of a set is the elementary symmetric polynomial e_3 over C(4, 3)."""
    f = TupleProduct(3, 1, 1)
    for g in f.g:
        nn.init.ones_(g.weight)
        nn.init.zeros_(g.bias)
    x = torch.tensor([[2.0], [-3.0], [5.0], [7.0]])
    assert f(x[None, :3]).item() == -30.0
    mean = JanossyPooling(f, Tuples(3), evaluate="permanent")(Ragged.from_sets([x]))
    assert mean.item() == (2 * -3 * 5 + 2 * -3 * 7 + 2 * 5 * 7 + -3 * 5 * 7) / 4


@pytest.mark.parametrize("k", [1, 2, 5, 20])
def test_products_start_near_one(k):
    torch.manual_seed(0)
    products = TupleProduct(k, 10, 1000)(torch.randn(250, k, 10))
    assert products.mean().item() == pytest.approx(1, abs=0.1)
    assert products.square().mean().item() == pytest.approx((1 + 1 / k) ** k, rel=0.1)


def hook(*_):
    return None


class Mine(TupleProduct):
    def forward(self, x):
        return super().forward(x) + 1


class Late(nn.Linear):
    def forward(self, x):
        return super().forward(x).relu()


def with_forward_of_its_own(f):
    f.forward = lambda x: x.sum((1, 2))


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.register_forward_hook(hook),
        lambda f: f.register_forward_pre_hook(hook),
        lambda f: f.register_full_backward_hook(hook),
        lambda f: f.output.register_forward_hook(hook),
        lambda f: f.output.register_forward_pre_hook(hook),
        lambda f: setattr(f, "output", Late(4, 3)),
        with_forward_of_its_own,
        lambda f: f.g[1].append(nn.Dropout(0.1)),
        lambda f: f.g[1].append(nn.AlphaDropout(0.1)),
        lambda f: f.g[1].append(nn.RReLU()),
        lambda f: f.g[1].append(nn.BatchNorm1d(4)),
    ],
)
def test_no_structure_that_would_bypass_or_change_something(change):
    f = TupleProduct(2, 2, 4, out_features=3, g=network)
    assert structure(f) is not None
    change(f)
    assert structure(f) is None


def test_no_structure_of_a_subclass():
    assert structure(Mine(2, 2, 4)) is None
    assert structure(nn.Linear(2, 2)) is None


def test_structure_in_evaluation():
    f = TupleProduct(2, 2, 4, g=lambda j: nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout()))
    assert structure(f) is None
    assert structure(f.eval()) is not None
    f.g[0][1] = nn.BatchNorm1d(4, track_running_stats=False).eval()
    assert structure(f) is None


def test_hooks_on_factors_run():
    f = TupleProduct(2, 2, 4, g=network)
    seen = []
    f.g[1][0].register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    structure(f).factors(torch.zeros(7, 2))
    assert seen == [7]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 2, 3), "all >= 1; got k=0"),
        ((1, 0, 3), "in_features=0"),
        ((1, 2, 0), "rank=0"),
        ((1, 2, 3, 0), "out_features=0"),
        ((2, 2, 3, None, [nn.Linear(2, 3)]), r"a sequence of k=2 modules, .* got \[Linear\]"),
        ((1, 2, 3, None, nn.Linear(2, 3)), "got one module"),
        ((1, 2, 3, None, lambda j: torch.tanh), r"got \[builtin_function_or_method\]"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        TupleProduct(*arguments[:3], **dict(zip(("out_features", "g"), arguments[3:], strict=False)))


@pytest.mark.parametrize("shape", [(5, 3, 2), (5, 2, 3), (5, 4), (5,)])
def test_rows_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"expects rows of shape \(T, 2, 2\); got .* Match its k"):
        TupleProduct(2, 2, 3)(torch.zeros(shape))


def test_elements_that_do_not_fit():
    with pytest.raises(ValueError, match=r"expects rows of shape \(T, 2, 2\); got \(5, 2, 3\)"):
        structure(TupleProduct(2, 2, 3)).factors(torch.zeros(5, 3))


def test_networks_of_another_rank():
    f = TupleProduct(2, 2, 4, g=lambda j: nn.Linear(2, 4 + j))
    with pytest.raises(ValueError, match=r"expects g_1 to map \(5, 2\) to \(5, 4\); got \(5, 5\)"):
        f(torch.zeros(5, 2, 2))


def test_repr():
    assert "k=2, in_features=2, rank=3" in repr(TupleProduct(2, 2, 3))


def test_reset_parameters_draws_factors_about_one_again():
    """torch_geometric's layers reset what is within them; factors are within some seven standard errors."""
    f = TupleProduct(2, 3, 4096)
    for module in f.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    products = f(torch.randn(64, 2, 3))
    assert abs(products.mean() - 1) < 0.2
    assert abs(products.square().mean() - 2.25) < 1
