"""JanossyPooling: its options, its copies, its explanation, its errors."""

import copy
import pickle
import re
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from janossy import (
    GRU,
    AllPermutations,
    Canonical,
    Distinct,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
)
from janossy.evaluate import Gather, Problem, Rates, choose
from janossy.export import PaddedNetwork
from tests.examples import FITTING, D, distinct_sets, drawing, generator, pooling, tied_sets
from tests.laws import close, law_invariant, pooled
from tests.oracle import REDUCTIONS

pytestmark = pytest.mark.usefixtures("float64")


def test_reduce():
    f = TupleMLP(2, D, 4)
    sets = distinct_sets((4, 2))
    rows = JanossyPooling(f, Tuples(2)).rows(sets)
    assert isinstance(rows, Ragged) and rows.sizes == (12, 2) and rows.values.shape == (14, 4)
    for reduce, formula in REDUCTIONS.items():
        close(JanossyPooling(f, Tuples(2), reduce=reduce)(sets), torch.stack([formula(r) for r in rows]))


@pytest.mark.parametrize("budget", [2**30, 1])
def test_logmeanexp_does_not_overflow(budget):
    layer = JanossyPooling(
        lambda x: 1000 * x.sum((1, 2))[:, None], Tuples(2), evaluate="gather", reduce="logmeanexp", memory_budget=budget
    )
    close(layer(Ragged.from_sets([torch.full((3, 1), 5.0)])), torch.tensor([[10_000.0]]))


def test_append_size():
    seen = []

    def f(x):
        seen.append(x)
        return x.sum(1)

    sets = distinct_sets((3, 0, 1))
    result = JanossyPooling(f, Tuples(2), append_size=True)(sets)
    assert all(x.shape[1:] == (2, D + 1) for x in seen)
    close(result[:, D], torch.tensor([6.0, 0, 1]))  # the zero vector has size 0
    close(result[:, :D], JanossyPooling(f, Tuples(2))(sets))


def test_append_size_tells_sizes_apart_and_stays_invariant():
    layer = JanossyPooling(GRU(D + 1, 3), AllPermutations(), append_size=True)
    law_invariant(layer, tied_sets())
    constant = Ragged.from_sizes(torch.zeros(5, D), [2, 3])
    mean = JanossyPooling(lambda x: x.mean(1), AllPermutations(), append_size=True)(constant)
    close(mean[:, D], torch.tensor([2.0, 3.0]))


def test_orderings_of_training_and_of_evaluation():
    f, sets = TupleMLP(2, D, 3), distinct_sets((5, 2, 0))
    layer = JanossyPooling(f, Tuples(2), orderings_train=Distinct(6, k=2))
    close(layer(sets, generator=generator()), JanossyPooling(f, Distinct(6, k=2))(sets, generator=generator()))
    assert layer.rows(sets).sizes == (6, 2, 1) and layer.rows(sets, Tuples(2)).sizes == (20, 2, 1)
    close(layer.eval()(sets), JanossyPooling(f, Tuples(2))(sets))
    assert layer.rows(sets).sizes == (20, 2, 1) and "orderings_train=Distinct(num_permutations=6" in repr(layer)
    with pytest.raises(ValueError, match=r"with orderings_train, a reduce among mean, logmeanexp, .*; got 'sum'"):
        JanossyPooling(f, Tuples(2), reduce="sum", orderings_train=Distinct(6, k=2))


def test_append_the_logarithm_of_the_size():
    layer = JanossyPooling(lambda x: x.mean(1), AllPermutations(), append_size="log")
    sizes = layer(Ragged.from_sizes(torch.ones(4, D), [3, 0, 1]))[:, D]
    close(sizes, torch.tensor([4.0, 1.0, 2.0]).log())
    with pytest.raises(RuntimeError, match="append_size='log', and the state is of append_size=True"):
        layer.load_state_dict(JanossyPooling(layer.f, AllPermutations(), append_size=True).state_dict())


@pytest.mark.parametrize("append_size", [True, "log"])
@pytest.mark.parametrize("largest", [0, 2, 3, 9, 10**30])
def test_sizes_above_the_largest_count_as_it(append_size, largest):
    sets = distinct_sets((3, 0, 1, 5, 2))
    f = TupleMLP(2, D + 1, 4)
    sizes = torch.tensor([min(size, largest) for size in sets.sizes]).double()
    sizes = sizes.log1p() if append_size == "log" else sizes
    told = sets.with_values(torch.cat((sets.values, sizes[sets.to_index()[1], None]), 1))
    layer = JanossyPooling(f, Tuples(2), append_size=append_size, largest_size=largest)
    close(layer(sets), JanossyPooling(f, Tuples(2))(told))
    law_invariant(layer, tied_sets())
    network = JanossyNetwork(None, layer, torch.nn.Identity())
    x, mask = sets.to_padded()
    close(PaddedNetwork(network)(x, mask), network(sets))


