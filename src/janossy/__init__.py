"""Janossy pooling: learning functions of sets by averaging over orderings (Murphy et al., ICLR 2019)."""

from janossy.audit import InteractionOrder, Sensitivity, interaction_order, sensitivity
from janossy.equivariant import JanossyEquivariant
from janossy.evaluate import Fused, Gather, Packed, Permanent, Projected, SampledPrefixes, SharedPrefixes, Spectral
from janossy.export import PaddedNetwork, export_onnx
from janossy.functions import GRU, LSTM, RNN, BalancedTree, MinGRU, TupleMLP, TupleProduct
from janossy.history import HistoryPooling
from janossy.inference import predict
from janossy.inference.control import ControlVariate, fit_control_variate
from janossy.inference.predict import Prediction
from janossy.network import JanossyNetwork
from janossy.objective import Estimand, PermutationLoss, RobbinsMonro
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

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "AllPermutations",
    "BalancedTree",
    "Canonical",
    "Combinations",
    "ControlVariate",
    "Distinct",
    "Estimand",
    "Fused",
    "Gather",
    "HistoryPooling",
    "ImportanceSampled",
    "InteractionOrder",
    "JanossyEquivariant",
    "JanossyNetwork",
    "JanossyPooling",
    "MinGRU",
    "Packed",
    "PaddedNetwork",
    "Permanent",
    "PermutationLoss",
    "Prediction",
    "Projected",
    "Ragged",
    "RobbinsMonro",
    "Sampled",
    "SampledPrefixes",
    "Sensitivity",
    "SharedPrefixes",
    "Spectral",
    "TupleMLP",
    "TupleProduct",
    "Tuples",
    "export_onnx",
    "fit_control_variate",
    "interaction_order",
    "predict",
    "sensitivity",
]

__version__ = "0.1.0"
