"""Statistics of batch norms follow weights that change fast."""

from functools import partial

import pytest
import torch
from torch import nn

from janossy.estimators import training as training_module
from janossy.estimators.batches import Examples, RandomBatches
from janossy.estimators.checkpoint import Checkpoint
from janossy.estimators.norms import norms_that_lag, renew_statistics
from janossy.estimators.processes import Processes
from janossy.estimators.tasks import RegressionLoss
from janossy.estimators.training import Plan, Training
from janossy.functions import TupleMLP
from janossy.nn import JanossyNetwork, JanossyPooling, PooledNorm, Residual, SelfAttention, SetEncoder
from janossy.orderings import Tuples
from janossy.sets import Ragged


def with_encoder(norm: nn.Module) -> nn.Module:
    return nn.ModuleList([SetEncoder([SelfAttention(2, num_heads=1)]), norm])


@pytest.mark.parametrize("num_processes", [1, 2])
def test_statistics_are_those_of_the_batches(num_processes):
    """Also by the sums of several processes, here of equal ones."""
    source = torch.Generator().manual_seed(0)
    batches = [5 + 2 * torch.randn(n, 3, generator=source, dtype=torch.float64) for n in (2, 7, 4)]
    norm = PooledNorm(3, momentum=0.3).double()
    if num_processes > 1:
        norm.total = lambda x: num_processes * x
    renew_statistics([norm], [partial(norm, each) for each in batches])
    torch.testing.assert_close(norm.running_mean, torch.stack([each.mean(0) for each in batches]).mean(0))
    seen = [torch.cat([each] * num_processes) for each in batches]
    torch.testing.assert_close(norm.running_var, torch.stack([each.var(0) for each in seen]).mean(0))
    assert norm.momentum == 0.3


def test_norms_lag_behind_an_encoder_alone():
    norm = PooledNorm(1)
    assert norms_that_lag(with_encoder(norm)) == [norm]
    without_statistics = with_encoder(PooledNorm(1, track_running_stats=False))
    for network in (norm, with_encoder(nn.Linear(1, 1)), without_statistics):
        assert norms_that_lag(network) == []


def test_without_batches_statistics_stay():
    norm = PooledNorm(1)
    norm.running_mean.fill_(3.0)
    renew_statistics([norm], [])
    assert norm.running_mean == 3


def examples(num: int, seed: int) -> Examples:
    """Returns sets whose pooled vectors are far from 0, and differ little."""
    source = torch.Generator().manual_seed(seed)
    sets = Ragged.from_sets([50 + torch.randn(1 + b % 3, 2, generator=source) for b in range(num)])
    return Examples(sets, None, torch.stack([x.mean(0) - 50 for x in sets]), torch.ones(num))


def training(**options) -> Training:
    """Returns the training of a network whose norm hardly follows by itself."""
    torch.manual_seed(0)
    pooling = JanossyPooling(TupleMLP(1, 2, 16, activation="tanh"), Tuples(1))
    rho = nn.Sequential(PooledNorm(16, momentum=1e-6), nn.Linear(16, 2))
    encoder = SetEncoder([Residual(SelfAttention(2, num_heads=1))])
    network = JanossyNetwork(nn.Linear(2, 2), pooling, rho, encoder=encoder)
    with torch.no_grad():
        network.h.weight.mul_(0.05)
    batches, plan = RandomBatches(examples(40, 0), 8, seed=0), Plan(4, 8, 1e-2, None)
    return Training(network, batches, examples(20, 1), RegressionLoss(), plan, lambda epoch: None, **options)


def test_validation_is_by_statistics_of_the_weights_of_now(monkeypatch):
    last = training().run().history[-1]
    monkeypatch.setattr(training_module, "renew_statistics", lambda *arguments: None)
    lagging = training().run().history[-1]
    assert last["valid_loss"] < 1.5 * last["train_loss"] and lagging["valid_loss"] > 3 * last["valid_loss"]


@pytest.mark.parametrize("last", [1, 3, 6, 12])
def test_training_that_was_cut_ends_with_the_same_statistics(tmp_path, monkeypatch, last):
    """After a checkpoint in the midst of an epoch, the latest batches are read again."""
    monkeypatch.setattr("janossy.estimators.checkpoint.SECONDS", 0.0)
    whole = training()
    expected = whole.run().history

    def cut(self, *arguments):
        if self.state.step == last:
            raise KeyboardInterrupt
        return step(self, *arguments)

    step = Training.step
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Training, "step", cut)
        training(checkpoint=Checkpoint(tmp_path, {}, Processes())).run()
    again = training(checkpoint=Checkpoint(tmp_path, {}, Processes()))
    assert again.state.step == last
    found = again.run().history
    assert [row["valid_loss"] for row in found] == [row["valid_loss"] for row in expected]
    weights = whole.network.state_dict()
    assert all(torch.equal(each, weights[name]) for name, each in again.network.state_dict().items())
