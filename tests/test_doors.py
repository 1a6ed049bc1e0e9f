"""Every public constructor and call, each argument wrong in type, shape, dtype, device or range: one clear error.

An error is clear if it is a TypeError or ValueError of our own that says what came ("got"), in a line or two.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from inspect import signature
from math import inf, nan
from typing import Any

import pytest
import torch
from torch import nn

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
    JanossyEquivariant,
    JanossyNetwork,
    JanossyPooling,
    MinGRU,
    PaddedNetwork,
    PermutationLoss,
    Ragged,
    Sampled,
    Spectral,
    TupleMLP,
    TupleProduct,
    Tuples,
    export_onnx,
    predict,
)
from janossy.evaluate import (
    DistinctTuples,
    Fused,
    Gather,
    Packed,
    Permanent,
    Projected,
    SampledPrefixes,
    SharedPrefixes,
)
from janossy.functions import FeaturedMLP, GatedAttention, MonotoneLattice, TupleFeatures
from janossy.graph import GraphSAGE, Neighbourhoods, two_hops
from janossy.inference import ControlVariate, fit_control_variate, interaction_order, predict_passes, sensitivity
from janossy.losses import RobbinsMonro
from janossy.nn import (
    AppendSize,
    AttentionMean,
    BesidePooled,
    ColumnEmbedding,
    ConcatenatedElements,
    InducedAttention,
    InnerSets,
    PowerMean,
    Quantile,
    Readout,
    Relations,
    Residual,
    SeedAttention,
    SelfAttention,
    SetEncoder,
    SetNorm,
    SlotAttention,
    SoftmaxMean,
)
from janossy.nn.cached_mean import CachedMean
from janossy.nn.groups import Group, GroupImages, GroupPooling, cyclic, dihedral, improper, reversal, symmetric
from janossy.testing import assert_invariant

D = 3

# What is wrong for an argument of each kind.
COUNT = (0, -1, 2.5, True, "3", nan, [2, 2], torch.tensor(3), None)
FLAG = ("no", 1, None)
META = torch.zeros(3, dtype=torch.long, device="meta")
NUMBER = ("x", True, None, [0.5])
SEED = (-1, 1.5, True, "0")
CHOICE = ("nope", 3, ["mean"])
REDUCE = ("nope", 3, ["mean", "nope"], [])
MODULE = (3, "tanh", nn.Linear)
ORDERINGS = (None, 3, "all", Tuples, object())
SETS = (None, torch.zeros(4, D), [torch.zeros(2, D)], 3)
GENERATOR = (3, "0", torch.Generator)
COLUMNS = (3, "ab", [D], [-1], [0.5], [True], [None], None)
"""Values that are not lists of columns of D."""
CONTEXT = (3, [[1.0]] * 4, torch.zeros(3, 1), torch.tensor(1.0), torch.zeros(4, 1, device="meta"), torch.zeros(4, 1))
"""For 4 sets, and a rho that takes none."""
BYTES = (0, -5, "1 GB", 1.5, True, None)


def sets(dtype: torch.dtype = torch.float32, features: int = D) -> Ragged:
    return Ragged.from_sizes(torch.arange(6.0 * features).view(6, features).to(dtype), [3, 0, 2, 1])


def pooling(**options: Any) -> JanossyPooling:
    return JanossyPooling(GRU(D, 4), Sampled(), **options)


def network() -> JanossyNetwork:
    return JanossyNetwork(None, pooling(), nn.Linear(4, 2))


def seeds() -> SeedAttention:
    return SeedAttention(4, num_seeds=2)


def graph() -> Neighbourhoods:
    return Neighbourhoods.from_edge_index(torch.tensor([[1, 2, 0], [0, 0, 1]]))


@dataclass(frozen=True)
class Door:
    """A call that is right, and for each argument what is wrong for it."""

    call: Callable[..., Any]
    right: Callable[[], dict[str, Any]]
    wrong: dict[str, tuple[Any, ...]] = field(default_factory=dict)


EVALUATORS = (Spectral, DistinctTuples, Fused, Gather, Packed, Permanent, Projected, SampledPrefixes, SharedPrefixes)
"""Classes, where an evaluator is expected."""

ELEMENTS = (
    sets(torch.float64),
    sets(torch.int64),
    sets(torch.complex64),
    sets(features=D + 1),
    sets().to("meta"),
)
"""Elements that do not fit an f of D float32 features."""

ROWS = (
    None,
    3,
    sets(),
    torch.ones(5, D),
    torch.ones(5, 2, D + 1),
    torch.ones(5, 2, D, 1),
    torch.ones(5, 2, D).double(),
)
ROWS += (torch.ones(5, 2, D).long(), torch.ones(5, 2, D).cfloat())
"""Values that are not rows of D float32 features."""

TUPLES = (None, 3, [[0, 1]], torch.tensor([0, 1]), torch.tensor([[0, 1, 2]]), torch.tensor([[0.0, 1.0]]), META[None])
TUPLES += tuple(torch.tensor([wrong]) for wrong in ((0, 6), (-1, 0), (2, 2)))
"""Values that are not pairs of 6 elements."""

MASKS = (3, torch.ones(5, 2), torch.ones(5, 3, dtype=torch.bool), torch.ones(2, 5, dtype=torch.bool))
"""Values that are not masks of 5 rows of 2."""

VERTICES = (None, 3, torch.tensor([0.5]), torch.tensor([7]), torch.tensor([[0]]), torch.tensor([-1]))

HEADS = {"in_features": COUNT, "num_heads": (*COUNT, 3)}

RECURRENCE = {
    "in_features": COUNT,
    "hidden_features": COUNT,
    "num_layers": COUNT,
    "dropout": (*NUMBER, -0.1, 1.5, nan),
    "bidirectional": FLAG,
    "per_position": FLAG,
    "unrolled": FLAG,
}

DOORS = {
    "AllPermutations": Door(AllPermutations, dict, {"max_rows": COUNT}),
    "Tuples": Door(Tuples, lambda: {"k": 2}, {"k": COUNT, "max_rows": COUNT}),
    "Combinations": Door(Combinations, lambda: {"k": 2}, {"k": COUNT, "key": (-1, "x", nn.Linear), "max_rows": COUNT}),
    "Canonical": Door(
        Canonical,
        dict,
        {"key": (-1, "x", ()), "max_rows": COUNT, "k": COUNT[:-1], "order_weights": (1, [1.0], torch.ones(1))},
    ),
    "Sampled": Door(
        Sampled,
        lambda: {"num_permutations": 4},
        {
            "num_permutations": COUNT,
            "k": COUNT[:-1],
            "scheme": (*CHOICE, None, "distinct"),
            "seed": SEED,
            "block": COUNT[:-1],
            "exact_last": (-1, 1.5, True, "1", None),
            "exhaust": SEED,
            "max_rows": COUNT,
        },
    ),
    "Distinct": Door(
        Distinct,
        lambda: {"num_permutations": 4},
        {"num_permutations": COUNT, "k": COUNT[:-1], "seed": SEED, "max_rows": COUNT},
    ),
    "ImportanceSampled": Door(
        ImportanceSampled,
        lambda: {"num_permutations": 4},
        {
            "num_permutations": COUNT,
            "k": COUNT[:-1],
            "weights": (*CHOICE, None),
            "uniform": (*NUMBER, -0.1, 1.5, nan),
            "max_rows": COUNT,
        },
    ),
    "Spectral": Door(
        Spectral, dict, {"tolerance": (0, -1e-3, 1, "x", True, nan), "enumerate_up_to": (-2, 1.5, "x", None, True)}
    ),
    "TupleMLP": Door(
        TupleMLP,
        lambda: {"k": 2, "in_features": D, "hidden_features": 4},
        {
            "k": COUNT[:-1],
            "in_features": COUNT,
            "hidden_features": (0, -1, 2.5, True, "3", None, (), (4, 0), (4, 2.5)),
            "out_features": COUNT[:-1],
            "activation": (*CHOICE, None, torch.tanh),
            "dropout": (-0.1, 1.5, "half", None),
            "norm": CHOICE,
        },
    ),
    "FeaturedMLP": Door(
        FeaturedMLP,
        lambda: {"k": 2, "in_features": D, "hidden_features": 4, "features": TupleFeatures(2, D, products=[0])},
        {
            "k": COUNT,
            "in_features": COUNT,
            "hidden_features": (0, 1, -1, 2.5, True, "3", None, (), (4, 0), (4, 2.5)),
            "features": (None, 3, "all", nn.ReLU(), TupleFeatures, TupleFeatures(2, D)),
            "out_features": COUNT[:-1],
            "activation": (*CHOICE, None, torch.tanh),
        },
    ),
    "TupleFeatures": Door(
        TupleFeatures,
        lambda: {"k": 2, "in_features": D},
        {
            "k": COUNT,
            "in_features": COUNT,
            **dict.fromkeys(("differences", "absolute_differences", "products"), COLUMNS),
            **dict.fromkeys(("equal", "distances"), (*COLUMNS, [0])),
            **dict.fromkeys(("units", "periods"), (3, [0], {0: 0.0}, {0: -1}, {0: nan}, {0: "x"}, {D: 1.0}, {0.5: 1})),
        },
    ),
    "GatedAttention": Door(
        GatedAttention,
        lambda: {"g": TupleMLP(1, D, 4), "in_features": 4},
        {"g": (None, 3, TupleMLP), "in_features": COUNT, "num_heads": (*COUNT, 3), "hidden_features": COUNT},
    ),
    "MonotoneLattice": Door(
        MonotoneLattice,
        lambda: {"in_features": D, "out_features": 2},
        {
            "in_features": (*COUNT, 13),
            "out_features": COUNT,
            "increasing": COLUMNS,
            "num_keypoints": (*COUNT, 1),
            "low": ("0", None, True, nan, -inf, 3.0),
            "high": ("0", None, True, nan, inf, -3.0),
        },
    ),
    "a MonotoneLattice's call": Door(
        lambda x: MonotoneLattice(2 * D, 2)(x), lambda: {"x": torch.ones(5, 2, D)}, {"x": ROWS}
    ),
    "SelfAttention": Door(
        SelfAttention, lambda: {"in_features": 4}, {**HEADS, "bias": (*MODULE, TupleMLP(3, D, 4), TupleFeatures)}
    ),
    "SeedAttention": Door(SeedAttention, lambda: {"in_features": 4}, {**HEADS, "num_seeds": COUNT}),
    "SlotAttention": Door(
        SlotAttention,
        lambda: {"in_features": 4},
        {
            **{**HEADS, "num_slots": COUNT, "num_rounds": COUNT},
            **{"hidden_features": COUNT[:-1], "input_features": COUNT[:-1]},
        },
    ),
    "InducedAttention": Door(
        InducedAttention, lambda: {"in_features": 4}, {**HEADS, "num_points": COUNT, "inner": (*MODULE, seeds())}
    ),
    "Relations": Door(
        Relations,
        lambda: {"f": TupleMLP(2, D, 4)},
        {
            "f": (None, 3, "mlp", TupleMLP, GRU(D, 4)),
            "k": (*COUNT[:-1], 3),
            "reduce": (*CHOICE, None),
            "evaluate": (*CHOICE, None, "permanent", Gather),
            "memory_budget": BYTES,
        },
    ),
    "Quantile": Door(Quantile, dict, {"q": (*NUMBER, -0.1, 1.5, nan)}),
    "PowerMean": Door(PowerMean, dict, {"p": (*NUMBER, 0, nan), "learn": FLAG}),
    "SoftmaxMean": Door(SoftmaxMean, dict, {"t": (*NUMBER, nan), "learn": FLAG}),
    "ConcatenatedElements": Door(ConcatenatedElements, lambda: {"num_elements": 2}, {"num_elements": COUNT}),
    "BesidePooled": Door(
        BesidePooled, lambda: {"pooling": pooling()}, {"pooling": (None, 3, GRU(D, 4), JanossyPooling)}
    ),
    "InnerSets": Door(InnerSets, lambda: {"inner": nn.Identity()}, {"inner": (*MODULE, JanossyPooling)}),
    "AppendSize": Door(AppendSize, dict, {"largest_size": (-1, 2.5, True, "3", nan, torch.tensor(3))}),
    "SetNorm": Door(SetNorm, lambda: {"in_features": 4}, {"in_features": COUNT, "eps": (*NUMBER, -1.0, 0, nan)}),
    "Residual": Door(
        Residual,
        lambda: {"layer": nn.Linear(D, D)},
        {
            "layer": (None, *MODULE, seeds()),
            "norm": (*MODULE, seeds()),
            "dropout": (*NUMBER, -0.1, 1.5, nan),
        },
    ),
    "SetEncoder": Door(
        SetEncoder,
        lambda: {"layers": [nn.Linear(D, 4), SelfAttention(4)]},
        {"layers": (None, 3, [], [None], [nn.ReLU], nn.ReLU())},
    ),
    "a SetEncoder's call": Door(
        lambda sets: SetEncoder([SetNorm(D), SeedAttention(D, num_heads=1)])(sets),
        lambda: {"sets": sets()},
        {"sets": (*SETS, *ELEMENTS)},
    ),
    "AttentionMean": Door(AttentionMean, lambda: {"in_features": 4}, {"in_features": COUNT, "num_heads": (*COUNT, 3)}),
    "ColumnEmbedding": Door(
        ColumnEmbedding,
        lambda: {"vocabularies": [3], "num_numbers": 2},
        {
            "vocabularies": (None, 3, "ab", [0], [2.5], [True]),
            "num_numbers": COUNT[1:],
            "embedding_features": COUNT[:-1],
            "scaled": FLAG,
            "amounts": (3, [3], [[0, 0.0, 1.0]], [[2, 0.0, 1.0, 1.0]], [[0, 0.0, -1.0, 1.0]], [[0, nan, 1.0, 1.0]]),
            "quantiles": (
                3,
                [3],
                [[0, 1.0]],
                [[2, [0.0, 1.0]]],
                [[0, [1.0, 0.0]]],
                [[0, [1.0, 1.0]]],
                [[0, [nan, 1.0]]],
            ),
            "by_category": FLAG,
            "coded": (3, [3], [[0, 1.0]], [[2, [0.0, 1.0]]], [[0, [0.0, 1.0, 1.0]]], [[0, [nan, 1.0]]]),
            "num_unread": (-1, 2.5, True, "3", nan),
            "limits": (3, [3], [[0, 1.0]], [[2, 0.0, 1.0]], [[0, 1.0, 0.0]], [[0, nan, 1.0]]),
        },
    ),
    "Readout": Door(
        Readout,
        lambda: {"in_features": 4, "hidden_features": 5, "out_features": 2},
        {
            "in_features": COUNT,
            "hidden_features": (0, -1, 2.5, True, "3", None, (4, 0), (4, 2.5)),
            "out_features": COUNT,
            "first": MODULE,
            "embed": (*MODULE, nn.ReLU()),
            "activation": (*CHOICE, None),
            "dropout": (*NUMBER, -0.1, 1.5, nan),
        },
    ),
    "TupleProduct": Door(
        TupleProduct,
        lambda: {"k": 2, "in_features": D, "rank": 4},
        {
            "k": COUNT[:-1],
            "in_features": COUNT,
            "rank": COUNT,
            "out_features": COUNT[:-1],
            "g": (3, "x", nn.Linear(D, 4), [nn.Linear(D, 4)], [1, 2]),
        },
    ),
    "RNN": Door(RNN, lambda: {"in_features": D, "hidden_features": 4}, RECURRENCE),
    "GRU": Door(GRU, lambda: {"in_features": D, "hidden_features": 4}, RECURRENCE),
    "LSTM": Door(LSTM, lambda: {"in_features": D, "hidden_features": 4}, RECURRENCE),
    "MinGRU": Door(
        MinGRU,
        lambda: {"in_features": D, "hidden_features": 4},
        {name: RECURRENCE[name] for name in ("in_features", "hidden_features", "num_layers", "dropout")},
    ),
    "BalancedTree": Door(
        BalancedTree,
        lambda: {"in_features": D, "hidden_features": 4},
        {"in_features": COUNT, "hidden_features": COUNT, "combine": MODULE},
    ),
    "JanossyPooling": Door(
        JanossyPooling,
        lambda: {"f": GRU(D, 4), "orderings": Sampled()},
        {
            "f": (None, 3, "gru", GRU),
            "orderings": ORDERINGS,
            "evaluate": (*CHOICE, None, *EVALUATORS),
            "reduce": (*REDUCE, None),
            "memory_budget": BYTES,
            "append_size": (*FLAG, "linear"),
            "largest_size": (-1, 2.5, True, "3", nan, torch.tensor(3)),
            "orderings_train": ORDERINGS[1:],
            "fixed_in_eval": FLAG,
        },
    ),
    "JanossyEquivariant": Door(
        JanossyEquivariant,
        lambda: {"f": GRU(D, 4, per_position=True), "orderings": Sampled()},
        {
            "f": (None, 3, "gru", GRU),
            "orderings": (*ORDERINGS, Tuples(2), ImportanceSampled(2)),
            "memory_budget": BYTES,
            "fixed_in_eval": FLAG,
        },
    ),
    "JanossyNetwork": Door(
        JanossyNetwork,
        lambda: {"h": None, "pooling": pooling(), "rho": None},
        {
            "h": MODULE,
            "pooling": (None, 3, GRU(D, 4), JanossyPooling),
            "rho": MODULE,
            "encoder": (*MODULE, nn.Linear(D, D), seeds()),
        },
    ),
    "a pooling's call": Door(
        lambda **given: pooling()(**given),
        lambda: {"sets": sets()},
        {
            "sets": (*SETS, *ELEMENTS),
            "orderings": ORDERINGS[1:],
            "keys": (*SETS[1:], sets()[:2], sets().to("meta")),
            "generator": GENERATOR,
        },
    ),
    "a pooling of tuples' call": Door(
        lambda **given: JanossyPooling(TupleMLP(2, D, 4), Tuples(2))(**given),
        lambda: {"sets": sets()},
        {"sets": (*SETS, *ELEMENTS), "orderings": (*ORDERINGS[1:], Tuples(3), Canonical())},
    ),
    "a pooling's rows": Door(
        lambda **given: pooling().rows(**given),
        lambda: {"sets": sets()},
        {"sets": (*SETS, *ELEMENTS), "orderings": ORDERINGS[1:], "generator": GENERATOR},
    ),
    "explain": Door(
        lambda **given: network().explain(**given),
        lambda: {"sets": sets()},
        {"sets": (*SETS, *ELEMENTS), "orderings": ORDERINGS[1:]},
    ),
    "a network's call": Door(
        lambda **given: network()(**given),
        lambda: {"sets": sets()},
        {"sets": (*SETS, *ELEMENTS), "orderings": ORDERINGS[1:], "context": CONTEXT, "generator": GENERATOR},
    ),
    "a network's rows": Door(
        lambda **given: network().rows(**given),
        lambda: {"sets": sets()},
        {"sets": (*SETS, *ELEMENTS), "orderings": ORDERINGS[1:], "context": CONTEXT, "generator": GENERATOR},
    ),
    "an equivariant layer's call": Door(
        lambda **given: JanossyEquivariant(GRU(D, 4, per_position=True), Sampled())(**given),
        lambda: {"sets": sets()},
        {
            "sets": (*SETS, *ELEMENTS),
            "keys": (*SETS[1:], sets()[:2], sets().to("meta")),
            "generator": GENERATOR,
        },
    ),
    "predict": Door(
        predict,
        lambda: {"network": network(), "sets": sets(), "num_permutations": 4},
        {
            "network": (None, pooling(), GRU(D, 4), JanossyNetwork),
            "sets": (*SETS, *ELEMENTS),
            "num_permutations": COUNT[:-1],
            "context": CONTEXT,
            "link": CHOICE,
            "tolerance": (0, -1.0, "x", nan),
            "confidence": (0, 1, 95, "x", nan, None),
            "block": COUNT[:-1],
            "batch_size": COUNT[:-1],
            "seed": SEED,
            "generator": GENERATOR,
            "control": (3, "x"),
            "keep_outputs": FLAG,
        },
    ),
    "predict_passes": Door(
        predict_passes,
        lambda: {"run": lambda: torch.zeros(2, 3), "num_passes": 2},
        {
            "run": (None, 3, torch.zeros(2, 3), lambda: 3, lambda: torch.zeros(3)),
            "num_passes": COUNT,
            "link": CHOICE,
            "keep_outputs": FLAG,
        },
    ),
    "PermutationLoss": Door(
        PermutationLoss,
        dict,
        {
            "loss": (3, "mse", nn.MSELoss(), nn.MSELoss),
            "objective": (*CHOICE, None),
            "num_permutations": COUNT[:-1],
            "penalty": (*NUMBER, nan, inf),
            "link": CHOICE,
        },
    ),
    "a permutation loss's call": Door(
        lambda **given: PermutationLoss()(**given),
        lambda: {"network": network(), "sets": sets(), "target": torch.zeros(4, 2)},
        {
            "network": (None, pooling(), GRU(D, 4)),
            "sets": (*SETS, *ELEMENTS),
            "target": (
                None,
                3.0,
                torch.zeros(3, 2),
                torch.zeros(4),
                torch.zeros(4, 3),
                torch.zeros(4, 2, device="meta"),
            ),
            "context": CONTEXT,
            "generator": GENERATOR,
        },
    ),
    "RobbinsMonro": Door(
        RobbinsMonro,
        lambda: {"optimizer": torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)},
        {"optimizer": (None, 3), "tau": (*NUMBER, 0, -1, nan, inf), "power": (*NUMBER, 0.5, 1.5, nan)},
    ),
    "PaddedNetwork": Door(
        PaddedNetwork,
        lambda: {"network": JanossyNetwork(None, JanossyPooling(GRU(D, 4), Canonical()), None)},
        {"network": (None, 3, pooling(), GRU(D, 4), JanossyNetwork(None, pooling(), nn.Bilinear(4, 1, 2)))},
    ),
    "export_onnx": Door(
        export_onnx,
        lambda: {
            "network": JanossyNetwork(None, JanossyPooling(GRU(D, 4), Canonical()), None),
            "path": "/nonexistent/n.onnx",
            "example": sets(),
        },
        {
            "network": (None, 3, pooling()),
            "path": (None, 3),
            "example": (None, 3, torch.zeros(2, 3)),
            "opset": (0, "18", 1.5),
        },
    ),
    "sensitivity": Door(
        sensitivity,
        lambda: {"network": network(), "sets": sets(), "num_permutations": 4},
        {
            "network": (None, pooling(), GRU(D, 4)),
            "sets": (*SETS, *ELEMENTS),
            "num_permutations": (*COUNT, 1),
            "context": CONTEXT,
            "link": CHOICE,
            "num_swaps": (-1, 1.5, True, "3", None),
            "generator": GENERATOR,
        },
    ),
    "interaction_order": Door(
        interaction_order,
        lambda: {
            "target": lambda sets: sets.to_padded()[0].sum((1, 2)),
            "elements": torch.randn(20, 2),
            "num_elements": 4,
            "max_order": 2,
            "num_samples": 50,
        },
        {
            "target": (None, 3, lambda sets: 3, lambda sets: torch.zeros(2)),
            "elements": (None, [1.0], torch.zeros(0, 2), torch.tensor(1.0)),
            "num_elements": COUNT,
            "max_order": (*COUNT, 5),
            "num_samples": (*COUNT, 1),
            "seed": (*SEED, None),
        },
    ),
    "ControlVariate": Door(
        ControlVariate,
        lambda: {"h": None, "g": TupleMLP(2, D, 4), "k": 2},
        {"h": MODULE, "g": (None, 3, "x", TupleMLP), "k": COUNT},
    ),
    "fit_control_variate": Door(
        fit_control_variate,
        lambda: {"network": network(), "sets": sets(), "num_steps": 1},
        {
            "network": (None, pooling(), GRU(D, 4)),
            "sets": (*SETS, sets()[:0]),
            "k": COUNT,
            "hidden_features": COUNT,
            "link": CHOICE,
            "num_steps": COUNT,
            "num_permutations": (*COUNT, 1),
            "learning_rate": (*NUMBER, 0, -1e-3, nan),
            "generator": GENERATOR,
        },
    ),
    "CachedMean": Door(
        CachedMean,
        lambda: {"f": TupleMLP(1, D, 4), "num_elements": 10, "out_features": 4},
        {"f": (None, 3, TupleMLP), "num_elements": COUNT, "out_features": COUNT, "num_samples": COUNT},
    ),
    "a CachedMean's call": Door(
        lambda **given: CachedMean(TupleMLP(1, D, 4), num_elements=10, out_features=4)(**given),
        lambda: {"sets": sets(), "ids": torch.arange(6)},
        {
            "sets": (*SETS, *ELEMENTS),
            "ids": (
                None,
                3,
                list(range(6)),
                torch.arange(5),
                torch.arange(6.0),
                torch.arange(6) + 5,
                torch.arange(6) - 1,
            ),
            "generator": GENERATOR,
        },
    ),
    "GraphSAGE": Door(
        GraphSAGE,
        lambda: {"in_features": D, "num_classes": 2, "aggregation": "mean"},
        {
            "in_features": COUNT,
            "num_classes": COUNT,
            "aggregation": (*CHOICE, None, "k0", "k"),
            "hidden_features": (*COUNT, 7),
            "memory_budget": BYTES,
        },
    ),
    "a GraphSAGE's call": Door(
        lambda **given: GraphSAGE(D, 2, aggregation="lstm")(**given),
        lambda: {"x": torch.randn(3, D), "graph": graph(), "vertices": torch.tensor([0, 1])},
        {
            "x": (None, torch.randn(3, D + 1), torch.randn(2, D), torch.randn(3, D).double(), torch.ones(3, D).long()),
            "graph": (None, 3, torch.tensor([[0], [1]])),
            "vertices": VERTICES,
            "k_1": COUNT[:-1],
            "k_2": COUNT[:-1],
            "resample": FLAG,
            "generator": GENERATOR,
        },
    ),
    "from_edge_index": Door(
        Neighbourhoods.from_edge_index,
        lambda: {"edge_index": torch.tensor([[1, 2], [0, 0]])},
        {
            "edge_index": (None, 3, torch.zeros(2, 3), torch.zeros(3, 2, dtype=torch.long), torch.tensor([[0], [-1]])),
            "num_nodes": (1, -1, 2.5, True, "3"),
        },
    ),
    "two_hops": Door(
        two_hops,
        lambda: {"graph": graph(), "vertices": torch.tensor([0]), "k_1": 1, "k_2": 1},
        {
            "graph": (None, 3),
            "vertices": VERTICES,
            "k_1": COUNT[:-1],
            "k_2": COUNT[:-1],
            "resample": FLAG,
            "generator": GENERATOR,
        },
    ),
    "Neighbourhoods": Door(
        Neighbourhoods,
        lambda: {"offsets": torch.tensor([0, 2, 3, 3]), "neighbours": torch.tensor([1, 2, 0])},
        {
            "offsets": (None, 3, [0, 3], torch.zeros(4), torch.tensor([0, 3, 2, 3]), torch.tensor([0, 4]), META),
            "neighbours": (None, 3, [0, 1, 2], torch.zeros(3), torch.tensor([1, 2, 7]), torch.tensor([1, 2, -1]), META),
        },
    ),
    "whole": Door(
        lambda **given: graph().whole(**given), lambda: {"vertices": torch.tensor([0])}, {"vertices": VERTICES}
    ),
    "sample": Door(
        lambda **given: graph().sample(**given),
        lambda: {"vertices": torch.tensor([0]), "k": 1},
        {"vertices": VERTICES, "k": COUNT[:-1], "generator": GENERATOR},
    ),
    "assert_invariant": Door(
        assert_invariant,
        lambda: {"model": JanossyPooling(TupleMLP(2, D, 4), Tuples(2)), "example": sets()},
        {
            "model": (None, 3, JanossyPooling),
            "example": SETS,
            "num_permutations": COUNT,
            "atol": NUMBER[:2],
            "rtol": NUMBER[:2],
            "seed": SEED[1:],
        },
    ),
    "a TupleMLP's call": Door(TupleMLP(2, D, 4), lambda: {"x": torch.ones(5, 2, D)}, {"x": ROWS}),
    "a TupleProduct's call": Door(TupleProduct(2, D, 4), lambda: {"x": torch.ones(5, 2, D)}, {"x": ROWS}),
    "a GRU's call": Door(GRU(D, 4), lambda: {"x": torch.ones(5, 2, D)}, {"x": ROWS}),
    "a MinGRU's call": Door(
        MinGRU(D, 4),
        lambda: {"x": torch.ones(5, 2, D), "mask": torch.ones(5, 2, dtype=torch.bool)},
        {"x": ROWS, "mask": MASKS},
    ),
    "a BalancedTree's call": Door(
        BalancedTree(D, 4),
        lambda: {"x": torch.ones(5, 2, D), "mask": torch.ones(5, 2, dtype=torch.bool)},
        {"x": ROWS, "mask": (*MASKS, torch.tensor([[False, True]] * 5))},
    ),
    "a PaddedNetwork's call": Door(
        lambda **given: PaddedNetwork(network())(**given),
        lambda: {
            "x": torch.ones(5, 2, D),
            "mask": torch.ones(5, 2, dtype=torch.bool),
            "noise": torch.rand(5, 4, 2),
        },
        {
            "x": ROWS,
            "mask": (None, *MASKS),
            "noise": (3, torch.rand(5, 2), torch.rand(5, 4, 3), torch.rand(4, 4, 2), torch.ones(5, 4, 2).cfloat()),
        },
    ),
    "a PaddedNetwork of tuples' call": Door(
        lambda **given: PaddedNetwork(JanossyNetwork(None, JanossyPooling(TupleMLP(2, D, 4), Tuples(2)), None))(
            **given
        ),
        lambda: {"x": torch.ones(5, 2, D), "mask": torch.ones(5, 2, dtype=torch.bool)},
        {"x": ROWS, "mask": (None, *MASKS), "noise": (3, torch.rand(5, 4, 2))},
    ),
    "margin": Door(
        lambda **given: predict(network(), sets(), 4, **given).margin(**given),
        lambda: {"confidence": 0.9},
        {"confidence": (0, 1, 95, "x", nan, None, True)},
    ),
}

if find_spec("torch_geometric"):
    from janossy.graph import JanossyAggregation

    DOORS["JanossyAggregation"] = Door(
        JanossyAggregation,
        lambda: {"f": GRU(D, 4)},
        {
            "f": (None, 3, "gru", GRU),
            "num_permutations": COUNT,
            "num_permutations_eval": COUNT[:-1],
            "orderings": ORDERINGS[1:],
            "orderings_eval": ORDERINGS[1:],
            "evaluate": (*CHOICE, None, *EVALUATORS),
            "reduce": (*REDUCE, None),
            "fixed_in_eval": FLAG,
        },
    )
    # An x or a ptr that is no tensor, and a dim that x lacks, torch_geometric's Aggregation refuses before our forward.
    DOORS["a JanossyAggregation's call"] = Door(
        lambda **given: JanossyAggregation(GRU(D, 4))(**given),
        lambda: {"x": torch.ones(5, D), "index": torch.tensor([2, 0, 2, 2, 0]), "dim_size": 4},
        {
            "x": tuple(x.values[:5] for x in ELEMENTS),
            "index": (3, [2, 0, 2, 2, 0], torch.zeros(5), torch.zeros(4).long(), torch.tensor([2, 0, 2, 4, 0]), META),
            "ptr": (torch.tensor([0.0, 5.0]), torch.tensor([0, 4]), torch.tensor([0, 3, 2, 5]), META),
            "dim_size": (1, -1, 2.5, "4"),
            "dim": (-1, 1),
        },
    )

DOORS |= {
    "Group": Door(
        Group,
        lambda: {"permutations": [(0, 1), (1, 0)]},
        {
            "permutations": (3, None, "01", [], [()], [0, 1], [(0, 1.5)], [(0, 1), (1, 0), (1, 0)], [(1, 0)], [(0, 2)]),
            "signs": (3, "+-", [1], [1, 0], [1, True], [1, -1.5], [-1, 1], [1, -1, 1]),
        },
    ),
    "reversal": Door(reversal, lambda: {"k": 4}, {"k": (*COUNT, 1), "signs": (3, [1], [1, 0])}),
    "cyclic": Door(cyclic, lambda: {"k": 3}, {"k": (*COUNT, 1), "signs": (3, [1], [1, -1, 1])}),
    "dihedral": Door(dihedral, lambda: {"k": 3}, {"k": (*COUNT, 2), "signs": (3, [1], [1, 1, 1, 1, 1, -1])}),
    "improper": Door(improper, lambda: {"centre": 0}, {"centre": (*COUNT[1:], 4)}),
    "symmetric": Door(symmetric, lambda: {"k": 3}, {"k": (*COUNT, 9), "signs": (3, [1], [1, 1, 1, 1, 1, -1])}),
    "GroupImages": Door(GroupImages, lambda: {"group": reversal(2)}, {"group": (None, 3, [(0, 1), (1, 0)], Group)}),
    "GroupPooling": Door(
        GroupPooling,
        lambda: {"f": GRU(D, 4), "group": reversal(2)},
        {
            "f": (None, 3, GRU),
            "group": (None, 3, [(0, 1), (1, 0)], reversal),
            "evaluate": (*CHOICE, None, *EVALUATORS),
            "memory_budget": BYTES,
        },
    ),
    "a GroupPooling's call": Door(
        lambda **given: GroupPooling(GRU(D, 4), reversal(2))(**given),
        lambda: {"values": sets().values, "tuples": torch.tensor([[0, 1], [5, 2]])},
        {"values": (*(x.values for x in ELEMENTS), sets(), None, 3, torch.tensor(1.0)), "tuples": TUPLES},
    ),
    "GroupPooling.of_sets": Door(
        lambda **given: GroupPooling(GRU(D, 4), reversal(2)).of_sets(**given),
        lambda: {"sets": sets(), "tuples": torch.tensor([[0, 1], [4, 3]])},
        {"sets": (*ELEMENTS, *SETS), "tuples": (*TUPLES, torch.tensor([[2, 3]])), "reduce": (*CHOICE, None, "max")},
    ),
}

UNTRIED = {"last_epoch", "device", "dtype"}
"""Arguments that torch checks."""

CASES = [(name, argument) for name, door in DOORS.items() for argument in door.wrong]


@pytest.mark.parametrize("name", DOORS)
def test_what_is_right_passes(name):
    door = DOORS[name]
    if name == "export_onnx":
        with pytest.raises(OSError):  # all but the folder is right
            door.call(**door.right())
        return
    door.call(**door.right())


@pytest.mark.parametrize(("name", "argument"), CASES)
def test_what_is_wrong_gets_one_clear_error(name, argument):
    door = DOORS[name]
    for i, wrong in enumerate(door.wrong[argument]):
        try:
            door.call(**door.right() | {argument: wrong})
        except (TypeError, ValueError) as error:
            message = str(error)
        else:
            message = "no error"
        assert "expect" in message and "got " in message, (i, wrong, message)
        assert len(message) < 500 and message.count("\n") == 0, (i, wrong, message)


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if isinstance(door.call, type)])
def test_every_argument_of_a_constructor_is_tried(name):
    assert set(signature(DOORS[name].call).parameters) - set(DOORS[name].wrong) <= UNTRIED


def test_an_unclear_error_is_found():
    def silent(x):
        return x

    def strange(x):
        return [][x]

    for call in (silent, strange):
        with pytest.raises((pytest.fail.Exception, IndexError)), pytest.raises((TypeError, ValueError)):
            call(3)
