"""Stack: R networks of one architecture as one module."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from janossy.checks import check_generator
from janossy.evaluate.lookup import Lookup
from janossy.evaluate.validation import errors_explained
from janossy.functions.recurrent import Recurrence
from janossy.functions.tuple_mlp import TupleMLP
from janossy.nn.modes import untouched
from janossy.nn.network import JanossyNetwork
from janossy.orderings.contract import modules_of
from janossy.sets import Ragged
from janossy.stack import maps, recurrences, tuples
from janossy.stack.batch import Batch, as_batch, is_table, looked_up, split
from janossy.stack.weights import apart, bind, check_alike, kept, stacked

TUPLES, RECURRENCES = "the means over all k-tuples together", "the rows of the recurrence together"


class Stack(nn.Module):
    """R networks of one architecture as one module: other seeds, learning rates, or an ensemble.

    Every parameter is (R, *shape), under the name that it has in a network. Each network has sets, permutations and
    gradients of its own: what it gives does not depend on the others, and is what it gives by itself, to rounding.
    So the sum of R losses is trained as R networks are, and an optimiser that treats every number by itself, as SGD and
    Adam do, takes the steps that it would take with each.

    What is computed together: h and rho of linear layers and activations, an embedding; the means of a ``TupleMLP`` of
    one hidden layer over all k-tuples; the rows of an ``RNN``, ``GRU`` or ``LSTM`` of one layer. Anything else is
    computed network by network, and ``explain`` says so: encoders, and h before them, are.

    Once some have finished or diverged, ``keep`` keeps the others; ``unstack`` gives the networks back. ``predict``
    takes a stack too, and tells the members' spread beside the error of the permutations.

    Args:
        networks: ``JanossyNetwork``s with the same modules, arguments, shapes and dtypes. Their weights are copied.

    Shapes: a Ragged of B sets for all, or a list of R of them -> (R, B, out).
    Invariance: each network's.
    Raises: TypeError or ValueError for no networks, networks that differ, in words that name the first difference, sets
        for another number of networks, or other numbers of sets.

    Example:
        >>> pooling = JanossyPooling(TupleMLP(2, 8, 30), Tuples(2))
        >>> networks = [JanossyNetwork(nn.Linear(3, 8), pooling, nn.Linear(30, 1)) for _ in range(5)]
        >>> Stack(networks)(Ragged.from_sets([torch.randn(4, 3), torch.randn(2, 3)])).shape
        torch.Size([5, 2, 1])
    """

    def __init__(self, networks: Sequence[JanossyNetwork]) -> None:
        super().__init__()
        check_alike(networks)
        self.network = stacked(networks)
        """Holds the parameters, (R, *shape), and cannot be called."""
        self._members = tuple(apart(networks))  # a tuple's modules are not registered: the weights are kept once
        self._bind()
        self._h_together = self.network.encoder is None and (
            is_table(self.network.h) or maps.is_stackable(self.network.h)
        )
        self._rho_together = maps.is_stackable(self.network.rho)
        self._last: tuple[tuple[Any, ...], str] | None = None
        self.training = networks[0].training

    def __len__(self) -> int:
        return len(self._members)

    def forward(
        self,
        sets: Ragged | Sequence[Ragged],
        *,
        joined: bool = False,
        context: Tensor | None = None,
        generators: Sequence[torch.Generator] | None = None,
    ) -> Tensor:
        """Each network's outputs (R, B, out), for its own sets, a list of R, or for those of all.

        ``joined``: sets is one Ragged of R·B, network by network, which saves joining a list. ``context``: what is
        known of each set as a whole, (R, B, *any). ``generators``: the sources of the permutations, one a network.
        """
        self._is_bound = False
        batch = as_batch(sets, len(self), joined)
        sources = self._sources(generators, batch)
        self._check_context(context, batch)
        elements = self._elements(batch)
        pooled = self._pooled(self._ordered(batch, elements), elements, sources)
        if self._rho_together and context is None:
            outputs = maps.apply(self.network.rho, pooled, [batch.num_sets] * len(self))
            return cast(Tensor, outputs.unflatten(0, (len(self), -1)))
        self._bind(once=True)
        rows = pooled.unflatten(0, (len(self), -1))
        of_each = [None] * len(self) if context is None else context
        return torch.stack([m.read_out(x, c) for m, x, c in zip(self._members, rows, of_each, strict=True)])

    def explain(self, sets: Ragged | Sequence[Ragged], *, joined: bool = False) -> str:
        """Says what is computed for all networks together, and what network by network; and the first one's
        ``explain``.
        """
        batch = as_batch(sets, len(self), joined)
        with untouched(self):
            elements = self._elements(batch)
            how = self._how(self._ordered(batch, elements), elements)
        self._bind()
        lines = [f"{len(self)} networks of {batch.num_sets} sets each"]
        for name, together in (("h", self._h_together), ("rho", self._rho_together)):
            kind = type(getattr(self.network, name)).__name__
            reason = f"{kind} is more than linear layers and activations"
            if name == "h" and self.network.encoder is not None:
                reason = "an encoder follows"
            how_it = "together" if together else f"network by network: {reason}"
            lines.append(f"  {name}: {how_it}")
        lines.insert(2, f"  pooling: {how}")
        if self.network.encoder is not None:
            lines.insert(2, "  encoder: network by network")
        return "\n".join([*lines, "network 0 by itself:", self._members[0].explain(batch.apart[0])])

    def members(self) -> tuple[JanossyNetwork, ...]:
        """The networks, whose weights are views of the stack's, as they are now."""
        self._bind()
        return self._members

    def unstack(self) -> list[JanossyNetwork]:
        """The networks, with copies of their weights."""
        self._bind()
        return apart(self._members)

    def keep(self, networks: Sequence[int], optimizer: torch.optim.Optimizer | None = None) -> Self:
        """Drop all networks but these, with the others' part of the optimiser's state; the stack itself.

        Those that are kept train on as if nothing had happened. The parameters are new ones, in the optimiser too.
        Raises: IndexError for a network that there is not; ValueError for none, or one twice.
        """
        chosen = [number + len(self) if number < 0 else number for number in map(_whole, networks)]
        if not all(0 <= number < len(self) for number in chosen):
            raise IndexError(f"Stack.keep expects numbers of networks below {len(self)}; got {list(networks)}.")
        if not chosen or len(set(chosen)) < len(chosen):
            raise ValueError(f"Stack.keep expects at least one network, and none twice; got {list(networks)}.")
        kept(self.network, chosen, optimizer)
        self._members, self._last = tuple(self._members[number] for number in chosen), None
        self._bind()
        return self

    def train(self, mode: bool = True) -> Self:
        for member in self._members:
            member.train(mode)
        return super().train(mode)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.unstack(),)

    def extra_repr(self) -> str:
        return f"{len(self)} networks"

    def _bind(self, *, once: bool = False) -> None:
        """Let the members have the weights of now; ``once``: unless they have them since ``forward`` began."""
        if not (once and self._is_bound):
            bind(self.network, self._members)
        self._is_bound = True

    def _check_context(self, context: Any, batch: Batch) -> None:
        expected = len(self), batch.num_sets
        if context is not None and not (isinstance(context, Tensor) and context.shape[:2] == expected):
            got = tuple(context.shape) if isinstance(context, Tensor) else type(context).__name__
            raise ValueError(
                f"Stack expects context ({len(self)}, {batch.num_sets}, *any), a row for each network's sets; got "
                f"{got}. context.expand(len(stack), *context.shape) gives one context to all."
            )

    def _sources(self, generators: Any, batch: Batch) -> Sequence[torch.Generator | None]:
        if generators is None:
            return [None] * len(self)
        if isinstance(generators, torch.Generator) or len(generators) != len(self):
            got = "one" if isinstance(generators, torch.Generator) else len(generators)
            raise ValueError(f"Stack expects {len(self)} generators, one a network; got {got}. Give a list.")
        for generator in generators:
            check_generator("Stack", generator, batch.joined.device)
        return cast("Sequence[torch.Generator | None]", generators)

    def _ordered(self, batch: Batch, elements: Ragged) -> Batch:
        """Returns the sets whose orders are averaged, as ``JanossyNetwork`` chooses them."""
        encoder = self.network.encoder
        return batch if encoder is None or encoder.keeps_sizes else Batch(elements, len(self))

    def _elements(self, batch: Batch) -> Ragged:
        """h(x) of all networks' sets, or what their encoders make of it."""
        h = self.network.h
        if self.network.encoder is not None:
            self._bind(once=True)
            return Ragged.cat([m.elements(each) for m, each in zip(self._members, batch.apart, strict=True)])
        with errors_explained("h", h, batch.joined.values):
            if is_table(h) and batch.joined.values.dim() == 1 and not batch.joined.values.is_floating_point():
                return looked_up(cast(Tensor, h.weight), batch)
            if maps.is_stackable(h):
                return batch.joined.with_values(maps.apply(h, batch.joined.values, batch.counts))
            self._bind(once=True)
            apart = [m.h(each.values) for m, each in zip(self._members, batch.apart, strict=True)]
            return batch.joined.with_values(torch.cat(apart))

    def _pooled(self, batch: Batch, elements: Ragged, sources: Sequence[torch.Generator | None]) -> Tensor:
        """The pooled vectors (R·B, c)."""
        how, f = self._how(batch, elements), self.network.pooling.f
        if how not in (TUPLES, RECURRENCES):
            self._bind(once=True)
            each = zip(self._members, split(elements, batch), batch.apart, sources, strict=True)
            return torch.cat([m.pooling(own, keys=keys, generator=source) for m, own, keys, source in each])
        pooling = self._members[0].pooling
        problem = pooling.problem(elements, batch.joined, None, pooling.reduced, None)
        counts = batch.counts if problem.table is None else [len(problem.table) // len(self)] * len(self)
        with errors_explained("f", f, problem.values):
            if how == TUPLES:
                return tuples.pool_tuples(problem, cast(TupleMLP, f), counts, batch.num_sets)
            rows = [problem.orderings.enumerate(*each) for each in zip(batch.apart, sources, strict=True)]
            return recurrences.pool_recurrences(problem, rows, batch.begins, cast(Recurrence, f), counts)

    def _how(self, batch: Batch, elements: Ragged) -> str:
        """Says how the sets are pooled; remembered while nothing changes that this depends on."""
        case = self.training, batch.joined.sizes, elements.dtype, elements.device, isinstance(elements, Lookup)
        if self._last is None or self._last[0] != case:
            self._bind(once=True)
            self._last = case, self._choose(batch, elements)
        return self._last[1]

    def _choose(self, batch: Batch, elements: Ragged) -> str:
        """Chooses as each network would by itself."""
        apart, num_bytes = split(elements, batch), 0.0
        chosen: dict[tuple[int, ...], str] = {}
        for member, own, keys in zip(self._members, apart, batch.apart, strict=True):
            if keys.sizes in chosen:
                continue
            problem = member.pooling.problem(own, keys, None, member.pooling.reduced, None)
            if modules_of(problem.orderings):
                return "network by network: the orderings have weights of their own"
            no_tuples, no_recurrence = tuples.why_not(problem), recurrences.why_not(problem)
            if no_tuples and no_recurrence:
                return f"network by network: {no_tuples}, and {no_recurrence}"
            how, alike = (RECURRENCES, recurrences.EVALUATORS) if no_tuples else (TUPLES, tuples.EVALUATORS)
            evaluator = member.pooling.choice(problem)
            if evaluator.name not in alike:
                return f"network by network: by itself, one takes {evaluator.name}"
            if no_tuples:
                num_bytes += recurrences.num_bytes(problem)
            chosen[keys.sizes] = how
        if num_bytes * len(self) / len(chosen) > self.network.pooling.memory_budget:
            return "network by network: all of them at once would take more than memory_budget"
        return how


def _whole(number: Any) -> int:
    if not isinstance(number, Integral) or isinstance(number, bool):
        raise TypeError(f"Stack.keep expects numbers of networks; got {number!r}.")
    return int(number)
