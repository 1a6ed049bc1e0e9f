"""GroupPooling: f averaged over the images of given tuples under a group."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.evaluate import MEMORY_BUDGET, Evaluator, Function
from janossy.evaluate.lookup import Lookup
from janossy.evaluate.reduce import widened
from janossy.evaluate.rows.pool import apply
from janossy.evaluate.validation import check_sets, errors_explained
from janossy.functions.shown import arguments_shown
from janossy.nn.groups.group import Group
from janossy.nn.groups.images import GroupImages
from janossy.nn.pooling import JanossyPooling
from janossy.sets import Ragged


class GroupPooling(nn.Module):
    """f̄(x_1 … x_k) = 1/|G| Σ_{g∈G} χ(g) f(x_{g(1)} … x_{g(k)}): Eq. 3 with a group's images in place of all orders.

    Molecular force fields pool in this way: a torsion is the same read from either end, but is not a set of four atoms.

    Args:
        f: any module that maps rows (T, k, d) to (T, c).
        group: ``reversal(k)``, ``cyclic(k)``, ``dihedral(k)``, ``improper(centre)``, ``symmetric(k)``, or a table of
            your own, ``Group(permutations, signs=signs)``.
        evaluate: the evaluator, as for ``JanossyPooling``.
        memory_budget: the bytes that may be held at once. Rows that need more are computed in chunks, and again in
            backward.

    Shapes: values (N, d), tuples (T, k) of positions in them -> (T, c); T may be 0.
    Invariance: exact: a tuple's image under h has χ(h) times the tuple's result. Equal values make no difference.
    Cost: f on |G|·T rows. A ``TupleMLP`` and a recurrence project each of the N values once.
    Raises:
        TypeError: for arguments of another type.
        ValueError: for arguments of another range, or an f that does not fit the values.
        ValueError: for tuples that are not (T, k), lie outside the values, or hold one element twice.

    Example:
        >>> torsions = GroupPooling(TupleMLP(4, in_features=3, hidden_features=8), reversal(4))
        >>> atoms, chain = torch.randn(5, 3), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> torch.allclose(torsions(atoms, chain), torsions(atoms, chain.flip(1)), atol=1e-6)
        True
    """

    def __init__(
        self, f: Function, group: Group, *, evaluate: str | Evaluator = "auto", memory_budget: int = MEMORY_BUDGET
    ) -> None:
        super().__init__()
        self.pooling = JanossyPooling(f, GroupImages(group), evaluate=evaluate, memory_budget=memory_budget)
        self.group = group

    def reset_parameters(self) -> None:
        """Draws the weights of f anew."""
        self.pooling.reset_parameters()

    def forward(self, values: Tensor, tuples: Tensor) -> Tensor:
        """Returns the result of each tuple, (T, c)."""
        if not isinstance(values, Tensor) or values.dim() == 0 or values.is_meta:
            got = f"{tuple(values.shape)} on {values.device}" if isinstance(values, Tensor) else type(values).__name__
            raise TypeError(
                f"GroupPooling expects values as a tensor (N, *features) of numbers; got {got}. Of a Ragged batch of "
                "sets, of_sets(sets, tuples) makes a vector for each."
            )
        return self._of_tuples(values, self._checked(tuples, values))

    def of_sets(self, sets: Ragged, tuples: Tensor, reduce: str = "sum") -> Tensor:
        """Returns the sum of the results of each set's tuples, or their mean ("mean"); 0 for a set without tuples.

        An example is the sum over a molecule's torsions. Tuples hold positions in ``sets.values`` of the whole batch,
        as in torch_geometric's batches. With signs, the direction in which a tuple is given changes the sum.

        Shapes: sets.values (N, d) of B sets, tuples (T, k) -> (B, c).
        Raises: as a call, and ValueError for a tuple with elements of more than one set.
        """
        if reduce not in ("sum", "mean"):
            raise ValueError(f"GroupPooling expects reduce as 'sum' or 'mean'; got {reduce!r}.")
        check_sets(sets, "GroupPooling.of_sets")
        tuples = self._checked(tuples, sets.values)
        owners = torch.bucketize(tuples, sets.offsets[1:], right=True)
        _refuse_some(
            (owners != owners[:, :1]).any(1),
            tuples,
            "tuples of elements of one set each",
            "whose elements are of several sets. Count positions in sets.values, of all sets",
        )
        results = self._of_tuples(sets.values, tuples)
        wide = widened(results)
        pooled = wide.new_zeros(len(sets), wide.shape[1]).index_add(0, owners[:, 0], wide)
        if reduce == "mean":
            pooled = pooled / torch.bincount(owners[:, 0], minlength=len(sets)).clamp(min=1)[:, None]
        return pooled.to(results.dtype)

    def _of_tuples(self, values: Tensor, tuples: Tensor) -> Tensor:
        num, k = tuples.shape
        if num == 0:  # f of a zero vector shows the width, and lets backward reach f's weights with zeros
            with errors_explained("f", self.pooling.f, values):
                return apply(self.pooling.f, values.new_zeros(1, k, *values.shape[1:]))[:0]
        offsets = torch.arange(num + 1, device=values.device) * k
        places = Ragged(tuples.flatten(), offsets, sizes=(k,) * num)
        return cast(Tensor, self.pooling(Lookup(values, places), keys=places))

    def _checked(self, tuples: Any, values: Tensor) -> Tensor:
        """Returns the tuples as int64 on the values' device."""
        k = self.group.k
        expected = f"tuples (T, {k}) of positions in the values, one for each position of the group"
        if not isinstance(tuples, Tensor):
            raise TypeError(
                f"GroupPooling expects {expected}, as a tensor; got {type(tuples).__name__}. torch.as_tensor makes one."
            )
        if tuples.is_meta:
            raise ValueError(f"GroupPooling expects {expected}; got a meta tensor. Make it on another device.")
        fractions = tuples.is_floating_point() or tuples.is_complex() or tuples.dtype == torch.bool
        if tuples.dim() != 2 or tuples.shape[1] != k or fractions:
            empty = f"No tuples at all are torch.zeros(0, {k}, dtype=torch.long)"
            remedy = empty if tuples.numel() == 0 else "Check the tuples and the group"
            raise ValueError(
                f"GroupPooling expects {expected}, as integers; got {tuples.dtype} of shape {tuple(tuples.shape)}. "
                f"{remedy}."
            )
        tuples = tuples.to(values.device, torch.long).contiguous()
        _refuse_some(
            ((tuples < 0) | (tuples >= len(values))).any(1),
            tuples,
            f"positions from 0 to {len(values) - 1}" if len(values) else "no tuples, as there are no values",
            "which leaves them. Drop it, or give all the values that it means",
        )
        in_order = tuples.sort(1).values
        _refuse_some(
            (in_order[:, 1:] == in_order[:, :-1]).any(1),
            tuples,
            "tuples of distinct elements",
            "which holds one twice. Drop it",
        )
        return cast(Tensor, tuples)

    def extra_repr(self) -> str:
        evaluate, memory_budget = self.pooling.choice.said, self.pooling.memory_budget
        return arguments_shown(self, evaluate=evaluate, memory_budget=memory_budget)


def _refuse_some(wrong: Tensor, tuples: Tensor, expected: str, fault: str) -> None:
    """Raises a ValueError that names the first wrong tuple, if there is one."""
    if wrong.any():
        first = int(wrong.nonzero()[0])
        others = int(wrong.sum()) - 1
        also = f" (and {others} more)" if others else ""
        raise ValueError(
            f"GroupPooling expects {expected}; got {tuples[first].tolist()} as tuple {first}{also}, {fault}."
        )
