"""Packed and SharedPrefixes: what the laws do not say of recurrences."""

import copy
from itertools import permutations, product
from math import factorial, inf, perm

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from janossy import (
    GRU,
    LSTM,
    RNN,
    AllPermutations,
    BalancedTree,
    Canonical,
    Combinations,
    JanossyEquivariant,
    JanossyNetwork,
    JanossyPooling,
    MinGRU,
    PaddedNetwork,
    Ragged,
    Sampled,
    Tuples,
)
from janossy.evaluate import MEMORY_BUDGET, Gather, Packed, Problem, SharedPrefixes, on_kernels
from janossy.evaluate.cells import autograd
from janossy.evaluate.cells.cost import cell_bytes
from tests.examples import D, Rows, distinct_sets, generator, tied_sets
from tests.laws import close, law_gradients, law_parity, peak_bytes, saved_bytes, value_and_gradients

pytestmark = pytest.mark.usefixtures("float64")

KINDS = [RNN, GRU, LSTM]
LAYERS = [{}, {"num_layers": 2}, {"bidirectional": True}, {"num_layers": 3, "bidirectional": True}]
SIZES = (3, 0, 5, 1, 2, 3, 9, 12, 1, 1, 4)


def layers(f, orderings, *evaluators, reduce="mean"):
    """Returns a layer by each evaluator, or by each pair of one and a memory budget."""
    pairs = [each if isinstance(each, tuple) else (each, MEMORY_BUDGET) for each in evaluators]
    made = [
        JanossyPooling(f, orderings, evaluate=each, reduce=reduce or "mean", memory_budget=budget)
        for each, budget in pairs
    ]
    return made if reduce else [Rows(layer) for layer in made]


@pytest.fixture
def without_kernels(monkeypatch):
    monkeypatch.setattr(on_kernels, "load", lambda: None)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_summed_slab_by_slab(kind, monkeypatch):
    """Elements are read many times, and the gates' gradients of all cells would take more than a slab."""
    called, on_threads = [], autograd.on_threads
    monkeypatch.setattr(autograd, "SLAB", 1)
    monkeypatch.setattr(autograd, "on_threads", lambda name, *rest: called.append(name) or on_threads(name, *rest))
    law_parity(*layers(kind(D, 8), Sampled(40, seed=1), Packed(), Gather()), distinct_sets((5, 7, 2)))
    assert called.count("sum_by_element") > 2


