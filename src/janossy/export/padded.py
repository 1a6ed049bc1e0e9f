"""PaddedNetwork: a network of padded sets, in operations with dynamic sizes."""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.evaluate.reduce import widened
from janossy.evaluate.validation import errors_explained
from janossy.export.indices import columns, flat, gather, sorted_places
from janossy.export.recurrence import last_hidden
from janossy.export.tuples import MAX_ELEMENTS, over_tuples
from janossy.functions.checks import check_sequences
from janossy.functions.structure import Recurrent, has_hooks, hooked, structure
from janossy.nn.encoder.layer import SetLayer
from janossy.nn.network import JanossyNetwork, own_code, takes
from janossy.orderings import Canonical, Combinations, Sampled, Tuples
from janossy.orderings.contract import check_budget


def _mean(values: Tensor, counted: Tensor) -> Tensor:
    return values.masked_fill(~counted, 0).sum(1) / counted.sum(1)


def _log_mean_exp(values: Tensor, counted: Tensor) -> Tensor:
    return values.masked_fill(~counted, -torch.inf).logsumexp(1) - counted.sum(1).to(values.dtype).log()


REDUCTIONS: dict[str | None, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": _mean,
    "sum": lambda values, counted: values.masked_fill(~counted, 0).sum(1),
    "max": lambda values, counted: values.masked_fill(~counted, -torch.inf).amax(1),
    "logmeanexp": _log_mean_exp,
}
"""The reductions of ``evaluate.reduce`` over the counted rows, (B, m, c) and (B, m, 1); each set has at least one."""


