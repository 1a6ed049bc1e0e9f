"""ColumnEmbedding, PooledNorm, Readout: by hand, and what they refuse."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from janossy.nn import ColumnEmbedding, PooledNorm, Readout
from janossy.nn.column_embedding import embedding_width
from tests.examples import generator
from tests.laws import close

pytestmark = pytest.mark.usefixtures("float64")

ROWS = torch.tensor([[0.0, 4.0, 1.5, -2.0], [2.0, 0.0, 0.5, 7.0], [2.0, 4.0, 0.0, 0.0]])
"""Two columns of codes, below 3 and 5, and two of numbers."""


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("width", [None, 3])
def test_columns_are_embedded_side_by_side(scaled, width):
    embed = ColumnEmbedding([3, 5], num_numbers=2, embedding_features=width, scaled=scaled)
    if scaled:
        nn.init.normal_(embed.scales)
    first, second = embed.embeddings
    factors = embed.scales if scaled else torch.ones(2)
    expected = torch.stack(
        [torch.cat((first.weight[int(row[0])], second.weight[int(row[1])], row[2:] * factors)) for row in ROWS]
    )
    out = embed(ROWS)
    close(out, expected)
    assert out.shape[1] == embed.out_features
    assert [len(place) for place in embed.places] == [first.embedding_dim, second.embedding_dim, 1, 1]
    for column, place in enumerate(embed.places):
        other = ROWS.clone()
        other[:, column] = (other[:, column] + 1) % 3
        changed = (embed(other) != out).any(0).nonzero()[:, 0].tolist()
        assert set(changed) <= set(place) and changed


def test_the_unknown_starts_as_zero_and_learns():
    embed = ColumnEmbedding([3], num_numbers=0)
    assert not embed(torch.zeros(1, 1)).any() and embed(torch.ones(1, 1)).any()
    embed(torch.zeros(4, 1)).sum().backward()
    assert embed.embeddings[0].weight.grad[0].any()


def test_embeddings_widen_with_the_vocabulary_and_stay_below_fifty():
    widths = [embedding_width(n) for n in (1, 2, 5, 14, 100, 10_000, 10**7)]
    assert widths == sorted(widths) and widths[0] >= 1 and widths[-1] == 50


def test_numbers_alone_pass():
    assert torch.equal(ColumnEmbedding([], num_numbers=4)(ROWS), ROWS)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ColumnEmbedding("ab", num_numbers=1), TypeError, "vocabularies as a list of integers; got 'ab'"),
        (lambda: ColumnEmbedding([0], num_numbers=1), ValueError, "vocabularies, all >= 1; got vocabularies=0|expects"),
        (lambda: ColumnEmbedding([3], num_numbers=-1), ValueError, "num_numbers"),
        (lambda: ColumnEmbedding([], num_numbers=0), ValueError, "num_numbers, all >= 1; got num_numbers=0"),
        (lambda: ColumnEmbedding([3], num_numbers=2.5), TypeError, "num_numbers"),
        (
            lambda: ColumnEmbedding([], num_numbers=2, by_category=True),
            ValueError,
            r"a column of categories for by_category=True; got vocabularies=\[\]. Drop",
        ),
        (
            lambda: ColumnEmbedding([3, 5], num_numbers=2)(ROWS[:, :3]),
            ValueError,
            r"rows \(N, 4\), codes.*; got \(3, 3\). Give as",
        ),
        (lambda: ColumnEmbedding([3, 5], num_numbers=2)([1, 2]), TypeError, "as a tensor; got list"),
        (lambda: Readout(4, 8, 1, activation="no"), ValueError, "an activation among tanh, .*; got 'no'"),
        (lambda: Readout(4, 8, 1, dropout=2), ValueError, "dropout"),
        (lambda: Readout(4, 8, 1, first=3), TypeError, "first to be a module or None; got 3"),
        (lambda: Readout(4, 8, 1, embed=nn.ReLU()), TypeError, "embed to be a module that says its out_features"),
        (lambda: Readout(0, 8, 1), ValueError, "in_features"),
        (
            lambda: Readout(4, 8, 1)(torch.ones(2, 4), torch.ones(2, 1)),
            ValueError,
            r"no context.*; got \(2, 1\). Build",
        ),
        (
            lambda: Readout(4, 8, 1, embed=ColumnEmbedding([], num_numbers=1))(torch.ones(2, 4)),
            ValueError,
            "a context .*; got none",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_amounts_enter_with_their_logarithms():
    """From standardised numbers, of which one was 0."""
    mean, scale, unit = 3.0, 20.0, 0.01
    x = torch.tensor([0.0, 0.01, 1.0, 100.0, -1.0], dtype=torch.float64)
    rows = torch.stack([torch.zeros(5, dtype=torch.float64), (x - mean) / scale], 1)
    embed = ColumnEmbedding([], num_numbers=2, amounts=[(1, mean, scale, unit)])
    found = embed(rows)
    assert found.shape == (5, 4) == (5, embed.out_features)
    close(found[:, :2], rows)
    close(found[:, 2], torch.asinh(x / unit) / math.asinh((mean + scale) / unit))
    assert found[:, 3].tolist() == [1, 0, 0, 0, 0]
    assert embed(rows.float())[:, 3].tolist() == [1, 0, 0, 0, 0]
    again = ColumnEmbedding(**embed.config())
    close(again(rows), found)
    for wrong in [(2, mean, scale, unit), (1, mean, scale, 0.0), (1, math.nan, scale, unit), (1, mean)]:
        with pytest.raises(ValueError, match="expects amounts as"):
            ColumnEmbedding([], num_numbers=2, amounts=[wrong])


def test_numbers_beyond_the_limits_are_taken_as_the_limit():
    """In all features of the number."""
    more = {"amounts": [(0, 1.0, 2.0, 0.1)], "quantiles": [(0, [-9.0, 0.0, 9.0])]}
    limited = ColumnEmbedding((), num_numbers=2, limits=[(0, -1.0, 2.0)], **more)
    free = ColumnEmbedding((), num_numbers=2, **more)
    x = torch.tensor([[-5.0, 9.0], [-1.0, -9.0], [0.5, 0.0], [2.0, 3.0], [2.5, 1e9]])
    assert torch.equal(limited(x), free(torch.stack((x[:, 0].clamp(-1, 2), x[:, 1]), 1)))


def test_skewed_numbers_enter_with_their_levels():
    """By numpy's interpolation; of several equal quantiles the upper level counts."""
    knots = [-1.0, 0.0, 0.0, 0.5, 4.0]
    x = torch.tensor([-2.0, -1.0, -0.25, 0.1, 0.5, 3.0, 9.0], dtype=torch.float64)
    embed = ColumnEmbedding([], num_numbers=2, quantiles=[(1, knots)])
    rows = torch.stack([torch.ones(7, dtype=torch.float64), x], 1)
    found = embed(rows)
    levels = np.interp(x.numpy(), knots, np.linspace(0, 1, 5))
    assert found.shape == (7, 3) == (7, embed.out_features)
    close(found[:, 2], torch.from_numpy((levels - 0.5) * 12**0.5))
    assert embed(torch.zeros(1, 2))[0, 2] == 0  # 0 is a quantile twice: the level is the upper one, 0.5
    close(ColumnEmbedding(**embed.config())(rows), found)
    for wrong in [(2, knots), (1, [1.0, 0.0]), (1, [0.0, 0.0]), (1, [math.nan, 0.0]), (1,), 3]:
        with pytest.raises(ValueError, match="expects quantiles as"):
            ColumnEmbedding([], num_numbers=2, quantiles=[wrong])


