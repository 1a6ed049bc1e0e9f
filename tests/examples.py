"""The example lists for all laws, with one line per ordering, function and evaluator. Add yours here."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations, permutations

import torch
from torch import Tensor, nn

from janossy import (
    GRU,
    LSTM,
    RNN,
    AllPermutations,
    BalancedTree,
    Canonical,
    Combinations,
    Distinct,
    ImportanceSampled,
    JanossyPooling,
    MinGRU,
    Ragged,
    Sampled,
    Spectral,
    TupleMLP,
    TupleProduct,
    Tuples,
)
from janossy import nn as layers
from janossy.evaluate import (
    DistinctTuples,
    Elementwise,
    Fused,
    Gather,
    Packed,
    Permanent,
    Problem,
    Projected,
    SampledPrefixes,
    SharedPrefixes,
)
from janossy.functions import ACTIVATIONS, FeaturedMLP, GatedAttention, MonotoneLattice, TupleFeatures
from janossy.orderings import AsGiven, Learned, OrderWeights

D = 2
"""The number of features of an element in the examples."""

SIZES = (3, 0, 5, 1, 2, 3)
"""The sizes {0, 1, k − 1, k, 5} for k = 3, and most of those for k = 2. Two sets have one size."""


def tying_key(x: Tensor) -> Tensor:
    """Returns a key with many ties: the sign of the first feature, descending."""
    return -x[:, 0].sign()


def weight_by_sign(x: Tensor) -> Tensor:
    """Returns weights in steps. They are constants for autograd, but finite differences would see the steps."""
    return 1.5 + x[:, 0].sign()


class Turned(nn.Module):
    """A module as key, with two numbers per element, the first of which has many ties."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack(((9 * x[:, 1] - x[:, 0]).clamp(-0.5, 0.5), x[:, 0] + x[:, 1]), 1)


class Scored(nn.Module):
    """A module as scorer, with many ties."""

    def forward(self, x: Tensor) -> Tensor:
        return (2 * x[:, :1] - x[:, 1:]).clamp(-1, 1)


def uneven_weights() -> OrderWeights:
    weights = OrderWeights(2).double()
    weights.logits.data = torch.tensor([0.4, -0.8], dtype=torch.float64)
    return weights


ORDERINGS = {
    "all_permutations": AllPermutations(),
    "as_given": AsGiven(),
    "as_given_first_2": AsGiven(k=2),
    "tuples_1": Tuples(1),
    "tuples_2": Tuples(2),
    "tuples_3": Tuples(3),
    "combinations_2": Combinations(2),
    "combinations_3_tying_key": Combinations(3, key=tying_key),
    "canonical": Canonical(),
    "canonical_tying_key": Canonical(key=tying_key),
    "canonical_column": Canonical(key=1),
    "canonical_3_keys": Canonical(key=(tying_key, None, 1)),
    "canonical_first_2": Canonical(k=2),
    "canonical_2_keys_first_3": Canonical(key=(1, tying_key), k=3),
    "canonical_2_keys_weighed": Canonical(key=(None, Turned()), order_weights=uneven_weights()),
    "sampled_1": Sampled(),
    "sampled_4": Sampled(4),
    "sampled_4_first_2": Sampled(4, k=2),
    "sampled_4_seeded": Sampled(4, seed=7),
    "sampled_4_first_3_seeded": Sampled(4, k=3, seed=7),
    "sampled_3_exact_last_2": Sampled(3, exact_last=2),
    "sampled_by_importance": ImportanceSampled(4, weights=weight_by_sign),
    "distinct_4": Distinct(4),
    "distinct_4_first_2_seeded": Distinct(4, k=2, seed=7),
    "learned": Learned(Scored(), num_permutations=3, sample=False),
    "learned_first_2": Learned(tying_key, k=2, sample=False),
    "learned_drawn_3": Learned(Scored(), num_permutations=3),
    "learned_drawn_3_first_2": Learned(tying_key, num_permutations=3, k=2),
}


