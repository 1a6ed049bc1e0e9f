"""The common ground of fused, spectral and permanent: refusals, extreme elements, no numba, what backward keeps."""

import subprocess
import sys
from math import inf, nan

import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    AllPermutations,
    Canonical,
    Combinations,
    JanossyPooling,
    Ragged,
    Sampled,
    Spectral,
    TupleMLP,
    TupleProduct,
    Tuples,
)
from janossy.evaluate import MEMORY_BUDGET, Choice, Fused, Gather, Permanent, Problem, on_kernels
from tests.examples import D, distinct_sets, pooling
from tests.laws import close, law_parity, law_saves_no_more_than, peak_bytes, saved_bytes, value_and_gradients

pytestmark = pytest.mark.usefixtures("float64")

EVALUATORS = {"fused": Fused(), "spectral": Spectral(), "permanent": Permanent()}
EACH = [*EVALUATORS]
SERIES = Spectral(tolerance=1e-13, enumerate_up_to=0)
each_evaluator = pytest.mark.parametrize("evaluator", EACH)


def function(evaluator, k=2, d=D, width=4, activation="tanh"):
    return (
        TupleProduct(k, d, width, out_features=3)
        if evaluator == "permanent"
        else TupleMLP(k, d, width, out_features=3, activation=activation)
    )


def edited(evaluator, edit):
    f = function(evaluator)
    edit(f)
    return f


class Mine(Tuples):
    """Tuples that are not those of Tuples."""

    def enumerate(self, keys, generator=None):
        return super().enumerate(keys, generator)


class Renamed(Tuples):
    """Still the tuples of Tuples."""


class OwnMLP(TupleMLP):
    def forward(self, x):
        return super().forward(x).square()


class OwnProduct(TupleProduct):
    def forward(self, x):
        return super().forward(x).square()


BYPASS = "has a hook, or a forward or layer of its own, that would not run or would run otherwise"
NOT_EVERY = "does not average over every k-tuple, as Tuples and Combinations do"
ORDERINGS = [
    (Tuples(3), "f takes rows of k = 2 elements, and these orderings take 3"),
    (Combinations(1), "f takes rows of k = 2 elements, and these orderings take 1"),
    (Sampled(3, k=2), f"Sampled {NOT_EVERY}"),
    (Sampled(3, k=2, seed=1), f"Sampled {NOT_EVERY}"),
    (Canonical(), f"Canonical {NOT_EVERY}"),
    (AllPermutations(), f"AllPermutations {NOT_EVERY}"),
    (Mine(2), f"Mine {NOT_EVERY}"),
]


def law_refuses(evaluator, f, orderings, reason, reduce="mean"):
    """Checks that why_not_applicable, explain and the error give this reason, and that auto takes another evaluator.

    With reduce None the rows are asked for.
    """
    sets = distinct_sets((3, 2))
    problem = Problem(f, orderings, sets, reduce=reduce)
    assert EVALUATORS[evaluator].why_not_applicable(problem) == reason
    explanation = Choice("auto").explain(problem)
    assert f"\n  {evaluator}: does not apply: {reason}" in explanation
    assert not explanation.startswith(evaluator)
    if reason.startswith("f takes rows of k"):  # which the layer refuses as it is made
        with pytest.raises(ValueError, match="expects the same k for f and orderings"):
            JanossyPooling(f, orderings, evaluate=evaluator, reduce=reduce or "mean")
        return
    asked = JanossyPooling(f, orderings, evaluate=evaluator, reduce=reduce or "mean")
    for call in (asked, asked.explain) if reduce else (asked.rows,):
        with pytest.raises(ValueError) as error:
            call(sets)
        assert str(error.value) == f"evaluate={evaluator} does not apply: {reason}; use evaluate='auto'."


@pytest.mark.parametrize(("orderings", "reason"), ORDERINGS)
@each_evaluator
def test_other_orderings_are_refused(evaluator, orderings, reason):
    law_refuses(evaluator, function(evaluator), orderings, reason)


@each_evaluator
def test_a_subclass_that_changes_no_rows_is_not_refused(evaluator):
    f, sets = function(evaluator), distinct_sets()
    law_parity(JanossyPooling(f, Renamed(2), evaluate=evaluator), JanossyPooling(f, Tuples(2), evaluate="gather"), sets)


@pytest.mark.parametrize("reduce", ["max", "logmeanexp", None])
@each_evaluator
def test_other_reductions_are_refused(evaluator, reduce):
    reason = f"it computes the mean and the sum, and no rows for reduce={reduce!r}"
    law_refuses(evaluator, function(evaluator), Tuples(2), reason, reduce)