class PaddedNetwork(nn.Module):
    """A ``JanossyNetwork`` of padded sets: one graph for any number of sets, sizes and permutations.

    It computes ``network(Ragged.from_padded(x, mask))``, with the network's own parameters. Over Sampled, it always
    draws num permutations, or takes those of the noise. There it ignores ``fixed_in_eval``, ``exhaust`` and
    ``orderings_train``.

    It exports by ``torch.export`` and ``export_onnx``, and runs under ``torch.func.vmap``. It can be differentiated
    twice, as far as f, h and rho allow. Recurrences run cell by cell, as a loop in Python. When exported, they are one
    ``scan`` of any length.

    Args:
        network: a network of one of two kinds. The first is over Canonical, or Sampled without k, seed and exact_last.
            Its f must be an RNN, GRU or LSTM, or take a mask, as MinGRU and BalancedTree do. The second is over Tuples
            or Combinations of at most 4 elements, and f's value for a row must depend on that row alone. A
            BalancedTree can be exported for one n only.

    A function declares that it takes a mask by ``takes_mask = True``. ``f(x, mask)`` then maps rows (T, L, d), L >= 1,
    to (T, c). mask (T, L) is True at real places, which come first. The result is the value of each row's real
    elements, whatever the other places hold, and zero for an empty set.

    Shapes: x (B, n, *features), mask (B, n), bool, True where an element is real, anywhere in the set -> (B, out).
        For Sampled, noise (B, m, n) gives m permutations: permutation j of set b visits the real elements by
        increasing noise[b, j]. Without noise, the number of permutations is that of Sampled, and they are drawn
        independently. An exported graph needs noise.
    Invariance: that of the network's orderings. The values of padding, even NaN, change no result and no gradient. h
        and the key read zeros there, and the results are not used. So h must treat each element separately (a BatchNorm
        does so in evaluation), and parts with parameters must be differentiable at zero.
    Cost: f on as many rows per set as n elements have, and up to k! more. n^k bytes say which tuples they are. All are
        held at once. A TupleMLP's first layer and a TupleProduct's factors are applied once per element.
    Raises:
        TypeError: for inputs that are not tensors.
        ValueError: for another network, or inputs of other shapes or dtypes.
        ValueError: for more rows than the orderings' max_rows (not when exported), or in training if a recurrence
            applies dropout.

    Example:
        >>> network = JanossyNetwork(None, JanossyPooling(GRU(3, 8), Canonical()), nn.Linear(8, 1)).eval()
        >>> x, mask = torch.randn(2, 5, 3), torch.rand(2, 5) > 0.5
        >>> sizes = ({0: torch.export.Dim("B", min=0), 1: torch.export.Dim("n", min=0)},) * 2
        >>> program = torch.export.export(PaddedNetwork(network), (x, mask), dynamic_shapes=sizes)
        >>> program.module()(torch.randn(7, 9, 3), torch.ones(7, 9, dtype=torch.bool)).shape
        torch.Size([7, 1])
    """

    def __init__(self, network: JanossyNetwork) -> None:
        super().__init__()
        _check_network(network)
        self.network = network
        self.training = network.training

    def forward(self, x: Tensor, mask: Tensor, noise: Tensor | None = None) -> Tensor:
        if not torch.compiler.is_compiling():
            _check_own_code(self.network)  # hooks may come later
        self._check_inputs(x, mask, noise)
        x = x.masked_fill(mask.reshape(*mask.shape, *(1,) * (x.dim() - 2)).logical_not(), 0)
        elements, mask_read = self._elements(x, mask)
        order = self._order(x.detach(), mask_read, noise)
        with errors_explained("f", self.network.pooling.f, elements):
            values, counted = self._rows(elements, order, mask_read.sum(1))
        pooled = REDUCTIONS[self.network.pooling.reduced](widened(values), counted[..., None])
        return cast(Tensor, self.network.rho(pooled.to(values.dtype)))

    def _elements(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Returns f's input per element, (B, n, d), and the mask of these elements."""
        with errors_explained("h", self.network.h, x):
            elements = self.network.h(flat(x)).unflatten(0, mask.shape)
        if elements.dim() != 3:
            raise ValueError(
                f"PaddedNetwork expects vectors of features, (B, n, d), after h; got {tuple(elements.shape)}. Flatten "
                "them in h."
            )
        if self.network.encoder is not None:
            elements = elements.masked_fill(~mask[..., None], 0)
            with errors_explained("encoder", self.network.encoder, elements):
                elements, mask = self.network.encoder.padded(elements, mask)
        if self.network.pooling.append_size:
            sizes = self.network.pooling.size_feature(mask.sum(1))[:, None, None].expand(-1, mask.shape[1], 1)
            elements = torch.cat((elements, sizes.to(elements.dtype)), dim=2)
        return elements.masked_fill(~mask[..., None], 0), mask

    def _order(self, x: Tensor, mask: Tensor, noise: Tensor | None) -> Tensor:
        """Returns the places (B, m, n) in the order of each permutation: the real elements', then the others."""
        orderings = self.network.pooling.orderings
        if noise is not None:
            each = [[noise]]
        elif isinstance(orderings, Sampled):
            each = [
                [torch.randint(2**62, (mask.shape[0], orderings.num_permutations, mask.shape[1]), device=mask.device)]
            ]
        elif isinstance(orderings, Canonical | Combinations):
            keys = orderings.each_key if isinstance(orderings, Canonical) else (orderings.key,)
            each = [[column.unflatten(0, mask.shape)[:, None] for column in columns(flat(x), key)] for key in keys]
        else:
            each = [[]]
        num_permutations = each[0][0].shape[1] if each[0] else 1
        padding = (~mask).long()[:, None].expand(-1, num_permutations, -1)
        orders = [sorted_places([padding, *by]) for by in each]
        return orders[0] if len(orders) == 1 else torch.cat(orders, dim=1)

    def _rows(self, elements: Tensor, order: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """Returns f of each row, (B, m, c), and True for the rows that count, (B, m)."""
        f, orderings = self.network.pooling.f, self.network.pooling.orderings
        if isinstance(orderings, Tuples | Combinations):
            x = gather(elements, order[:, 0])
            return over_tuples(f, x, sizes, orderings.k, increasing=orderings.increasing)
        m = order.shape[1]
        rows = flat(gather(elements[:, None].expand(-1, m, -1, -1), order))
        lengths = flat(sizes[:, None].expand(-1, m))
        declared = structure(f)
        if isinstance(declared, Recurrent):
            check_sequences(f, rows)
            values = last_hidden(declared, rows, lengths)
        else:
            rows = nn.functional.pad(rows, (0, 0, 0, 1))  # there must be at least one place
            real = torch.arange(rows.shape[1], device=rows.device) < lengths[:, None]
            values = cast("Callable[..., Any]", f)(rows, real)
        return values.unflatten(0, order.shape[:2]), order.new_ones(order.shape[:2], dtype=torch.bool)

    def _check_inputs(self, x: Tensor, mask: Tensor, noise: Tensor | None) -> None:
        f, orderings = self.network.pooling.f, self.network.pooling.orderings
        expected = "PaddedNetwork expects x (B, n, *features) and a bool mask (B, n), True where real"
        if not all(isinstance(given, Tensor) for given in (x, mask, *([] if noise is None else [noise]))):
            types = ", ".join(type(given).__name__ for given in (x, mask, noise))
            raise TypeError(f"{expected}, and noise (B, m, n) or None; got {types}. Ragged.to_padded makes x and mask.")
        if x.dim() < 2 or mask.dtype != torch.bool or mask.shape != x.shape[:2]:
            raise ValueError(f"{expected}; got x {tuple(x.shape)} and a mask {tuple(mask.shape)} of {mask.dtype}.")
        if noise is None and isinstance(orderings, Sampled) and torch.compiler.is_exporting():
            raise ValueError(
                "PaddedNetwork exports Sampled with noise (B, m, n) as an input; got none: pass x, mask, noise."
            )
        if noise is not None and not isinstance(orderings, Sampled):
            raise ValueError(
                f"PaddedNetwork expects no noise under {type(orderings).__name__}, which draws nothing; got some. "
                "Pass x and mask only."
            )
        if noise is not None and (
            noise.dim() != 3 or noise.shape[::2] != mask.shape or noise.is_complex() or noise.dtype == torch.bool
        ):
            raise ValueError(
                f"PaddedNetwork expects noise (B, m, n) of real numbers for a mask {tuple(mask.shape)}; "
                f"got {tuple(noise.shape)} of {noise.dtype}. Draw it with torch.rand."
            )
        declared, of_whole_sets = structure(f), not isinstance(orderings, Tuples | Combinations)
        if of_whole_sets and isinstance(declared, Recurrent) and declared.dropout > 0:
            raise ValueError(
                f"PaddedNetwork applies no dropout; got dropout={declared.dropout} in training: call eval()."
            )
        if isinstance(orderings, Tuples | Combinations) and not torch.compiler.is_compiling():  # a graph has no sizes
            sizes = [mask.shape[1]] * mask.shape[0]
            check_budget(orderings, sizes, orderings.max_rows, "a row for each tuple of places", "Ragged sets")


def _check_own_code(network: JanossyNetwork) -> None:
    """Raises a ValueError for code of the user that the parts of a network run without."""
    found = own_code(network) or ("a hook in the pooling" if hooked(network.pooling) else None)
    layers = [] if network.encoder is None else [m for m in network.encoder.modules() if isinstance(m, SetLayer)]
    for layer in layers:
        owners = [next(c for c in type(layer).__mro__ if name in vars(c)) for name in ("forward", "padded")]
        if has_hooks(layer):
            found = found or f"a hook on the encoder's {type(layer).__name__}"
        later = owners[0] is not owners[1] and issubclass(*owners) and owners[1] is not SetLayer
        if later or "forward" in vars(layer):
            found = found or f"a forward of its own, without padded, in {type(layer).__name__}"
    if found is not None:
        raise ValueError(
            f"PaddedNetwork expects a network without hooks and a forward of its own, as it calls the parts; got "
            f"{found}. Remove it, or use Ragged sets."
        )


def _check_network(network: JanossyNetwork) -> None:
    """Raises a ValueError unless PaddedNetwork can compute the network."""
    if not isinstance(network, JanossyNetwork):
        raise ValueError(
            f"PaddedNetwork expects a JanossyNetwork; got {type(network).__name__}. Write "
            "JanossyNetwork(None, pooling, None) to make one of a pooling layer."
        )
    _check_own_code(network)
    f, orderings = network.pooling.f, network.pooling.orderings
    if isinstance(orderings, Canonical) and (orderings.weighs_rows or orderings.k is not None):
        raise ValueError(
            f"PaddedNetwork expects Canonical(key) without k and order_weights; got {orderings}. Build the network "
            "without them."
        )
    if not takes(network.rho, 1):
        raise ValueError(
            f"PaddedNetwork expects a rho of the pooled vectors alone; got {type(network.rho).__name__}, which takes a "
            "context. Export the network without it, and join the context after."
        )
    if network.pooling.reduced is None:
        raise ValueError(
            f"PaddedNetwork expects a reduce among {', '.join(filter(None, REDUCTIONS))}; got "
            f"{network.pooling.reduce!r}. Build the network with one of those."
        )
    # There is one row of all elements per permutation, by noise alone.
    whole = type(orderings) is Sampled and (orderings.k, orderings.seed, orderings.exact_last) == (None, None, 0)
    if type(orderings) not in (Canonical, Tuples, Combinations) and not whole:
        raise ValueError(
            "PaddedNetwork expects Canonical(key), Tuples(k), Combinations(k), or Sampled(num) without k, seed and "
            f"exact_last; got {orderings}. Build the network with one of those, which may have the same f, h and rho."
        )
    if isinstance(orderings, Tuples | Combinations):
        if orderings.k > MAX_ELEMENTS:
            raise ValueError(
                f"PaddedNetwork expects k <= {MAX_ELEMENTS}, as it makes a table of n^k places; "
                f"got {orderings}. Use a smaller k, or Ragged sets."
            )
    elif not getattr(f, "takes_mask", False):
        declared = structure(f)
        if not isinstance(declared, Recurrent) or declared.per_position:
            raise ValueError(
                f"PaddedNetwork over {type(orderings).__name__} expects f to be janossy's RNN, GRU or LSTM, with one "
                f"vector for a row, or a function that takes a mask, as MinGRU does; got {type(f).__name__}. "
                "Use Ragged sets for it."
            )
