"""Janossy pooling: learning functions of sets by averaging over orderings (Murphy et al., ICLR 2019)."""

from janossy.evaluate import Gather
from janossy.functions import GRU, LSTM, RNN, TupleMLP
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
    "Gather",
    "JanossyNetwork",
    "JanossyPooling",
    "Prediction",
    "Ragged",
    "Sampled",
    "TupleMLP",
    "Tuples",
    "predict",
]

__version__ = "0.1.0"
