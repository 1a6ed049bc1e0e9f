"""The structure that f declares."""

from janossy.evaluate import Function
from janossy.functions.structure import Additive, Product, Recurrent, additive, product, recurrent


def structure(f: Function) -> Additive | Product | Recurrent | None:
    """The structure that f declares now, with the weights that it has now; None if it declares none."""
    return additive(f) or product(f) or recurrent(f)
