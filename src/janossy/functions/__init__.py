"""WHAT is applied to a sequence: modules mapping (T, L, d) to (T, c). Any such module will do."""

from janossy.functions.recurrent import GRU, LSTM, RNN
from janossy.functions.tuple_mlp import ACTIVATIONS, TupleMLP

__all__ = ["ACTIVATIONS", "GRU", "LSTM", "RNN", "TupleMLP"]
