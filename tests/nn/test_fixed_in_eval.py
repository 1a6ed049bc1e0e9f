"""fixed_in_eval: the same permutations at every call in evaluation mode, and new ones everywhere else."""

import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    AllPermutations,
    Canonical,
    Distinct,
    ImportanceSampled,
    JanossyEquivariant,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    TupleMLP,
    Tuples,
    predict,
)
from janossy.inference import predict_passes
from janossy.nn import SetEncoder
from janossy.orderings import Learned
from janossy.saving import load, save
from tests.examples import D, distinct_sets, generator
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

SIZES = (7, 6, 1, 0)


@pytest.fixture
def sets():
    return distinct_sets(SIZES)


def discounted(x):
    """Another in every order."""
    return (x * 0.5 ** torch.arange(x.shape[1], dtype=x.dtype)[:, None]).sum(1)


def pooling(orderings=None, f=discounted, **options) -> JanossyPooling:
    given = Sampled(2) if orderings is None else orderings
    return JanossyPooling(f, given, **{"fixed_in_eval": True, **options})


@pytest.mark.parametrize(
    "orderings", [Sampled(2), Sampled(3, k=2), Sampled(2, exact_last=2), Distinct(3, k=2)], ids=repr
)
def test_two_calls_in_evaluation_are_equal(orderings, sets):
    fixed, fresh = pooling(orderings).eval(), pooling(orderings, fixed_in_eval=False).eval()
    assert torch.equal(fixed(sets), fixed(sets)) and torch.equal(fixed.rows(sets).values, fixed.rows(sets).values)
    assert not torch.equal(fresh(sets), fresh(sets))


def test_training_draws_anew_and_as_without_it(sets):
    fixed = pooling()
    assert not torch.equal(fixed(sets), fixed(sets))
    close(fixed(sets, generator=generator()), pooling(fixed_in_eval=False)(sets, generator=generator()))
    assert torch.equal(fixed.eval()(sets), fixed(sets))
    assert not torch.equal(fixed.train()(sets), fixed(sets))


def test_a_result_depends_on_its_set_alone(sets):
    fixed = pooling(Sampled(3)).eval()
    expected = fixed(sets)
    for b, x in enumerate(sets):
        close(fixed(Ragged.from_sets([x]))[0], expected[b])
        close(fixed(Ragged.from_sets([torch.ones(7, D), x[torch.randperm(len(x))]]))[1], expected[b])


def test_what_a_call_gives_is_drawn_anew(sets):
    fixed = pooling().eval()
    assert not torch.equal(fixed(sets, Sampled(2)), fixed(sets, Sampled(2)))
    assert not torch.equal(fixed(sets, generator=generator(1)), fixed(sets, generator=generator(2)))
    close(fixed(sets, generator=generator()), pooling(fixed_in_eval=False).eval()(sets, generator=generator()))


def test_predict_draws_anew(sets):
    fixed, fresh = (JanossyNetwork(None, pooling(Sampled(1), fixed_in_eval=each)) for each in (True, False))
    got, other = predict(fixed, sets, 10, generator=generator()), predict(fixed, sets, 10, generator=generator(5))
    close(got.mean, predict(fresh, sets, 10, generator=generator()).mean)
    assert not torch.equal(got.mean, other.mean) and (got.standard_error[:2] > 0).all()
    with pytest.raises(ValueError, match="Leave the seed, or fixed_in_eval, out"):
        predict_passes(lambda: fixed.eval()(sets))


@pytest.mark.parametrize(
    "orderings", [Tuples(2), Canonical(), AllPermutations(), Sampled(2, seed=5), Learned(lambda x: x[:, 0])]
)
def test_orderings_that_are_fixed_by_themselves_stay(orderings):
    """So that one option serves whatever orderings are tried."""
    sets = distinct_sets((4, 1))
    close(pooling(orderings).eval()(sets), pooling(orderings, fixed_in_eval=False).eval()(sets))


def test_orderings_of_training_need_no_seed(sets):
    layer = pooling(Tuples(2), f=TupleMLP(2, D, 3), orderings_train=ImportanceSampled(2, k=2))
    assert not torch.equal(layer(sets), layer(sets))
    assert torch.equal(layer.eval()(sets), layer(sets))


@pytest.mark.parametrize("layer", [JanossyPooling, JanossyEquivariant])
def test_orderings_that_no_seed_fixes_are_refused(layer):
    class Unseeded(Sampled):
        def redrawn(self, num_permutations, *, block=None, seed=None):
            if seed is not None:
                raise ValueError("no seed")
            return self

    f = GRU(D, 3, per_position=layer is JanossyEquivariant)
    with pytest.raises(ValueError, match=rf"{layer.__name__} expects, with fixed_in_eval, orderings whose rows a seed"):
        layer(f, Unseeded(2), fixed_in_eval=True)
    if layer is JanossyPooling:
        with pytest.raises(ValueError, match=r"got ImportanceSampled.*Use Sampled or Distinct, or leave fixed_in_eval"):
            layer(f, ImportanceSampled(2), fixed_in_eval=True)


def test_an_equivariant_layer(sets):
    f = GRU(D, 3, per_position=True)
    fixed, fresh = JanossyEquivariant(f, Sampled(1), fixed_in_eval=True), JanossyEquivariant(f, Sampled(1))
    assert not torch.equal(fixed(sets).values, fixed(sets).values)
    assert torch.equal(fixed.eval()(sets).values, fixed(sets).values)
    assert not torch.equal(fresh.eval()(sets).values, fresh(sets).values)
    close(fixed(sets, generator=generator()).values, fresh(sets, generator=generator()).values)


def test_predict_counts_no_draws_of_a_fixed_layer(sets):
    """The pooling alone then draws, so that it may be given a seed, a tolerance or a generator."""

    def network(fixed: bool) -> JanossyNetwork:
        before = JanossyEquivariant(GRU(D, D, per_position=True), Sampled(1), fixed_in_eval=fixed)

        class Encoded(nn.Module):
            def __init__(self):
                super().__init__()
                self.before = before

            def forward(self, x):
                return self.before(Ragged.from_sizes(x, SIZES)).values

        return JanossyNetwork(Encoded(), JanossyPooling(GRU(D, 2), Sampled(1)))

    assert (predict(network(True), sets, 6, seed=0).standard_error[:2] > 0).all()
    with pytest.raises(ValueError, match="layers beside the pooling draw"):
        predict(network(False), sets, 6, seed=0)


def test_predict_counts_no_draws_of_learned_orders(sets):
    """In evaluation, the layer before the pooling sorts by its scores."""
    before = JanossyEquivariant(GRU(D, D, per_position=True), Learned(nn.Linear(D, 1)))
    network = JanossyNetwork(None, JanossyPooling(GRU(D, 2), Sampled(1)), encoder=SetEncoder([before]))
    assert (predict(network, sets, 6, seed=0).standard_error[:2] > 0).all()


def test_it_is_saved_and_copied(tmp_path, sets):
    network = JanossyNetwork(None, pooling(Sampled(2), GRU(D, 3)), nn.Linear(3, 1)).eval()
    read = load(save(network, tmp_path / "saved")).eval()
    assert read.pooling.fixed_in_eval
    close(read(sets), network(sets))
