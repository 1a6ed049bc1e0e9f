"""predict: the mean over permutations of link(ρ∘f), in one call."""

import pytest
import torch
from torch import nn

from janossy import GRU, JanossyNetwork, JanossyPooling, Ragged, Sampled, TupleMLP, Tuples, predict
from tests.examples import ORDERINGS, distinct_sets, generator
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")


class Counted(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.inner(x)


def network(orderings=None, out=3, **options):
    torch.manual_seed(3)
    rho = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, out))
    return JanossyNetwork(nn.Linear(2, 4), JanossyPooling(GRU(4, 5), orderings or Sampled(1), **options), rho)


SETS = (5, 0, 1, 4, 4)


def test_mean_over_rows_of_rho():
    net = network().eval()
    sets = distinct_sets(SETS)
    prediction = predict(net, sets, 7, generator=generator(), keep_outputs=True)
    net.pooling.orderings, net.pooling.reduce = Sampled(7), None
    rows = torch.stack(list(net(sets, generator=generator())))
    close(prediction.outputs, rows)
    close(prediction.mean, rows.mean(1))
    close(prediction.standard_error, rows.std(1) / 7**0.5)
    assert prediction.num_permutations == 7 and not prediction.mean.requires_grad
    assert predict(net, sets, 7).outputs is None


@pytest.mark.parametrize(
    ("link", "formula"),
    [("softmax", lambda y: y.softmax(-1)), ("sigmoid", torch.sigmoid), (torch.exp, torch.exp), (None, lambda y: y)],
)
def test_the_link_comes_before_the_mean(link, formula):
    net, sets = network(), distinct_sets(SETS)
    raw = predict(net, sets, 7, seed=1, keep_outputs=True).outputs
    linked = predict(net, sets, 7, seed=1, link=link)
    close(linked.mean, formula(raw).mean(1))
    if link == "softmax":
        close(linked.mean.sum(1), torch.ones(len(sets)))
        assert (linked.mean - raw.mean(1).softmax(-1)).abs().max() > 1e-6


def test_h_is_computed_once_and_f_once_for_each_size():
    net = network()
    net.h, net.pooling.f = Counted(net.h), Counted(net.pooling.f)
    predict(net, distinct_sets(SETS), 20)
    assert net.h.calls == 1
    assert net.pooling.f.calls == 3


@pytest.mark.parametrize("k", [None, 2])
def test_a_seed_makes_it_a_function_of_the_multiset(k):
    net, sets = network(Sampled(1, k=k)), distinct_sets(SETS)
    expected = predict(net, sets, 5, seed=2).mean
    for shuffle in range(3):
        source = generator(shuffle)
        shuffled = Ragged.from_sets([x[torch.randperm(len(x), generator=source)] for x in sets])
        assert torch.equal(predict(net, shuffled, 5, seed=2).mean, expected)
    for b in range(len(sets)):
        close(predict(net, sets[[b]], 5, seed=2).mean[0], expected[b], atol=1e-6, rtol=1e-6)
    reversed_batch = predict(net, sets[::-1], 5, seed=2).mean.flip(0)
    close(reversed_batch, expected, atol=1e-6, rtol=1e-6)
    assert not torch.allclose(predict(net, sets, 5, seed=3).mean, expected)
    assert torch.equal(predict(network(Sampled(1, k=k, seed=2)), sets, 5).mean, expected)


def test_without_a_seed_draws_are_fresh():
    net, sets = network(), distinct_sets((6,))
    assert not torch.equal(predict(net, sets, 2).mean, predict(net, sets, 2).mean)
    repeated = [predict(net, sets, 2, generator=generator(1)).mean for _ in range(2)]
    assert torch.equal(*repeated)


@pytest.mark.statistical
def test_standard_error_is_calibrated():
    """Of 600 means of 20 permutations about 95 % (0.93 for t₁₉ at 1.96) lie within 1.96 standard errors of the truth.

    Fails by chance less than once in 10^6 seeds: bounds at five binomial standard deviations.
    """
    net = network(out=1)
    sets = distinct_sets((5,))
    truth = predict(net, Ragged.cat([sets] * 200), 500, generator=generator(1)).mean.mean()
    prediction = predict(net, Ragged.cat([sets] * 600), 20, generator=generator(2))
    inside = ((prediction.mean - truth).abs() < 1.96 * prediction.standard_error).double().mean().item()
    assert 0.87 < inside < 0.985
    spread = prediction.mean.std() / prediction.standard_error.mean()
    assert 0.85 < spread < 1.15


@pytest.mark.parametrize("ordering", [name for name in ORDERINGS if not name.startswith("sampled")])
def test_exact_orderings_need_no_permutations(ordering):
    orderings = ORDERINGS[ordering]
    net, sets = network(orderings).eval(), distinct_sets(SETS)
    prediction = predict(net, sets, link="softmax", keep_outputs=True)
    close(prediction.mean, net(sets).softmax(-1))
    assert prediction.num_permutations == 0 and not prediction.standard_error.any()
    close(prediction.outputs, prediction.mean[:, None])


def test_one_permutation_has_no_standard_error():
    prediction = predict(network(), distinct_sets(SETS), 1)
    assert prediction.standard_error.isnan().all() and prediction.mean.isfinite().all()


@pytest.mark.parametrize("sizes", [(), (0, 0)])
@pytest.mark.filterwarnings("ignore:std")
def test_no_elements(sizes):
    prediction = predict(network(), distinct_sets(sizes), 4)
    assert prediction.mean.shape == prediction.standard_error.shape == (len(sizes), 3)
    assert not prediction.standard_error.any()


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_mode_meanwhile_and_restored(training):
    modes = []

    class Watches(nn.Module):
        def forward(self, x):
            modes.append(self.training)
            if len(modes) == 2:
                raise RuntimeError("broken")
            return x

    net = network()
    net.rho = nn.Sequential(net.rho, Watches())
    net.train(training)
    net.h.eval()  # frozen by its owner, whatever the network's mode

    def restored():
        return [net.training, net.rho[1].training, net.pooling.f.training, net.h.training] == [training] * 3 + [False]

    predict(net, distinct_sets(SETS))
    assert modes == [False] and restored()
    with pytest.raises(RuntimeError, match="broken"):
        predict(net, distinct_sets(SETS))
    assert modes == [False, False] and restored()


def test_append_size_and_the_evaluator_are_kept():
    net = network(append_size=True)
    net.pooling.f = GRU(5, 5)
    assert predict(net, distinct_sets(SETS), 3).mean.shape == (5, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_permutations": 0}, "num_permutations >= 1; got 0"),
        ({"link": "relu"}, "a link among None, 'sigmoid', 'softmax' or a function; got 'relu'"),
        ({"seed": 0, "generator": torch.Generator()}, "both seed= and a generator"),
        ({"seed": -1}, "seed >= 0; got seed=-1"),
    ],
)
def test_errors(arguments, message):
    net = network()
    with pytest.raises(ValueError, match=message):
        predict(net, distinct_sets(SETS), **arguments)
    assert net.training


def test_rows_cannot_be_predicted():
    net = JanossyNetwork(None, JanossyPooling(TupleMLP(2, 2, 3), Tuples(2), reduce=None), None)
    with pytest.raises(ValueError, match="one vector a set; got reduce=None"):
        predict(net, distinct_sets(SETS))
