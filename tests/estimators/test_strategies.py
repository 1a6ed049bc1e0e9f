"""Strategies: every network is a function of each set, built again from plain settings."""

import json
import math
from dataclasses import asdict, fields, replace
from itertools import permutations
from math import perm

import pytest
import torch

from janossy import Ragged, predict
from janossy.estimators.nested import build_nested
from janossy.estimators.pair_features import pair_features
from janossy.estimators.strategies import AMOUNTS, STRATEGIES, Settings, build_network, settings_of
from janossy.tables.layout import Layout
from tests.laws import close
from tests.oracle import REDUCTIONS

pytestmark = pytest.mark.usefixtures("float64")

ELEMENTS = {"codes and numbers": Layout((5, 3), 2), "codes": Layout((4,)), "numbers": Layout((), 3)}
CONTEXTS = {"none": Layout(), "codes and numbers": Layout((3,), 2)}
SIZES = (3, 0, 1, 5, 2, 3)
SMALL = {"width": 8, "num_heads": 2}


def table(layout: Layout, num_rows: int, seed: int = 0) -> torch.Tensor:
    source = torch.Generator().manual_seed(seed)
    codes = [torch.randint(n, (num_rows, 1), generator=source).double() for n in layout.vocabularies]
    return torch.cat([*codes, torch.randn(num_rows, layout.num_numbers, generator=source)], dim=1)


def example(elements: str = "codes and numbers", context: str = "codes and numbers", sizes=SIZES):
    layout = ELEMENTS[elements]
    return Ragged.from_sizes(table(layout, sum(sizes)), sizes), table(CONTEXTS[context], len(sizes), seed=1)


def built(strategy, elements="codes and numbers", context="codes and numbers", **settings):
    torch.manual_seed(3)
    return build_network(strategy, ELEMENTS[elements], CONTEXTS[context], 3, **(SMALL | settings))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("sizes", [(0, 0, 0), ()], ids=["empty sets", "no sets"])
def test_sets_without_elements_reach_every_weight(strategy, sizes):
    """With a gradient that is 0 for f and h: DistributedDataParallel waits for each."""
    sets, context = example(sizes=sizes)
    network = built(strategy)
    network(sets, context=context, generator=torch.Generator()).sum().backward()
    missing = [name for name, weight in network.named_parameters() if weight.grad is None]
    assert missing == []
    reached = {name for name, weight in network.named_parameters() if weight.grad.any()}
    assert "h.embeddings.0.weight" not in reached and bool(reached) == bool(sizes)


def outputs(network, sets, context):
    """Returns outputs by fixed permutations, which are a function of each multiset."""
    return predict(network, sets, 4, context=context, seed=1 if network.pooling.orderings.draws else None).mean


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("elements", ELEMENTS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_function_of_each_set(strategy, elements, context):
    """Sets are of any size, in any order, whatever the batch-mates; and each column of each table counts."""
    network, (sets, of_sets) = built(strategy, elements, context), example(elements, context)
    network(sets, context=of_sets).square().sum().backward()  # statistics of PooledNorm, and gradients
    assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())
    found = outputs(network, sets, of_sets)
    assert found.shape == (6, 3) and found.isfinite().all()
    shuffle = torch.Generator().manual_seed(2)
    shuffled = Ragged.from_sets([x[torch.randperm(len(x), generator=shuffle)] for x in sets])
    close(outputs(network, shuffled, of_sets), found)
    for b in range(len(sets)):
        close(outputs(network, sets[[b]], of_sets[[b]])[0], found[b], atol=1e-9, rtol=1e-9)
    for column in range(ELEMENTS[elements].num_columns):
        assert not torch.allclose(outputs(network, sets.with_values(_changed(sets.values, column)), of_sets), found)
    for column in range(CONTEXTS[context].num_columns):
        assert not torch.allclose(outputs(network, sets, _changed(of_sets, column)), found)


def _changed(rows: torch.Tensor, column: int) -> torch.Tensor:
    changed = rows.clone()
    changed[:, column] = (changed[:, column] + 1) % 3
    return changed


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_repeated_elements_tell_sizes_apart(strategy):
    """A mean forgets how many there are."""
    network = built(strategy, context="none").eval()
    one = table(ELEMENTS["codes and numbers"], 1)
    sets = Ragged.from_sets([one.repeat(4, 1), one.repeat(8, 1)])
    first, second = outputs(network, sets, None)
    assert not torch.allclose(first, second)