def test_numbers_that_may_be_codes_have_embeddings():
    values = [-1.5, -0.5, 0.25]
    embed = ColumnEmbedding([3], num_numbers=2, coded=[(1, values)], embedding_features=4)
    numbers = torch.tensor([-1.5, 0.25, 0.2500001, 7.0, -1.0])
    found = embed(torch.stack([torch.ones(5), torch.zeros(5), numbers], 1))
    assert found.shape == (5, 10) == (5, embed.out_features)
    close(found[:, 6:], embed.of_values[0].weight[torch.tensor([1, 3, 3, 0, 0])])
    assert not found[3:, 6:].any() and found[:3, 6:].any(1).all()
    again = ColumnEmbedding(**embed.config())
    again.load_state_dict(embed.state_dict())
    assert torch.equal(again(torch.ones(1, 3)), embed(torch.ones(1, 3)))
    for wrong in [(2, values), (1, [1.0, 1.0, 2.0]), (1, [1.0]), (1,), 3]:
        with pytest.raises(ValueError, match="expects coded as"):
            ColumnEmbedding([], num_numbers=2, coded=[wrong])


def test_numbers_are_scaled_by_their_categories():
    """They start as they are; then each category has a factor and a shift for each number, and they add up."""
    embed = ColumnEmbedding([3, 2], num_numbers=2, embedding_features=1, by_category=True)
    rows = torch.tensor([[0, 1, 2.0, -1.0], [2, 0, 0.5, 3.0]])
    close(embed(rows)[:, -2:], rows[:, 2:])
    for change in embed.affine:
        nn.init.normal_(change.weight)
    by_hand = []
    for first, second, *numbers in rows.tolist():
        change = embed.affine[0].weight[int(first)] + embed.affine[1].weight[int(second)]
        by_hand.append(torch.stack([x * (1 + change[j]) + change[2 + j] for j, x in enumerate(numbers)]))
    found = embed(rows)
    assert found.shape == (2, 6) == (2, embed.out_features)
    close(found[:, 4:], torch.stack(by_hand))
    again = ColumnEmbedding(**embed.config())
    again.load_state_dict(embed.state_dict())
    close(again(rows), found)


@pytest.mark.parametrize("hidden", [(), 5, (5, 3)])
@pytest.mark.parametrize("context", [False, True])
def test_readout_by_hand(hidden, context):
    embed = ColumnEmbedding([3, 5], num_numbers=2) if context else None
    rho = Readout(4, hidden, 2, first=nn.Linear(6, 4), embed=embed, activation="gelu", dropout=0.5).eval()
    pooled = torch.randn(3, 6, generator=generator())
    z = rho.first(pooled)
    z = torch.cat((z, embed(ROWS)), 1) if context else z
    for layer in rho.layers[:-1]:
        z = nn.functional.gelu(layer(z))
    close(rho(pooled, ROWS if context else None), rho.layers[-1](z))
    if not context:
        close(rho(pooled, torch.zeros(3, 0)), rho(pooled))
    if hidden:
        assert not torch.equal(rho.train()(pooled, ROWS if context else None), rho(pooled, ROWS if context else None))


def test_a_batch_of_one_is_normalised_as_in_evaluation():
    norm, x = PooledNorm(3), torch.randn(5, 3, generator=generator()) * 3 + 1
    close(norm(x), (x - x.mean(0)) / (x.var(0, correction=0) + norm.eps).sqrt())
    state = {name: entry.clone() for name, entry in norm.state_dict().items()}
    alone = norm(x[:1])
    assert all(torch.equal(entry, state[name]) for name, entry in norm.state_dict().items())
    close(alone, norm.eval()(x[:1]))
    close(norm(x)[:1], alone)
