"""Models that predict takes beside a JanossyNetwork: wrappers of one, and functions of sets and orderings."""

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from janossy import (
    GRU,
    AllPermutations,
    ImportanceSampled,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    Stack,
    TupleMLP,
    Tuples,
    predict,
)
from janossy.evaluate import Choice
from janossy.inference import fit_control_variate, sensitivity
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

SIZES = (7, 0, 5, 1, 7, 3)


def network(orderings=None, seed: int = 0, context: bool = False) -> JanossyNetwork:
    torch.manual_seed(seed)
    pooling = JanossyPooling(GRU(4, 8), Sampled(1) if orderings is None else orderings)
    return JanossyNetwork(nn.Linear(2, 4), pooling, WithContext() if context else nn.Linear(8, 3))


class WithContext(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(9, 3)

    def forward(self, pooled, context):
        return self.linear(torch.cat((pooled, context), 1))


@pytest.fixture
def sets() -> Ragged:
    torch.manual_seed(9)
    return Ragged.from_sizes(torch.randn(sum(SIZES), 2), SIZES)


def law_alike(found, expected) -> None:
    for name in ("mean", "standard_error", "change_probability"):
        close(getattr(found, name), getattr(expected, name))
    assert found.num_permutations.tolist() == expected.num_permutations.tolist()
    assert found.num_blocks.tolist() == expected.num_blocks.tolist()


WRAPPERS = {
    "compiled": torch.compile,
    "an average": AveragedModel,
    "an exponential average": lambda net: AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9)),
    "data parallel": nn.DataParallel,
    "an average of a compiled one": lambda net: AveragedModel(torch.compile(net)),
}


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
def test_a_wrapper_is_predicted_with_as_the_network_inside(wrapper, sets):
    net = network()
    wrapped = wrapper(net).train()
    law_alike(predict(wrapped, sets, seed=3, link="softmax"), predict(net, sets, seed=3, link="softmax"))
    assert all(module.training for module in wrapped.modules())


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
def test_a_wrapper_is_audited_and_imitated_as_the_network_inside(wrapper, sets):
    net = network()
    found = []
    for model in (net, wrapper(net)):
        audited = sensitivity(model, sets, generator=torch.Generator().manual_seed(0))
        options = {"k": 2, "num_steps": 2, "generator": torch.Generator().manual_seed(0)}
        found.append((audited.within, fit_control_variate(model, sets, **options).mean(sets)))
    for one, other in zip(*found, strict=True):
        close(torch.as_tensor(one), torch.as_tensor(other))


def test_averaged_weights_are_those_that_predict(sets):
    first, second = network(seed=1), network(seed=2)
    averaged = AveragedModel(first)
    averaged.update_parameters(first)
    averaged.update_parameters(second)
    mean = network()
    mean.load_state_dict({k: (v + second.state_dict()[k]) / 2 for k, v in first.state_dict().items()})
    law_alike(predict(averaged, sets, seed=3, link="softmax"), predict(mean, sets, seed=3, link="softmax"))


ORDERINGS = {
    "permutations": Sampled(1),
    "groups": Sampled(3, exhaust=0),
    "beginnings": Sampled(1, k=2),
    "ends": Sampled(1, exact_last=1),
    "weighted": ImportanceSampled(3, k=1),
    "all pairs": Tuples(2),
}


@pytest.mark.parametrize("orderings", ORDERINGS.values(), ids=ORDERINGS)
@pytest.mark.parametrize("context", [False, True])
def test_a_function_is_given_the_draws_that_a_network_is(orderings, context, sets):
    net = network(context=context)
    net.pooling.choice = Choice("gather")  # which takes no more orders of small sets than are asked for
    given = {"context": torch.randn(len(sets), 1)} if context else {}

    def by(model):
        source = torch.Generator().manual_seed(2)
        return predict(model, sets, orderings=orderings, generator=source, link="softmax", **given)

    found, expected = by(lambda *args, **kwargs: net(*args, **kwargs)), by(net.eval())
    if orderings.draws:
        law_alike(found, expected)
    else:
        close(found.mean, expected.mean)


