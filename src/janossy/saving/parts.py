"""The parts that a saved network may be made of: janossy's, torch's, and those that a user registers."""

from collections.abc import Mapping
from functools import cache
from math import isfinite
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from torch import nn

from janossy import evaluate, functions, orderings
from janossy.nn import (
    AttentionMean,
    ColumnEmbedding,
    InnerSets,
    JanossyEquivariant,
    PooledNorm,
    PowerMean,
    Quantile,
    Readout,
    SoftmaxMean,
    encoder,
    statistics,
)
from janossy.nn.config import TORCH, config_of
from janossy.nn.network import JanossyNetwork
from janossy.nn.pooling import JanossyPooling

T = TypeVar("T")

OURS: tuple[type, ...] = (
    JanossyNetwork,
    JanossyPooling,
    orderings.AllPermutations,
    orderings.AsGiven,
    orderings.Tuples,
    orderings.Combinations,
    orderings.Canonical,
    orderings.Sampled,
    orderings.Distinct,
    orderings.ImportanceSampled,
    orderings.Learned,
    orderings.OrderWeights,
    evaluate.DistinctTuples,
    evaluate.Elementwise,
    evaluate.Fused,
    evaluate.Gather,
    evaluate.Packed,
    evaluate.Permanent,
    evaluate.Projected,
    evaluate.SampledPrefixes,
    evaluate.SharedPrefixes,
    evaluate.Spectral,
    functions.TupleMLP,
    functions.FeaturedMLP,
    functions.TupleFeatures,
    functions.TupleProduct,
    functions.GatedAttention,
    functions.MonotoneLattice,
    functions.RNN,
    functions.GRU,
    functions.LSTM,
    functions.MinGRU,
    functions.BalancedTree,
    ColumnEmbedding,
    Readout,
    PooledNorm,
    AttentionMean,
    Quantile,
    PowerMean,
    SoftmaxMean,
    JanossyEquivariant,
    InnerSets,
    encoder.SetEncoder,
    encoder.SelfAttention,
    encoder.InducedAttention,
    encoder.SeedAttention,
    encoder.ConcatenatedElements,
    encoder.BesidePooled,
    encoder.AppendSize,
    encoder.Relations,
    encoder.Residual,
    encoder.SetNorm,
    encoder.SlotAttention,
    statistics.StatisticsNetwork,
    statistics.PooledStatistics,
    statistics.SetSize,
    statistics.NumberStatistics,
    statistics.OthersAtExtremes,
    statistics.DistinctCounts,
    statistics.CellCounts,
    statistics.CellPairs,
    statistics.CodeValues,
    statistics.ContextCodeValues,
    statistics.ContextColumns,
    statistics.InnerStatistics,
    statistics.LinearScores,
    statistics.TreeEnsemble,
)
"""janossy's parts. Each has its class name in a file, and ``config_of`` reads its arguments."""


KINDS: dict[str, Any] = {kind.__name__: kind for kind in (*OURS, *TORCH)}
"""The classes and functions by their names in files. A file's name is looked up here and nowhere else."""

NAMES: dict[Any, str] = {kind: name for name, kind in KINDS.items()}
"""The name of each kind. A subclass has none, as its code is the user's."""

RENAMED = {
    "AttentionMean": {"features": "in_features"},
    "Distinct": {"num": "num_permutations"},
    "ImportanceSampled": {"num": "num_permutations"},
    "Learned": {"num": "num_permutations"},
    "OrderWeights": {"num": "num_keys"},
    "Sampled": {"num": "num_permutations"},
}
"""The names of arguments in files of version 1 that were renamed since, with their present names."""


def register(part: T, *, name: str | None = None) -> T:
    """Registers a part of your own for saved networks: a module, an ordering, an evaluator, or a plain function.

    A class is saved by the arguments that ``config()`` returns. Without that method, they are the attributes with the
    names of the constructor's arguments. They are JSON values or parts. A function, such as a key of ``Canonical``, is
    saved by its name alone. Register the same part before loading the file, as a file imports nothing.

    Args:
        name: the name in the file; by default the part's module and name.

    Raises: TypeError if it is not a class or function; ValueError for a name without a dot, or a name already taken.

    Example:
        >>> @register
        ... class Halved(nn.Module):
        ...     def forward(self, x):
        ...         return x / 2
        >>> network = JanossyNetwork(None, JanossyPooling(TupleMLP(1, 3, 8), Tuples(1)), Halved())
        >>> type(load(save(network, tempfile.mkdtemp() + "/model")).rho).__name__
        'Halved'
    """
    if not callable(part) or not hasattr(part, "__qualname__"):
        raise TypeError(f"register expects a class or a function; got {type(part).__name__}. Register its class.")
    own = f"{part.__module__}.{part.__qualname__}"
    name = own if name is None else name
    if not isinstance(name, str) or "." not in name:
        raise ValueError(f"register expects a name with a dot, as ours have none; got {name!r}. Write 'yours.{name}'.")
    other = KINDS.get(name)
    if part in NAMES or (other is not None and f"{other.__module__}.{other.__qualname__}" != own):
        if NAMES.get(part) == name:
            return part
        raise ValueError(f"register expects a part and a name that are new; got {name!r}. Give another name=.")
    if other is not None:
        del NAMES[other]  # the same source file was loaded again
    KINDS[name], NAMES[part] = part, name
    return part


def name_of(value: Any) -> str | None:
    """Returns the name of a part's class, or of a registered function; None if it has none."""
    return NAMES.get(type(value)) or (NAMES.get(value) if hasattr(value, "__qualname__") else None)


def arguments(part: Any) -> dict[str, Any]:
    """Returns the constructor arguments of a part, which may be parts."""
    if not isinstance(KINDS[name_of(part) or ""], type):
        return {}
    return config_of(part)


def build(name: str, given: dict[str, Any]) -> Any:
    """Builds the part of this name from its arguments.

    Raises: as its constructor; ValueError for an argument that is not of its plain type.
    """
    kind = KINDS[name]
    if not isinstance(kind, type):
        if given:
            raise ValueError(f"{name} expects no arguments, as a function; got {', '.join(given)[:60]}")
        return kind
    if kind is nn.Sequential:
        return nn.Sequential(*given.pop("modules"), **given)
    for argument, hint in plain_arguments(kind).items():
        if argument in given and not any(_is(given[argument], each) for each in hint):
            expected = " or ".join(_CALLED[each] for each in hint)
            raise ValueError(f"{name} expects {argument} as {expected}; got {given[argument]!r:.60}")
    return kind(**given)


@cache
def plain_arguments(kind: type) -> Mapping[str, tuple[type, ...]]:
    """Returns the arguments of a constructor that are annotated as plain values, with their types."""
    try:
        hints = get_type_hints(kind.__init__)  # type: ignore[misc]
    except (NameError, TypeError):  # hints of a user's class
        return {}
    several = {
        name: get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,) for name, hint in hints.items()
    }
    return {name: kinds for name, kinds in several.items() if name != "return" and set(kinds) <= set(_CALLED)}


_CALLED = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false", NoneType: "null"}


def _is(value: Any, kind: type) -> bool:
    if kind in (int, float) and isinstance(value, bool):
        return False
    if kind is float:
        return isinstance(value, Real) and isfinite(value)
    return isinstance(value, Integral if kind is int else kind)
