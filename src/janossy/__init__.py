"""Janossy pooling: learning functions of sets by averaging over orderings (Murphy et al., ICLR 2019)."""

from janossy.evaluate import Fused, Gather, Permanent, Projected, Spectral
from janossy.functions import GRU, LSTM, RNN, TupleMLP, TupleProduct
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
    "Canonical",
    "Combinations",
    "Fused",
    "Gather",
    "JanossyNetwork",
    "JanossyPooling",
    "Permanent",
    "Prediction",
    "Projected",
    "Ragged",
    "Sampled",
    "Spectral",
    "TupleMLP",
    "TupleProduct",
    "Tuples",
    "predict",
]

__version__ = "0.1.0"