def in_order(x: Tensor, key) -> list[int]:
    """Returns the positions of one set's elements, sorted by a key and then lexicographically."""
    columns = x[:, :0] if key is None else x[:, key] if isinstance(key, int) else key(x)
    keys = columns.reshape(len(x), columns[:1].numel() if len(x) else 0).tolist()
    return sorted(range(len(x)), key=lambda i: (keys[i], x[i].tolist()))


DEFINITIONS = {
    AllPermutations: lambda orderings, x: permutations(range(len(x))),  # Eq. 3
    AsGiven: lambda orderings, x: [range(len(x))[: orderings.k]],
    # Def. 2.2: the first k of every permutation, each distinct prefix once
    Tuples: lambda orderings, x: dict.fromkeys(order[: orderings.k] for order in permutations(range(len(x)))),
    Canonical: lambda orderings, x: [in_order(x, key)[: orderings.k] for key in orderings.each_key],  # Section 2.1
    # the highest score first
    Learned: lambda orderings, x: [in_order(x, lambda x: -orderings.scorer(x))[: orderings.k]],
    # increasing subsequences of the sorted set
    Combinations: lambda orderings, x: combinations(in_order(x, orderings.key), min(orderings.k, len(x))),
}
"""The positions of every row of one set x (n, d), by brute force, for orderings without samples."""

EXACT = [name for name, orderings in ORDERINGS.items() if not orderings.draws]
SEEDED = [name for name, orderings in ORDERINGS.items() if orderings.draws and orderings.seed is not None]
INVARIANT = [name for name in EXACT + SEEDED if not name.startswith("as_given")]
RANDOM = [name for name in ORDERINGS if name not in EXACT + SEEDED]
SORTED = [name for name in EXACT if name.startswith(("canonical", "combinations", "learned"))] + SEEDED
"""The orderings that sort each set first, and are therefore invariant to the last bit."""


class Transformer(nn.Module):
    """A Transformer encoder with learned positions as f, averaged over the positions of its outputs."""

    def __init__(self, in_features: int = D, width: int = 4, max_length: int = 8) -> None:
        super().__init__()
        self.embed = nn.Linear(in_features, width)
        self.positions = nn.Parameter(torch.randn(max_length, width))
        layer = nn.TransformerEncoderLayer(width, 2, dim_feedforward=6, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(self.embed(x) + self.positions[: x.shape[1]]).mean(1)


class Convolution(nn.Module):
    """A 1-D CNN as f: a convolution along the sequence, and an average over it."""

    def __init__(self, in_features: int = D, width: int = 4) -> None:
        super().__init__()
        self.first = nn.Conv1d(in_features, width, kernel_size=3, padding=1)
        self.second = nn.Conv1d(width, width, kernel_size=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x.mT).tanh()).tanh().mean(2)


def small_mlp(position: int) -> nn.Module:
    """Returns a factor of a TupleProduct, with another width at each position."""
    return nn.Sequential(nn.Linear(D, 3 + position), nn.Tanh(), nn.Linear(3 + position, 4))


def small_features(k: int) -> TupleFeatures:
    """Returns every kind of feature, including one of an angle; empty for k = 1."""
    some = {"differences": [0, 1], "absolute_differences": [1], "products": [0], "equal": [[0], [0, 1]]}
    return TupleFeatures(k, D, **some, distances=[[0, 1], [1]], units={1: 1.5}, periods={0: 5.0})


@dataclass(frozen=True)
class Example:
    """A function. ``build(k)`` makes one for rows of k elements, or with k None for rows of any length."""

    build: Callable[[int | None], nn.Module]
    needs_k: bool = False
    in_chunks: bool = True
    """True if evaluators that take a few rows at a time are worth a test."""
    least_k: int = 1


