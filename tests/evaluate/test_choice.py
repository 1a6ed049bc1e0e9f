"""The choice of "auto": which evaluator, when anew, and with structures from elsewhere."""

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    AllPermutations,
    Canonical,
    Combinations,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    TupleProduct,
    Tuples,
)
from janossy.evaluate import EVALUATORS, Choice, Gather, Problem, choose
from janossy.functions import LSTM, Structure, structure
from tests.examples import D, distinct_sets
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")


def name_of(layer, sets):
    """Returns the evaluator that computes these sets, by a call before."""
    layer(sets)
    return layer.explain(sets).split(" ")[0]


def test_a_hook_that_was_removed():
    layer, sets = JanossyPooling(GRU(D, 16), AllPermutations()), distinct_sets((7, 6))
    assert name_of(layer, sets) == "shared_prefixes"
    handle = layer.f.register_forward_hook(lambda *_: None)
    assert name_of(layer, sets) == "gather"
    handle.remove()
    assert name_of(layer, sets) == "shared_prefixes"


def test_dropout_that_is_switched_off():
    f = TupleProduct(3, D, 4, g=lambda j: nn.Sequential(nn.Linear(D, 4), nn.Dropout(0.5)))
    layer, sets = JanossyPooling(f, Tuples(3)), distinct_sets((30,))
    assert name_of(layer, sets) == "gather"
    layer.eval()
    assert name_of(layer, sets) == "permanent"
    layer.train()
    assert name_of(layer, sets) == "gather"


def test_distinct_tuples_are_not_chosen_in_training():
    """Dropout behind the first layer leaves the structure as it is."""
    f = TupleMLP(2, D, (64, 64), dropout=0.5)
    network = JanossyNetwork(nn.Embedding(10, D), JanossyPooling(f, Combinations(2)), None)
    ids = Ragged.from_sizes(torch.arange(10_000) % 10, [10] * 1000)
    network.eval()
    assert name_of(network.pooling, network.elements(ids)) == "distinct"
    network.train()
    assert name_of(network.pooling, network.elements(ids)) != "distinct"
    network.eval()
    assert name_of(network.pooling, network.elements(ids)) == "distinct"


def test_sizes_that_change():
    """The sets are as many, with as many elements."""
    layer = JanossyPooling(TupleMLP(3, D, 16), Tuples(3))
    alike, unlike = distinct_sets((4,) * 50), distinct_sets((151,) + (1,) * 49)
    assert name_of(layer, alike) == "fused"
    assert name_of(layer, unlike) == "spectral"
    assert name_of(layer, alike) == "fused"


def test_an_activation_that_is_changed():
    layer, sets = JanossyPooling(TupleMLP(3, D, 16), Tuples(3)), distinct_sets((100,))
    assert name_of(layer, sets) == "spectral"
    layer.f.activation = "relu"
    assert name_of(layer, sets) == "fused"
    layer.f.activation = "tanh"
    assert name_of(layer, sets) == "spectral"


def test_a_direction_that_is_added():
    """Two directions share no ends: what was chosen for one would not apply."""
    f = GRU(D, 16, bidirectional=True)
    layer, sets = JanossyPooling(f, AllPermutations()), distinct_sets((6,))
    f.bidirectional = False
    assert name_of(layer, sets) == "shared_prefixes"
    f.bidirectional = True
    assert name_of(layer, sets) != "shared_prefixes"
    close(layer(sets), JanossyPooling(f, AllPermutations(), evaluate="gather")(sets))


class Declares:
    """An f that declares what it is told to."""

    def __init__(self, declared):
        self.declared = declared

    def __call__(self, x):
        return x.sum(1)

    def structure(self):
        return self.declared


@pytest.fixture
def asked(monkeypatch):
    """Gives the problems that evaluators were asked about."""
    problems = []

    class Asked(Gather):
        def why_not_applicable(self, problem):
            problems.append(problem)
            return None

    monkeypatch.setattr(choose, "EVALUATORS", (Asked(),))
    return problems


def law_asked_anew(asked, first: Problem, second: Problem):
    """Checks that the choice for the first problem is kept while nothing changes, and made anew for the second."""
    choice = Choice("auto")
    choice(first), choice(first)
    assert len(asked) == 1
    choice(second)
    assert len(asked) == 2


SETS = distinct_sets((3, 2))
OTHERWISE = {
    "sizes": {"elements": distinct_sets((2, 3)), "keys": None},
    "orderings": {"orderings": Tuples(3)},
    "the orderings' class": {"orderings": Combinations(2)},
    "dtype": {"elements": SETS.to(torch.float16), "keys": None},
    "reduce": {"reduce": "sum"},
    "rows": {"reduce": None},
    "memory_budget": {"memory_budget": 1},
    "f": {"f": Declares(None)},
}


