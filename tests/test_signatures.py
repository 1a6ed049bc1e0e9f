"""Every public class and function takes by position only what comes first by nature."""

from importlib import import_module
from inspect import Parameter, isclass, isfunction, signature

import pytest

ROOMS = (
    "density",
    "evaluate",
    "export",
    "functions",
    "graph",
    "losses",
    "nn",
    "nn.groups",
    "orderings",
    "stack",
    "testing",
)
FIRST = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)

WIDTHS = "the widths of a layer, as in nn.Linear and nn.GRU"
PAIR = "two things that only make sense together, in the order in which they are said"
LAYER = "f over orderings, as in the paper's Eq. 3"
AS_TORCH = "the order of what it is a form of, in torch or PyG"
RECORD = "a record that the library makes and a user reads"

ALLOWED = {
    # What its users write by position, after the first: at most so many in all.
    "Autoregressive": (2, PAIR),
    "BalancedTree": (2, WIDTHS),
    "Bounded": (2, "low and high"),
    "FeaturedMLP": (3, WIDTHS),
    "GRU": (2, WIDTHS),
    "GraphSAGE": (2, WIDTHS),
    "GroupPooling": (2, "f under a group, as f over orderings"),
    "JanossyEquivariant": (2, LAYER),
    "JanossyNetwork": (3, "ρ ∘ pooling ∘ h, in the order in which elements pass them (Eq. 4)"),
    "JanossyPooling": (2, LAYER),
    "JanossySAGEConv": (7, AS_TORCH),
    "LSTM": (2, WIDTHS),
    "MinGRU": (2, WIDTHS),
    "MonotoneLattice": (2, WIDTHS),
    "NegativeBinomialSizes": (2, "the two parameters of a distribution, as in torch.distributions"),
    "Neighbourhoods": (2, "the two arrays of the compressed sparse row form"),
    "PooledNorm": (7, AS_TORCH),
    "Problem": (3, "f over the orderings of elements"),
    "RNN": (2, WIDTHS),
    "Ragged": (2, "values and offsets, the two arrays of the form"),
    "Readout": (3, WIDTHS),
    "Recurrence": (2, WIDTHS),
    "TupleFeatures": (2, WIDTHS),
    "TupleMLP": (3, WIDTHS),
    "TupleProduct": (3, WIDTHS),
    **dict.fromkeys(
        ("assignment_distance", "chamfer_distance", "energy_distance"), (2, "two things that are compared")
    ),
    "anomaly_scores": (2, "a model and its data"),
    "assert_invariant": (2, "a model and its data"),
    "check_orderings": (2, PAIR),
    "clip_grad_norm_": (2, AS_TORCH),
    "complete": (2, "a model and its data"),
    "export_onnx": (2, "a network and its file"),
    "neighbour_keys": (2, PAIR),
    "predict": (3, "a model, its data, and the size of the sample that is drawn from them"),
    "scale_steps": (2, PAIR),
    "two_hops": (2, "a graph and its vertices"),
    # Records, positional throughout.
    **{
        name: (99, RECORD)
        for name in ("Additive", "Anomaly", "Bucket", "Completion", "Cost", "Estimand", "Estimate", "Product")
    },
    **{name: (99, RECORD) for name in ("Rates", "Recurrent", "Rows", "TwoHops")},
    "Head": (99, "a base class: its subclasses have constructors of their own"),
}
"""The number of parameters that may be given by position, and the reason, for all that may take more than one so."""


def public():
    """Returns the names and objects of the rooms that this package's users build networks from."""
    found = {}
    for room in ("", *ROOMS):
        module = import_module(f"janossy.{room}".rstrip("."))
        for name in module.__all__:
            thing = getattr(module, name)
            if (isclass(thing) or isfunction(thing)) and thing.__module__.startswith("janossy"):
                found[name] = thing
    return found


PUBLIC = public()


def by_position(thing) -> list[str]:
    """Returns the parameters that may be given by position."""
    return [name for name, parameter in signature(thing).parameters.items() if parameter.kind in FIRST]


def law_first_by_nature(name, thing) -> None:
    allowed = ALLOWED.get(name, (1, ""))[0]
    assert len(by_position(thing)) <= allowed, f"{name} takes {by_position(thing)} by position; make the rest keywords"


@pytest.mark.parametrize("name", PUBLIC)
def test_only_what_comes_first_by_nature_is_positional(name):
    law_first_by_nature(name, PUBLIC[name])


def test_every_exception_is_needed_and_has_a_reason():
    for name, (_, reason) in ALLOWED.items():
        assert reason and len(by_position(PUBLIC[name])) > 1, name


SYNONYMS = {"num": "num_permutations", "num_orders": "num_permutations", "hidden_size": "hidden_features"}
SYNONYMS |= {"features": "in_features or out_features", "rng": "generator", "num_workers": "workers", "most": "max_…"}
KEPT = {("FeaturedMLP", "features")}
"""A module of features, and not their number."""


@pytest.mark.parametrize("name", PUBLIC)
def test_one_name_for_one_thing(name):
    parameters = signature(PUBLIC[name]).parameters
    assert not [p for p in parameters if p in SYNONYMS and (name, p) not in KEPT]


def test_a_wrong_signature_is_found():
    def wrong(sets, num=1):
        pass

    with pytest.raises(AssertionError, match="wrong takes"):
        law_first_by_nature("wrong", wrong)