def test_a_largest_size_is_a_number_of_elements():
    with pytest.raises(ValueError, match="JanossyPooling expects largest_size >= 0; got largest_size=-1"):
        JanossyPooling(GRU(2, 3), Canonical(), append_size=True, largest_size=-1)
    with pytest.raises(RuntimeError, match="largest_size=None, and the state is of largest_size=4"):
        of = JanossyPooling(GRU(2, 3), Canonical(), append_size=True, largest_size=4).state_dict()
        JanossyPooling(GRU(2, 3), Canonical(), append_size=True).load_state_dict(of)


def test_append_size_needs_vectors():
    with pytest.raises(ValueError, match=r"append_size expects elements \(N, d\); got \(3,\)"):
        JanossyPooling(GRU(2, 3), Canonical(), append_size=True)(Ragged.from_sizes(torch.zeros(3), [3]))


def test_keys_decide_the_order():
    f = pooling("canonical", "gru").f
    sets, keys = distinct_sets((4, 3)), distinct_sets((4, 3), seed=8)
    by_keys = JanossyPooling(f, Canonical())(sets, keys=keys)
    sorted_by_hand = Ragged.from_sets(
        [
            x[torch.tensor(sorted(range(len(x)), key=lambda i: key[i].tolist()))]
            for x, key in zip(sets, keys, strict=True)
        ]
    )
    for b, x in enumerate(sorted_by_hand):
        close(by_keys[b], f(x[None])[0])
    with pytest.raises(ValueError, match=r"keys is expected to have the sizes of the sets; got Ragged.* for Ragged"):
        JanossyPooling(f, Canonical())(sets, keys=distinct_sets((3, 4)))


@pytest.mark.parametrize(("ordering", "function"), FITTING)
@pytest.mark.cover(1)  # rows know no f, and f no orderings
def test_copies_agree(ordering, function, tmp_path):
    layer = pooling(ordering, function)
    sets = distinct_sets((3, 0, 2))
    expected = pooled(layer, sets)
    copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
    fresh = pooling(ordering, function)
    for parameter in fresh.parameters():
        torch.nn.init.zeros_(parameter)
    if list(layer.parameters()):
        assert not torch.equal(pooled(fresh, sets), expected)
    torch.save(layer.state_dict(), tmp_path / "weights.pt")
    fresh.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    for other in (*copies, fresh):
        assert torch.equal(pooled(other, sets), expected)
        assert repr(other.orderings) == repr(layer.orderings)


def test_copies_hold_nothing_of_the_last_sets():
    layer = JanossyPooling(GRU(D, 2), Sampled(2))
    before = len(pickle.dumps(layer))
    layer(distinct_sets((2,) * 5000))
    # Equal strings take a few bytes more in a pickle if they are not one object, and the sets tens of thousands.
    assert all(abs(len(pickle.dumps(each)) - before) < 100 for each in (layer, copy.deepcopy(layer)))


@pytest.mark.parametrize(("ordering", "function"), FITTING)
@pytest.mark.cover(1)  # rows know no f, and f no orderings
def test_devices(ordering, function, device):
    layer = pooling(ordering, function).to(device)
    sets = distinct_sets().to(device)
    draws = bool(drawing(layer.orderings))
    source = {"generator": torch.Generator(device).manual_seed(1)} if draws else {}
    result = layer(sets, **source)
    assert result.device.type == device and result.isfinite().all()
    if not draws:
        close(result.cpu(), layer.cpu()(sets.to("cpu")), atol=1e-10, rtol=1e-10)


def test_explain():
    layer = pooling("tuples_2", "tuple_mlp")
    sets = distinct_sets((4, 0, 3))
    first, *others = layer.explain(sets).split("\n")
    assert first == f"gather (as asked): 19 rows of 3 sets by {Tuples(2)}"
    assert len(others) == 10 and all(
        re.fullmatch(r"  (gather|projected|fused|spectral|distinct): about \S+ flops, \S+ bytes, \S+ ms", line)
        for line in others[:-5]
    )
    assert others[-5:] == [
        "  elementwise: does not apply: it takes single elements, such as those of Tuples(1)",
        "  permanent: does not apply: TupleMLP declares no product structure",
        "  packed: does not apply: TupleMLP declares no recurrence",
        "  shared_prefixes: does not apply: TupleMLP declares no recurrence",
        "  sampled_prefixes: does not apply: Tuples does not average exactly over its last positions",
    ]
    auto = JanossyPooling(GRU(D, 3), Tuples(2))
    assert auto.explain(sets).startswith("gather (the cheapest that applies): 19 rows")
    assert "\n  projected: does not apply: GRU declares no additive structure\n" in auto.explain(sets)
    assert "as asked" in JanossyPooling(layer.f, Tuples(2), evaluate="projected").explain(sets)


def test_an_evaluator_that_was_asked_for_and_does_not_apply():
    layer = JanossyPooling(GRU(D, 3), Tuples(2), evaluate="projected")
    for call in (layer, layer.explain):
        with pytest.raises(ValueError, match=r"evaluate=projected does not apply: GRU declares.*; use evaluate='auto'"):
            call(distinct_sets())