@pytest.mark.parametrize("change", OTHERWISE)
def test_the_choice_is_made_anew(change, asked):
    problem = Problem(Declares(None), Tuples(2), SETS)
    law_asked_anew(asked, problem, replace(problem, **OTHERWISE[change]))


STRUCTURES = {
    "additive": structure(TupleMLP(2, D, 3)),
    "product": structure(TupleProduct(2, D, 3)),
    "recurrent": structure(GRU(D, 3)),
}
WEIGHTS = {"project", "bias", "weight", "rest", "factors", "step", "layers"}
"""Fields that hold weights and what is computed with them; of layers, the widths count."""

FIELDS = [
    (kind, field.name) for kind, each in STRUCTURES.items() for field in fields(each) if field.name not in WEIGHTS
]


@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_the_choice_follows_every_field_of_a_structure(kind, field, asked):
    declared = STRUCTURES[kind]
    value = getattr(declared, field)
    other = not value if isinstance(value, bool) else value + ("!" if isinstance(value, str) else 1)
    f = Declares(declared)
    problem = Problem(f, Tuples(2), SETS)
    f.declared = replace(declared, **{field: other})
    law_asked_anew(asked, problem, replace(problem))


@pytest.mark.parametrize("other", [GRU(D, 4), GRU(D, 3, num_layers=2), GRU(D, 3, bidirectional=True), LSTM(D, 3), None])
def test_the_choice_follows_the_layers_of_a_recurrence(other, asked):
    f = Declares(structure(GRU(D, 3)))
    problem = Problem(f, Tuples(2), SETS)
    f.declared = None if other is None else structure(other)
    law_asked_anew(asked, problem, replace(problem))


def test_new_weights_are_no_reason_to_choose_anew(asked):
    f, choice = GRU(D, 3), Choice("auto")
    for _ in range(2):
        choice(Problem(f, Tuples(2), SETS))
        nn.init.zeros_(f.weight_ih_l0)
    assert len(asked) == 1


@dataclass(frozen=True)
class Alternating(Structure):
    """A structure that no evaluator of ours has heard of."""

    title: ClassVar[str] = "alternating structure"


class FromOutside(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(D, 3)

    def forward(self, x):
        return self.linear(x).cos().prod(1)

    def structure(self):
        return Alternating()


FOR_ANY_F = ("gather", "distinct", "elementwise")
ANY = [Tuples(2), Combinations(2), AllPermutations(), Canonical(), Sampled(2, seed=0), Sampled(2, exact_last=1, seed=0)]


@pytest.mark.parametrize("evaluator", [each for each in EVALUATORS if each.name not in FOR_ANY_F], ids=lambda e: e.name)
def test_a_fourth_structure_is_refused_by_those_that_do_not_know_it(evaluator):
    reasons = [evaluator.why_not_applicable(Problem(FromOutside(), orderings, SETS)) for orderings in ANY]
    assert None not in reasons
    assert any(reason.startswith("FromOutside declares no ") for reason in reasons)


@pytest.mark.parametrize("orderings", ANY, ids=str)
def test_a_fourth_structure_is_gathered(orderings):
    sets = distinct_sets((3, 0, 2))
    auto, gather = (JanossyPooling(f, orderings, evaluate=e) for f in [FromOutside()] for e in ("auto", "gather"))
    assert auto.explain(sets).startswith("gather (the cheapest")
    close(auto(sets), gather(sets))


def test_an_evaluator_may_know_a_fourth_structure():
    class Knows(Gather):
        def why_not_applicable(self, problem):
            return problem.lacks(Alternating)

    problem = Problem(FromOutside(), Tuples(2), SETS)
    assert Knows().why_not_applicable(problem) is None and problem.declared(Alternating) == Alternating()
    assert Knows().why_not_applicable(replace(problem, f=GRU(D, 3))) == "GRU declares no alternating structure"


def test_a_submodule_named_structure_is_no_declaration():
    class Molecule(nn.Module):
        def __init__(self):
            super().__init__()
            self.structure = nn.Linear(D, 3)

        def forward(self, x):
            return self.structure(x).tanh().sum(1)

    f, sets = Molecule(), distinct_sets((3, 0))
    assert structure(f) is None
    layer = JanossyPooling(f, Tuples(2))
    assert layer.explain(sets).startswith("gather")
    close(layer(sets), JanossyPooling(f, Tuples(2), evaluate="gather")(sets))
