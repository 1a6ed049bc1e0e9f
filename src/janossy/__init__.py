"""Janossy pooling: learning functions of sets by averaging over orderings (Murphy et al., ICLR 2019)."""

from janossy.equivariant import JanossyEquivariant
from janossy.evaluate import Fused, Gather, Packed, Permanent, Projected, SharedPrefixes, Spectral
from janossy.export import PaddedNetwork, export_onnx
from janossy.functions import GRU, LSTM, RNN, BalancedTree, MinGRU, TupleMLP, TupleProduct
from janossy.inference import Prediction, predict
from janossy.network import JanossyNetwork
from janossy.orderings import AllPermutations, Canonical, Combinations, Sampled, Tuples
from janossy.pooling import JanossyPooling
from janossy.ragged import Ragged

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "AllPermutations",
    "BalancedTree",
    "Canonical",
    "Combinations",
    "Fused",
    "Gather",
    "JanossyEquivariant",
    "JanossyNetwork",
    "JanossyPooling",
    "MinGRU",
    "Packed",
    "PaddedNetwork",
    "Permanent",
    "Prediction",
    "Projected",
    "Ragged",
    "Sampled",
    "SharedPrefixes",
    "Spectral",
    "TupleMLP",
    "TupleProduct",
    "Tuples",
    "export_onnx",
    "predict",
]

__version__ = "0.1.0"
