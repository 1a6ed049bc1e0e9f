"""Networks in which several layers draw: sets of sets, and layers before the pooling. Means against all orders.

Every set is repeated, and the copies draw independently. So the copies are repeated predictions of one number.
"""

from itertools import permutations, product

import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    AllPermutations,
    JanossyEquivariant,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
    predict,
)
from janossy.inference import Prediction, predict_passes
from janossy.nn import SetEncoder
from janossy.orderings import Orderings
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

COPIES = 4_000
INNER = (3, 2, 1)
"""The sizes of one outer set's inner sets."""


def orders(n: int) -> torch.Tensor:
    """Returns all orders of n elements, (n!, n)."""
    return torch.tensor(list(permutations(range(n))))


def with_large_weights(module: nn.Module) -> nn.Module:
    """Returns the module with weights by which orders matter."""
    for weight in module.parameters():
        nn.init.normal_(weight)
    return module.eval()


class Levels:
    """Two recurrences: one reads the elements of inner sets, the other the vectors of inner sets."""

    def __init__(self, inner: Orderings, outer: Orderings) -> None:
        torch.manual_seed(3)
        self.inner = with_large_weights(JanossyPooling(GRU(2, 3), inner))
        self.outer = with_large_weights(JanossyNetwork(None, JanossyPooling(GRU(3, 2), outer), nn.Linear(2, 2)))
        self.x = torch.randn(sum(INNER), 2)

    def vectors(self, copies: int) -> Ragged:
        elements = Ragged.from_sizes(self.x.repeat(copies, 1), INNER * copies)
        return Ragged.from_sizes(self.inner(elements), [len(INNER)] * copies)

    def __call__(self, copies: int) -> torch.Tensor:
        return self.outer(self.vectors(copies))

    @torch.no_grad()
    def outputs(self) -> torch.Tensor:
        """Returns the output for every choice of orders in the levels that draw, (number of choices, 2)."""
        each = [self.inner.f(x[orders(len(x))]) for x in self.x.split(INNER)]
        if not self.inner.orderings.draws:
            each = [vectors.mean(0, keepdim=True) for vectors in each]
        choices = torch.stack([torch.stack(vectors) for vectors in product(*each)])
        read = self.outer.pooling.f(choices[:, orders(len(INNER))].flatten(0, 1)).unflatten(0, (len(choices), -1))
        return self.outer.rho(read.flatten(0, 1) if self.outer.pooling.orderings.draws else read.mean(1))


def ratio(prediction: Prediction) -> torch.Tensor:
    """Returns the variance of the copies' means, divided by the mean of their squared standard errors."""
    return prediction.mean.var(0) / prediction.standard_error.square().mean(0)


def law_of_copies(prediction: Prediction, outputs: torch.Tensor) -> None:
    """Holds 4,000 predictions, of 20 draws each, to the outputs of all choices of orders.

    Variances are within 15 %: that is 6.7 standard deviations, which chance exceeds once in 10^10 seeds. Means are
    within six of their standard errors, once in 10^8.
    """
    of_mean = outputs.std(0, unbiased=False) / 20**0.5
    assert ((ratio(prediction) - 1).abs() < 0.15).all()
    assert ((prediction.mean.var(0) / of_mean.square() - 1).abs() < 0.15).all()
    assert ((prediction.mean.mean(0) - outputs.mean(0)).abs() < 6 * of_mean / COPIES**0.5).all()


LEVELS = {
    "both": (Sampled(1), Sampled(1), 6 * 2 * 6),
    "the inner": (Sampled(1), AllPermutations(), 6 * 2),
    "the outer": (AllPermutations(), Sampled(1), 6),
}


@pytest.mark.statistical
@pytest.mark.parametrize(("inner", "outer", "num_choices"), LEVELS.values(), ids=LEVELS)
def test_of_sets_of_sets_the_standard_error_counts_the_draws_of_every_level(inner, outer, num_choices):
    levels = Levels(inner, outer)
    outputs = levels.outputs()
    assert len(outputs) == num_choices
    torch.manual_seed(0)
    law_of_copies(predict_passes(lambda: levels(COPIES), 20), outputs)


@pytest.mark.statistical
def test_an_error_of_one_level_alone_is_found():
    """Vectors that were pooled once are what the outer network's own ``predict`` takes for given."""
    levels = Levels(Sampled(1), Sampled(1))
    torch.manual_seed(0)
    prediction = predict(levels.outer, levels.vectors(COPIES), 20)
    assert (ratio(prediction) > 2).all()
    with pytest.raises(AssertionError):
        law_of_copies(prediction, levels.outputs())


