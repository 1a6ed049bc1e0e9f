"""The parts that a saved network may be made of, by names of our own; each with the arguments that build it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from operator import add
from typing import Any

from torch import nn

from janossy.evaluate import (
    DistinctTuples,
    Fused,
    Gather,
    Packed,
    Permanent,
    Projected,
    SampledPrefixes,
    SharedPrefixes,
    Spectral,
)
from janossy.functions import (
    GRU,
    LSTM,
    RNN,
    BalancedTree,
    FeaturedMLP,
    GatedAttention,
    MinGRU,
    MonotoneLattice,
    TupleFeatures,
    TupleMLP,
    TupleProduct,
)
from janossy.nn import AttentionMean, ColumnEmbedding, PooledNorm, Readout
from janossy.nn.network import JanossyNetwork
from janossy.nn.pooling import JanossyPooling
from janossy.orderings import (
    AllPermutations,
    Canonical,
    Combinations,
    Distinct,
    ImportanceSampled,
    Learned,
    OrderWeights,
    Sampled,
    Tuples,
)


@dataclass(frozen=True)
class Part:
    """How a part is told by the arguments that build it again.

    ``build`` is its class, or makes one of keyword arguments. ``same``: those arguments that it keeps as attributes of
    the same name; ``read``: the others, each as a function of the part. A value is JSON, a part, or a list or a dict of
    them. ``repeats``: the arguments, numbers or lists, by which the part grows in memory before a weight is seen.
    ``numbers``: those that must be finite numbers, where ``build`` takes whatever comes; ``numbers_or_none``: or null.
    """

    kind: type
    same: tuple[str, ...] = ()
    read: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    repeats: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    numbers_or_none: tuple[str, ...] = ()
    build: Callable[..., Any] | None = None

    def arguments(self, part: Any) -> dict[str, Any]:
        """Those of this part, which may hold other parts."""
        return {name: getattr(part, name) for name in self.same} | {name: of(part) for name, of in self.read.items()}


def _settings(kind: type) -> Part:
    """Of a frozen dataclass: its fields."""
    assert is_dataclass(kind)
    return Part(kind, tuple(setting.name for setting in fields(kind)))


def _drawing(kind: type) -> Part:
    """Describes orderings that draw by their fields. Files call ``num_permutations`` num."""
    assert is_dataclass(kind)
    make: Callable[..., Any] = kind
    same = tuple(setting.name for setting in fields(kind) if setting.name != "num_permutations")
    return Part(
        kind,
        same,
        {"num": lambda orderings: orderings.num_permutations},
        build=lambda num, **others: make(num_permutations=num, **others),
    )


def _has_bias(layer: nn.Linear | nn.LayerNorm) -> bool:
    return layer.bias is not None


def _widths(layers: nn.ModuleList) -> list[int]:
    return [getattr(layer, "out_features", 1) for layer in layers]  # 1 of a user's own, which is told later


def _out_features(f: TupleMLP | FeaturedMLP | TupleProduct) -> int | None:
    return None if f.output is None else f.output.out_features


def _pairs(numbers: Mapping[int, float]) -> dict[str, float]:
    return {str(column): number for column, number in numbers.items()}  # as keys are in JSON


def _by_column(numbers: Mapping[str, float]) -> dict[int, float]:
    return {int(column): number for column, number in numbers.items()}


def _tuple_features(*, units: Mapping[str, float], periods: Mapping[str, float], **others: Any) -> TupleFeatures:
    return TupleFeatures(units=_by_column(units), periods=_by_column(periods), **others)


def _given(modules: list[nn.Module]) -> list[nn.Module] | None:
    """Modules that were given to a part; None for those that it makes by itself, which have no name here.

    A user's own are told from these when what was described is built again.
    """
    return modules if any(type(module) in NAMES for module in modules) else None


RECURRENCE = (
    "in_features", "hidden_features", "num_layers", "dropout", "bidirectional", "per_position", "unrolled"
)  # fmt: skip
BATCH_NORM = ("num_features", "eps", "momentum", "affine", "track_running_stats")

PARTS: dict[str, Part] = {
    "JanossyNetwork": Part(JanossyNetwork, ("h", "pooling", "rho")),
    "JanossyPooling": Part(
        JanossyPooling,
        ("f", "orderings", "reduce", "memory_budget", "append_size", "largest_size", "orderings_train"),
        {"evaluate": lambda pooling: "auto" if pooling.choice.asked is None else pooling.choice.asked},
    ),
    # orderings
    "AllPermutations": _settings(AllPermutations),
    "Tuples": _settings(Tuples),
    "Combinations": _settings(Combinations),
    "Canonical": _settings(Canonical),
    "Sampled": _drawing(Sampled),
    "Distinct": _drawing(Distinct),
    "ImportanceSampled": _drawing(ImportanceSampled),
    "Learned": _drawing(Learned),
    "OrderWeights": Part(
        OrderWeights,
        read={"num": lambda weights: len(weights.logits)},
        repeats=("num",),
        build=lambda num: OrderWeights(num),
    ),
    # evaluators
    "DistinctTuples": _settings(DistinctTuples),
    "Fused": _settings(Fused),
    "Gather": _settings(Gather),
    "Packed": _settings(Packed),
    "Permanent": _settings(Permanent),
    "Projected": _settings(Projected),
    "SampledPrefixes": _settings(SampledPrefixes),
    "SharedPrefixes": _settings(SharedPrefixes),
    "Spectral": _settings(Spectral),
    # functions
    "TupleMLP": Part(
        TupleMLP,
        ("k", "in_features", "activation"),
        {"hidden_features": lambda f: _widths(f.hidden), "out_features": _out_features},
        ("hidden_features",),
    ),
    "FeaturedMLP": Part(
        FeaturedMLP,
        ("k", "in_features", "features", "activation"),
        {
            "hidden_features": lambda f: list(map(add, _widths(f.of_all), _widths(f.of_features))),
            "out_features": _out_features,
        },
        ("hidden_features",),
    ),
    "TupleFeatures": Part(
        TupleFeatures,
        ("k", "in_features", "differences", "absolute_differences", "products", "equal", "distances"),
        {"units": lambda f: _pairs(f.units), "periods": lambda f: _pairs(f.periods)},
        build=_tuple_features,
    ),
    "TupleProduct": Part(
        TupleProduct,
        ("k", "in_features", "rank"),
        {"out_features": _out_features, "g": lambda f: _given(list(f.g))},
        ("k",),
    ),
    "GatedAttention": Part(GatedAttention, ("g", "in_features", "num_heads", "hidden_features")),
    "MonotoneLattice": Part(
        MonotoneLattice, ("in_features", "out_features", "increasing", "num_keypoints", "low", "high")
    ),
    "RNN": Part(RNN, RECURRENCE, repeats=("num_layers",)),
    "GRU": Part(GRU, RECURRENCE, repeats=("num_layers",)),
    "LSTM": Part(LSTM, RECURRENCE, repeats=("num_layers",)),
    "MinGRU": Part(MinGRU, ("in_features", "hidden_features", "num_layers", "dropout"), repeats=("num_layers",)),
    "BalancedTree": Part(
        BalancedTree,
        ("in_features", "hidden_features"),
        {"combine": lambda f: f.combine if _given([f.combine]) else None},
    ),
    # of table rows
    "ColumnEmbedding": Part(
        ColumnEmbedding,
        ("vocabularies", "num_numbers", "embedding_features"),
        {"scaled": lambda embed: embed.scales is not None},
        ("vocabularies",),
    ),
    "Readout": Part(
        Readout,
        ("in_features", "first", "embed", "activation", "dropout"),
        {
            "hidden_features": lambda rho: _widths(rho.layers[:-1]),
            "out_features": lambda rho: rho.layers[-1].out_features,
        },
        ("hidden_features",),
    ),
    "PooledNorm": Part(PooledNorm, BATCH_NORM, numbers=("eps",), numbers_or_none=("momentum",)),
    "AttentionMean": Part(
        AttentionMean,
        ("num_heads",),
        {"features": lambda mean: mean.in_features},
        build=lambda features, num_heads: AttentionMean(features, num_heads=num_heads),
    ),
    # torch's
    "Sequential": Part(nn.Sequential, read={"modules": list}, build=lambda modules: nn.Sequential(*modules)),
    "Linear": Part(nn.Linear, ("in_features", "out_features"), {"bias": _has_bias}),
    "Bilinear": Part(nn.Bilinear, ("in1_features", "in2_features", "out_features"), {"bias": _has_bias}),
    "Embedding": Part(
        nn.Embedding,
        ("num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
        numbers=("norm_type",),
        numbers_or_none=("max_norm",),
    ),
    "LayerNorm": Part(
        nn.LayerNorm, ("normalized_shape", "eps", "elementwise_affine"), {"bias": _has_bias}, numbers=("eps",)
    ),
    "BatchNorm1d": Part(nn.BatchNorm1d, BATCH_NORM, numbers=("eps",), numbers_or_none=("momentum",)),
    "Dropout": Part(nn.Dropout, ("p", "inplace")),
    "Flatten": Part(nn.Flatten, ("start_dim", "end_dim"), numbers=("start_dim", "end_dim")),
    "Identity": Part(nn.Identity),
    "ReLU": Part(nn.ReLU, ("inplace",)),
    "LeakyReLU": Part(nn.LeakyReLU, ("negative_slope", "inplace"), numbers=("negative_slope",)),
    "ELU": Part(nn.ELU, ("alpha", "inplace"), numbers=("alpha",)),
    "GELU": Part(nn.GELU, ("approximate",)),
    "SiLU": Part(nn.SiLU, ("inplace",)),
    "Sigmoid": Part(nn.Sigmoid),
    "Softplus": Part(nn.Softplus, ("beta", "threshold"), numbers=("beta", "threshold")),
    "Tanh": Part(nn.Tanh),
}

NAMES = {part.kind: name for name, part in PARTS.items()}
"""The name of each kind; of a subclass, none: its code is not ours."""