def test_keys_and_size_reach_the_evaluator():
    """Canonical orders look at the sets as they came, or at the keys; f sees the size as well."""
    seen = []

    class Notes(Gather):
        def __call__(self, problem):
            seen.append(problem)
            return super().__call__(problem)

    sets, keys = distinct_sets((3, 1)), distinct_sets((3, 1), seed=8)
    layer = JanossyPooling(GRU(D + 1, 3), Canonical(), evaluate=Notes(), append_size=True)
    layer(sets), layer(sets, keys=keys)
    assert [problem.keys for problem in seen] == [sets, keys]
    assert all(problem.elements.values.shape == (4, D + 1) for problem in seen)
    assert Problem(layer.f, Canonical(), sets).keys is sets


class OnlyAllPermutations(Gather):
    """An evaluator that is free, and applies to one ordering."""

    name = "quick"

    def why_not_applicable(self, problem):
        name = type(problem.orderings).__name__
        return None if problem.orderings == AllPermutations() else f"needs AllPermutations, not {name}"

    def cost(self, problem):
        return choose.Cost(0, 0)


def offer(monkeypatch, *evaluators):
    """Lets "auto" choose from these."""
    monkeypatch.setattr(choose, "EVALUATORS", evaluators)


def test_auto_takes_the_cheapest_that_applies_and_explains_the_rest(monkeypatch):
    offer(monkeypatch, Gather(), OnlyAllPermutations())
    f, sets = GRU(D, 3), distinct_sets((3,))
    assert JanossyPooling(f, AllPermutations()).explain(sets).startswith("quick (the cheapest that applies)")
    lines = JanossyPooling(f, Tuples(2)).explain(sets).split("\n")
    assert lines[0].startswith("gather (the cheapest")
    assert lines[2] == "  quick: does not apply: needs AllPermutations, not Tuples"
    assert JanossyPooling(f, AllPermutations(), evaluate="quick").explain(sets).startswith("quick (as asked)")


def test_repr():
    assert "(\n  orderings=Sampled(num_permutations=3)\n" in repr(JanossyPooling(GRU(2, 3), Sampled(3)))
    assert "reduce='sum', append_size=True" in repr(
        JanossyPooling(GRU(3, 3), Sampled(3), reduce="sum", append_size=True)
    )


def test_unknown_names():
    with pytest.raises(
        ValueError,
        match=r"reduce expects one or several of 'mean', .*, 'std', Quantile\(q\), PowerMean\(p\), .*; got 'median'",
    ):
        JanossyPooling(GRU(2, 3), Canonical(), reduce="median")
    with pytest.raises(
        ValueError,
        match=r"expects 'auto', an evaluator, or one of elementwise, .*, sampled_prefixes; got 'magic'",
    ):
        JanossyPooling(GRU(2, 3), Canonical(), evaluate="magic")
    for unsuited in (SimpleNamespace(name="half an evaluator"), SimpleNamespace(), Gather):
        with pytest.raises(
            TypeError, match=r"expects 'auto', an evaluator such as Spectral\(\), or one of elementwise"
        ):
            JanossyPooling(GRU(2, 3), Canonical(), evaluate=unsuited)


def test_fresh_permutations_at_every_call():
    layer, sets = JanossyPooling(GRU(D, 3), Sampled(1)), distinct_sets((8,))
    assert not torch.equal(layer(sets), layer(sets))
    seeded = JanossyPooling(layer.f, Sampled(1, seed=0))
    assert torch.equal(seeded(sets), seeded(sets))


def test_auto_takes_the_cheapest_that_applies(monkeypatch):
    @dataclass(frozen=True)
    class Priced(Gather):
        name: str = "priced"
        flops: float = 0.0
        flops_per_second: float = 1.0
        refusal: str | None = None

        def why_not_applicable(self, problem):
            return self.refusal

        def cost(self, problem):
            return choose.Cost(self.flops, 0, rates=Rates(self.flops_per_second))

    dear, cheap, free = (
        Priced(name="dear", flops=3),
        Priced(name="cheap", flops=4, flops_per_second=2),
        Priced(name="free", refusal="not it"),
    )
    offer(monkeypatch, dear, cheap, free)
    layer, sets = JanossyPooling(TupleMLP(2, D, 4), Tuples(2)), distinct_sets()
    text = layer.explain(sets)
    assert text.startswith("cheap (the cheapest that applies)") and "free: does not apply: not it" in text
    offer(monkeypatch, free, dear)
    assert layer.explain(distinct_sets((4,))).startswith("dear ")  # chosen anew for other sizes


def test_rows_of_other_orderings():
    """A layer may have other orderings for its rows; nothing of them stays with the layer."""
    layer, sets = pooling("sampled_1", "gru", "auto"), distinct_sets()
    other = pooling("sampled_4_seeded", "gru", "auto")
    rows = layer.rows(sets, orderings=other.orderings)
    close(rows.values, other.rows(sets).values)
    assert rows.sizes == other.rows(sets).sizes
    assert layer.orderings == Sampled()
    close(torch.stack([x.mean(0) for x in rows]), pooling("sampled_4_seeded", "gru")(sets))
