"""AppendSize: the size of the set as another feature of each element."""

import torch
from torch import Tensor

from janossy.checks import check_integer
from janossy.functions.shown import arguments_shown
from janossy.nn.encoder.layer import SetLayer
from janossy.sets import Ragged


class AppendSize(SetLayer):
    """[x_i, log(1 + n)] for each element of a set of n, as attention, which is a mean, does not see the size.

    Args:
        largest_size: the bound to which larger sizes are cut, such as the largest of training; None for no bound.

    Shapes: sets.values (N, d) -> Ragged of values (N, d + 1), the same sets.
    Invariance: equivariant, exactly.
    Raises: TypeError or ValueError for a largest_size that is not an integer >= 0 or None.

    Example:
        >>> AppendSize()(Ragged.from_sets([torch.zeros(1, 2)])).values
        tensor([[0.0000, 0.0000, 0.6931]])
    """

    def __init__(self, *, largest_size: int | None = None) -> None:
        super().__init__()
        check_integer("AppendSize", "largest_size", largest_size, 0, optional=True)
        self.largest_size = largest_size

    def forward(self, sets: Ragged) -> Ragged:
        self.check(sets)
        sizes = self._size_feature(sets.offsets.diff(), sets.values)[sets.to_index()[1], None]
        return sets.with_values(torch.cat((sets.values, sizes), dim=1))

    def padded(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        sizes = self._size_feature(mask.sum(1), x)[:, None, None].expand(-1, x.shape[1], 1)
        return torch.cat((x, sizes), dim=2), mask

    def _size_feature(self, sizes: Tensor, like: Tensor) -> Tensor:
        sizes = sizes if self.largest_size is None else sizes.clamp(max=self.largest_size)
        return torch.log1p(sizes).to(like.dtype)

    def extra_repr(self) -> str:
        return arguments_shown(self)
