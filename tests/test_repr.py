"""The repr of every public layer: arguments that are not their defaults, and no others."""

import inspect
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from typing import Any

import pytest
from torch import nn

from janossy import GRU, Canonical, JanossyNetwork, JanossyPooling, Sampled, Spectral, TupleMLP, Tuples
from janossy.density import Autoregressive, Normals
from janossy.functions.shown import PLACE
from janossy.orderings import Orderings
from tests.test_doors import DOORS, D

ROOMS = "janossy", "janossy.nn", "janossy.functions", "janossy.losses", "janossy.density"
ROOMS += ("janossy.graph",) if find_spec("torch_geometric") else ()


def layers() -> set[type[nn.Module]]:
    found = [getattr(room, name) for room in map(import_module, ROOMS) for name in room.__all__]
    return {each for each in found if inspect.isclass(each) and issubclass(each, nn.Module)}


def is_orderings(kind: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, Orderings)


ABSTRACT = {"Head", "Recurrence", "RowReduction", "SequenceDensity", "SetLayer"}
OF_OTHERS = {"JanossySAGEConv", "PooledNorm"}
"""Layers of torch and torch_geometric with a method of ours, whose repr is theirs."""
LAYERS = {each.__name__: each for each in layers() if each.__name__ not in ABSTRACT | OF_OTHERS}


def reader() -> nn.Module:
    return Autoregressive(GRU(D, 4, per_position=True), Normals(D))


RIGHT: dict[str, Any] = {
    "Autoregressive": lambda: {"reader": GRU(D, 4, per_position=True), "head": Normals(D)},
    "Bounded": lambda: {"low": [0.0], "high": [1.0]},
    "CategoricalSizes": lambda: {"max_size": 4},
    "Categories": lambda: {"num_categories": 4},
    "ExchangeableDensity": lambda: {"q": reader()},
    "IidMixture": lambda: {"head": Normals(D)},
    "Normals": lambda: {"num_columns": D},
    "Stack": lambda: {"networks": [JanossyNetwork(pooling=JanossyPooling(TupleMLP(2, D, 4), Tuples(2)))] * 2},
    **{name: door.right for name, door in DOORS.items()},
}
"""Arguments that each constructor requires; none without an entry."""

"""An argument of that name that is not its default."""

MODULES = {"bias", "combine", "embed", "encoder", "first", "g", "inner", "loss", "Residual.norm", "sizes"}
"""Arguments that are modules: torch shows these by themselves."""

OTHERWISE: dict[str, Any] = {
    "absolute_differences": [0],
    "activation": "relu",
    "amounts": [(0, 0.0, 1.0, 1.0)],
    "append_size": "log",
    "bidirectional": True,
    "by_category": True,
    "coded": [(0, [0.0, 1.0])],
    "limits": [(0, 0.0, 1.0)],
    "num_unread": 2,
    "differences": [0],
    "dispersion": 3.0,
    "distances": [[0, 1]],
    "dropout": 0.25,
    "embedding_features": 3,
    "eps": 0.5,
    "equal": [[0, 1]],
    "estimator": "straight_through",
    "evaluate": "gather",
    "fixed_in_eval": True,
    "hidden_features": 8,
    "high": 7.0,
    "increasing": [1],
    "input_features": 4,
    "k": 3,
    "largest_size": 7,
    "learn": True,
    "link": "softmax",
    "low": -7.0,
    "mean": 3.0,
    "memory_budget": 2**20,
    "norm": "layer",
    "num_columns": 3,
    "num_components": 3,
    "num_heads": 2,
    "num_keypoints": 3,
    "num_layers": 3,
    "num_permutations": 7,
    "num_permutations_eval": 9,
    "num_points": 3,
    "num_samples": 5,
    "num_seeds": 3,
    "num_slots": 3,
    "num_rounds": 5,
    "objective": "exact_squared",
    "orderings": Canonical(),
    "orderings_eval": Canonical(),
    "orderings_train": Sampled(7),
    "out_features": 7,
    "p": 3.0,
    "penalty": 0.5,
    "per_position": True,
    "periods": {0: 7.0},
    "products": [0],
    "q": 0.25,
    "quantiles": [(0, (0.0, 1.0))],
    "reduce": "sum",
    "scaled": True,
    "t": 3.0,
    "temperature": 0.5,
    "units": {0: 7.0},
    "unrolled": True,
    "ExchangeableDensity.orderings": Sampled(7),
    "Readout.activation": "tanh",
    "Relations.evaluate": Spectral(enumerate_up_to=0),
}
"""An argument of that name, or of that layer, that is not its default."""

TOGETHER = {
    "GRU.dropout": {"num_layers": 2},
    "LSTM.dropout": {"num_layers": 2},
    "MinGRU.dropout": {"num_layers": 2},
    "OrderLoss.temperature": {"estimator": "straight_through"},
    "PermutationLoss.link": {"objective": "average_output"},
    "RNN.dropout": {"num_layers": 2},
    "Relations.k": {"f": nn.Flatten()},
}
"""Arguments that one of them needs beside it."""


def shown(layer: nn.Module) -> str:
    """The arguments in a layer's repr, without the modules in it."""
    alone = "__repr__" in vars(type(layer))
    return repr(layer).removeprefix(f"{type(layer).__name__}(").removesuffix(")") if alone else layer.extra_repr()


def optional(kind: type) -> list[str]:
    return [name for name, each in signature(kind).parameters.items() if each.default is not Parameter.empty]


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_defaults_are_left_out(name):
    kind, given = LAYERS[name], RIGHT.get(name, dict)()
    text = shown(kind(**given))
    for argument in set(optional(kind)) - set(given):
        assert f"{argument}=" not in text, text
    for argument, value in given.items():
        if isinstance(value, int | str):
            assert any(f"{argument}={each!r}" in text for each in (value, [value])), text


CASES = [
    (name, argument)
    for name in sorted(LAYERS)
    for argument in optional(LAYERS[name])
    if not {argument, f"{name}.{argument}"} & MODULES and argument not in (*PLACE, *RIGHT.get(name, dict)())
]


@pytest.mark.parametrize(("name", "argument"), CASES)
def test_what_is_not_the_default_is_shown(name, argument):
    case = f"{name}.{argument}"
    value = OTHERWISE.get(case, OTHERWISE.get(argument))
    layer = LAYERS[name](**{**RIGHT.get(name, dict)(), **TOGETHER.get(case, {}), argument: value})
    text = f"{value:g}" if isinstance(value, float) else str(value).strip("[]()")
    assert f"{argument}=" in shown(layer)
    assert argument in ("evaluate", "quantiles", "units", "periods") or text in shown(layer)


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if is_orderings(door.call)])
def test_orderings(name):
    kind, given = DOORS[name].call, DOORS[name].right()
    assert repr(kind(**given)) == f"{name}({', '.join(f'{argument}={value!r}' for argument, value in given.items())})"
    if "max_rows" in signature(kind).parameters:
        assert repr(kind(**given, max_rows=77)).endswith("max_rows=77)")


def test_an_evaluator():
    assert repr(Spectral()) == "Spectral()" and repr(Spectral(tolerance=0.25)) == "Spectral(tolerance=0.25)"
