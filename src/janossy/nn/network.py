"""JanossyNetwork: ρ ∘ pooling ∘ encoder ∘ h (Eq. 4)."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import signature
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.evaluate.lookup import looked_up
from janossy.evaluate.validation import check_context, check_sets, errors_explained
from janossy.functions.structure import has_hooks
from janossy.functions.weights import draw_anew
from janossy.nn.encoder.cost import outline
from janossy.nn.encoder.layer import SetLayer, apply
from janossy.nn.modes import untouched
from janossy.nn.pooling import JanossyPooling
from janossy.orderings import AllPermutations, Orderings, Tuples
from janossy.orderings.drawn import Drawn
from janossy.sets import Ragged


class JanossyNetwork(nn.Module):
    """y(x) = ρ(f̄(h(x))) (Eq. 4).

    With exact orderings this is L̄'s prediction, ρ of the average. With ``Sampled(1)``, permutations are fresh at every
    call, and training by any loss is π-SGD (Def. 2.3). ``predict`` then averages ρ∘f over permutations (Remark 2.2).
    Canonical and seeded orders are those of the input x, not of h(x). A canonical order depends on the data, not on
    learnable parameters (Section 2.1).

    Args:
        h: maps elements (N, *features) to (N, d), such as ``nn.Embedding`` for sets of integers; None for identity.
        pooling: a ``JanossyPooling``, which is required.
        rho: maps pooled vectors (B, c) to outputs; None for identity. If sets come with a ``context``, the features of
            the set as a whole, the call is rho(pooled, context).
        encoder: layers from sets to sets between h and the pooling, such as ``SetEncoder``; None for none. f then reads
            elements that depend on their whole set. The average over orders comes behind the encoder, so error bars
            keep their meaning. Behind a ``SeedAttention``, orderings are Tuples or AllPermutations of the seeds.

    Shapes: sets.values (N, *features), context (B, *any) -> (B, out).
    Invariance: that of the pooling's orderings.

    Example:
        >>> pooling = JanossyPooling(TupleMLP(2, 8, 30), Tuples(2))
        >>> network = JanossyNetwork(nn.Embedding(100, 8), pooling, nn.Linear(30, 1))
        >>> network(Ragged.from_sets([torch.tensor([3, 1, 4]), torch.tensor([1, 5])])).shape
        torch.Size([2, 1])
    """

    def __init__(
        self,
        h: nn.Module | None = None,
        pooling: JanossyPooling | None = None,
        rho: nn.Module | None = None,
        *,
        encoder: SetLayer | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(pooling, JanossyPooling):
            got = "none" if pooling is None else type(pooling).__name__
            raise TypeError(
                f"JanossyNetwork expects pooling to be a JanossyPooling; got {got}. "
                "Write JanossyNetwork(pooling=…), or JanossyNetwork(h, pooling, rho)."
            )
        check_module("JanossyNetwork", "h", h)
        check_module("JanossyNetwork", "rho", rho)
        if encoder is not None and not isinstance(encoder, SetLayer):
            raise TypeError(
                f"JanossyNetwork expects encoder to be a layer from sets to sets, or None; got "
                f"{type(encoder).__name__}. Write encoder=SetEncoder([…])."
            )
        self.h = nn.Identity() if h is None else h
        self.encoder = encoder
        self.pooling = pooling
        self.rho = nn.Identity() if rho is None else rho
        for orderings in (pooling.orderings, pooling.orderings_train):
            self._check_orderings(orderings)

    def reset_parameters(self) -> None:
        """Draws the weights of all parts anew."""
        draw_anew(self)

    def forward(
        self,
        sets: Ragged,
        orderings: Orderings | None = None,
        *,
        context: Tensor | None = None,
        elements: Ragged | None = None,
        weights: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Returns ρ(f̄(h(x))) of each set, (B, out).

        Args:
            orderings: orderings to use instead of the pooling's own.
            context: the features of each set as a whole, (B, *any), which ρ reads beside the pooled vector.
            elements: h(x), if it is known already.
            weights: the weights of the elements, (N,), as in ``JanossyPooling``.
            generator: the source of the permutations, on the sets' device.
        """
        elements = self._checked_elements(sets, context, elements)
        keys = self._keys(sets, elements, orderings)
        pooled = self.pooling(elements, orderings, keys=keys, weights=weights, generator=generator)
        if context is not None and isinstance(orderings, Drawn) and orderings.rows.owners is not None:
            context = context[orderings.rows.owners]  # several draws of a set, each reduced separately
        return self.read_out(pooled, context)

    def rows(
        self,
        sets: Ragged,
        orderings: Orderings | None = None,
        *,
        context: Tensor | None = None,
        elements: Ragged | None = None,
        generator: torch.Generator | None = None,
    ) -> Ragged:
        """Returns ρ(f(h(x)_π)) for each ordering π, before any are averaged: (T, out), the rows of each set.

        ``orderings`` replace the pooling's own, such as by more permutations than in training. ``context``,
        ``elements`` and ``generator`` are as in a call.
        """
        elements = self._checked_elements(sets, context, elements)
        rows = self.pooling.rows(elements, orderings, keys=self._keys(sets, elements, orderings), generator=generator)
        of_rows = None if context is None else context[rows.to_index()[1]]
        return rows.with_values(self.read_out(rows.values, of_rows))

    def read_out(self, pooled: Tensor, context: Tensor | None = None) -> Tensor:
        """Returns ρ of vectors (T, c), or of vectors and their contexts (T, *any): (T, out)."""
        given = (pooled,) if context is None else (pooled, context)
        with _arguments_explained(self.rho, given):
            return cast(Tensor, self.rho(*given))

    def explain(self, sets: Ragged, orderings: Orderings | None = None) -> str:
        """Returns the text of ``JanossyPooling.explain`` for h(x)."""
        with untouched(self):
            elements = self.elements(sets)
        return self.pooling.explain(elements, orderings, keys=self._keys(sets, elements, orderings))

    def _checked_elements(self, sets: Ragged, context: Tensor | None, elements: Ragged | None) -> Ragged:
        """Returns h(x), unless it is given, after a check of the sets and of the context."""
        if elements is None:
            elements = self.elements(sets)
        else:
            check_sets(sets, "JanossyNetwork")
        check_context(context, sets, "JanossyNetwork")
        return elements

    def elements(self, sets: Ragged) -> Ragged:
        """Returns the sets that f reads: h(x), or the encoder's result for it. For an embedding it is a ``Lookup``.

        From a ``Lookup`` f projects each id once.
        """
        check_sets(sets, "JanossyNetwork")
        with errors_explained("h", self.h, sets.values):
            lookup = looked_up(self.h, sets)
            elements = sets.with_values(self.h(sets.values)) if lookup is None else lookup
        return elements if self.encoder is None else apply(self.encoder, elements)

    def seconds(self, sets: Ragged, orderings: Orderings | None = None) -> float:
        """Estimates the time of a forward and a backward pass of the encoder and the pooling, in the network's mode.

        ``orderings`` replace the pooling's own. The encoder is not applied, as its cost follows from sizes.

        Raises: ValueError if an evaluator refuses too many rows.
        """
        if self.encoder is None:
            return self.pooling.cost(self.elements(sets), orderings, keys=sets).seconds
        with untouched(self):
            of_none = sets[:0]
            read = sets  # with the numbers of inner sets
            if not isinstance(self.h, nn.Identity):
                read = outline(of_none.with_values(self.h(of_none.values)), sets.sizes)
            elements = outline(self.elements(of_none), self.encoder.sizes_in(read))
        cost = self.pooling.cost(elements, orderings, keys=self._keys(sets, elements, orderings))
        return self.encoder.seconds(read) + cost.seconds

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        parts = {"h": self.h, "pooling": self.pooling, "rho": self.rho}
        return parts if self.encoder is None else parts | {"encoder": self.encoder}

    def _keys(self, sets: Ragged, elements: Ragged, orderings: Orderings | None) -> Ragged:
        """Returns the sets whose orders are averaged: the input's, or the seeds' if seeds replace elements."""
        if self.encoder is None or self.encoder.keeps_sizes:
            return sets
        self._check_orderings(orderings)
        return elements

    def _check_orderings(self, orderings: Orderings | None) -> None:
        """Raises a ValueError for orders of the input's elements if the encoder has replaced these elements."""
        if self.encoder is None or self.encoder.keeps_sizes or orderings is None:
            return
        if not isinstance(orderings, Tuples | AllPermutations):
            raise ValueError(
                f"JanossyNetwork expects Tuples or AllPermutations behind an encoder that puts seeds in the place of "
                f"elements, as other orders are of the input's elements; got {orderings}. Use Tuples(1)."
            )


