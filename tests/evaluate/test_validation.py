"""Bad input at the doors of layers and functions: one error that says what was expected, what came, what to do."""

import numpy as np
import pytest
import torch
from torch import nn

from janossy import (
    GRU,
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
from janossy.evaluate import EVALUATORS, Problem
from tests.examples import FUNCTIONS, D, distinct_sets

# Elements in another precision than f's weights, float32

WRONG_DTYPES = [torch.float64, torch.float16, torch.int64, torch.bool, torch.complex64]
ORDERINGS = [Tuples(2), Combinations(2), AllPermutations(), Sampled(2, k=2, exact_last=1, seed=0)]


class LinearSum(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(D, 3)

    def forward(self, x):
        return self.linear(x).sum(1)


BUILDERS = {**{name: example.build for name, example in FUNCTIONS.items()}, "linear": lambda k: LinearSum()}


def misfits():
    """Yields every function × evaluator that applies to float32 elements, and an ordering for which it does."""
    sets = distinct_sets((3, 2))
    for name, build in BUILDERS.items():
        if not list(build(2).parameters()):  # features, which are in no precision of their own
            continue
        needs_k = name in FUNCTIONS and FUNCTIONS[name].needs_k
        for evaluator in EVALUATORS:
            for orderings in ORDERINGS:
                if needs_k and getattr(orderings, "k", None) is None:
                    continue
                if evaluator.why_not_applicable(Problem(build(2), orderings, sets)) is None:
                    yield pytest.param(name, evaluator.name, orderings, id=f"{name}-{evaluator.name}")
                    break


def law_says_the_dtypes(call, dtype, module="f"):
    with pytest.raises(ValueError) as caught:
        call()
    message = str(caught.value)
    assert "expects elements in torch.float32" in message and f"got {dtype}" in message and ".to(" in message
    assert message.startswith((f"{module}, a ", "this "))


@pytest.mark.parametrize("dtype", WRONG_DTYPES, ids=str)
@pytest.mark.parametrize(("function", "evaluator", "orderings"), misfits())
def test_elements_in_another_dtype(function, evaluator, orderings, dtype):
    f = BUILDERS[function](2)
    sets = Ragged.from_sizes(torch.ones(5, D).to(dtype), (3, 2))
    for evaluate in (evaluator, "auto"):
        layer = JanossyPooling(f, orderings, evaluate=evaluate)
        for call in (layer, layer.rows, layer.explain, JanossyNetwork(None, layer, None)):
            if call == layer.rows and evaluate not in ("gather", "packed", "auto"):
                continue
            law_says_the_dtypes(lambda call=call: call(sets), dtype)


@pytest.mark.parametrize("dtype", WRONG_DTYPES, ids=str)
@pytest.mark.parametrize("f", [GRU(D, 3, per_position=True), nn.Linear(D, 3)], ids=lambda f: type(f).__name__)
def test_elements_in_another_dtype_for_an_output_each(f, dtype):
    sets = Ragged.from_sizes(torch.ones(5, D).to(dtype), (3, 2))
    law_says_the_dtypes(lambda: JanossyEquivariant(f, Sampled(2))(sets), dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.complex64], ids=str)
def test_a_network_whose_h_is_in_another_dtype(dtype):
    network = JanossyNetwork(nn.Linear(D, 4), JanossyPooling(TupleMLP(2, 4, 3), Tuples(2)), None)
    sets = Ragged.from_sizes(torch.ones(5, D).to(dtype), (3, 2))
    for call in (network, network.rows, network.explain):
        law_says_the_dtypes(lambda call=call: call(sets), dtype, "h")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int16, torch.uint8], ids=str)
def test_ids_in_another_dtype(dtype):
    network = JanossyNetwork(nn.Embedding(4, D), JanossyPooling(TupleMLP(2, D, 3), Tuples(2)), None)
    sets = Ragged.from_sizes(torch.arange(3), (2, 1))
    for call in (network, network.rows, network.explain):
        with pytest.raises(ValueError, match=f"^h, a Embedding, expects ids in torch.int64 or .*; got {dtype}.*int64"):
            call(sets.to(dtype))
        call(sets.to(torch.int32))
        call(sets.to(torch.int64))


def test_autocast_converts():
    """It does so for torch's own modules."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert JanossyPooling(LinearSum(), Tuples(2))(distinct_sets((3,)).to(torch.bfloat16)).isfinite().all()
        assert (
            JanossyPooling(TupleMLP(2, D, 3), Tuples(2), evaluate="gather")(distinct_sets((3,)).to(torch.bfloat16)).ndim
            == 2
        )


def test_an_error_of_f_itself_stays_as_it_is():
    class Breaks(LinearSum):
        def forward(self, x):
            raise RuntimeError("no more paper of this type")

    with pytest.raises(RuntimeError, match=r"^no more paper of this type$"):
        JanossyPooling(Breaks(), Tuples(2))(distinct_sets((3,)))


# Elements and weights without numbers

META = Ragged.from_sizes(torch.zeros(5, D), (3, 2)).to("meta")


@pytest.mark.parametrize(
    "layer",
    [
        JanossyPooling(TupleMLP(2, D, 3), Tuples(2)),
        JanossyPooling(TupleMLP(2, D, 3), Tuples(2)).explain,
        JanossyPooling(GRU(D, 3), Canonical()).rows,
        JanossyNetwork(nn.Linear(D, D), JanossyPooling(TupleMLP(2, D, 3), Tuples(2)), None),
        JanossyEquivariant(GRU(D, 3, per_position=True), Canonical()),
    ],
    ids=["pooling", "explain", "rows", "network", "equivariant"],
)
def test_sets_on_the_meta_device(layer):
    with pytest.raises(ValueError, match=r"expects sets on a device that holds numbers; got 'meta'. Use \.to\('cpu'\)"):
        layer(META)


@pytest.mark.parametrize("f", [TupleMLP(2, D, 3), TupleProduct(2, D, 3), GRU(D, 3), LinearSum()], ids=type)
def test_weights_on_another_device(f):
    layer = JanossyPooling(f.to("meta"), Tuples(2))
    for call in (layer, layer.explain):
        with pytest.raises(ValueError, match=r"expects elements on meta, where its weights are; got cpu.*\.to\(\)"):
            call(distinct_sets((3, 2)))


def test_no_reduction_names_rows():
    with pytest.raises(ValueError, match=r"got None; \.rows\(sets\) keeps the rows"):
        JanossyPooling(GRU(2, 3), Tuples(2), reduce=None)


@pytest.mark.parametrize("width", [np.int64(3), np.int32(3)])
def test_integers_of_numpy_are_integers(width):
    assert GRU(2, width)(torch.zeros(1, 2, 2)).shape == TupleMLP(2, 2, width)(torch.zeros(1, 2, 2)).shape == (1, 3)


@pytest.mark.parametrize("f", [3, None, nn.Linear], ids=str)
def test_an_f_that_is_no_function(f):
    """A class is not yet a module."""
    for layer in (JanossyPooling, JanossyEquivariant):
        with pytest.raises(TypeError, match=f"{layer.__name__} expects f to be a module that maps rows"):
            layer(f, Tuples(2))
