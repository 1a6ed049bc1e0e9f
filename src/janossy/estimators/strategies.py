"""Strategies: named networks, each built from plain settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from torch import nn

from janossy.checks import check_integer
from janossy.estimators.pair_features import by_feature, pair_features
from janossy.evaluate.reduce import OF_ROWS
from janossy.functions import GRU, LSTM, FeaturedMLP, GatedAttention, TupleFeatures, TupleMLP
from janossy.nn import (
    AppendSize,
    AttentionMean,
    ColumnEmbedding,
    ConcatenatedElements,
    PooledNorm,
    Readout,
    Relations,
    Residual,
    SeedAttention,
    SetEncoder,
    attention_blocks,
)
from janossy.nn.network import JanossyNetwork
from janossy.nn.pooling import AVERAGES, JanossyPooling
from janossy.orderings import Distinct, Sampled, Tuples
from janossy.tables.layout import Layout

AMOUNTS = ("raw", "log", "quantile", "by-category", "codes")


FLAT = "none"
"""The setting ``inner`` of networks that do not read inner sets."""

SAMPLED = ("gru", "lstm")
"""The strategies that sample orders. They pool no inner sets, and no vectors of inner sets."""


@dataclass(frozen=True)
class Settings:
    """The settings that a network is built from, beside its columns. All are plain values that JSON can hold."""

    width: int = 64
    """The width of every hidden layer and of the pooled vector."""
    depth: int = 2
    """The number of layers of f."""
    readout_depth: int = 1
    """The number of hidden layers of ρ."""
    reduce: str = "mean"
    """The reductions of elements, pairs or triples, with "+" between several, as "mean+std".

    With "sum", f does not read the size of the set, since sums grow with it."""
    activation: str = "relu"
    dropout: float = 0.0
    norm: bool = True
    """True if pooled vectors are normalised over the batch."""
    embedding_features: int | None = None
    num_permutations: int = 1
    """The permutations of each set in every training step, for strategies that sample permutations."""
    num_tuples: int | None = 256
    """The most pairs or triples of each set in a training step, sampled anew in each; None for all.

    Sums, maxima and minima take all of them. So do pairs or triples of one layer without features, which evaluators
    average without building tuples."""
    exact: bool = True
    """True if a prediction averages over all pairs or triples; False if it samples ``num_tuples``, with error bars.

    A set with more than 10^7 pairs or triples is always sampled."""
    num_heads: int = 4
    """The number of attention heads."""
    num_blocks: int = 2
    """The blocks of attention or relations between the elements of a set before pooling."""
    num_points: int = 16
    """The number of induced points, through which elements attend to each other."""
    num_seeds: int = 1
    """The number of learned vectors that pool a set by attention."""
    amounts: str = "raw"
    """The form of numbers.

    - "raw"
    - "log": logarithms beside numbers that span orders of magnitude
    - "quantile": quantile levels beside numbers that are skewed
    - "by-category": numbers scaled by each category, beside all numbers
    - "codes": embeddings beside numbers that may be codes, one per value
    """
    inner: str = "k1"
    """The strategy that pools each inner set, for sets of sets; "none" reads all elements of a set at once."""
    features: Mapping[str, Any] | None = None
    """Arguments of ``TupleFeatures`` for pairs, triples and attention scores; {} for ``pair_features``.

    Columns are named as in the layout, or numbered. Columns with a period or in a distance are in their own units
    before
    standardisation, unless ``units`` gives others."""


def build_network(
    strategy: str, element_layout: Layout, context_layout: Layout, num_outputs: int, **settings: Any
) -> JanossyNetwork:
    """Returns the network of a strategy, for elements with these columns and sets with these columns of their own.

    - "k1", "k2", "k3": a perceptron on each element, pair or triple, and the mean over all of them;
    - "k2+features", "k3+features": the same, with differences and equalities of pairs as further input
      (``FeaturedMLP``);
    - "sum": "k1" with the sum in place of the mean. Nothing in it depends on the sizes of training sets, so that it can
      extrapolate to larger sets. With ``readout_depth=0``, ρ is linear: the prediction is a sum over the elements, and
      holds for totals of sets of any size. "k2" with ``reduce="sum"`` and ``readout_depth=0`` is a sum over all pairs;
    - "max": "k1" with the maximum in place of the mean;
    - "attention": "k1" with attention in place of the mean (``GatedAttention``);
    - "gru", "lstm": a recurrence on random permutations, trained by π-SGD;
    - "set-transformer": blocks of attention between the elements of a set, then pooling by seeds (``attention_blocks``,
      ``SeedAttention``). The time grows with the square of a set's size;
    - "set-transformer+features": the same, with scores that also read differences and equalities of pairs, as in the
      Particle Transformer (``SelfAttention(bias=…)``);
    - "induced": the same through induced points. The time grows with the size;
    - "relations": the mean over all pairs with each element, in place of attention (``Relations``). The time grows with
      the size.

    f reads the logarithm of each set's size, which a mean does not show and a sum does. If the layout has a
    ``largest_size``, f reads that size for larger sets. Recurrences are an exception, because they count elements
    themselves. Pooled vectors are normalised over the batch, and ρ reads the context beside them.

    The network reads all elements of sets of sets at once. ``build_nested`` makes networks that read inner sets.

    ``settings``: fields of ``Settings`` that differ from the strategy's own.
    Shapes: sets.values (N, element_layout.width), context (B, context_layout.num_columns) -> (B, num_outputs).
    Raises: TypeError or ValueError for an unknown strategy or setting, elements without columns, or values of another
        type or range.

    Example:
        >>> network = build_network("k2", Layout((5, 14)), Layout(), num_outputs=10, width=32)
        >>> network(Ragged.from_sets([torch.tensor([[1.0, 13.0], [4.0, 2.0]]), torch.zeros(0, 2)])).shape
        torch.Size([2, 10])
    """
    chosen = settings_of(strategy, settings)
    if element_layout.num_columns == 0:
        raise ValueError("build_network expects elements of at least one column; got a layout of none.")
    h = ColumnEmbedding(
        element_layout.vocabularies,
        num_numbers=element_layout.num_numbers,
        embedding_features=chosen.embedding_features,
        num_unread=int(element_layout.inner),
        limits=element_layout.limits,
        **_forms(chosen, element_layout),
    )
    pooling = STRATEGIES[strategy](chosen, element_layout, h)
    encoder = ENCODERS[strategy](chosen, element_layout, h) if strategy in ENCODERS else None
    return JanossyNetwork(h, pooling, readout_for(pooling, chosen, context_layout, num_outputs), encoder=encoder)


def readout_for(pooling: JanossyPooling, chosen: Settings, context_layout: Layout, num_outputs: int) -> Readout:
    """Returns ρ for the vectors of a pooling, and for sets with these columns of their own."""
    after: list[nn.Module] = (
        [AttentionMean(chosen.width, num_heads=chosen.num_heads)] if isinstance(pooling.f, GatedAttention) else []
    )
    pooled_width = chosen.width * (len(pooling.reduce) if isinstance(pooling.reduce, tuple) else 1)
    after += [PooledNorm(pooled_width)] if chosen.norm else []
    embed = None
    if context_layout.num_columns:
        embed = ColumnEmbedding(
            context_layout.vocabularies,
            num_numbers=context_layout.num_numbers,
            embedding_features=chosen.embedding_features,
            limits=context_layout.limits,
            **_forms(chosen, context_layout),
        )
    return Readout(
        pooled_width,
        (chosen.width,) * chosen.readout_depth,
        num_outputs,
        first=nn.Sequential(*after) if after else None,
        embed=embed,
        activation=chosen.activation,
        dropout=chosen.dropout,
    )


def _forms(settings: Settings, layout: Layout) -> dict[str, Any]:
    """Returns the arguments of ``ColumnEmbedding`` for a further form of numbers."""
    if settings.amounts == "log":
        return {"amounts": layout.amounts}
    if settings.amounts == "quantile":
        return {"quantiles": layout.skewed}
    if settings.amounts == "codes":
        return {"coded": layout.coded}
    both = bool(layout.vocabularies) and layout.num_numbers > 0
    return {"by_category": True} if settings.amounts == "by-category" and both else {}


def settings_of(strategy: str, given: Mapping[str, Any]) -> Settings:
    """Returns the settings of a strategy, with those given in place of its own.

    Raises: ValueError for an unknown strategy or setting; TypeError or ValueError for an invalid depth.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy expects one of {', '.join(map(repr, STRATEGIES))}; got {strategy!r}.")
    known = [setting.name for setting in fields(Settings)]
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"a strategy's settings are {', '.join(known)}; got {', '.join(unknown)}.")
    settings = Settings(**{**OWN.get(strategy, {}), **given})
    for name, at_least in {"width": 1, "depth": 1, "readout_depth": 0, "num_blocks": 1, "num_seeds": 1}.items():
        check_integer(f"strategy {strategy!r}", name, getattr(settings, name), at_least)
    of_inner = (FLAT, *(name for name in STRATEGIES if name not in SAMPLED))
    if settings.inner not in of_inner:
        raise ValueError(f"strategy {strategy!r} expects inner among {', '.join(of_inner)}; got {settings.inner!r}.")
    if settings.amounts not in AMOUNTS:
        raise ValueError(
            f"strategy {strategy!r} expects amounts among {', '.join(AMOUNTS)}; got amounts={settings.amounts!r}."
        )
    if not isinstance(settings.reduce, str) or not set(settings.reduce.split("+")) <= set(OF_ROWS):
        raise ValueError(
            f"strategy {strategy!r} expects reduce as one or several of {', '.join(OF_ROWS)}, with + between; got "
            f"reduce={settings.reduce!r}."
        )
    return settings