@pytest.mark.parametrize("H", [3, 19])
@pytest.mark.parametrize("shape", LAYERS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_packed_equals_gather(kind, shape, H):
    f, sets = kind(D, H, **shape), distinct_sets(SIZES)
    for orderings, budget in (
        (Sampled(4, seed=1), 20_000),
        (Canonical(), 2**30),
        (Tuples(2), 2**30),
        (Tuples(2), 20_000),
        (Sampled(3, k=2, seed=0), 2**30),
    ):
        law_parity(*layers(f, orderings, (Packed(), budget), Gather()), sets)


@pytest.mark.parametrize("H", [3, 19])
@pytest.mark.parametrize("shape", LAYERS[:2], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_shared_prefixes_equal_gather(kind, shape, H):
    f = kind(D, H, **shape)
    for sets in (distinct_sets((3, 0, 4, 1)), tied_sets((3, 0, 4, 1))):
        for orderings in (AllPermutations(), Tuples(1), Tuples(3)):
            for evaluator in (SharedPrefixes(), SharedPrefixes(merge_equal=True), (SharedPrefixes(), 9000)):
                law_parity(*layers(f, orderings, evaluator, Gather()), sets)
        law_parity(*layers(f, Combinations(3), SharedPrefixes(), Gather()), sets)


@pytest.mark.usefixtures("without_kernels")
@pytest.mark.parametrize("shape", LAYERS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_in_torch_operations(kind, shape):
    f, sets = kind(D, 3, **shape), distinct_sets((3, 0, 5, 1, 2))
    law_parity(*layers(f, Sampled(2, seed=0), Packed(), Gather()), sets)
    if "bidirectional" not in shape:
        law_parity(*layers(f, AllPermutations(), SharedPrefixes(), Gather()), distinct_sets((3, 0, 4)))


@given(sizes=st.lists(st.integers(0, 20), max_size=30), seed=st.integers(0, 99))
def test_any_sizes(sizes, seed):
    torch.manual_seed(seed)
    f, sets = LSTM(D, 4, bidirectional=True), distinct_sets((1, *sizes))
    law_parity(*layers(f, Sampled(2, seed=seed), Packed(), Gather()), sets)


@pytest.mark.parametrize("budget", [1, 700, 3000, 9000, 30_000, 100_000])
@pytest.mark.parametrize("orderings", [Tuples(2), AllPermutations(), Sampled(5, seed=0)], ids=str)
@pytest.mark.parametrize("reduce", ["mean", "max", None])
def test_any_budget(orderings, reduce, budget):
    """Sets whose rows come whole beside sets whose rows are split, as many rows of each."""
    f, sets = GRU(D, 3), distinct_sets((3, 5, 3, 4, 0))
    law_parity(*layers(f, orderings, (Packed(), budget), Packed(), reduce=reduce), sets)
    if orderings != Sampled(5, seed=0):
        law_parity(*layers(f, orderings, (SharedPrefixes(), budget), Packed(), reduce=reduce), sets)


@pytest.mark.parametrize("evaluator", [Packed(), SharedPrefixes()])
def test_a_budget_bounds_memory(evaluator):
    f = GRU(D, 32)
    whole, in_chunks = layers(f, AllPermutations(), evaluator, (evaluator, 2**20))
    sets = distinct_sets((7,))
    sets = sets.with_values(sets.values.requires_grad_())
    peaks = [peak_bytes(lambda layer=layer: layer(sets).sum().backward()) for layer in (whole, in_chunks)]
    kept = [saved_bytes(lambda layer=layer: layer(sets), f.parameters()) for layer in (whole, in_chunks)]
    assert kept[1] < kept[0] / 20
    assert peaks[1] < peaks[0] / 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("H", [3, 16, 40])
@pytest.mark.parametrize("shape", LAYERS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_keeps_no_more_than_estimated(kind, shape, H, dtype):
    sets = distinct_sets((12,) * 40).to(dtype)
    sets = sets.with_values(sets.values.requires_grad_())
    problem = Problem(kind(D, H, **shape).to(dtype), Canonical(), sets)
    parameters = [*problem.f.parameters(), sets.values]
    estimate, measured = cell_bytes(problem) * 480, saved_bytes(lambda: Packed()(problem), parameters)
    weights = sum(d.weight_hh.numel() for layer in problem.structure.layers for d in layer) * 8 * 16
    assert estimate / 10 < measured <= estimate + weights


@pytest.mark.parametrize("m", [1, 20])
def test_an_element_is_projected_once(monkeypatch, m):
    projected = []
    linear = nn.functional.linear
    monkeypatch.setattr(nn.functional, "linear", lambda x, *rest: projected.append(len(x)) or linear(x, *rest))
    sets = distinct_sets(SIZES)
    JanossyPooling(GRU(D, 8), Sampled(m), evaluate=Packed())(sets)
    assert projected == [len(sets.values)]


class Padded(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.network = PaddedNetwork(JanossyNetwork(None, JanossyPooling(f, Canonical()), None))

    def forward(self, sets):
        return self.network(*sets.to_padded())


EVERY_PATH = {
    "gather": lambda: JanossyPooling(GRU(D, 5), Sampled(3, seed=0), evaluate=Gather()),
    "packed": lambda: JanossyPooling(GRU(D, 5), Sampled(3, seed=0), evaluate=Packed()),
    "packed_deep": lambda: JanossyPooling(LSTM(D, 5, num_layers=2, bidirectional=True), Canonical(), evaluate=Packed()),
    "packed_in_chunks": lambda: JanossyPooling(LSTM(D, 5), Sampled(3, seed=0), evaluate=Packed(), memory_budget=5000),
    "packed_unrolled": lambda: JanossyPooling(RNN(D, 5, unrolled=True), Canonical(), evaluate=Packed()),
    "unrolled": lambda: JanossyPooling(LSTM(D, 5, unrolled=True), Canonical(), evaluate=Gather()),
    "shared_prefixes": lambda: JanossyPooling(GRU(D, 5, num_layers=2), Tuples(3), evaluate=SharedPrefixes()),
    "shared_prefixes_merged": lambda: JanossyPooling(GRU(D, 5), Tuples(3), evaluate=SharedPrefixes(merge_equal=True)),
    "equivariant": lambda: JanossyEquivariant(GRU(D, 5, bidirectional=True, per_position=True), Sampled(3, seed=0)),
    "padded": lambda: Padded(LSTM(D, 5, num_layers=2, bidirectional=True)),
    "min_gru": lambda: JanossyPooling(MinGRU(D, 5, num_layers=2), Sampled(3, seed=0)),
    "balanced_tree": lambda: JanossyPooling(BalancedTree(D, 5), Sampled(3, seed=0)),
}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("path", EVERY_PATH)
def test_independence_of_batch_mates(path, dtype, tolerance):
    """In both precisions, for every recurrent path, among sets much larger and sets that hold NaN."""
    layer = EVERY_PATH[path]().to(dtype)
    sets = distinct_sets((3, 0, 4, 1, 7, 2, 60 if "shared" not in path else 6)).to(dtype)
    together = layer(sets)
    poisoned = layer(Ragged.from_sets([*sets, torch.full((9, D), torch.nan, dtype=dtype)]))
    for b in range(len(sets)):
        alone = layer(sets[[b]])[0]
        close(together[b], alone, atol=tolerance, rtol=0)
        close(poisoned[b], alone, atol=tolerance, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_elements_have_gradients_by_frozen_weights(kind):
    sets = distinct_sets((3, 2, 4))
    found = []
    for layer in layers(kind(D, 4).requires_grad_(False), Canonical(), Packed(), Gather()):
        values = sets.values.clone().requires_grad_()
        found += torch.autograd.grad(layer(sets.with_values(values)).square().sum(), values)
    close(*found)


def test_nan_stays_in_its_set_in_backward():
    for evaluator in (Packed(), SharedPrefixes()):
        orderings = AllPermutations() if isinstance(evaluator, SharedPrefixes) else Canonical()
        values = distinct_sets((3, 2, 4)).values.requires_grad_()
        sets = Ragged.from_sizes(values, (3, 2, 4))
        result = JanossyPooling(GRU(D, 3), orderings, evaluate=evaluator)(sets)
        by_first_and_last = torch.autograd.grad(result[[0, 2]].sum(), values)[0]
        values.data[3:5] = torch.nan
        result = JanossyPooling(copy.deepcopy(GRU(D, 3)), orderings, evaluate=evaluator)(sets)
        gradient = torch.autograd.grad(result[[0, 2]].sum(), values)[0]
        assert by_first_and_last.isfinite().all() and gradient[[0, 1, 2, 5, 6, 7, 8]].isfinite().all()


# Threads take parts of the rows, whatever the step: it is compiled for each.
ON_THREADS = [pytest.param(kind, marks=() if kind is GRU else pytest.mark.only_all) for kind in KINDS]


@pytest.mark.usefixtures("worth_a_thread")
@pytest.mark.parametrize("kind", ON_THREADS)
def test_threads_do_not_matter(kind):
    f, sets = kind(D, 8), distinct_sets((3, 0, 5, 1, 12, 3, 7, 2, 2) * 4)
    (layer,) = layers(f, Sampled(3, seed=0), Packed())
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = value_and_gradients(layer, sets)
        torch.set_num_threads(2)
        for got, want in zip(value_and_gradients(layer, sets), expected, strict=True):
            close(got, want)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("evaluator", [Packed(), SharedPrefixes(), (Packed(), 2000)])
def test_half_precision_runs_in_float32(evaluator, dtype):
    f, sets = GRU(D, 3), distinct_sets((3, 0, 4))
    (layer,) = layers(f, AllPermutations(), evaluator)
    narrow = copy.deepcopy(layer).to(dtype)
    wide = copy.deepcopy(narrow).double()(sets.to(dtype).to(torch.float64))
    result = narrow(sets.to(dtype))
    assert result.dtype == dtype
    close(result.double(), wide, atol=torch.finfo(dtype).eps, rtol=0)
    result.sum().backward()
    assert all(p.grad.dtype == dtype and p.grad.isfinite().all() for p in narrow.parameters())


@pytest.mark.parametrize("evaluator", [Packed(), (Packed(), 3000), SharedPrefixes(), (SharedPrefixes(), 3000)])
def test_dropout_between_layers(evaluator):
    f, sets = GRU(D, 16, num_layers=2, dropout=0.5), distinct_sets((3, 4))
    (layer,) = layers(f, AllPermutations(), evaluator)
    assert not torch.equal(layer(sets), layer(sets))
    layer.eval()
    law_parity(layer, JanossyPooling(f, AllPermutations(), evaluate=Gather()), sets)


@pytest.mark.parametrize("evaluator", [Packed(), SharedPrefixes()])
def test_dropout_is_recomputed_alike(evaluator):
    class Seeded(JanossyPooling):
        def forward(self, *arguments, **options):
            torch.manual_seed(3)
            return super().forward(*arguments, **options)

    layer = Seeded(GRU(D, 3, num_layers=2, dropout=0.5), AllPermutations(), evaluate=evaluator, memory_budget=2000)
    law_gradients(layer, distinct_sets((3, 2)), twice=False)


def test_hooks_are_not_bypassed():
    calls, f, sets = [], GRU(D, 16), distinct_sets((7, 6))
    (layer,) = layers(f, AllPermutations(), "auto")
    assert layer.explain(sets).startswith("shared_prefixes")
    f.register_forward_hook(lambda *_: calls.append(1))
    layer(sets)
    assert calls and layer.explain(sets).startswith("gather")
    with pytest.raises(ValueError, match="packed does not apply: GRU has a hook, or a forward or layer of its own"):
        JanossyPooling(f, AllPermutations(), evaluate="packed")(sets)


@pytest.mark.parametrize("evaluator", [(Packed(), 1000), (SharedPrefixes(), 1000)])
def test_weights_modified_before_backward_are_noticed(evaluator):
    (layer,) = layers(GRU(D, 3), AllPermutations(), evaluator)
    result = layer(distinct_sets((4,)))
    with torch.no_grad():
        layer.f.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified in place between forward and backward"):
        result.sum().backward()


@pytest.mark.parametrize("evaluator", [Packed(), SharedPrefixes()])
@pytest.mark.parametrize("kind", KINDS)
def test_torch_func(kind, evaluator):
    """vmap over stacked weights, grad, jvp and hessian-vector products: in torch operations."""
    nets = [layers(kind(D, 3), AllPermutations(), evaluator)[0] for _ in range(3)]
    sets = distinct_sets((3, 0, 2))
    stacked, _ = torch.func.stack_module_state(nets)

    def run(weights, values):
        return torch.func.functional_call(nets[0], weights, (sets.with_values(values),))

    together = torch.func.vmap(run, in_dims=(0, None))(stacked, sets.values)
    close(together, torch.stack([net(sets) for net in nets]))
    weights = dict(nets[0].named_parameters())
    by_func = torch.func.grad(lambda weights: run(weights, sets.values).square().sum())(weights)
    by_autograd = torch.autograd.grad(nets[0](sets).square().sum(), list(weights.values()))
    for got, want in zip(by_func.values(), by_autograd, strict=True):
        close(got, want)
    tangent = torch.ones_like(sets.values)
    _, slope = torch.func.jvp(lambda values: run(weights, values), (sets.values,), (tangent,))
    step = 1e-6 * tangent
    close(slope, (run(weights, sets.values + step) - run(weights, sets.values - step)) / 2e-6, atol=1e-8, rtol=0)


def test_merging_makes_large_sets_of_few_kinds_exact():
    """Twelve elements of two kinds: 924 orders that look different, of 479001600."""
    f = GRU(D, 3)
    a, b = torch.randn(2, D)
    mixed = torch.stack([a, b] * 6)
    (layer,) = layers(f, AllPermutations(max_rows=1000), SharedPrefixes(merge_equal=True))
    looks = [row for row in product((0, 1), repeat=12) if sum(row) == 6]
    assert len(looks) == factorial(12) // factorial(6) ** 2
    expected = f(torch.stack([torch.stack([(a, b)[i] for i in row]) for row in looks])).mean(0)
    close(layer(Ragged.from_sets([mixed]))[0], expected)


def test_gradients_of_merged_elements_are_shared_alike():
    (layer,) = layers(GRU(D, 3), AllPermutations(), SharedPrefixes(merge_equal=True))
    values = torch.randn(2, D)[[0, 1, 0, 0]].requires_grad_()
    gradient = torch.autograd.grad(layer(Ragged.from_sets([values])).sum(), values)[0]
    close(gradient[0], gradient[2])
    close(gradient[0], gradient[3])


def test_sum_and_logmeanexp_of_merged_rows_count_each():
    f, x = GRU(D, 3), torch.randn(2, D)[[0, 1, 0]]
    rows = torch.stack([f(x[list(order)][None])[0] for order in permutations(range(3))])
    sets = Ragged.from_sets([x])
    merged = SharedPrefixes(merge_equal=True)
    close(layers(f, AllPermutations(), merged, reduce="sum")[0](sets)[0], rows.sum(0))
    close(layers(f, AllPermutations(), merged, reduce="logmeanexp")[0](sets)[0], rows.exp().mean(0).log())


REFUSALS = [
    ("Identity declares no recurrence", Packed(), nn.Identity(), Tuples(2), "mean"),
    ("gives a state for each position", Packed(), GRU(D, 3, per_position=True), Canonical(), "mean"),
    ("takes elements of 5 features", Packed(), GRU(5, 3), Canonical(), "mean"),
    ("does not average over all arrangements", SharedPrefixes(), GRU(D, 3), Sampled(2), "mean"),
    ("also reads rows backwards", SharedPrefixes(), GRU(D, 3, bidirectional=True), AllPermutations(), "mean"),
    ("increasing tuples of equal elements", SharedPrefixes(merge_equal=True), GRU(D, 3), Combinations(2), "mean"),
    ("merged rows cannot be kept", SharedPrefixes(merge_equal=True), GRU(D, 3), AllPermutations(), None),
]


@pytest.mark.parametrize(("message", "evaluator", "f", "orderings", "reduce"), REFUSALS, ids=lambda x: str(x)[:30])
def test_refusals(message, evaluator, f, orderings, reduce):
    with pytest.raises(ValueError, match=message):
        layers(f.double(), orderings, evaluator, reduce=reduce)[0](distinct_sets((3, 2)))


def test_too_many_orders_are_refused():
    with pytest.raises(ValueError, match=r"shared_prefixes .* over max_rows=10000000; use Sampled or a smaller k"):
        JanossyPooling(GRU(D, 3), AllPermutations(), evaluate=SharedPrefixes())(distinct_sets((12,)))


@pytest.mark.parametrize("sizes", [(), (0,), (0, 0)])
@pytest.mark.parametrize("reduce", ["mean", None])
def test_no_elements(sizes, reduce):
    sets = distinct_sets(sizes)
    for evaluator, orderings in product((Packed(), SharedPrefixes()), (AllPermutations(), Tuples(2))):
        got, want = (layer(sets) for layer in layers(GRU(D, 3), orderings, evaluator, Gather(), reduce=reduce))
        assert type(got) is type(want) and len(got) == len(want)
        assert (got.values if reduce is None else got).shape == (want.values if reduce is None else want).shape


@pytest.mark.parametrize("reduce", ["mean", "logmeanexp"])
@pytest.mark.parametrize("orderings", [Sampled(2), Sampled(2, k=2)])
def test_draws_as_gather_does(orderings, reduce):
    f, sets = LSTM(D, 3), distinct_sets(SIZES)
    got, want = (
        layer(sets, generator=generator()) for layer in layers(f, orderings, Packed(), Gather(), reduce=reduce)
    )
    close(got, want)


@pytest.mark.parametrize("reduce", ["mean", "sum", "logmeanexp"])
@pytest.mark.parametrize(("dtype", "n"), [(torch.float32, 36), (torch.float64, 180)])
@pytest.mark.parametrize(("orderings", "looks"), [(AllPermutations(), None), (Tuples(34), 34)])
def test_merged_sets_have_more_orderings_than_a_float_holds(orderings, looks, dtype, n, reduce):
    """One element beside n - 1 equal ones: the place of that one, or its absence, is all that differs."""
    torch.manual_seed(0)
    f, k = GRU(1, 4), looks or n
    (layer,) = layers(f, orderings, SharedPrefixes(merge_equal=True), reduce=reduce)
    one = torch.zeros(n, 1)
    one[0] = 1
    x = one.to(dtype).requires_grad_()
    rows = torch.cat((torch.eye(k), torch.zeros(n - k, k)))[:, :, None]  # as often as each is among n, of k places
    each = f(rows).detach()
    f.to(dtype)
    found = layer(Ragged.from_sets([x]))[0]
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    if reduce == "sum":
        times = perm(n, k)
        expected = (each.mean(0) * (float(times) if times < 1e308 else inf)).to(dtype)
    else:
        expected = (each.mean(0) if reduce == "mean" else each.exp().mean(0).log()).to(dtype)
        assert torch.autograd.grad(found.sum(), x)[0].isfinite().all()
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)
