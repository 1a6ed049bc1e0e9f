"""Functions of a sequence: modules mapping (T, L, d) to (T, c). Any such module can be f."""

from janossy.functions.balanced_tree import BalancedTree
from janossy.functions.featured_mlp import FeaturedMLP
from janossy.functions.gated_attention import GatedAttention
from janossy.functions.min_gru import MinGRU
from janossy.functions.monotone_lattice import MonotoneLattice
from janossy.functions.recurrent import GRU, LSTM, RNN, Recurrence
from janossy.functions.structure import ACTIVATIONS, Additive, Product, Recurrent, Structure, structure
from janossy.functions.tuple_features import TupleFeatures
from janossy.functions.tuple_mlp import TupleMLP
from janossy.functions.tuple_product import TupleProduct

__all__ = [
    "ACTIVATIONS",
    "GRU",
    "LSTM",
    "RNN",
    "Additive",
    "BalancedTree",
    "FeaturedMLP",
    "GatedAttention",
    "MinGRU",
    "MonotoneLattice",
    "Product",
    "Recurrence",
    "Recurrent",
    "Structure",
    "TupleFeatures",
    "TupleMLP",
    "TupleProduct",
    "structure",
]
