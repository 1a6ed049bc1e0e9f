import copy
import signal
import time
from itertools import islice

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from janossy.estimators import batches
from janossy.estimators.adamw import AdamW
from janossy.estimators.batches import Examples, RandomBatches, num_batches
from janossy.estimators.checkpoint import Checkpoint
from janossy.estimators.interrupts import Interrupts
from janossy.estimators.processes import Processes
from janossy.estimators.tasks import RegressionLoss
from janossy.estimators.training import Ending, Plan, Training, train
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


def trained(net=None, plan=None, report=lambda epoch: None, training=None, validation=None, **options):
    plan = plan or Plan(5, 16, 1e-2, None)
    return train(
        net or network(),
        RandomBatches(training or examples(), plan.batch_size, seed=0),
        validation or examples(20, seed=1),
        RegressionLoss(),
        plan,
        report,
        **options,
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
    source = RandomBatches(data, batch_size, seed=0)
    steps = source.steps_per_epoch
    assert steps == num_batches(num, batch_size)
    shown = [batch for batch, _ in islice(source.batches(0), 2 * steps)]
    for epoch in (shown[:steps], shown[steps:]):
        assert sorted(torch.cat([batch.targets for batch in epoch]).tolist()) == list(range(num))
    for begin in range(2 * steps):  # and from any step on alike
        batch, num_sets = next(source.batches(begin))
        assert torch.equal(batch.targets, shown[begin].targets) and num_sets == len(batch)
        assert torch.equal(batch.sets.values, batch.targets)


def test_an_epoch_of_many_sets_goes_on_where_the_last_one_stopped(monkeypatch):
    monkeypatch.setattr(batches, "EPOCH_SETS", 8)
    data = Examples(Ragged.from_sizes(torch.arange(20), [1] * 20), None, torch.arange(20), torch.ones(20))
    source = RandomBatches(data, 4, seed=0)
    assert source.steps_per_epoch == 2
    shown = [int(x) for batch, _ in islice(source.batches(0), 10) for x in batch.targets]
    assert sorted(shown) == sorted(list(range(20)) * 2)


def test_the_best_weights_are_kept():
    net, data = network(), examples(20, seed=1)
    validation = Examples(data.sets, None, -data.targets, data.weights)  # what is learnt makes it worse
    result = trained(net, Plan(12, 8, 1e-2, None), validation=validation)
    losses = [row["valid_loss"] for row in result.history]
    assert losses.index(min(losses)) < len(losses) - 1, "choose sets whose best epoch is not the last"
    with torch.no_grad():
        now = (net.eval()(validation.sets) - validation.targets).square().mean()
    assert float(now) == pytest.approx(min(losses), rel=1e-5)


def test_validation_is_without_dropout():
    net, validation = network(), examples(20, seed=1)
    net.rho = nn.Sequential(nn.Dropout(0.8), net.rho)
    loss = trained(net, Plan(1, 8, 1e-2, None), validation=validation).last.valid_loss
    with torch.no_grad():
        assert loss == pytest.approx(
            float((net.eval()(validation.sets) - validation.targets).square().mean()), rel=1e-5
        )


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


def extended(checkpoint=None, step=None):
    """Returns a network of two legs of training, and how the second went."""
    net = network()
    data, validation = examples(), examples(20, seed=1)
    source = RandomBatches(data, 8, seed=0)
    reports = []
    plan, report = Plan(3, 8, 1e-2, None), reports.append
    training = Training(net, source, validation, RegressionLoss(), plan, report, checkpoint=checkpoint, stage="0")
    with pytest.MonkeyPatch.context() as patch:
        if step is not None:
            patch.setattr(Training, "step", step)
        training.run()
        first = copy.deepcopy(net.state_dict())
        training.extend(Plan(5, 8, 1e-2, None), "1")
        return first, net, training.run(), reports


def test_training_goes_on_from_the_best_weights():
    rates = []
    real = Training.step

    def step(self, *arguments):
        if len(rates) == 15:  # the first step of the second leg
            assert all(torch.equal(weight, self.best[name]) for name, weight in self.network.state_dict().items())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                self.optimizer, "step", lambda rate, take=self.optimizer.step: (rates.append(rate), take(rate))
            )
            return real(self, *arguments)

    first, net, result, reports = extended(step=step)
    losses = [row["valid_loss"] for row in result.history]
    assert [epoch.number for epoch in reports] == list(range(1, 9)) and reports[-1].planned == 8
    expected = [Plan(epochs, 8, 1e-2, None).rate(i, 5 * epochs) for epochs in (3, 5) for i in range(5 * epochs)]
    assert rates == pytest.approx(expected)  # it rises again, and falls
    assert min(losses) == min(losses[3:]) < min(losses[:3])
    assert any(not torch.equal(weight, first[name]) for name, weight in net.state_dict().items())