def test_of_exact_levels_the_error_is_0():
    levels = Levels(AllPermutations(), AllPermutations())
    prediction = predict_passes(lambda: levels(2), 3)
    close(prediction.mean, levels.outputs().expand(2, 2))
    close(prediction.standard_error, torch.zeros(2, 2), atol=1e-15, rtol=0)


@pytest.mark.parametrize("seeded", ["inner", "outer"])
def test_a_level_whose_seed_fixes_its_orders_is_refused(seeded):
    levels = Levels(*(Sampled(1, seed=0) if level == seeded else Sampled(1) for level in ("inner", "outer")))
    with pytest.raises(ValueError, match=r"draw anew at every pass, .*; got Sampled\(seed=0\), .* Leave the seed, or"):
        predict_passes(lambda: levels(2))
    assert levels(2).shape == (2, 2)  # elsewhere the seed stands


# Layers that draw before the pooling


def encoded(pooling: Orderings, encoder: Orderings | None = None) -> JanossyNetwork:
    torch.manual_seed(1)
    layer = JanossyEquivariant(GRU(2, 3, per_position=True), encoder or Sampled(1))
    f = GRU(3, 2) if pooling.draws else TupleMLP(1, 3, 2)
    return with_large_weights(JanossyNetwork(None, JanossyPooling(f, pooling), nn.Linear(2, 2), encoder=layer))


@torch.no_grad()
def outputs_of(network: JanossyNetwork, x: torch.Tensor) -> torch.Tensor:
    """Returns the output for every order of the encoder, and of the pooling if it draws."""
    every = orders(len(x))
    elements = network.encoder.f(x[every]).gather(1, every.argsort(1)[..., None].expand(-1, -1, 3))
    if network.pooling.orderings.draws:
        return network.rho(network.pooling.f(elements[:, every].flatten(0, 1)))
    return network.rho(network.pooling.f(elements.flatten(0, 1)[:, None]).unflatten(0, (len(every), -1)).mean(1))


@pytest.mark.statistical
@pytest.mark.parametrize("pooling", [Sampled(1), Tuples(1)], ids=repr)
def test_predict_counts_the_draws_of_an_encoder(pooling):
    network, x = encoded(pooling), torch.randn(3, 2, generator=torch.Generator().manual_seed(5))
    torch.manual_seed(0)
    prediction = predict(network, Ragged.from_sizes(x.repeat(COPIES, 1), [3] * COPIES), 20)
    law_of_copies(prediction, outputs_of(network, x))
    assert prediction.num_permutations.unique().tolist() == [20]


def test_layers_of_a_set_encoder_are_counted_too():
    network, sets = encoded(Tuples(1)), Ragged.from_sizes(torch.randn(10, 2), [6, 4])
    torch.manual_seed(0)
    alone = predict(network, sets)
    network.encoder = SetEncoder([network.encoder])
    torch.manual_seed(0)
    within = predict(network, sets)
    close(within.mean, alone.mean)
    close(within.standard_error, alone.standard_error)
    assert (within.standard_error > 0).all()


def test_batches_links_and_groups_of_passes():
    network = encoded(Sampled(2)).train()
    sets = Ragged.from_sizes(torch.randn(17, 2), [6, 0, 4, 7])
    prediction = predict(network, sets, 7, batch_size=3, link="softmax", keep_outputs=True)
    close(prediction.mean.sum(1), torch.ones(4))
    assert prediction.num_permutations.tolist() == [8] * 4 and prediction.num_blocks.tolist() == [4] * 4
    close(prediction.outputs.mean(1), prediction.mean)
    assert prediction.outputs.shape == (4, 4, 2) and prediction.change_probability.shape == (4,)
    assert network.training and predict(network, sets).num_blocks.tolist() == [5] * 4
    assert predict(encoded(Tuples(1)), sets).num_blocks.tolist() == [20] * 4


def test_an_encoder_with_a_seed_is_one_function():
    network = encoded(Sampled(1), Sampled(1, seed=0))
    sets = Ragged.from_sizes(torch.randn(17, 2), [6, 0, 4, 7])
    assert torch.equal(predict(network, sets, 10, seed=1).mean, predict(network, sets, 10, seed=1).mean)


@pytest.mark.parametrize(
    "option",
    [{"seed": 0}, {"tolerance": 0.1}, {"block": 2}, {"generator": torch.Generator()}],
    ids=lambda x: next(iter(x)),
)
def test_options_of_the_pooling_s_draws_alone_are_refused(option):
    (name,) = option
    with pytest.raises(ValueError, match=rf"no {name} for .* got Sampled\(\) in encoder, and {name}=\. Leave {name}"):
        predict(encoded(Sampled(1)), Ragged.from_sizes(torch.randn(4, 2), [4]), **option)
