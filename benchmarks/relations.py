"""``Relations`` of all pairs against message passing, attention, and itself at ten times the size.

Forward and backward, float32. One set of n elements with 32 features, f = TupleMLP with 32 units. Message passing is on
a complete graph. It writes f's pre-activation of every pair, (n, n, 32), by adding projections, and takes the mean over
the others. That is what remains of such a layer if its first linear map is applied once per element.

Attention has the same width, and one head per 8 features. If two sizes are compared, the columns are the times at
n = 10,000 and n = 100,000: a path linear in n gives 10.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.harness import Row, backward
from janossy import Ragged, TupleMLP
from janossy.functions import ACTIVATIONS
from janossy.nn import Relations, SelfAttention

D = 32


def rows() -> Iterator[Row]:
    """Yields message passing at n = 10 to 1,000, attention at n = 3,000, and the slope to n = 100,000."""
    for activation, n in (("tanh", 10), ("tanh", 100), ("tanh", 1_000), ("relu", 1_000)):
        yield complete_graph_row(activation, n)
    for n in (8, 30, 100):
        yield triples_row(n)
    yield attention_row(3_000)
    for activation in ("tanh", "relu"):
        yield slope_row(activation, 10_000, 100_000)


def one_set(n: int) -> Ragged:
    """Returns a set of n elements."""
    return Ragged.from_sets([torch.randn(n, D)]).with_values(torch.randn(n, D, requires_grad=True))


def complete_graph_row(activation: str, n: int) -> Row:
    """Returns the row of relations against all pairs written to memory."""
    sets, f = one_set(n), TupleMLP(2, D, D, out_features=D, activation=activation)
    layer = Relations(f)

    def messages() -> Tensor:
        p = f.structure().project(sets.values)
        pairs = ACTIVATIONS[activation](p[:, None, 0] + p[None, :, 1])
        own = ACTIVATIONS[activation](p[:, 0] + p[:, 1])
        return backward(f.output((pairs.sum(1) - own) / (n - 1)))

    return Row(
        f"{activation} n={n:,}, against message passing on the complete graph",
        lambda: backward(layer(sets).values),
        messages,
    )


def triples_row(n: int) -> Row:
    """Returns the row of relations over triples against enumeration of all triples by their projections."""
    sets, f = one_set(n), TupleMLP(3, D, D, out_features=D, activation="tanh")
    layer, enumerated = Relations(f), Relations(f, evaluate="projected")
    return Row(
        f"triples of tanh n={n:,}, against all of them enumerated",
        lambda: backward(layer(sets).values),
        lambda: backward(enumerated(sets).values),
    )


def attention_row(n: int) -> Row:
    """Returns the row of all pairs by relations against all pairs by attention."""
    sets = one_set(n)
    layer, attention = Relations(TupleMLP(2, D, D, out_features=D, activation="tanh")), SelfAttention(D)
    return Row(
        f"tanh n={n:,}, against attention",
        lambda: backward(layer(sets).values),
        lambda: backward(attention(sets).values),
        agree=False,
    )


def slope_row(activation: str, small: int, large: int) -> Row:
    """Returns the row of one layer at two sizes."""
    layer = Relations(TupleMLP(2, D, D, out_features=D, activation=activation))
    few, many = one_set(small), one_set(large)
    return Row(
        f"{activation}, n={large:,} over n={small:,}",
        lambda: backward(layer(few).values),
        lambda: backward(layer(many).values),
        agree=False,
    )
