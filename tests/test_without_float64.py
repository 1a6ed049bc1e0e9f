"""Devices without float64: predictions, orders and audits on a stand-in for Apple's MPS."""

import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    Distinct,
    ImportanceSampled,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
    predict,
)
from janossy.inference import predict_passes, sensitivity
from janossy.orderings import Learned
from tests.standin_mps import DEVICE, Mps, on_mps

SCHEMES = ("designed", "independent", "antithetic", "latin", "stratified", "orthogonal", "sobol")

ORDERINGS = {
    **{scheme: lambda scheme=scheme: Sampled(4, scheme=scheme) for scheme in SCHEMES},
    "one": lambda: Sampled(1),
    "distinct": lambda: Distinct(3, k=2),
    "weighted": lambda: ImportanceSampled(3),
    "squared": lambda: ImportanceSampled(3, k=2, weights="squared_norm"),
    "pairs": lambda: Tuples(2),
}


def sets() -> Ragged:
    return on_mps(Ragged.from_sizes(torch.randn(16, 3), [5, 0, 7, 4]))


def network(orderings) -> JanossyNetwork:
    f = TupleMLP(2, 3, (4, 4)) if orderings.k == 2 else GRU(3, 4)
    return on_mps(JanossyNetwork(None, JanossyPooling(f, orderings), nn.Linear(4, 2)))


def test_the_device_refuses_float64():
    with Mps(), pytest.raises(TypeError, match="float64"):
        sets().values.double()
    with Mps(), pytest.raises(TypeError, match="float64"):
        torch.zeros(2, dtype=torch.float64, device=DEVICE)


@pytest.mark.parametrize("name", ORDERINGS)
def test_predictions_need_no_float64(name):
    net, given = network(ORDERINGS[name]()), sets()
    with Mps():
        found = predict(net, given, 10, link="softmax")
        assert found.mean.cpu().isfinite().all() and found.standard_error.dtype == torch.float32
        assert predict_passes(lambda: net(given), 3, keep_outputs=True).mean.shape == (4, 2)


def test_learned_orders_and_an_audit_need_no_float64():
    learned, given = Learned(on_mps(nn.Linear(3, 1)), num_permutations=3), sets()
    with Mps(), torch.no_grad():
        assert learned.enumerate(given).counts() == [3, 3, 3, 3]
        found = sensitivity(network(Sampled(1)), given, num_swaps=2)
    assert found.within.dtype == torch.float32
