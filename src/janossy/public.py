"""The names that a user starts from: ``janossy`` has them all, and imports this file when one is first asked for."""

from janossy.equivariant import JanossyEquivariant
from janossy.evaluate import Spectral
from janossy.export import PaddedNetwork, export_onnx
from janossy.functions import GRU, LSTM, RNN, BalancedTree, MinGRU, TupleMLP, TupleProduct
from janossy.inference import predict
from janossy.network import JanossyNetwork
from janossy.objective import PermutationLoss
from janossy.orderings import (
    AllPermutations,
    Canonical,
    Combinations,
    Distinct,
    ImportanceSampled,
    Sampled,
    Tuples,
)
from janossy.pooling import JanossyPooling
from janossy.ragged import Ragged
from janossy.stack import Stack

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "AllPermutations",
    "BalancedTree",
    "Canonical",
    "Combinations",
    "Distinct",
    "ImportanceSampled",
    "JanossyEquivariant",
    "JanossyNetwork",
    "JanossyPooling",
    "MinGRU",
    "PaddedNetwork",
    "PermutationLoss",
    "Ragged",
    "Sampled",
    "Spectral",
    "Stack",
    "TupleMLP",
    "TupleProduct",
    "Tuples",
    "export_onnx",
    "predict",
]