def _tuples(k: int) -> "Build":
    def build(settings: Settings, layout: Layout, h: ColumnEmbedding) -> JanossyPooling:
        in_features, size = h.out_features, {}
        if settings.reduce != "sum":  # sums grow with the size by themselves
            in_features, size = in_features + 1, _size(layout)
        f = _mlp(k, in_features, settings, layout, h)
        first, *others = settings.reduce.split("+")
        reduce = (first, *others) if others else first
        if k > 1 and not settings.exact and not _are_averages(settings.reduce):
            raise ValueError(
                f"build_network expects, with exact=False, a reduce among {', '.join(AVERAGES)}, which samples "
                f"estimate; got reduce={settings.reduce!r}. Leave exact out."
            )
        num_tuples = settings.num_tuples if k > 1 and samples_tuples(settings) else None
        in_training = None if num_tuples is None else Distinct(num_tuples, k=k)
        if in_training is not None and not settings.exact:
            return JanossyPooling(f, in_training, reduce=reduce, **size)
        return JanossyPooling(f, Tuples(k), reduce=reduce, orderings_train=in_training, **size)

    return build


def samples_tuples(settings: Settings) -> bool:
    """Returns True if training samples pairs or triples.

    All of them are used if an evaluator builds no tuple, or if a reduction is no average.
    """
    is_fast = settings.features is None and settings.depth == 1
    return not is_fast and settings.num_tuples is not None and _are_averages(settings.reduce)


