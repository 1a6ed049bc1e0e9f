import time
from itertools import chain

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from janossy.estimators import batches
from janossy.estimators.batches import Batches, Examples, RandomBatches, num_batches
from janossy.estimators.tasks import SquaredError
from janossy.estimators.training import Plan, train
from janossy.functions import TupleMLP
from janossy.nn.network import JanossyNetwork
from janossy.nn.pooling import JanossyPooling
from janossy.orderings import Distinct, Sampled, Tuples
from janossy.sets import Ragged


def examples(num: int = 40, seed: int = 0) -> Examples:
    generator = torch.Generator().manual_seed(seed)
    sets = Ragged.from_sets([torch.randn(1 + b % 3, 2, generator=generator) for b in range(num)])
    targets = torch.stack([x.mean(0) for x in sets])
    return Examples(sets, None, targets, torch.ones(num))


def network(seed: int = 0) -> JanossyNetwork:
    torch.manual_seed(seed)
    return JanossyNetwork(None, JanossyPooling(TupleMLP(1, 2, 16, activation="relu"), Tuples(1)), nn.Linear(16, 2))


def trained(net=None, plan=None, tell=lambda epoch: None, training=None, validation=None):
    generator = torch.Generator().manual_seed(0)
    return train(
        net or network(),
        training or examples(),
        validation or examples(20, seed=1),
        SquaredError(),
        plan or Plan(5, 16, 1e-2, None),
        generator,
        tell,
    )


def test_the_loss_of_sets_left_out_is_of_what_training_draws():
    """All pairs of large sets, after every epoch, would take longer than to train on some."""

    class Recorded(JanossyNetwork):
        def forward(self, sets, orderings=None, **others):
            read.append((self.training, self.pooling.problem(sets, None, orderings, "mean", None).orderings))
            return super().forward(sets, orderings, **others)

    read = []
    pooling = JanossyPooling(TupleMLP(2, 2, 16), Tuples(2), orderings_train=Distinct(3, k=2))
    net = Recorded(None, pooling, nn.Linear(16, 2))
    trained(net)
    assert {orderings.num_rows(3) for _, orderings in read} == {3} and {training for training, _ in read} == {0, 1}
    net.eval()(examples().sets)
    assert read[-1] == (False, Tuples(2))


@settings(deadline=None, max_examples=40)
@given(num=st.integers(1, 60), batch_size=st.integers(1, 70))
@example(num=40, batch_size=16)
def test_an_epoch_shows_every_set_once_in_as_many_batches_as_are_counted(num, batch_size):
    data = Examples(Ragged.from_sizes(torch.arange(num), [1] * num), None, torch.arange(num), torch.ones(num))
    iterator = RandomBatches(data, batch_size, torch.Generator().manual_seed(0))
    for _ in range(2):
        shown = list(iterator)
        assert len(shown) == num_batches(num, batch_size)
        assert sorted(torch.cat([targets for _, targets in shown]).tolist()) == list(range(num))
        for batch, targets in shown:
            assert torch.equal(batch.sets.values, targets)


def test_an_epoch_of_many_sets_goes_on_where_the_last_one_stopped(monkeypatch):
    monkeypatch.setattr(batches, "EPOCH_SETS", 8)
    data = Examples(Ragged.from_sizes(torch.arange(20), [1] * 20), None, torch.arange(20), torch.ones(20))
    iterator = RandomBatches(data, 4, torch.Generator().manual_seed(0))
    epochs = [[int(x) for _, targets in iterator for x in targets] for _ in range(5)]
    assert [len(epoch) for epoch in epochs] == [8] * 5
    assert sorted(chain(*epochs)) == sorted(list(range(20)) * 2)


def test_batches_are_all_sets_in_order():
    data = examples(10)
    assert torch.equal(torch.cat([batch.sets.values for batch, _ in Batches(data, 3)]), data.sets.values)


def test_the_best_weights_are_kept():
    net, validation = network(), examples(20, seed=1)
    worst_last = Plan(12, 8, 1.0, None)  # a learning rate at which losses jump about
    result = trained(net, worst_last, validation=validation)
    losses = [row["valid_loss"] for row in result.history]
    assert losses.index(min(losses)) < len(losses) - 1, "choose a plan whose best epoch is not the last"
    with torch.no_grad():
        now = (net.eval()(validation.sets) - validation.targets).square().mean()
    assert float(now) == pytest.approx(min(losses), rel=1e-5)


def test_it_learns():
    net = network()
    history = trained(net, Plan(20, 8, 1e-2, None)).history
    assert history[-1]["train_loss"] < 0.1 * history[0]["train_loss"]


def test_early_stopping():
    data = examples(20, seed=1)
    wrong = Examples(data.sets, None, -data.targets, data.weights)  # what is learnt makes it worse
    assert len(trained(plan=Plan(50, 8, 1e-2, 3), validation=wrong).history) < 20


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_with_an_error(bad):
    data = examples()
    data.targets[3] = bad
    with pytest.raises(FloatingPointError, match=r"expects finite losses; got train_loss = .* after epoch 1. Lower"):
        trained(training=data)


def test_an_interrupt_keeps_the_best_so_far():
    def interrupt(epoch):
        if epoch.number == 3:
            raise KeyboardInterrupt

    result = trained(plan=Plan(50, 16, 1e-2, None), tell=interrupt)
    assert result.interrupted and len(result.history) == 3


def test_a_deadline_shortens_the_plan():
    plan = Plan(10_000, 16, 1e-2, None, deadline=time.monotonic() + 0.3)
    result = trained(plan=plan)
    assert result.shortened and not result.interrupted
    assert 1 <= len(result.history) < 5_000
    assert not trained(plan=Plan(2, 16, 1e-2, None, deadline=time.monotonic() + 1000)).shortened


def test_the_learning_rate_rises_and_falls():
    plan = Plan(10, 16, 1e-2, None)
    plan.steps = 100
    rates = [plan.rate(step) for step in range(101)]
    assert rates.index(max(rates)) == 10 and max(rates) == pytest.approx(1)
    assert rates[0] < 0.02 and rates[-1] == pytest.approx(0, abs=1e-9)
    assert rates[:11] == sorted(rates[:11]) and rates[10:] == sorted(rates[10:], reverse=True)


def test_weights_weigh():
    data = examples(40)
    half = torch.arange(40) % 2 == 0
    contradicting = Examples(data.sets, None, torch.where(half[:, None], data.targets, -data.targets), 2.0 * half)
    net = network()
    trained(net, Plan(20, 8, 1e-2, None), training=contradicting, validation=data)
    with torch.no_grad():
        error = (net(data.sets) - data.targets).square().mean()
    assert error < 0.3 * data.targets.square().mean()


def test_the_generator_draws_the_permutations():
    def run(seed):
        torch.manual_seed(5)
        f = TupleMLP(2, 2, 8)
        net = JanossyNetwork(None, JanossyPooling(f, Sampled(1, k=2)), nn.Linear(8, 2))
        torch.manual_seed(seed)  # must not matter
        trained(net)
        return torch.cat([weight.flatten() for weight in net.parameters()])

    assert torch.equal(run(0), run(1))
