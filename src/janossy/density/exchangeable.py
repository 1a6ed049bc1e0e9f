"""ExchangeableDensity: P(n) times the mean of a density of sequences over the orders of a set."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn

from janossy.checks import check_generator, check_integer
from janossy.density.all_orders import log_mean_over_orders
from janossy.density.autoregressive import Autoregressive
from janossy.density.checks import check_elements, check_orders, check_sizes
from janossy.density.contract import SequenceDensity
from janossy.density.estimate import Estimate, log_mean_exp
from janossy.density.sizes import Sizes, whole_sizes
from janossy.evaluate.problem import MEMORY_BUDGET
from janossy.functions.shown import arguments_shown
from janossy.functions.weights import draw_anew
from janossy.nn.modes import evaluating
from janossy.nn.pooling import JanossyPooling
from janossy.orderings import AllPermutations, Sampled
from janossy.orderings.contract import Orderings, takes_all
from janossy.orderings.rows import by_size
from janossy.sets import Ragged

MAX_EXACT = 8
"""The most elements of a set averaged over all orders: 8 have 69,281 beginnings, 9 have nine times as many."""

NUM_ORDERS, BLOCKS = 20, 5


class ExchangeableDensity(nn.Module):
    """p(x_1 … x_n) = P(n) · 1/n! Σ_π q(x_π(1) … x_π(n)): a finite exchangeable density (Sec. 4 of the paper).

    It is the density of a sequence whose order has no meaning: Σ_n ∫ p dx_1 … dx_n = 1. A set without order has n! such
    sequences, and the Janossy density n!·p (``log_janossy``).

    A call is for training. It gives log P(n) + log-mean-exp over the orders of ``orderings``, by default a single
    random order (π-SGD). Its expectation is a lower bound on log p; maximise it. ``log_prob`` is for use after
    training.

    Args:
        q: a density of sequences: ``Autoregressive``; ``IidMixture``, which is k = 1; or another ``SequenceDensity``
            that is the same for all orders.
        sizes: P(n): ``CategoricalSizes`` or ``NegativeBinomialSizes``; None for densities given n.
        orderings: the orders of a call: ``Sampled(m)``, ``Distinct(m)``, or ``AllPermutations()``, which shares
            beginnings.
        memory_budget: the bytes that may be held at once, by an estimate.

    Shapes: sets.values (N, *event_shape) -> (B,). An empty set's density is P(0).
    Invariance: exact if all orders are averaged, else unbiased for exp of the result.
    Cost: m·n steps of the reader per set; for all orders about e·n! steps.
    Raises:
        TypeError: for arguments of another type.
        ValueError: for orderings that do not average over all whole orders.
        ValueError: at a call, for elements outside the head's support, such as NaN, or in another dtype, and for sizes
            that P(n) does not have.

    Example:
        >>> from janossy import GRU, Ragged
        >>> from janossy.density import Autoregressive, CategoricalSizes, Normals
        >>> q = Autoregressive(GRU(2, 16, per_position=True), Normals(2))
        >>> p = ExchangeableDensity(q, sizes=CategoricalSizes(5))
        >>> p.log_prob(Ragged.from_sets([torch.zeros(3, 2), torch.ones(5, 2)])).exact
        tensor([True, True])
    """

    def __init__(
        self,
        q: SequenceDensity,
        *,
        sizes: Sizes | None = None,
        orderings: Orderings = Sampled(1),  # noqa: B008, frozen
        memory_budget: int = MEMORY_BUDGET,
    ) -> None:
        super().__init__()
        if not isinstance(q, Autoregressive) and not (isinstance(q, SequenceDensity) and q.symmetric):
            raise TypeError(
                f"ExchangeableDensity expects q as an Autoregressive or a symmetric SequenceDensity; got {q!r}. Write "
                "Autoregressive(reader, head), or IidMixture(head)."
            )
        if sizes is not None and not callable(getattr(sizes, "log_prob", None)):
            raise TypeError(
                f"ExchangeableDensity expects sizes as P(n), with log_prob and sample; got {sizes!r}. Write "
                "CategoricalSizes(max_size), NegativeBinomialSizes(), or None for densities given n."
            )
        check_orders(orderings)
        self.q = q
        self.sizes = sizes
        self.pooling = JanossyPooling(q, orderings, evaluate="gather", reduce="logmeanexp", memory_budget=memory_budget)

    def reset_parameters(self) -> None:
        """Draws the weights of its parts anew."""
        draw_anew(self)

    def forward(self, sets: Ragged, *, generator: torch.Generator | None = None) -> Tensor:
        check_elements(self.q, sets, "ExchangeableDensity")
        if isinstance(self.pooling.orderings, AllPermutations):
            return self._over_all_orders(sets) + self.log_size(sets)
        return cast(Tensor, self.pooling(sets, generator=generator)[:, 0] + self.log_size(sets))

    def log_prob(
        self,
        sets: Ragged,
        num_permutations: int = NUM_ORDERS,
        *,
        max_exact: int = MAX_EXACT,
        scheme: str = "auto",
        generator: torch.Generator | None = None,
    ) -> Estimate:
        """Returns log p of each set, in evaluation mode: exact for small sets, else a lower bound with its error.

        Args:
            num_permutations: orders per larger set, drawn in five independent blocks.
            scheme: the scheme of ``Sampled`` by which the orders of a block are drawn together.
            max_exact: the most elements of a set that is averaged over all orders. With 0, these are only the sets that
                have no more orders than num_permutations.
            generator: the source of the orders, on the sets' device.

        Raises: ValueError if num_permutations < 1, max_exact < 0 or above 8, or as a call.
        """
        check_integer("log_prob", "num_permutations", num_permutations, 1, "orders for a bound")
        check_integer("log_prob", "max_exact", max_exact, 0, "elements")
        if max_exact > MAX_EXACT:
            raise ValueError(
                f"log_prob expects max_exact <= {MAX_EXACT}, as n! orders are averaged; got max_exact={max_exact}. "
                "Larger sets have bounds: raise num_permutations."
            )
        check_elements(self.q, sets, "log_prob")
        check_generator("log_prob", generator, sets.device)
        sampled = Sampled(num_permutations, scheme=scheme, block=max(num_permutations // BLOCKS, 1))
        with evaluating(self):
            exact = torch.tensor([self.q.symmetric or n <= max_exact for n in sets.sizes], device=sets.device).bool()
            small, large = exact.nonzero()[:, 0], (~exact).nonzero()[:, 0]
            log_prob = self.log_size(sets)
            error = torch.zeros_like(log_prob)
            if len(small):
                log_prob = log_prob.index_add(0, small, self._over_all_orders(sets[small]))
            if len(large):
                bound, of_large = self._bound(sets[large], sampled, generator)
                log_prob, error = log_prob.index_add(0, large, bound), error.index_add(0, large, of_large)
            own = sampled.exhausting()
            exact = exact | torch.tensor([takes_all(own, n) for n in sets.sizes], device=sets.device).bool()
            counts = torch.where(exact, 0, sampled.num_permutations)
        return Estimate(log_prob, error, counts, exact)

    def log_janossy(self, sets: Ragged, num_permutations: int = NUM_ORDERS, **options: object) -> Estimate:
        """Returns log j_n(x_1 … x_n) = log p + log n!: the Janossy density of a point process on the head's window.

        j_n dx_1 … dx_n is the probability of exactly n points, one in each dx_i. Σ_n 1/n! ∫ j_n dx_1 … dx_n = 1.
        Options are those of ``log_prob``.
        """
        estimate = self.log_prob(sets, num_permutations, **options)  # type: ignore[arg-type]
        return estimate.shifted(torch.lgamma(sets.offsets.diff().to(estimate.log_prob.dtype) + 1))

    @torch.no_grad()
    def sample(
        self, num: int | None = None, *, sizes: Sequence[int] | None = None, generator: torch.Generator | None = None
    ) -> Ragged:
        """Draws ``num`` sets with sizes from P(n), or sets of the given ``sizes``, in uniform order.

        Raises: ValueError for both or neither, or for num without P(n).
        """
        weight = next(self.parameters())
        check_generator("sample", generator, weight.device)
        if (num is None) == (sizes is None) or (num is not None and self.sizes is None):
            raise ValueError(
                f"sample expects num, with P(n), or sizes; got num={num}, sizes={sizes} and a density "
                f"{'given n' if self.sizes is None else 'of sets of any size'}. Give one: sample(sizes=[5] * 100)."
            )
        with evaluating(self), drawing_by(generator):
            if num is not None:
                check_integer("sample", "num", num, 0, "sets")
                sizes = cast(Sizes, self.sizes).sample(num).tolist() if num else []
            sizes = whole_sizes(sizes, "sample")
            check_sizes(self.sizes, sizes, "sample")
            head = self.q.head
            dtype = torch.long if head.discrete else weight.dtype
            values = torch.zeros(sum(sizes), *head.event_shape, dtype=dtype, device=weight.device)
            starts = Ragged.from_sizes(values, sizes).offsets[:-1]
            for n, sets in by_size(sizes):
                of_size = starts if sets is None else starts[sets]
                places = of_size[:, None] + torch.rand(len(of_size), n, device=weight.device).argsort(1)
                values[places] = self._draw(len(of_size), n, values)
        return Ragged.from_sizes(values, sizes)

    def log_size(self, sets: Ragged) -> Tensor:
        """Returns log P(n) of each set, (B,); 0 for densities given n."""
        weight = next(self.parameters())
        check_sizes(self.sizes, sets.sizes, "ExchangeableDensity")
        if self.sizes is None:
            return torch.zeros(len(sets), dtype=weight.dtype, device=weight.device)
        return self.sizes.log_prob(sets.offsets.diff()).to(weight.dtype)

    def _draw(self, num: int, n: int, like: Tensor) -> Tensor:
        rows = like.new_zeros(num, n, *like.shape[1:])
        for t in range(n):
            rows[:, t] = self.q.head.clip(self.q.next(rows[:, :t]).sample())
        return rows

    def _over_all_orders(self, sets: Ragged) -> Tensor:
        """Returns log 1/n! Σ_π q(x_π) of each set, (B,)."""
        weight = next(self.parameters())
        total = torch.zeros(len(sets), dtype=weight.dtype, device=weight.device)
        for n, members in by_size(sets.sizes):
            if n == 0:
                continue
            if n > MAX_EXACT and not self.q.symmetric:
                raise ValueError(
                    f"ExchangeableDensity averages over all orders of up to {MAX_EXACT} elements; got a set of {n}. "
                    "Use orderings=Sampled(m), or log_prob."
                )
            chosen = torch.arange(len(sets)) if members is None else torch.tensor(members)
            x = sets[chosen].values.unflatten(0, (len(chosen), n))
            budget = self.pooling.memory_budget
            of_size = log_mean_over_orders(self.q, x, budget) if isinstance(self.q, Autoregressive) else self.q(x)[:, 0]
            total = total.index_add(0, chosen.to(total.device), of_size)
        return total

    def _bound(self, sets: Ragged, sampled: Sampled, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        rows = self.pooling.rows(sets, sampled, generator=generator)
        return log_mean_exp(rows, sampled.exhausting(), sets.sizes)

    def extra_repr(self) -> str:
        return arguments_shown(self, orderings=self.pooling.orderings, memory_budget=self.pooling.memory_budget)


@contextmanager
def drawing_by(generator: torch.Generator | None) -> Iterator[None]:
    """Makes torch's global random numbers follow this generator, and restores their state afterwards."""
    if generator is None:
        yield
        return
    seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    devices = [generator.device] if generator.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        # Only this device is seeded: torch.manual_seed would leave the other devices' states changed.
        own = torch.cuda.default_generators[generator.device.index or 0] if devices else torch.default_generator
        own.manual_seed(seed)
        yield
