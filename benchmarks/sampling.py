"""The cost of sampling permutations, and the savings of exact averages over their last positions.

Forward passes without gradients, float32, as in prediction, unless the row says otherwise. In rows "drawn before", the
other side reads permutations that were sampled beforehand. 1 / ratio is then one plus the share of time for sampling.
"""

from collections.abc import Iterator

import torch

from benchmarks.harness import Row, backward
from benchmarks.recurrent import power_law_sizes
from janossy import GRU, LSTM, Canonical, JanossyPooling, Ragged, Sampled
from janossy.evaluate import Packed, SampledPrefixes
from janossy.orderings import Orderings
from janossy.orderings.drawn import Drawn
from janossy.orderings.schemes import SCHEMES


def rows() -> Iterator[Row]:
    """Yields every scheme on equal sizes, the default on skewed ones, and shared beginnings."""
    equal = Ragged.from_padded(torch.randn(128, 10, 100))
    for scheme in SCHEMES:
        yield drawing_row(
            f"GRU(100, 80), 128 sets of 10, m=20, {scheme}", GRU(100, 80), equal, Sampled(20, k=None, scheme=scheme)
        )
    sizes = power_law_sizes(500, largest=300)
    skewed = Ragged.from_sizes(torch.randn(sum(sizes), 64), sizes)
    for scheme in ("designed", "independent"):
        name = f"LSTM(64, 64), 500 sets of power-law sizes, m=8, {scheme}"
        yield drawing_row(name, LSTM(64, 64), skewed, Sampled(8, k=None, scheme=scheme))
    yield drawing_row("GRU(100, 80), 128 sets of 10, m=1", GRU(100, 80), equal, Sampled(1))
    for last in (2, 3, 4):
        yield prefixes_row(equal, last)
    yield canonical_row()


def drawing_row(name: str, f: GRU | LSTM, sets: Ragged, orderings: Sampled) -> Row:
    """Returns the row of new permutations at every call, against the same ones at every call."""
    drawn, pooling = Drawn(orderings.enumerate(sets), sets.sizes), JanossyPooling(f, orderings, evaluate=Packed())

    def ours() -> torch.Tensor:
        with torch.no_grad():
            return pooling(sets)

    def reference() -> torch.Tensor:
        with torch.no_grad():
            return pooling(sets, drawn)

    return Row(f"{name}, against drawn before", ours, reference, agree=False)


def prefixes_row(sets: Ragged, last: int) -> Row:
    """Returns the row of forward and backward: ends of sampled permutations as trees, against every row by itself."""
    f, orderings = GRU(100, 80), Sampled(4, seed=0, exact_last=last)
    shared, packed = (
        JanossyPooling(f, orderings, evaluate=SampledPrefixes()),
        JanossyPooling(f, orderings, evaluate=Packed()),
    )
    name = f"GRU(100, 80), 128 sets of 10, m=4, exact in the last {last}, forward and backward, against packed rows"
    return Row(name, lambda: backward(shared(sets)), lambda: backward(packed(sets)))


def canonical_row(num_sets: int = 3000, num_elements: int = 30_000, width: int = 32) -> Row:
    """Returns the row of Canonical beside Sampled(1), for elements whose first column decides the order."""
    sets = Ragged.from_index(torch.randn(num_elements, width), torch.randint(num_sets, (num_elements,)), num_sets)

    def last(orderings: Orderings) -> torch.Tensor:
        return orderings.enumerate(sets).buckets[-1].positions()

    name = f"Canonical beside Sampled(1): the rows of {num_sets} sets, {num_elements} elements of {width} numbers"
    return Row(name, lambda: last(Canonical()), lambda: last(Sampled(1)), agree=False)
