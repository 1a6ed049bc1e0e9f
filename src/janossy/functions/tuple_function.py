"""TupleFunction: a function of k elements, whose k may be left to the orderings."""

from torch import nn


class TupleFunction(nn.Module):
    """A function of rows of k elements. Without a k it takes that of the orderings it is pooled over.

    A subclass whose k may be missing makes its weights in ``build``, once k is known.
    """

    k: int
    """None until it is known."""

    def take_k(self, k: int) -> None:
        """Takes k from the orderings, and makes the weights, if k was not given; otherwise changes nothing."""
        if self.k is None:
            self.k = k
            self.build(k)

    def build(self, k: int) -> None:
        """Makes the weights for rows of k elements."""
        raise NotImplementedError