FUNCTIONS = {
    "tuple_mlp": Example(lambda k: TupleMLP(k, D, 4), needs_k=True),
    **{
        f"tuple_mlp_{activation}": Example(
            lambda k, a=activation: TupleMLP(k, D, (5, 4), out_features=3, activation=a), needs_k=True
        )
        for activation in ("tanh", "relu", "gelu")
    },
    **{
        f"tuple_mlp_one_layer_{activation}": Example(
            lambda k, a=activation: TupleMLP(k, D, 5, out_features=3, activation=a), True, False
        )
        for activation in ACTIVATIONS
    },
    "featured_mlp": Example(lambda k: FeaturedMLP(k, D, (5, 4), features=small_features(k)), needs_k=True, least_k=2),
    "tuple_features": Example(small_features, needs_k=True, in_chunks=False, least_k=2),
    "tuple_product": Example(lambda k: TupleProduct(k, D, 4), needs_k=True),
    "tuple_product_of_mlps": Example(lambda k: TupleProduct(k, D, 4, out_features=3, g=small_mlp), needs_k=True),
    "rnn": Example(lambda k: RNN(D, 3)),
    "gru": Example(lambda k: GRU(D, 3)),
    "lstm": Example(lambda k: LSTM(D, 3)),
    "lstm_deep_bidirectional": Example(lambda k: LSTM(D, 3, num_layers=2, bidirectional=True), in_chunks=False),
    "gru_unrolled": Example(lambda k: GRU(D, 3, unrolled=True)),
    "min_gru": Example(lambda k: MinGRU(D, 4)),
    "min_gru_deep": Example(lambda k: MinGRU(D, 3, num_layers=2), in_chunks=False),
    "balanced_tree": Example(lambda k: BalancedTree(D, 3), in_chunks=False),
    "gated_attention": Example(
        lambda k: GatedAttention(GRU(D, 4), in_features=4, num_heads=2, hidden_features=3), in_chunks=False
    ),
    "monotone_lattice": Example(
        lambda k: MonotoneLattice(k * D, 3, increasing=[0], num_keypoints=5, low=-2.7, high=2.6),
        needs_k=True,
        in_chunks=False,
    ),
    "transformer": Example(lambda k: Transformer()),
    "convolution": Example(lambda k: Convolution()),
}

WIDTH = 4
"""The width of elements in the examples of layers from sets to sets."""


def feed_forward() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 3), nn.Tanh(), nn.Linear(3, WIDTH))


