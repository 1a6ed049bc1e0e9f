"""Canonical orderings of each set: one, or the average over several with learned weights (Section 2.1)."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from janossy.checks import check_integer
from janossy.orderings.contract import MAX_ROWS, Orderings, check_budget, check_k, check_max_rows
from janossy.orderings.rows import Rows, first_of, whole_sets
from janossy.orderings.sorting import Key, check_keys_to_sort_by, diagnostics_of_ties, key_name, sort_positions, ties_of
from janossy.sets import Ragged


class OrderWeights(nn.Module):
    """Learned weights softmax(a) of several orders, with logits a that start at 0.

    With ``Canonical(key=(0, 1), order_weights=OrderWeights(2))`` the pooled vector is Σ_r w_r f(h_π_r). It is
    differentiable in the logits, which are parameters of the layer.

    Shapes: () -> (num_keys,), positive, of sum 1.
    Raises: TypeError if num_keys is not an integer; ValueError if it is below 1.

    Example:
        >>> OrderWeights(2)()
        tensor([0.5000, 0.5000], grad_fn=<SoftmaxBackward0>)
    """

    def __init__(self, num_keys: int) -> None:
        super().__init__()
        check_integer("OrderWeights", "num_keys", num_keys, 1, "orders")
        self.logits = nn.Parameter(torch.zeros(num_keys))

    def reset_parameters(self) -> None:
        """Makes all weights equal again."""
        nn.init.zeros_(self.logits)

    def forward(self) -> Tensor:
        return self.logits.softmax(0)

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {"num_keys": len(self.logits)}

    def extra_repr(self) -> str:
        return f"num_keys={len(self.logits)}"


@dataclass(frozen=True)
class Canonical(Orderings):
    """Canonical orderings of each set, sorted by ``key``; with several keys, the average over them (Section 2.1).

    Args:
        key: the key that each set is sorted by. None sorts lexicographically by all features. A column, such as 0,
            sorts by that feature. A function or a module maps elements to numbers. A tuple of R such keys gives R
            orderings. A module's parameters are the layer's, but no gradient reaches them: see ``Learned``.
        k: keep only the first k elements of each (PATCHY-SAN's receptive field; Niepert, Ahmed & Kutzkov, ICML 2016).
            Smaller sets are filled up to length k with the zero vector.
        order_weights: ``OrderWeights(R)``, the learned weights of the R orderings, of sum 1.

    Elements of equal key are ordered lexicographically by the features that the keys are made from. ``ties`` finds
    them, and the layer's ``explain`` says what they change. A layer may be given separate ``keys``, such as
    centralities of vertices. Elements that agree in all these stay in the order in which they came.

    Shapes: sets.values (N, *features) -> rows (R, n_b) for set b, or (R, k).
        A key: (N, *features) -> (N,) or (N, j), sorted by column 0, then 1, and so on.
    Invariance: exact, as only equal elements tie; with separate ``keys``, exact unless these tie.
    Cost: R·B rows and R sorts; refuses more than max_rows.
    Raises:
        TypeError: if a key is not a function, module or column. If order_weights is not an ``OrderWeights``, or a
            number is not an integer.
        ValueError: if k < 1, max_rows < 1, a column is negative, or there are no keys or other than R weights.
        ValueError: on enumeration, if R·B > max_rows, a column does not exist, or a key is NaN.

    Example:
        >>> Canonical(key=lambda x: -x[:, 0]).num_rows(5), Canonical(key=(0, 1)).num_rows(5)
        (1, 2)
    """

    key: Key | int | tuple[Key | int | None, ...] | None = None
    _: KW_ONLY
    max_rows: int = MAX_ROWS
    k: int | None = None
    order_weights: OrderWeights | None = None
    draws: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.key, list):
            object.__setattr__(self, "key", tuple(self.key))
        check_keys_to_sort_by("Canonical", self.each_key)
        check_max_rows(self, self.max_rows)
        if self.k is not None:
            check_k(self, self.k)
        if self.order_weights is None:
            return
        expected = f"Canonical expects order_weights=OrderWeights({len(self.each_key)}), one for each key, or None"
        if not isinstance(self.order_weights, OrderWeights):
            got = type(self.order_weights).__name__
            raise TypeError(f"{expected}; got order_weights={self.order_weights!r}, of type {got}.")
        if len(self.order_weights.logits) != len(self.each_key):
            raise ValueError(f"{expected}; got order_weights={self.order_weights}.")

    @property
    def each_key(self) -> tuple[Key | int | None, ...]:
        return self.key if isinstance(self.key, tuple) else (self.key,)

    @property
    def sorted_by(self) -> str | None:
        return None if self.key is None else key_name(self.key)

    @property
    def weighs_rows(self) -> bool:
        return self.order_weights is not None

    def num_rows(self, n: int) -> int:
        return len(self.each_key)

    def row_length(self, n: int) -> int:
        return n if self.k is None else self.k

    def ties(self, keys: Ragged) -> Tensor:
        """Returns True for each set, (B, R), in which two unequal elements have equal keys."""
        return torch.stack([ties_of(keys, key) for key in self.each_key], 1)

    def diagnostics(self, keys: Ragged, values: Tensor) -> str | None:
        """Returns a sentence on how ties affect the results of these sets, or None.

        f reads the elements as ``values`` (N, …).
        """
        said = [diagnostics_of_ties(keys, values, key) for key in self.each_key]
        return "\n  ".join(dict.fromkeys(line for line in said if line)) or None

    def enumerate(self, keys: Ragged, generator: torch.Generator | None = None) -> Rows:
        num = len(self.each_key)
        check_budget(
            self, keys.sizes, self.max_rows, "1 row per set" if num == 1 else f"{num} rows per set, one per key"
        )
        orders = [sort_positions(keys, key) for key in self.each_key]
        if num == 1:
            return self._weighed(whole_sets(keys, orders[0], self.k))
        rows = whole_sets(keys)
        each = torch.stack(orders, 1)  # (N, R)
        buckets = []
        for bucket in rows.buckets:
            local = each[bucket.positions()[:, 0]].mT - bucket.starts[:, None, None]
            padded = self.k is not None and bucket.length < self.k
            buckets.append(replace(bucket, local=first_of(local, self.k), padded=padded))
        return self._weighed(replace(rows, buckets=tuple(buckets)))

    def _weighed(self, rows: Rows) -> Rows:
        if self.order_weights is None:
            return rows
        weights = self.order_weights() * len(self.each_key)  # a mean divides by their number
        buckets = (replace(bucket, weights=weights.expand(bucket.num_sets, -1)) for bucket in rows.buckets)
        return replace(rows, buckets=tuple(buckets))
