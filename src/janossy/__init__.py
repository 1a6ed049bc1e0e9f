"""Janossy pooling: learning functions of sets by averaging over orderings (Murphy et al., ICLR 2019).

These names build, train and use a network of sets: the sets, the layers, the paper's orderings and functions, the loss
and the prediction. Everything else is in a subpackage, such as ``janossy.estimators`` or ``janossy.density``.

A name is imported at its first use (PEP 562). The command line is part of this package, and prints its help and its
errors without importing torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from janossy.evaluate import Spectral as Spectral
    from janossy.export import PaddedNetwork as PaddedNetwork
    from janossy.export import export_onnx as export_onnx
    from janossy.functions import GRU as GRU
    from janossy.functions import LSTM as LSTM
    from janossy.functions import RNN as RNN
    from janossy.functions import BalancedTree as BalancedTree
    from janossy.functions import MinGRU as MinGRU
    from janossy.functions import TupleMLP as TupleMLP
    from janossy.functions import TupleProduct as TupleProduct
    from janossy.inference import predict as predict
    from janossy.losses import PermutationLoss as PermutationLoss
    from janossy.nn import JanossyEquivariant as JanossyEquivariant
    from janossy.nn import JanossyNetwork as JanossyNetwork
    from janossy.nn import JanossyPooling as JanossyPooling
    from janossy.orderings import AllPermutations as AllPermutations
    from janossy.orderings import Canonical as Canonical
    from janossy.orderings import Combinations as Combinations
    from janossy.orderings import Distinct as Distinct
    from janossy.orderings import ImportanceSampled as ImportanceSampled
    from janossy.orderings import Sampled as Sampled
    from janossy.orderings import Tuples as Tuples
    from janossy.sets import Ragged as Ragged
    from janossy.sets import collate as collate
    from janossy.stack import Stack as Stack

__version__ = "0.1.0"

_NAMES = {
    "evaluate": ("Spectral",),
    "export": ("PaddedNetwork", "export_onnx"),
    "functions": ("GRU", "LSTM", "RNN", "BalancedTree", "MinGRU", "TupleMLP", "TupleProduct"),
    "inference": ("predict",),
    "losses": ("PermutationLoss",),
    "nn": ("JanossyEquivariant", "JanossyNetwork", "JanossyPooling"),
    "orderings": (
        "AllPermutations",
        "Canonical",
        "Combinations",
        "Distinct",
        "ImportanceSampled",
        "Sampled",
        "Tuples",
    ),
    "sets": ("Ragged", "collate"),
    "stack": ("Stack",),
}

_ROOMS = ("batch", "density", "estimators", "graph", "saving", "tables", "testing", *_NAMES)

__all__ = sorted(name for names in _NAMES.values() for name in names)


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    for room, names in _NAMES.items():
        if name in names:
            globals()[name] = getattr(import_module(f"{__name__}.{room}"), name)
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS, "__version__"])
