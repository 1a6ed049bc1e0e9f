"""JanossyEquivariant: one output per element, averaged over orderings."""

import torch
from torch import nn

from janossy.checks import check_flag, check_generator
from janossy.evaluate import MEMORY_BUDGET, Function, Gather, Problem
from janossy.evaluate.cost import check_memory_budget
from janossy.evaluate.loading import LOADING
from janossy.evaluate.per_element import per_element
from janossy.evaluate.problem import reaching
from janossy.evaluate.validation import check_function, check_keys, check_sets, errors_explained
from janossy.functions.shown import arguments_shown
from janossy.functions.weights import draw_anew
from janossy.nn.encoder.layer import SetLayer
from janossy.orderings.contract import Orderings, check_orderings, modules_of, repeatable
from janossy.sets import Ragged


class JanossyEquivariant(SetLayer):
    """f̄(h)_i = the mean over orderings π of f(h_π) at the place of element i in π, so that f̄(h_π) = f̄(h)_π.

    Outputs are in the order of the elements. With a bidirectional recurrence, an output depends on the whole set. In
    one direction, it depends on the elements that come before in each ordering.

    Args:
        f: maps rows (T, L, d) to (T, L, c), one output per position. An example is
            ``GRU(d, H, bidirectional=True, per_position=True)``, or any module, such as a Transformer encoder with
            positions.
        orderings: orderings of whole sets: AllPermutations, Canonical, or Sampled without k. In evaluation, Sampled
            gives all orders of a set that has no more than num.
        memory_budget: the bytes that may be held at once. Rows that need more are computed in chunks, and again in
            backward.
        fixed_in_eval: True for the same permutations at every call in evaluation mode, as in ``JanossyPooling``.

    Shapes: sets.values (N, d) -> Ragged of values (N, c), the same sets.
    Invariance: equivariant, exactly or in expectation, as the orderings are invariant. Sorted orders (``Canonical``, a
        seed) cannot tell equal elements apart, so these share the mean of their outputs. A set's outputs do not depend
        on its batch-mates. A recurrence reads no padding, and projects each element once.
    Cost: f on every row.
    Raises: TypeError or ValueError for arguments of another type or range, or orderings of k elements or with weights.
        ValueError for an f that does not fit the elements or does not return (T, L, c).

    Example:
        >>> f = GRU(4, 16, bidirectional=True, per_position=True)
        >>> outputs = JanossyEquivariant(f, Sampled(5))(Ragged.from_sets([torch.randn(3, 4), torch.randn(0, 4)]))
        >>> outputs.values.shape, outputs.sizes
        (torch.Size([3, 32]), (3, 0))
    """

    def __init__(
        self, f: Function, orderings: Orderings, *, memory_budget: int = MEMORY_BUDGET, fixed_in_eval: bool = False
    ) -> None:
        super().__init__()
        check_function(f, "JanossyEquivariant", "(T, L, c)")
        check_orderings(orderings, "JanossyEquivariant")
        if orderings.k is not None:
            raise ValueError(
                f"JanossyEquivariant expects orderings of whole sets, as every element has an output; got {orderings}. "
                "Use AllPermutations(), Canonical() or Sampled(num)."
            )
        if orderings.weighs_rows:
            raise ValueError(
                f"JanossyEquivariant expects orderings without row weights; got {type(orderings).__name__}, which has "
                "them. Use Sampled(num)."
            )
        check_memory_budget("JanossyEquivariant", memory_budget)
        check_flag("JanossyEquivariant", "fixed_in_eval", fixed_in_eval)
        if fixed_in_eval:
            repeatable(orderings.in_prediction(), "JanossyEquivariant")
        self.f = f
        self.orderings = orderings
        self.memory_budget = memory_budget
        self.fixed_in_eval = fixed_in_eval
        if modules := modules_of(orderings):
            self.of_orderings = nn.ModuleList(modules)

    def reset_parameters(self) -> None:
        """Draws the weights of all parts anew."""
        draw_anew(self)

    def forward(self, sets: Ragged, *, keys: Ragged | None = None, generator: torch.Generator | None = None) -> Ragged:
        """Returns one output per element; ``keys`` and ``generator`` as in ``JanossyPooling``."""
        check_sets(sets, "JanossyEquivariant")
        if keys is None:
            keys = sets
        check_keys(keys, sets, "JanossyEquivariant")
        check_generator("JanossyEquivariant", generator, sets.device)
        orderings = self.orderings
        if not self.training:
            orderings = orderings.in_prediction().exhausting()
            if self.fixed_in_eval and generator is None:
                orderings = repeatable(orderings, "JanossyEquivariant")
        problem = Problem(
            self.f, orderings, sets, keys=keys, reduce=None, generator=generator, memory_budget=self.memory_budget
        )
        LOADING.called()
        with errors_explained("f", self.f, sets.values):
            return sets.with_values(reaching(per_element(problem), problem))

    def seconds(self, sets: Ragged) -> float:
        problem = Problem(self.f, self.orderings, sets, reduce=None, memory_budget=self.memory_budget)
        problem.check_rows()
        return Gather().cost(problem).seconds

    def extra_repr(self) -> str:
        return arguments_shown(self)