def test_what_goes_on_does_so_by_its_checkpoints(tmp_path):
    checkpoint = Checkpoint(tmp_path, {}, Processes())
    _, expected, result, _ = extended(checkpoint)

    def none(self, *arguments):
        raise AssertionError("a finished leg takes no step again")

    _, net, again, reports = extended(checkpoint, step=none)
    assert reports == [] and again.history == result.history
    assert all(torch.equal(x, expected.state_dict()[name]) for name, x in net.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_optimiser_is_that_of_torch(dtype):
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(2, 1)).to(dtype)
    ours[1].weight.requires_grad = False
    theirs = copy.deepcopy(ours)
    optimizers = [AdamW(ours.parameters(), 0.1) for _ in range(2)]
    expected = torch.optim.AdamW(theirs.parameters(), 1.0, weight_decay=0.1, fused=True)
    for i, rate in enumerate((0.1, 0.03, 0.2, 0.01)):
        optimizer = optimizers[i > 1]
        if i == 2:
            optimizer.load_state_dict(copy.deepcopy(optimizers[0].state_dict()))
        expected.param_groups[0]["lr"] = rate
        for network, each in ((ours, optimizer), (theirs, expected)):
            each.zero_grad()
            x = torch.ones(5, 3, dtype=dtype)
            layers = network if i else network[:2]  # the last has no gradient at first
            layers(x).square().sum().backward()
        optimizer.step(rate)
        expected.step()
        for weight, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(weight, other)


def test_patience_counts_from_the_restart():
    """The rate that rises makes losses worse for a while, which is no reason to end."""
    data = examples(20, seed=1)
    wrong = Examples(data.sets, None, -data.targets, data.weights)  # what is learnt makes it worse
    source = RandomBatches(examples(), 8, seed=0)
    training = Training(network(), source, wrong, RegressionLoss(), Plan(50, 8, 1e-2, 3), lambda epoch: None)
    num = len(training.run().history)
    training.extend(Plan(50, 8, 1e-2, 3), "more")
    assert num + 3 < len(training.run().history) < num + 25


def test_an_interrupt_keeps_the_best_so_far():
    interrupts = Interrupts()

    def interrupt(epoch):
        interrupts.came = epoch.number == 3

    result = trained(plan=Plan(50, 16, 1e-2, None), report=interrupt, interrupts=interrupts)
    assert result.ending is Ending.INTERRUPTED and len(result.history) == 3


def test_the_second_interrupt_raises_and_all_that_listen_hear_each():
    with Interrupts() as outer, Interrupts() as inner:
        assert not outer.ends
        signal.raise_signal(signal.SIGINT)
        assert all(each.came and not each.insisted and not each.ends for each in (outer, inner))
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert all(each.insisted and each.ends and each.number == signal.SIGINT for each in (outer, inner))
        with pytest.raises(KeyboardInterrupt):
            inner.check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_before_the_first_step_trains_nothing():
    interrupts, net = Interrupts(), network()
    interrupts.came = True
    before = copy.deepcopy(net.state_dict())
    result = trained(net, interrupts=interrupts)
    assert result.ending is Ending.INTERRUPTED and result.history == []
    assert all(torch.equal(weight, before[name]) for name, weight in net.state_dict().items())


def test_an_epoch_that_an_interrupt_cuts_short_is_scored():
    interrupts = Interrupts()

    class Interrupted(RandomBatches):
        def batches(self, step):
            for number, batch in enumerate(super().batches(step)):
                interrupts.came = number == 1
                yield batch

    data, plan = examples(), Plan(50, 4, 1e-2, None)
    source = Interrupted(data, 4, seed=0)
    result = train(network(), source, examples(20, seed=1), RegressionLoss(), plan, print, interrupts=interrupts)
    assert result.ending is Ending.INTERRUPTED and len(result.history) == 1 and source.steps_per_epoch == 10


def test_a_deadline_shortens_the_plan():
    plan = Plan(10_000, 16, 1e-2, None, deadline=time.monotonic() + 0.3)
    result = trained(plan=plan)
    assert result.ending is Ending.OUT_OF_TIME
    assert 1 <= len(result.history) < 5_000
    assert trained(plan=Plan(2, 16, 1e-2, None, deadline=time.monotonic() + 1000)).ending is Ending.AS_PLANNED


def test_the_learning_rate_rises_and_falls():
    plan = Plan(10, 16, 0.5, None)
    rates = [plan.rate(step, 100) / 0.5 for step in range(101)]
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


def test_the_seed_draws_the_permutations():
    def run(seed):
        torch.manual_seed(5)
        f = TupleMLP(2, 2, 8)
        net = JanossyNetwork(None, JanossyPooling(f, Sampled(1, k=2)), nn.Linear(8, 2))
        torch.manual_seed(seed)  # must not matter
        trained(net)
        return torch.cat([weight.flatten() for weight in net.parameters()])

    assert torch.equal(run(0), run(1))