SET_LAYERS: dict[str, Callable[[], layers.SetLayer]] = {
    "self_attention": lambda: layers.SelfAttention(WIDTH, num_heads=2),
    "self_attention_of_one_head": lambda: layers.SelfAttention(WIDTH, num_heads=1),
    "self_attention_biased": lambda: layers.SelfAttention(
        WIDTH, num_heads=2, bias=TupleMLP(2, WIDTH, 3, out_features=2)
    ),
    "induced_attention": lambda: layers.InducedAttention(WIDTH, num_points=3, num_heads=2),
    "induced_attention_inner": lambda: layers.InducedAttention(
        WIDTH, num_points=2, num_heads=4, inner=layers.Residual(feed_forward())
    ),
    "seed_attention": lambda: layers.SeedAttention(WIDTH, num_seeds=3, num_heads=2),
    "slot_attention": lambda: layers.SlotAttention(WIDTH, num_slots=3, num_rounds=2, num_heads=2, hidden_features=5),
    "slot_attention_with_moments": lambda: layers.SlotAttention(
        WIDTH, num_slots=3, num_rounds=2, num_heads=2, input_features=WIDTH
    ),
    "relations": lambda: layers.Relations(
        TupleMLP(2, WIDTH, 5, out_features=3, activation="gelu"), evaluate=Spectral(enumerate_up_to=0)
    ),
    "relations_where_cheaper": lambda: layers.Relations(TupleMLP(2, WIDTH, 5, activation="tanh")),
    "relations_by_sorting": lambda: layers.Relations(
        TupleMLP(2, WIDTH, 3, activation="relu"), reduce="sum", evaluate="fused"
    ),
    "relations_of_triples": lambda: layers.Relations(
        TupleMLP(3, WIDTH, 3, activation="tanh"), evaluate=Spectral(enumerate_up_to=0), memory_budget=1
    ),
    "relations_enumerated": lambda: layers.Relations(
        TupleMLP(3, WIDTH, 4, out_features=2, activation="relu"), reduce="sum", memory_budget=2000
    ),
    "relations_of_products": lambda: layers.Relations(TupleProduct(3, WIDTH, 4, out_features=2), reduce="sum"),
    "relations_of_rows": lambda: layers.Relations(GRU(WIDTH, 3), k=2, reduce="logmeanexp"),
    "relations_maximum": lambda: layers.Relations(TupleMLP(2, WIDTH, 3, activation="relu"), reduce="max"),
    "set_norm": lambda: layers.SetNorm(WIDTH),
    "residual": lambda: layers.Residual(feed_forward(), norm=layers.SetNorm(WIDTH)),
    "append_size": lambda: layers.AppendSize(largest_size=3),
    "beside_pooled": lambda: layers.BesidePooled(JanossyPooling(TupleMLP(2, WIDTH, 3), Tuples(2))),
    "equivariant": lambda: layers.JanossyEquivariant(
        GRU(WIDTH, 2, bidirectional=True, per_position=True), AllPermutations()
    ),
    "encoder": lambda: layers.SetEncoder(
        [layers.AppendSize(), nn.Linear(WIDTH + 1, WIDTH), *layers.attention_blocks(WIDTH, num_blocks=2, num_points=2)]
    ),
    "encoder_biased": lambda: layers.SetEncoder(
        [
            nn.Linear(WIDTH, 4),
            *layers.attention_blocks(4, num_heads=2, bias=lambda: TupleMLP(2, WIDTH, 3, out_features=2)),
            nn.Linear(4, WIDTH),
        ]
    ),
    "encoder_of_seeds": lambda: layers.SetEncoder(
        [
            *layers.attention_blocks(WIDTH, norm=layers.SetNorm, dropout=0.5),
            layers.SeedAttention(WIDTH, num_seeds=2),
            layers.ConcatenatedElements(2),
        ]
    ),
}
"""Layers from sets to sets, for elements of ``WIDTH`` features."""


def set_layer(name: str) -> layers.SetLayer:
    """Returns the layer of this name in evaluation mode, with the same weights at every call."""
    torch.default_generator.manual_seed(1)
    return SET_LAYERS[name]().eval()


EVALUATORS = {
    "gather": Gather(),
    "gather_a_few_rows_at_once": Gather(),
    "gather_each_row_alone": Gather(),
    "elementwise": Elementwise(),
    "elementwise_a_few_rows_at_once": Elementwise(),
    "projected": Projected(),
    "projected_a_few_rows_at_once": Projected(),
    "distinct": DistinctTuples(),
    "distinct_a_few_rows_at_once": DistinctTuples(),
    "fused": Fused(),
    "spectral": Spectral(tolerance=1e-13, enumerate_up_to=0),
    "spectral_where_cheaper": Spectral(),
    "permanent": Permanent(),
    "packed": Packed(),
    "packed_a_few_rows_at_once": Packed(),
    "shared_prefixes": SharedPrefixes(),
    "shared_prefixes_a_few_rows_at_once": SharedPrefixes(),
    "shared_prefixes_merged": SharedPrefixes(merge_equal=True),
    "sampled_prefixes": SampledPrefixes(),
    "sampled_prefixes_a_few_rows_at_once": SampledPrefixes(),
}

MEMORY_BUDGETS = {
    "gather_a_few_rows_at_once": 4000,
    "gather_each_row_alone": 1,
    "elementwise_a_few_rows_at_once": 1000,
    "projected_a_few_rows_at_once": 1000,
    "distinct_a_few_rows_at_once": 4000,
    "packed_a_few_rows_at_once": 8000,
    "shared_prefixes_a_few_rows_at_once": 8000,
    "sampled_prefixes_a_few_rows_at_once": 8000,
}
"""Memory budgets in bytes, if they differ from the layer's default."""