def takes(rho: nn.Module, num_arguments: int) -> bool:
    """Returns True if the module can be called with that many tensors."""
    try:
        signature(rho.forward).bind(*range(num_arguments))
    except TypeError:
        return False
    except ValueError:  # forward is not Python code
        return True
    return True


def _arguments_explained(rho: nn.Module, given: tuple[Tensor, ...]) -> AbstractContextManager[None]:
    # torch.compile cannot look into an error.
    return nullcontext() if torch.compiler.is_compiling() else _explained(rho, given)


@contextmanager
def _explained(rho: nn.Module, given: tuple[Tensor, ...]) -> Iterator[None]:
    """Explains Python's error about a missing or superfluous context."""
    try:
        yield
    except TypeError as error:
        if takes(rho, len(given)):
            raise
        expected, got = "a context, which its rho takes", "none. Give context=, a row for each set"
        if len(given) == 2:
            expected = "a rho that takes a context where one is given, rho(pooled, context)"
            got = f"a rho of type {type(rho).__name__}. Give another rho, or no context"
        raise TypeError(f"JanossyNetwork expects {expected}; got {got}.") from error


def own_code(network: JanossyNetwork) -> str | None:
    """Returns which code of the user a call of the network runs, which its parts by themselves do not; None if none."""
    pooling = network.pooling
    for name, base, module in (("network", JanossyNetwork, network), ("pooling", JanossyPooling, pooling)):
        methods = ("forward", "elements", "read_out") if module is network else ("forward",)
        if any(getattr(type(module), each) is not getattr(base, each) or each in vars(module) for each in methods):
            return f"a forward of its own in {type(module).__name__}"
        if has_hooks(module):
            return f"a hook on the {name}"
    return None


def check_module(owner: str, name: str, module: object) -> None:
    """Raises a TypeError unless this is a module or None."""
    if module is not None and not isinstance(module, nn.Module):
        raise TypeError(f"{owner} expects {name} to be a module or None; got {type(module).__name__}.")


def check_network(network: object, owner: str) -> None:
    """Raises a TypeError unless this is a ``JanossyNetwork``."""
    if not isinstance(network, JanossyNetwork):
        remedy = "JanossyNetwork(pooling=…), with h and rho if there are any"
        raise TypeError(f"{owner} expects a JanossyNetwork; got {type(network).__name__}. Write {remedy}.")
