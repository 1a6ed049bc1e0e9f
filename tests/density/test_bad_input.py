"""One clear error for each thing that densities cannot take."""

from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.distributions import Gamma, Independent

from janossy import GRU, AllPermutations, Canonical, Ragged, Sampled, Tuples
from janossy.density import (
    Autoregressive,
    Bounded,
    CategoricalSizes,
    ExchangeableDensity,
    Head,
    IidMixture,
    NegativeBinomialSizes,
    Normals,
    anomaly_scores,
    complete,
)


class Reversed(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = GRU(2, 4, per_position=True)

    def forward(self, x):
        return self.gru(x.flip(1)).flip(1)


SETS = Ragged.from_sizes(torch.zeros(9, 2), [9])
Q = Autoregressive(GRU(2, 4, per_position=True), Normals(2))
P = ExchangeableDensity(Q)
SIZED = ExchangeableDensity(Q, sizes=CategoricalSizes(5))


def given_n(orderings):
    return ExchangeableDensity(Q, sizes=None, orderings=orderings)


REFUSED = {
    "a bound of no orders": (lambda: P.log_prob(SETS, 0), ValueError, "num_permutations >= 1 orders .*=0"),
    "a bound of a half": (lambda: P.log_prob(SETS, 0.5), TypeError, "num_permutations"),
    "all orders of nine": (lambda: P.log_prob(SETS, max_exact=9), ValueError, "max_exact <= 8"),
    "a negative number": (lambda: P.log_prob(SETS, max_exact=-1), ValueError, "max_exact >= 0"),
    "an unknown scheme": (lambda: P.log_prob(SETS, scheme="none"), ValueError, "scheme"),
    "training on all orders": (lambda: given_n(AllPermutations())(SETS), ValueError, "a set of 9"),
    "a tensor": (lambda: P(SETS.values), TypeError, "Ragged"),
    "no orderings": (lambda: given_n(3), TypeError, "expects orderings"),
    "one canonical order": (lambda: given_n(Canonical()), ValueError, "over all of them"),
    "parts of orders": (lambda: given_n(Sampled(2, k=2)), ValueError, "over all of them"),
    "pairs": (lambda: given_n(Tuples(2)), ValueError, "over all of them"),
    "another q": (lambda: ExchangeableDensity(nn.Linear(2, 1)), TypeError, "Autoregressive"),
    "numbers as sizes": (lambda: ExchangeableDensity(Q, sizes=5), TypeError, "NegativeBinomialSizes"),
    "a set too large": (lambda: SIZED(SETS), ValueError, "at most 5 elements.*one of 9"),
    "a bound too large": (lambda: SIZED.log_prob(SETS), ValueError, "at most 5 elements"),
    "a completion too large": (lambda: complete(SIZED, SETS, num_missing=2), ValueError, "one of 11"),
    "a negative completion": (lambda: complete(P, SETS, num_missing=-1), ValueError, "num_missing"),
    "no walks": (lambda: complete(P, SETS, num_missing=1, num_walks=0), ValueError, "num_walks"),
    "no samples": (lambda: anomaly_scores(P, SETS, num_samples=0), ValueError, "num_samples"),
    "scores of a tensor": (lambda: anomaly_scores(P, SETS.values), TypeError, "Ragged"),
    "samples of what": (lambda: P.sample(), ValueError, "sizes"),
    "samples of any size": (lambda: P.sample(3), ValueError, "given n"),
    "samples twice": (lambda: SIZED.sample(3, sizes=[3]), ValueError, "Give one"),
    "samples too large": (lambda: SIZED.sample(sizes=[6]), ValueError, "at most 5"),
    "samples of negative size": (lambda: P.sample(sizes=[-1]), ValueError, "sizes >= 0"),
    "samples of a number": (lambda: P.sample(sizes=5), TypeError, "sequence of integers"),
    "samples of halves": (lambda: P.sample(sizes=[0.5]), TypeError, "sequence of integers"),
    "a generator that is none": (lambda: P.sample(sizes=[1], generator=3), TypeError, "Generator"),
    "a reader of ends": (lambda: Autoregressive(GRU(2, 4), Normals(2)), ValueError, "per_position=True"),
    "a reader of three": (lambda: Autoregressive(GRU(3, 4, per_position=True), Normals(2)), ValueError, "GRU says"),
    "a reader in both directions": (
        lambda: Autoregressive(GRU(2, 4, per_position=True, bidirectional=True), Normals(2)), ValueError, "reads ahead",
    ),
    "a reader from behind": (lambda: Autoregressive(Reversed(), Normals(2)), ValueError, "reads ahead"),
    "a reader that is none": (lambda: Autoregressive(torch.tanh, Normals(2)), TypeError, "module"),
    "a head that is none": (lambda: Autoregressive(GRU(2, 4), nn.Linear(4, 2)), TypeError, "Normals"),
    "a mixture of no head": (lambda: IidMixture(None), TypeError, "head"),
    "a mixture of none": (lambda: IidMixture(Normals(2), num_components=0), ValueError, "num_components"),
    "k = 1": (lambda: Autoregressive(GRU(2, 4, per_position=True), Normals(2), k=1), ValueError, "IidMixture"),
    "k = 0": (lambda: Autoregressive(GRU(2, 4, per_position=True), Normals(2), k=0), ValueError, "k >= 1"),
    "bounds that cross": (lambda: Bounded([0.0, 1.0], [1.0, 1.0]), ValueError, "low < high"),
    "bounds of two widths": (lambda: Bounded([0.0], [1.0, 1.0]), ValueError, "as many"),
    "bounds of no columns": (lambda: Bounded([], []), ValueError, "as there are columns"),
    "bounds without end": (lambda: Bounded([0.0], [torch.inf]), ValueError, "finite"),
    "bounds that are words": (lambda: Bounded("a", "b"), ValueError, "low='a'"),
    "a head of no columns": (lambda: Normals(0), ValueError, "num_columns"),
    "sizes of less variance": (lambda: NegativeBinomialSizes(5, 1), ValueError, "CategoricalSizes"),
    "sizes of no mean": (lambda: NegativeBinomialSizes(torch.nan), ValueError, "mean > 0"),
    "sizes that are halves": (lambda: CategoricalSizes.fitted([1.5]), TypeError, "sequence of integers"),
    "sizes below zero": (lambda: CategoricalSizes(-1), ValueError, "max_size >= 0"),
    "sizes of nothing": (lambda: CategoricalSizes.fitted([]), ValueError, "at least one"),
    "sizes above max_size": (lambda: CategoricalSizes.fitted([3, 4], max_size=3), ValueError, "Raise max_size"),
    "sizes without a pseudo-count": (lambda: CategoricalSizes.fitted([3], pseudo_count=0), ValueError, "pseudo_count"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_one_clear_error(what):
    call, kind, match = REFUSED[what]
    with pytest.raises(kind, match=match) as caught:
        call()
    text = str(caught.value)
    assert "got" in text or "says" in text or "reads ahead" in text
    assert len(text) < 500 and not any(a == b for a, b in pairwise(text.split(". ")))


class Waits(Head):
    """A head of somebody else's."""

    expects = "positive numbers (N, 1)"

    def __init__(self):
        super().__init__(event_shape=(1,), num_parameters=2, num_features=1)

    def distribution(self, parameters):
        shape, rate = (parameters.unsqueeze(-2).exp() + 0.01).unbind(-1)
        return Independent(Gamma(shape, rate, validate_args=False), 1, validate_args=False)


def test_a_head_of_ones_own_checks_its_support():
    p = ExchangeableDensity(Autoregressive(GRU(1, 4, per_position=True), Waits()), sizes=CategoricalSizes(3))
    drawn = p.sample(10, generator=torch.Generator().manual_seed(0))
    assert p.log_prob(drawn).log_prob.isfinite().all()
    for value in (-1.0, torch.nan, torch.inf):
        with pytest.raises(ValueError, match="positive numbers"):
            p(Ragged.from_sizes(torch.tensor([[1.0], [value]]), [2]))
