"""TupleFunction: a function of k elements that may take k from the orderings."""

from torch import nn

from janossy.functions.shown import arguments_shown


class TupleFunction(nn.Module):
    """A function of rows of k elements. If k is not given, it is taken from the orderings that f is pooled over.

    A subclass makes its weights in ``build``, once k is known.
    """

    k: int
    """The number of elements of a row; None until it is known."""

    def take_k(self, k: int) -> None:
        """Sets k and makes the weights if k was not given; otherwise does nothing."""
        if self.k is None:
            self.k = k
            self.build(k)

    def build(self, k: int) -> None:
        """Makes the weights for rows of k elements."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        return arguments_shown(self) if self.k is not None else "k is not set"