def _are_averages(reduce: str) -> bool:
    """Returns True if no reduction depends on the number of its rows, as a sum or a maximum does."""
    return set(reduce.split("+")) <= set(AVERAGES)


def _attention(settings: Settings, layout: Layout, h: ColumnEmbedding) -> JanossyPooling:
    f = GatedAttention(
        _mlp(1, h.out_features + 1, settings, layout, h),
        in_features=settings.width,
        num_heads=settings.num_heads,
        hidden_features=settings.width,
    )
    return JanossyPooling(f, Tuples(1), **_size(layout))


def _recurrence(cell: type[GRU] | type[LSTM]) -> "Build":
    def build(settings: Settings, layout: Layout, h: ColumnEmbedding) -> JanossyPooling:
        f = cell(
            h.out_features + 1,
            settings.width,
            num_layers=settings.depth,
            dropout=settings.dropout if settings.depth > 1 else 0.0,
        )
        return JanossyPooling(f, Sampled(settings.num_permutations), append_size="log")

    return build


def _of_seeds(settings: Settings, layout: Layout, h: ColumnEmbedding) -> JanossyPooling:
    f = TupleMLP(
        1, settings.num_seeds * settings.width, (settings.width,) * settings.depth, activation=settings.activation
    )
    return JanossyPooling(f, Tuples(1))