def test_several_reductions_stand_side_by_side():
    """Both are those of f's rows, and the result is independent of batch-mates."""
    network, (sets, context) = built("k1", reduce="mean+std").eval(), example()
    elements = sets.with_values(network.h(sets.values))
    for pooled, (size, rows) in zip(network.pooling(elements), zip(SIZES, elements, strict=True), strict=True):
        sized = torch.cat([rows, torch.full((size, 1), math.log1p(size))], 1)
        each = network.pooling.f(sized[:, None] if size else torch.zeros(1, 1, sized.shape[1]))
        close(pooled, torch.cat([each.mean(0), each.std(0, correction=0)]))
    alone = [outputs(network, sets[[b]], context[[b]]) for b in range(len(sets))]
    close(torch.cat(alone), outputs(network, sets, context), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("reduce", [*REDUCTIONS, "mean+max"])
@pytest.mark.parametrize("strategy", ["k2", "k3", "k2+features"])
def test_all_tuples_are_reduced(strategy, reduce):
    """f reads the size too, unless its outputs are summed."""
    k, sizes = int(strategy[1]), (3, 5, 4)
    network, (sets, _) = built(strategy, context="none", reduce=reduce).eval(), example(context="none", sizes=sizes)
    elements = network.elements(sets)
    for found, x in zip(network.pooling(elements), elements, strict=True):
        if reduce != "sum":
            x = torch.cat([x, torch.full((len(x), 1), math.log1p(len(x)))], 1)
        each = network.pooling.f(torch.stack([x[list(order)] for order in permutations(range(len(x)), k)]))
        close(found, torch.cat([REDUCTIONS[name](each) for name in reduce.split("+")]))
    if not {*reduce.split("+")} <= {"mean", "std", "logmeanexp"}:
        assert built(strategy, reduce=reduce).pooling.orderings_train is None


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_numbers_far_from_those_of_training_are_read_as_near(strategy):
    """Numbers of elements and of sets, by a tenth of the range of training."""
    layout = Layout((), 2, means=(1.0, 0.0), scales=(2.0, 1.0), periods=(0.0, 0.0), ranges=((-9.0, 11.0), (0.0, 0.0)))
    torch.manual_seed(3)
    network = build_network(strategy, layout, layout, 3, **SMALL).eval()
    elements, context = torch.randn(sum(SIZES), 2), torch.randn(len(SIZES), 2)
    elements[0, 0], elements[4, 0], context[1, 0], context[0, 1] = 1e6, -1e6, 1e6, 1e2
    near = elements.clone(), context.clone()
    for each in near:
        each[:, 0].clamp_(-6, 6)  # from -11 to 13
    far, limited = (
        network(Ragged.from_sizes(x, SIZES), context=c, generator=torch.Generator().manual_seed(0))
        for x, c in ((elements, context), near)
    )
    assert torch.equal(far, limited)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_settings_build_the_same_network_again(strategy):
    given = {**SMALL, "depth": 3, "readout_depth": 2, "activation": "gelu", "dropout": 0.1, "embedding_features": 2}
    settings = asdict(settings_of(strategy, given))
    again = json.loads(json.dumps(settings))
    network, sets_and_context = built(strategy, **given), example()
    other = build_network(strategy, ELEMENTS["codes and numbers"], CONTEXTS["codes and numbers"], 3, **again)
    assert repr(other) == repr(network)
    other.load_state_dict(network.state_dict())
    close(outputs(other, *sets_and_context), outputs(network, *sets_and_context))
    assert settings.items() >= given.items()


def test_no_setting_is_without_effect():
    """Each one changes some strategy's network."""
    changes = {
        "width": 12,
        "depth": 3,
        "readout_depth": 3,
        "reduce": "mean+std",
        "activation": "tanh",
        "dropout": 0.3,
        "norm": False,
        "embedding_features": 5,
        "num_permutations": 3,
        "num_tuples": 5,
        "exact": False,
        "num_heads": 1,
        "num_blocks": 3,
        "num_points": 5,
        "num_seeds": 3,
        "features": {"products": [2]},
        "amounts": "log",
        "inner": "sum",
    }
    assert set(changes) == {setting.name for setting in fields(Settings)}
    knots = tuple(2.0**j for j in range(17))
    values = {"quantiles": (knots,), "values": ((1.0, 2.0, 3.0),)}
    columns = Layout((3,), 1, means=(1.0,), scales=(1.0,), smallest=(0.01,), periods=(0.0,), **values)
    nested = [
        repr(build_nested("k1", replace(columns, inner=True), columns, 1, inner=name))
        for name in (Settings.inner, changes.pop("inner"))
    ]
    assert nested[0] != nested[1]
    del changes["amounts"]
    forms = [build_network("k1", columns, columns, 1, amounts=amounts) for amounts in AMOUNTS]
    assert len({repr(each.h) for each in forms}) == len({repr(each.rho) for each in forms}) == len(AMOUNTS) == 5
    for name, value in changes.items():
        assert any(repr(built(strategy, **{name: value})) != repr(built(strategy)) for strategy in STRATEGIES), name


def test_features_are_named_by_columns_of_the_layout():
    """The second category and the numbers of Layout((5, 3), 2), which h makes features 3 … 7 of."""
    given = {"equal": [[1]], "distances": [[2, 3]], "periods": {"3": 6.0}, "units": {"2": 0.5}, "products": [3]}
    network = built("k2", features=given, embedding_features=2)
    features = network.pooling.f.features
    assert (features.equal, features.distances, features.products) == (((2, 3),), ((4, 5),), (5,))
    assert (features.periods, features.units) == ({5: 6.0}, {4: 0.5})
    sets = Ragged.from_sets([torch.tensor([[1.0, 2.0, 0.0, 2.9], [3.0, 2.0, 6.0, -2.9]])])
    pair = network.h(sets.values)[None]
    found = features(torch.cat((pair, torch.zeros(1, 2, 1)), dim=2))
    expected = torch.tensor([[2.9 * -2.9, 1.0, (9 + 0.2**2) ** 0.5]])
    close(found, expected)


@pytest.mark.parametrize("strategy", ["k2", "k3", "k2+features", "k3+features"])
def test_training_draws_tuples_of_large_sets_and_predictions_take_all(strategy):
    network, k = built(strategy, context="none", num_tuples=30), int(strategy[1])
    sets, _ = example(context="none", sizes=(6, 3, 0, 20))
    rows = network.pooling.rows(network.elements(sets))
    assert rows.sizes == (30, 6, 1, 30)
    network.eval()
    assert network.pooling.rows(network.elements(sets)).sizes == tuple(perm(n, min(n, k)) for n in sets.sizes)
    assert built(strategy, num_tuples=None).pooling.orderings_train is None
    drawn = predict(built(strategy, context="none", num_tuples=30, exact=False), sets, 90)
    assert drawn.standard_error[3].all() and not drawn.standard_error[1:3].any()  # all of the smaller sets' are taken


def test_what_builds_no_tuples_draws_none():
    """One layer of pairs has evaluators of its own."""
    assert built("k2", depth=1).pooling.orderings_train is None
    assert built("k2+features", depth=1).pooling.orderings_train is not None


def test_features_are_in_the_columns_own_units():
    """ΔR of standardised η and φ, by names, is ΔR of what they were; |differences| alone stay standardised."""
    layout = Layout((), 3, ("pt", "eta", "phi"), (10.0, 2.0, 1.5))
    given = {"distances": [["eta", "phi"]], "absolute_differences": ["pt"], "periods": {"phi": 2 * math.pi}}
    features = build_network("k2", layout, Layout(), 1, features=given).pooling.f.features
    pair = torch.tensor([[[30.0, 1.0, 3.0], [10.0, -1.0, -3.0]]])
    found = features(torch.cat((pair / torch.tensor(layout.scales), torch.zeros(1, 2, 1)), dim=2))
    close(found, torch.tensor([[2.0, math.hypot(2.0, 2 * math.pi - 6.0)]]))


def test_pair_features_of_every_layout():
    assert pair_features(Layout((), 2, periods=(0.0, 360.0)))["periods"] == {1: 360.0}
    assert pair_features(Layout((5, 3), 2)) == {
        "periods": {},
        "absolute_differences": [2, 3],
        "equal": [[0], [1]],
    }


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: built("k9"), ValueError, "strategy expects one of 'k1', .*; got 'k9'"),
        (lambda: built("k1", widht=3), ValueError, "settings are width, depth, .*; got widht"),
        (
            lambda: built("k1", amounts="ln"),
            ValueError,
            "amounts among raw, log, quantile, by-category, codes; got amounts='ln'",
        ),
        (
            lambda: built("k1", reduce="mean+mode"),
            ValueError,
            "reduce as one or several of .* got reduce='mean\\+mode'",
        ),
        (lambda: built("k1", reduce=["mean"]), ValueError, r"with \+ between; got reduce=\['mean'\]"),
        (
            lambda: built("k2", reduce="mean+max", exact=False),
            ValueError,
            "exact=False, a reduce among mean, logmeanexp, std, .*; got reduce='mean\\+max'",
        ),
        (lambda: built("k1", depth=0), ValueError, "strategy 'k1' expects depth >= 1; got depth=0"),
        (lambda: built("k1", width="8"), TypeError, "strategy 'k1' expects width >= 1, an integer; got width='8'"),
        (lambda: built("k1", activation="no"), ValueError, "an activation among"),
        (lambda: built("attention", num_heads=3), ValueError, "num_heads to divide in_features=8; got num_heads=3"),
        (lambda: built("k2", features={"angles": [1]}), ValueError, "features expects differences, .*; got 'angles'"),
        (lambda: built("k2", features={"products": [4]}), ValueError, "columns 0 … 3, known by number only; got 4"),
        (
            lambda: built("induced", num_heads=3),
            ValueError,
            "num_heads to divide in_features=8; got num_heads=3",
        ),
        (lambda: built("set-transformer", num_blocks=0), ValueError, "expects num_blocks >= 1; got num_blocks=0"),
        (lambda: built("set-transformer", num_seeds=0), ValueError, "expects num_seeds >= 1; got num_seeds=0"),
        (lambda: build_network("k1", Layout(), Layout(), 1), ValueError, "elements of at least one column"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