REDUCES = ("mean", "sum", "max", "logmeanexp", None)
"""The reductions of ``Problem``. None stands for the rows, from ``JanossyPooling.rows``."""


class Rows(nn.Module):
    """The rows of a layer. The laws hold for them too."""

    reduce = None

    def __init__(self, pooling: JanossyPooling) -> None:
        super().__init__()
        self.pooling = pooling
        self.f, self.orderings = pooling.f, pooling.orderings

    def forward(self, sets: Ragged, **options) -> Ragged:
        return self.pooling.rows(sets, **options)


FITTING = [
    (ordering, function)
    for ordering in ORDERINGS
    for function in FUNCTIONS
    if not FUNCTIONS[function].needs_k or (ORDERINGS[ordering].k or 0) >= FUNCTIONS[function].least_k
]
"""Every combination of an ordering and a function that fits."""


def build(function: str, k: int | None) -> nn.Module:
    """Returns the function of this name, with the same weights at every call."""
    torch.default_generator.manual_seed(1)  # torch.manual_seed takes milliseconds, for a traceback per device
    return FUNCTIONS[function].build(k)


def pooling(ordering: str, function: str, evaluator: str = "gather", reduce: str | None = "mean"):
    """Returns the layer of these examples, or its rows if ``reduce`` is None, with the same weights at every call."""
    orderings = deepcopy(ORDERINGS[ordering])  # a layer moves and trains its modules
    f = build(function, orderings.k)
    evaluate = "auto" if evaluator == "auto" else EVALUATORS[evaluator]
    memory_budget = MEMORY_BUDGETS.get(evaluator, 2**30)
    layer = JanossyPooling(f, orderings, evaluate=evaluate, reduce=reduce or "mean", memory_budget=memory_budget)
    return layer if reduce else Rows(layer)


def distinct_sets(sizes=SIZES, seed: int = 2, width: int = D) -> Ragged:
    """Returns sets of these sizes with distinct elements."""
    values = torch.randn(sum(sizes), width, generator=torch.Generator().manual_seed(seed))
    return Ragged.from_sizes(values, sizes)


def tied_sets(sizes=SIZES, seed: int = 3, width: int = D) -> Ragged:
    """Returns sets of these sizes with equal elements, and with unequal elements whose keys tie."""
    values = torch.randint(-1, 2, (sum(sizes), width), generator=torch.Generator().manual_seed(seed))
    return Ragged.from_sizes(values.to(torch.get_default_dtype()), sizes)


def generator(seed: int = 4) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


built_once = cache(build)


def applies(ordering: str, function: str, evaluator: str, reduce: str | None = "mean") -> bool:
    if ORDERINGS[ordering].weighs_rows and reduce not in ("mean", "sum"):
        return False
    return EVALUATORS[evaluator].why_not_applicable(_problem(ordering, function, reduce)) is None


@lru_cache(len(REDUCES))
def _problem(ordering: str, function: str, reduce: str | None) -> Problem:
    return Problem(built_once(function, ORDERINGS[ordering].k), ORDERINGS[ordering], distinct_sets(), reduce=reduce)


IN_CHUNKS = list(MEMORY_BUDGETS)

APPLICABLE = [
    (ordering, function, evaluator)
    for ordering, function in FITTING
    for evaluator in EVALUATORS
    if applies(ordering, function, evaluator) and (FUNCTIONS[function].in_chunks or evaluator not in IN_CHUNKS)
]
"""Every combination of an ordering, a function and an evaluator that fits."""

APPLICABLE_REDUCED = [
    (*triple, reduce) for triple in APPLICABLE for reduce in REDUCES if reduce == "mean" or applies(*triple, reduce)
]
"""The same, with each reduction that the evaluator knows."""


def drawing(orderings, seed: int = 4) -> dict:
    """Returns the arguments that make these orderings repeatable: a generator if they sample, else none."""
    return {"generator": generator(seed)} if orderings.draws and orderings.seed is None else {}