def _encoder(
    blocks: Callable[[Settings, Layout, ColumnEmbedding], list[nn.Module]],
) -> Callable[[Settings, Layout, ColumnEmbedding], SetEncoder]:
    def build(settings: Settings, layout: Layout, h: ColumnEmbedding) -> SetEncoder:
        size = AppendSize(largest_size=layout.largest_size)
        seeds = SeedAttention(settings.width, num_seeds=settings.num_seeds, num_heads=settings.num_heads)
        first = nn.Linear(h.out_features + 1, settings.width)
        return SetEncoder([size, first, *blocks(settings, layout, h), seeds, ConcatenatedElements(settings.num_seeds)])

    return build


def _attention_blocks(settings: Settings, layout: Layout, h: ColumnEmbedding) -> list[nn.Module]:
    return attention_blocks(
        settings.width,
        num_blocks=settings.num_blocks,
        num_heads=settings.num_heads,
        dropout=settings.dropout,
        bias=None if settings.features is None else partial(_bias, settings, layout, h),
    )


def _bias(settings: Settings, layout: Layout, h: ColumnEmbedding) -> FeaturedMLP:
    return FeaturedMLP(
        2,
        h.out_features,
        max(2, settings.width // 2),
        features=_features(2, h.out_features, settings, layout, h),
        out_features=settings.num_heads,
        activation=settings.activation,
    )


def _induced_blocks(settings: Settings, layout: Layout, h: ColumnEmbedding) -> list[nn.Module]:
    return attention_blocks(
        settings.width,
        num_blocks=settings.num_blocks,
        num_heads=settings.num_heads,
        num_points=settings.num_points,
        dropout=settings.dropout,
    )


def _relation_blocks(settings: Settings, layout: Layout, h: ColumnEmbedding) -> list[nn.Module]:
    width = settings.width
    return [
        Residual(
            Relations(TupleMLP(2, width, width, out_features=width, activation="tanh")),
            norm=nn.LayerNorm(width),
            dropout=settings.dropout,
        )
        for _ in range(settings.num_blocks)
    ]


def _size(layout: Layout) -> dict[str, Any]:
    """Returns the arguments through which f reads the size of a set."""
    return {"append_size": "log", "largest_size": layout.largest_size}


def _mlp(k: int, in_features: int, settings: Settings, layout: Layout, h: ColumnEmbedding) -> TupleMLP | FeaturedMLP:
    hidden = (settings.width,) * settings.depth
    if settings.features is None or k == 1:
        return TupleMLP(k, in_features, hidden, activation=settings.activation)
    features = _features(k, in_features, settings, layout, h)
    return FeaturedMLP(k, in_features, hidden, features=features, activation=settings.activation)


def _features(k: int, in_features: int, settings: Settings, layout: Layout, h: ColumnEmbedding) -> TupleFeatures:
    given = by_feature(settings.features or pair_features(layout), layout, h.places)
    return TupleFeatures(k, in_features, **given)


Build = Callable[[Settings, Layout, ColumnEmbedding], JanossyPooling]

STRATEGIES: dict[str, Build] = {
    "k1": _tuples(1),
    "k2": _tuples(2),
    "k3": _tuples(3),
    "k2+features": _tuples(2),
    "k3+features": _tuples(3),
    "sum": _tuples(1),
    "max": _tuples(1),
    "attention": _attention,
    "gru": _recurrence(GRU),
    "lstm": _recurrence(LSTM),
    "set-transformer": _of_seeds,
    "set-transformer+features": _of_seeds,
    "induced": _of_seeds,
    "relations": _of_seeds,
}

ENCODERS = {
    "set-transformer": _encoder(_attention_blocks),
    "set-transformer+features": _encoder(_attention_blocks),
    "induced": _encoder(_induced_blocks),
    "relations": _encoder(_relation_blocks),
}
"""The encoders of strategies in which elements read each other before pooling."""

OWN: dict[str, dict[str, Any]] = {
    "sum": {"reduce": "sum", "norm": False},
    "max": {"reduce": "max"},
    "k2+features": {"features": {}},
    "k3+features": {"features": {}},
    "gru": {"depth": 1},
    "lstm": {"depth": 1},
    "set-transformer": {"depth": 1},
    "set-transformer+features": {"depth": 1, "features": {}},
    "induced": {"depth": 1},
    "relations": {"depth": 1},
}
"""The settings in which a strategy differs from ``Settings``."""