def additive_refusals():
    kind = "declares no additive structure"
    bypass = BYPASS
    rest = "has more than one hidden layer, norms, or another output layer than nn.Linear"
    yield GRU(D, 3), f"GRU {kind}"
    yield TupleProduct(2, D, 3), f"TupleProduct {kind}"
    yield TupleMLP(2, D, (4, 3)), f"TupleMLP {rest}"
    yield edited("fused", lambda f: setattr(f, "output", nn.Sequential(f.output, nn.Tanh()))), f"TupleMLP {rest}"
    yield edited("fused", lambda f: f.register_forward_hook(lambda *_: None)), f"TupleMLP {bypass}"
    yield edited("fused", lambda f: f.output.register_forward_hook(lambda *_: None)), f"TupleMLP {bypass}"
    yield OwnMLP(2, D, 4), f"OwnMLP {bypass}"


@pytest.mark.parametrize(("f", "reason"), list(additive_refusals()))
@pytest.mark.parametrize("evaluator", ["fused", "spectral"])
def test_functions_that_are_not_additive_with_one_hidden_layer(evaluator, f, reason):
    law_refuses(evaluator, f, Tuples(2), reason)


def product_refusals():
    kind = "declares no product structure"
    bypass = BYPASS
    yield GRU(D, 3), f"GRU {kind}"
    yield TupleMLP(2, D, 3), f"TupleMLP {kind}"
    yield edited("permanent", lambda f: f.register_forward_hook(lambda *_: None)), f"TupleProduct {bypass}"
    drops = TupleProduct(2, D, 3, g=lambda j: nn.Sequential(nn.Linear(D, 3), nn.Dropout(0.5)))
    yield drops, f"TupleProduct {bypass}"
    yield OwnProduct(2, D, 4), f"OwnProduct {bypass}"


@pytest.mark.parametrize(("f", "reason"), list(product_refusals()))
def test_functions_that_are_no_products(f, reason):
    law_refuses("permanent", f, Tuples(2), reason)


def test_too_many_positions():
    reason = "it keeps 2^k sums, and takes k <= {}; got k = {}"
    law_refuses("permanent", TupleProduct(11, D, 2), Tuples(11), reason.format(10, 11))
    law_refuses("spectral", TupleMLP(7, D, 2), Tuples(7), reason.format(6, 7))
    for f, evaluator in ((TupleProduct(10, D, 2), "permanent"), (TupleMLP(6, D, 2), "spectral")):
        law_parity(
            JanossyPooling(f, Combinations(f.k), evaluate=evaluator),
            JanossyPooling(f, Combinations(f.k), evaluate="gather"),
            sets_of(11),
        )


def sets_of(*sizes):
    return distinct_sets(sizes)


def test_a_kink_has_no_series():
    reason = "relu has a kink, and its series would converge too slowly"
    law_refuses("spectral", TupleMLP(2, D, 4, activation="relu"), Tuples(2), reason)


@pytest.mark.parametrize("bad", [{"tolerance": 0.0}, {"tolerance": 1.0}, {"tolerance": -1.0}, {"tolerance": nan}])
def test_bad_tolerances(bad):
    with pytest.raises(ValueError, match=f"a tolerance between 0 and 1, or None; got {bad['tolerance']}"):
        Spectral(**bad)


def test_bad_numbers():
    with pytest.raises(ValueError, match=r"enumerate_up_to >= 0, or -1 to enumerate where it is cheaper; got -2"):
        Spectral(enumerate_up_to=-2)


@each_evaluator
@pytest.mark.parametrize("features", [(3,), (), (2, 2)])
def test_elements_that_do_not_fit(evaluator, features):
    sets = Ragged.from_sizes(torch.zeros(5, *features), [3, 2])
    with pytest.raises(ValueError, match=r"expects rows of shape \(T, 2, 2\); got \(5, 2.*in_features"):
        JanossyPooling(function(evaluator), Tuples(2), evaluate=evaluator)(sets)


@pytest.mark.parametrize("reduce", ["mean", "sum"])
@pytest.mark.parametrize("sizes", [(), (0,), (0, 0), (1,), (1, 0, 2)])
@each_evaluator
def test_sets_smaller_than_k(evaluator, sizes, reduce):
    f = function(evaluator, k=3)
    layers = [JanossyPooling(f, Tuples(3), evaluate=e, reduce=reduce) for e in (evaluator, "gather")]
    if sizes:
        law_parity(*layers, distinct_sets(sizes))
    close(*(layer(distinct_sets(sizes)) for layer in layers))


