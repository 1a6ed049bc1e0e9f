"""WHAT is applied to a sequence: modules mapping (T, L, d) to (T, c). Any such module will do."""

from janossy.functions.recurrent import GRU, LSTM, RNN
from janossy.functions.structure import ACTIVATIONS, Additive, Product, additive, product
from janossy.functions.tuple_mlp import TupleMLP
from janossy.functions.tuple_product import TupleProduct

__all__ = [
    "ACTIVATIONS",
    "GRU",
    "LSTM",
    "RNN",
    "Additive",
    "Product",
    "TupleMLP",
    "TupleProduct",
    "additive",
    "product",
]
