"""GatedAttention and AttentionMean: together, attention pooling (Ilse et al., 2018)."""

import pytest
import torch
from torch import nn

from janossy import JanossyPooling, Ragged, TupleMLP, Tuples
from janossy.functions import GatedAttention
from janossy.functions.gated_attention import MOST
from janossy.nn import AttentionMean
from tests.examples import distinct_sets, generator
from tests.laws import close, law_batch_mates, law_invariant

pytestmark = pytest.mark.usefixtures("float64")


def attention(k=1, num_heads=2):
    torch.manual_seed(3)
    return GatedAttention(TupleMLP(k, 2, 6), in_features=6, num_heads=num_heads, hidden_features=5)


def by_definition(f: GatedAttention, rows: torch.Tensor) -> torch.Tensor:
    """Returns each head's mean of its part of g, by the softmax of its scores."""
    values = f.g(rows)
    v, u = f.gates.weight.split(5)
    bias_v, bias_u = f.gates.bias.split(5)
    gated = torch.tanh(values @ v.T + bias_v) * torch.sigmoid(values @ u.T + bias_u)
    scores = MOST * torch.tanh(gated @ f.scores.weight.T / MOST)
    weights = scores.softmax(0)
    return torch.cat([weights[:, i] @ part for i, part in enumerate(values.chunk(f.num_heads, dim=1))])


@pytest.mark.parametrize("num_heads", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 2])
def test_attention_pooling(k, num_heads):
    f = attention(k, num_heads)
    pooling, sets = JanossyPooling(f, Tuples(k)), distinct_sets()
    pooled = AttentionMean(6, num_heads=num_heads)(pooling(sets))
    assert pooled.isfinite().all()
    positions, owners = Tuples(k).enumerate(sets).flatten()
    padded = torch.cat((sets.values, torch.zeros(1, 2)))
    for b in range(len(sets)):
        rows = torch.stack([padded[row] for row, owner in zip(positions, owners.tolist(), strict=True) if owner == b])
        close(pooled[b], by_definition(f, rows))


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e6])
def test_scores_of_any_size_stay_finite(factor):
    f = attention()
    f.scores.weight.data *= factor
    pooled = AttentionMean(6, num_heads=2)(JanossyPooling(f, Tuples(1))(distinct_sets()))
    pooled.sum().backward()
    assert pooled.isfinite().all() and all(p.grad.isfinite().all() for p in f.parameters())
    bounds = f.g(distinct_sets().values[:, None]).abs().max()
    assert pooled.abs().max() <= bounds + 1e-9


def test_float32_agrees_with_float64():
    f, sets = attention(), distinct_sets((50, 3))
    f.scores.weight.data *= 100  # weights from e^-10 to e^10
    exact = AttentionMean(6, num_heads=2)(JanossyPooling(f, Tuples(1))(sets))
    rough = AttentionMean(6, num_heads=2)(JanossyPooling(f.float(), Tuples(1))(sets.to(torch.float32)))
    torch.testing.assert_close(rough.double(), exact, atol=1e-5, rtol=1e-4)


def test_invariant_and_alone():
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.pooling, self.mean = JanossyPooling(attention(), Tuples(1)), AttentionMean(6, num_heads=2)
            self.orderings = self.pooling.orderings

        def forward(self, sets: Ragged):
            return self.mean(self.pooling(sets))

    law_invariant(Pooled(), distinct_sets())
    law_batch_mates(Pooled(), distinct_sets())


@pytest.mark.parametrize(
    "cls",
    [lambda m: GatedAttention(TupleMLP(1, 2, 6), in_features=6, num_heads=m), lambda m: AttentionMean(6, num_heads=m)],
)
def test_heads_must_divide(cls):
    with pytest.raises(ValueError, match=r"num_heads to divide (in_)?features=6; got num_heads=4"):
        cls(4)
    assert cls(3)


def test_rows_are_those_of_g():
    f = attention()
    rows = torch.randn(5, 1, 2, generator=generator())
    close(AttentionMean(6, num_heads=2)(f(rows)), f.g(rows))