EXTREME = {
    "all equal": lambda x: torch.full_like(x, 0.7),
    "all zero": torch.zeros_like,
    "huge": lambda x: 1e30 * x,
    "tiny": lambda x: 1e-300 * x,
    "one is infinite": lambda x: x.index_fill(0, torch.tensor([1]), inf),
    "one is minus infinite": lambda x: x.index_fill(0, torch.tensor([1]), -inf),
    "both infinities": lambda x: x.index_fill(0, torch.tensor([0]), -inf).index_fill(0, torch.tensor([2]), inf),
    "one is NaN": lambda x: x.index_fill(0, torch.tensor([1]), nan),
}


@pytest.mark.parametrize("ordering", [Tuples(2), Combinations(2, key=lambda x: x[:, 0].nan_to_num())])
@pytest.mark.parametrize("case", EXTREME)
@pytest.mark.parametrize(
    ("evaluator", "activation"),
    [
        *(("fused", activation) for activation in ("tanh", "relu", "softplus", "erf", "gelu")),
        *(("spectral", activation) for activation in ("tanh", "sigmoid", "softplus", "erf")),
        ("permanent", "none"),
    ],
)
def test_extreme_elements(evaluator, activation, case, ordering):
    """Equal to gather, NaN and infinity included, in value; the sets without such elements and the empty one as
    ever.
    """
    f = function(evaluator, activation=activation)
    sets = distinct_sets((4, 0, 3, 1))
    values = torch.cat((EXTREME[case](sets.values[:4]), sets.values[4:]))
    e = SERIES if evaluator == "spectral" else evaluator
    with torch.no_grad():
        got, want = (JanossyPooling(f, ordering, evaluate=name)(sets.with_values(values)) for name in (e, "gather"))
    torch.testing.assert_close(got, want, atol=1e-12, rtol=1e-12, equal_nan=True)
    assert got[1:].isfinite().all()


@each_evaluator
@pytest.mark.parametrize("case", ["all equal", "huge", "tiny", "all zero"])
def test_gradients_at_extreme_elements(evaluator, case):
    f, sets = function(evaluator), distinct_sets((4, 0, 3, 1))
    e = SERIES if evaluator == "spectral" else evaluator
    layers = [JanossyPooling(f, Tuples(2), evaluate=name) for name in (e, "gather")]
    law_parity(*layers, sets.with_values(EXTREME[case](sets.values)))


def test_preactivations_whose_sum_overflows():
    """Each is finite in float64, and their sum is not."""
    f = TupleMLP(2, 1, 1)
    with torch.no_grad():
        f.hidden[0].weight.fill_(1.0)
        f.hidden[0].bias.zero_()
    sets = Ragged.from_sets([torch.tensor([[1.7e308], [1.6e308], [-2.0], [0.5]])])
    law_parity(*(JanossyPooling(f, Tuples(2), evaluate=name) for name in (SERIES, "gather")), sets)


def test_a_large_set_that_has_no_series_and_no_end_is_an_error():
    sets = Ragged.from_sizes(torch.zeros(20_003, D), (3, 20_000))
    sets.values[5] = nan
    with pytest.raises(ValueError, match=r"cannot compute set 1: .*not all finite.*20000 elements.*Check the elements"):
        JanossyPooling(function("spectral", 3), Tuples(3), evaluate="spectral")(sets)


# Without numba


@pytest.fixture
def without_kernels(monkeypatch):
    monkeypatch.setattr(on_kernels, "load", lambda: None)


CHUNKED = [
    *((Fused(), budget) for budget in (MEMORY_BUDGET, 1, 2000)),
    *((SERIES, budget) for budget in (MEMORY_BUDGET, 1, 20_000)),
    (Spectral(), MEMORY_BUDGET),
    (Permanent(), MEMORY_BUDGET),
]


@pytest.mark.parametrize("orderings", [Tuples(3), Combinations(3)])
@pytest.mark.parametrize(("e", "budget"), CHUNKED)
def test_torch_operations_agree_with_the_kernels(e, budget, orderings, monkeypatch):
    """At large enough sets for many chunks."""
    f, sets = function(e.name, 3), distinct_sets((9, 0, 3, 12, 2, 12))
    layer = JanossyPooling(f, orderings, evaluate=e, memory_budget=budget)
    expected = value_and_gradients(layer, sets)
    monkeypatch.setattr(on_kernels, "load", lambda: None)
    for got, want in zip(value_and_gradients(layer, sets), expected, strict=True):
        close(got, want)


