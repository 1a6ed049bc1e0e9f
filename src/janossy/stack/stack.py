"""Stack: R networks of one architecture as one module."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from janossy.checks import check_generator
from janossy.evaluate.loading import LOADING
from janossy.evaluate.lookup import Lookup
from janossy.evaluate.problem import Problem
from janossy.evaluate.validation import errors_explained
from janossy.functions.recurrent import Recurrence
from janossy.functions.structure import hooked
from janossy.functions.tuple_mlp import TupleMLP
from janossy.nn.modes import untouched
from janossy.nn.network import JanossyNetwork, own_code
from janossy.nn.readout import Readout
from janossy.orderings.contract import modules_of
from janossy.sets import Ragged
from janossy.stack import elements as of_elements
from janossy.stack import maps, recurrences, tuples
from janossy.stack.batch import Batch, as_batch, is_table, looked_up, split
from janossy.stack.weights import apart, bind, check_alike, kept, stacked

TUPLES, RECURRENCES = "the means over all k-tuples together", "the rows of the recurrence together"
ELEMENTS = "f of all elements together"


class Stack(nn.Module):
    """R networks of one architecture as one module, for several seeds or learning rates, or as an ensemble.

    Every parameter is (R, *shape), named as in a network, after ``network.``. Each network has its own sets,
    permutations and gradients. Its outputs do not depend on the others, and are those of the network alone, up to
    rounding. So training on the sum of R losses trains R networks. An optimiser that treats every number separately,
    such as SGD or Adam, takes the same steps as with each network alone.

    These are computed for all networks together:

    - h and rho of linear layers and activations, an embedding, a ``ColumnEmbedding``, and a ``Readout``;
    - the means of a ``TupleMLP`` of one hidden layer over all k-tuples;
    - a ``TupleMLP`` of several layers, or a ``GatedAttention``, of single elements;
    - the rows of an ``RNN``, ``GRU`` or ``LSTM`` of one layer.

    All else is computed network by network, as encoders and an h before them are. So are whole networks with a forward
    or hooks of their own. ``explain`` tells which is which.

    When some networks have finished or diverged, ``keep`` keeps the others. ``unstack`` gives the networks back.
    ``predict`` takes a stack too, and gives the members' standard deviation beside the error of the permutations.

    Args:
        networks: ``JanossyNetwork``s with the same modules, arguments, shapes and dtypes. Their weights are copied.

    Shapes: a Ragged of B sets for all, or a list of R of them -> (R, B, out).
    Invariance: that of each network.
    Raises:
        TypeError: for arguments that are not networks or sets.
        ValueError: for no networks, or networks that differ; the error names the first difference.
        ValueError: for sets for another number of networks, or different numbers of sets.

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
        """Holds the parameters, (R, *shape), and cannot be called. Hooks on modules within it do not run: those on the
        modules of ``members()`` do."""
        self._members = tuple(apart(networks))  # a tuple's modules are not registered: the weights are kept once
        self._bind()
        self._h_together = self.network.encoder is None and (
            is_table(self.network.h) or maps.is_stackable(self.network.h)
        )
        self._f_together = of_elements.is_of_elements(self._members[0].pooling)
        self._rho_together = maps.is_stackable(self.network.rho)
        parts = {"h": self.network.h, "f": self.network.pooling.f, "rho": self.network.rho}
        self._joined = {name: maps.Joined(part) for name, part in parts.items() if isinstance(part, nn.Module)}
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
        """Returns each network's outputs (R, B, out), for a list of R networks' sets or one ``Ragged`` for all.

        Args:
            joined: True if the sets are one Ragged of R·B sets, network by network, which saves joining a list.
            context: the features of each set as a whole, (R, B, *any).
            generators: the sources of the permutations, one per network.
        """
        self._is_bound = False
        LOADING.called()
        batch = as_batch(sets, len(self), joined)
        sources = self._sources(generators, batch)
        self._check_context(context, batch)
        if self._own_code() is not None:
            return self._by_calls(batch, context, sources)
        elements = self._elements(batch)
        pooled = self._pooled(self._ordered(batch, elements), elements, sources)
        if self._rho_together and (context is None or type(self.network.rho) is Readout):
            of_sets = None if context is None else context.flatten(0, 1)
            outputs = self._joined["rho"](pooled, [batch.num_sets] * len(self), of_sets)
            return cast(Tensor, outputs.unflatten(0, (len(self), -1)))
        self._bind(once=True)
        rows = pooled.unflatten(0, (len(self), -1))
        of_each = [None] * len(self) if context is None else context
        return torch.stack([m.read_out(x, c) for m, x, c in zip(self._members, rows, of_each, strict=True)])

    def _by_calls(self, batch: Batch, context: Tensor | None, sources: Sequence[torch.Generator | None]) -> Tensor:
        """Returns the outputs of a call of each network, with all code that a user has added to it."""
        self._bind(once=True)
        options: list[dict[str, Any]] = [{} if source is None else {"generator": source} for source in sources]
        if context is not None:
            options = [given | {"context": own} for given, own in zip(options, context, strict=True)]
        each = zip(self._members, batch.apart, options, strict=True)
        return torch.stack([member(own, **given) for member, own, given in each])

    def _own_code(self) -> str | None:
        """Returns which code of the user only calls of whole networks run; None without any."""
        for member in self._members:
            together: list[nn.Module] = [member.pooling]
            together += [member.h] * self._h_together + [member.rho] * self._rho_together
            if found := own_code(member):
                return found
            if any(hooked(module, or_forward=True) for module in together):
                return "a hook, or a forward of an instance, within it"
        return None

    def explain(self, sets: Ragged | Sequence[Ragged], *, joined: bool = False) -> str:
        """Returns which parts are computed for all networks together, and the first network's ``explain``."""
        batch = as_batch(sets, len(self), joined)
        self._is_bound = False
        if (found := self._own_code()) is not None:
            self._bind()
            heading = f"{len(self)} networks of {batch.num_sets} sets each\n  network by network: {found}"
            return f"{heading}\nnetwork 0 by itself:\n{self._members[0].explain(batch.apart[0])}"
        with untouched(self):
            elements = self._elements(batch)
        self._bind()
        ordered = self._ordered(batch, elements)
        how = ELEMENTS if self._problem_of_elements(ordered, elements) else self._how(ordered, elements)
        lines = [f"{len(self)} networks of {batch.num_sets} sets each"]
        for name, together in (("h", self._h_together), ("rho", self._rho_together)):
            kind = type(getattr(self.network, name)).__name__
            reason = f"{kind} has parts that mix or drop rows, or are not known"
            if name == "h" and self.network.encoder is not None:
                reason = "an encoder follows"
            how_it = "together" if together else f"network by network: {reason}"
            lines.append(f"  {name}: {how_it}")
        lines.insert(2, f"  pooling: {how}")
        if self.network.encoder is not None:
            lines.insert(2, "  encoder: network by network")
        return "\n".join([*lines, "network 0 by itself:", self._members[0].explain(batch.apart[0])])

    def members(self) -> tuple[JanossyNetwork, ...]:
        """Returns the networks; their weights are views of the stack's present weights."""
        self._bind()
        return self._members

    def unstack(self) -> list[JanossyNetwork]:
        """Returns the networks with copies of their weights."""
        self._bind()
        return apart(self._members)

    def keep(self, networks: Sequence[int], optimizer: torch.optim.Optimizer | None = None) -> Self:
        """Drops all networks but these, with the others' part of the optimiser's state; returns the stack itself.

        The kept networks train on unchanged. Parameters are replaced by new ones, in the optimiser too.

        Raises: IndexError for a network that does not exist; ValueError for no networks, or one twice.
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

    def unregistered(self) -> tuple[nn.Module, ...]:
        """Returns the modules whose mode follows the stack's, beside those that are registered."""
        return self._members

    def train(self, mode: bool = True) -> Self:
        for member in self._members:
            member.train(mode)
        return super().train(mode)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.unstack(),)

    def extra_repr(self) -> str:
        return f"{len(self)} networks"

    def _bind(self, *, once: bool = False) -> None:
        """Gives the members the present weights; with ``once``, unless they have had them since ``forward`` began."""
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
            raise ValueError(f"Stack expects {len(self)} generators, one per network; got {got}. Give a list.")
        for generator in generators:
            check_generator("Stack", generator, batch.joined.device)
        return cast("Sequence[torch.Generator | None]", generators)

    def _ordered(self, batch: Batch, elements: Ragged) -> Batch:
        """Returns the sets whose orders are averaged, chosen as in ``JanossyNetwork``."""
        encoder = self.network.encoder
        return batch if encoder is None or encoder.keeps_sizes else Batch(elements, len(self))

    def _elements(self, batch: Batch) -> Ragged:
        """Returns h(x) of all networks' sets, or their encoders' results for it."""
        h = self.network.h
        if self.network.encoder is not None:
            self._bind(once=True)
            return Ragged.cat([m.elements(each) for m, each in zip(self._members, batch.apart, strict=True)])
        with errors_explained("h", h, batch.joined.values):
            if is_table(h) and batch.joined.values.dim() == 1 and not batch.joined.values.is_floating_point():
                return looked_up(cast(Tensor, h.weight), batch)
            if self._h_together:
                return batch.joined.with_values(self._joined["h"](batch.joined.values, batch.counts))
            self._bind(once=True)
            apart = [m.h(each.values) for m, each in zip(self._members, batch.apart, strict=True)]
            return batch.joined.with_values(torch.cat(apart))

    def _pooled(self, batch: Batch, elements: Ragged, sources: Sequence[torch.Generator | None]) -> Tensor:
        """Returns the pooled vectors (R·B, c)."""
        f, problem = self.network.pooling.f, self._problem_of_elements(batch, elements)
        if problem is not None:
            with errors_explained("f", f, problem.values):
                return of_elements.pool_elements(problem, self._joined["f"], self._counts(problem, batch))
        how = self._how(batch, elements)
        if how not in (TUPLES, RECURRENCES):
            self._bind(once=True)
            each = zip(self._members, split(elements, batch), batch.apart, sources, strict=True)
            return torch.cat([m.pooling(own, keys=keys, generator=source) for m, own, keys, source in each])
        pooling = self._members[0].pooling
        given = {source is None: source for source in sources}  # with fixed_in_eval, orders depend on it
        problems = {
            is_none: pooling.problem(elements, batch.joined, None, pooling.reduced, source)
            for is_none, source in given.items()
        }
        problem = problems[sources[0] is None]
        counts = self._counts(problem, batch)
        with errors_explained("f", f, problem.values):
            if how == TUPLES:
                return tuples.pool_tuples(problem, cast(TupleMLP, f), counts, batch.num_sets)
            rows = [
                problems[source is None].orderings.enumerate(keys, source)
                for keys, source in zip(batch.apart, sources, strict=True)
            ]
            return recurrences.pool_recurrences(problem, rows, batch.begins, cast(Recurrence, f), counts)

    def _counts(self, problem: Problem, batch: Batch) -> Sequence[int]:
        """Returns the number of each network's values: its elements, or the rows of its table."""
        return batch.counts if problem.table is None else [len(problem.table) // len(self)] * len(self)

    def _problem_of_elements(self, batch: Batch, elements: Ragged) -> Problem | None:
        """Returns the problem of all networks' sets if f of single elements is computed together; else None."""
        if not self._f_together:
            return None
        pooling = self._members[0].pooling
        problem = pooling.problem(elements, batch.joined, None, pooling.reduced, None)
        return problem if of_elements.fits(problem) else None

    def _how(self, batch: Batch, elements: Ragged) -> str:
        """Returns how the sets are pooled; the answer is remembered while the case stays the same."""
        case = self.training, batch.joined.sizes, elements.dtype, elements.device, isinstance(elements, Lookup)
        if self._last is None or self._last[0] != case:
            self._bind(once=True)
            self._last = case, self._choose(batch, elements)
        return self._last[1]

    def _choose(self, batch: Batch, elements: Ragged) -> str:
        """Chooses how to pool, as each network would alone."""
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