def test_a_function_of_several_networks_reads_the_same_draws(sets):
    """The mean of two networks is a network: its error is that of their sum over the same permutations."""
    one, two = network(seed=1).eval(), network(seed=2).eval()

    def both(sets, orderings):
        return one(sets, orderings) + two(sets, orderings)

    kept = {"orderings": Sampled(1), "seed": 0, "keep_outputs": True}
    found, first, second = (predict(model, sets, **kept) for model in (both, one, two))
    large = [b for b, n in enumerate(SIZES) if n > 4]
    close(found.outputs[large], (first.outputs + second.outputs)[large])
    close(found.mean, first.mean + second.mean)
    by_tolerance = predict(both, sets, 100, orderings=Sampled(1), seed=0, tolerance=0.05)
    assert by_tolerance.finished.all() and (by_tolerance.num_permutations[large] < 100).any()


def test_exact_orderings_call_a_function_once(sets):
    net, calls = network(), []

    def model(sets, orderings):
        calls.append(orderings)
        return net(sets, orderings)

    found = predict(model, sets, orderings=AllPermutations())
    close(found.mean, net(sets, AllPermutations()))
    assert calls == [AllPermutations()] and not found.standard_error.any()


def test_a_module_is_evaluated_meanwhile_and_a_pooling_is_a_function(sets):
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside, self.dropout = network(), nn.Dropout(0.5)

        def forward(self, sets, orderings):
            assert not self.training
            return self.dropout(self.inside(sets, orderings))

    own = Own()
    close(predict(own, sets, orderings=Sampled(1), seed=0).mean, predict(own.inside, sets, seed=0).mean)
    assert all(module.training for module in own.modules())
    pooling = JanossyPooling(TupleMLP(2, 2, 4), Tuples(2))
    close(predict(pooling, sets, orderings=Tuples(2)).mean, pooling(sets))


def test_a_stack_inside_a_wrapper(sets):
    stack = Stack([network(seed=s) for s in range(2)])
    close(predict(AveragedModel(stack), sets, seed=0).mean, predict(stack, sets, seed=0).mean)


@pytest.mark.parametrize(
    ("model", "orderings", "error", "message"),
    [
        (lambda sets: sets.values, None, TypeError, "got a function and no orderings. Give those to average over"),
        (nn.Linear(2, 1), None, TypeError, "or orderings= with another model; got a Linear and no orderings"),
        (
            lambda sets: sets.values,
            Sampled(1),
            TypeError,
            r"a model that is called model\(sets, orderings\); got a fun",
        ),
        (nn.Linear(2, 1), Sampled(1), TypeError, "got a Linear of other arguments. Write"),
        (3, Sampled(1), TypeError, "a function of sets and orderings; got int"),
        (JanossyNetwork, Sampled(1), TypeError, "a function of sets and orderings; got type"),
        (lambda sets, _: torch.zeros(len(sets), 1), Sampled(1), ValueError, r"returns \(\d+, out\), one row per draw"),
        (
            lambda sets, _: torch.zeros(len(sets)),
            Tuples(1),
            ValueError,
            r"returns \(6, out\), one row per set; got \(6",
        ),
        (lambda sets, _: None, Tuples(1), ValueError, "one row per set; got NoneType. Pass the orderings on"),
    ],
)
def test_what_is_no_model(model, orderings, error, message, sets):
    with pytest.raises(error, match=message):
        predict(model, sets, orderings=orderings)


def test_a_context_that_the_function_does_not_take(sets):
    with pytest.raises(TypeError, match=r"a model that is called model\(sets, orderings, context=…\); got a function"):
        predict(lambda sets, orderings: sets.values, sets, orderings=Tuples(1), context=torch.zeros(len(sets), 1))