@pytest.mark.usefixtures("without_kernels")
@pytest.mark.parametrize(("evaluator", "budget"), [(Fused, 200_000), (Spectral, 500_000)])
def test_the_peak_follows_the_budget(evaluator, budget):
    """Forward and backward: below three times the budget and what is kept of each element; without one, far beyond."""
    options = {"tolerance": 1e-10, "enumerate_up_to": 0} if evaluator is Spectral else {}
    f, sets = function("fused", width=20), sets_of(200)
    sets.values.requires_grad_()
    layers = (
        JanossyPooling(f, Tuples(2), evaluate=evaluator(**options), memory_budget=b) for b in (MEMORY_BUDGET, budget)
    )
    whole, chunked = (peak_bytes(lambda layer=layer: layer(sets).sum().backward()) for layer in layers)
    of_elements = 8 * 200 * 2 * 20
    assert chunked < 3 * budget + 10 * of_elements < whole / 3


@pytest.mark.usefixtures("without_kernels")
@each_evaluator
def test_explain_without_kernels(evaluator):
    layer = JanossyPooling(function(evaluator), Tuples(2))
    slower = next(line for line in layer.explain(sets_of(500)).split("\n") if line.startswith(f"  {evaluator}:"))
    assert "ms" in slower


PROGRAM = """
import sys, warnings
{before}
import torch
from janossy import JanossyPooling, Ragged, TupleMLP, TupleProduct, Tuples
from janossy.kernels import load
torch.manual_seed(0)
sets = Ragged.from_sizes(torch.randn(60, 2).double(), (40, 0, 1, 19))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for evaluate in ("fused", "spectral", "permanent", "auto"):
        f = (TupleProduct(3, 2, 4) if evaluate == "permanent" else TupleMLP(3, 2, 4)).double()
        results = [JanossyPooling(f, Tuples(3), evaluate=e)(sets) for e in (evaluate, "gather")]
        torch.testing.assert_close(*results, atol=1e-4, rtol=1e-4)
        results[0].sum().backward()
assert load() is None
ours = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
assert len(ours) == 1, ours
print(ours[0])
"""

MISSING = "sys.modules['numba'] = None"
BROKEN = """
import janossy.kernels.cpu.compiled
def broken():
    raise OSError("no registers left")
janossy.kernels.cpu.compiled.check_compiler = broken
"""


@pytest.mark.parametrize(
    ("before", "warning"),
    [
        (MISSING, "is slower: numba is not installed; pip install 'janossy[fast]' for the compiled kernels."),
        pytest.param(
            BROKEN,
            "is slower: numba cannot compile here (OSError: no registers left); please report this.",
            marks=pytest.mark.only_all,
        ),
    ],
)
def test_pooling_goes_on_without_numba_and_says_so_once(before, warning):
    program = PROGRAM.format(before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"pooling runs in torch operations, which {warning}"


# What is kept for backward


@pytest.mark.parametrize("n", [20, 80])
@pytest.mark.parametrize(("evaluator", "k"), [("fused", 2), ("fused", 3), ("spectral", 3), ("permanent", 3)])
def test_what_is_kept_does_not_depend_on_the_number_of_tuples(evaluator, k, n):
    """At most three arrays (N, k, H), and 4 kB. gather keeps (T, H), with T = n(n − 1) or more tuples per set."""
    if on_kernels.load() is None:
        pytest.skip("needs numba")
    width = 50
    f, sets = function(evaluator, k, width=width), sets_of(n, n)
    sets.values.requires_grad_()
    e = SERIES if evaluator == "spectral" else EVALUATORS[evaluator]
    layer, gather = (JanossyPooling(f, Tuples(k), evaluate=x) for x in (e, Gather()))
    law_saves_no_more_than(8 * 3 * 2 * n * k * width + 4000, lambda: layer(sets))
    if n == 20:
        assert saved_bytes(lambda: gather(sets)) > 8 * 2 * n * (n - 1) * width


def test_the_law_of_refusals_can_fail():
    with pytest.raises(AssertionError):
        law_refuses("fused", function("fused"), Tuples(2), "no reason")


def test_the_parity_of_extremes_can_fail():
    layer = pooling("tuples_2", "tuple_mlp_one_layer_tanh", "fused")
    with pytest.raises(AssertionError):
        law_parity(layer, pooling("tuples_2", "tuple_mlp_one_layer_erf"), distinct_sets())
