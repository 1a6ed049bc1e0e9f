"""TupleProduct: a sum of products of one network per position."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.functions.checks import check_dtype, check_elements, check_rows, check_widths
from janossy.functions.structure import Product, draws_or_mixes_rows, has_hooks, hooked, overridden
from janossy.functions.tuple_function import TupleFunction
from janossy.functions.weights import draw_anew


class TupleProduct(TupleFunction):
    """f(x_1 … x_k) = Σ_r v_r Π_j g_{j,r}(x_j) + v_0: ``rank`` products of one network per position.

    - It contains the product Π_j x_j with which the paper proves that k-ary functions are more than (k−1)-ary ones
      (Theorem 2.1).
    - It approximates any continuous function of k elements as the rank grows.
    - Its exact average over tuples takes time linear in n for every k (the evaluator ``permanent``).

    Without ``g`` each g_j is linear. It starts with bias 1 and weights of variance 1/(k·in_features). For independent
    features of variance 1, a product's mean is then 1. Its second moment is (1 + 1/k)^k, between 2 and e for every k.
    With factors of mean 0, averages over the tuples of n elements would start at about n^(−k/2).

    Args:
        k: the number of elements of a row. Without it, f takes k from the orderings that it is pooled over, and has no
            weights before.
        in_features: the width of an element.
        rank: the number of products.
        out_features: the width of the linear layer ``output`` (v). Without it f returns its products.
        g: a sequence of k networks (N, in_features) -> (N, rank), or a callable that makes one per
            j = 0 … k − 1. They must treat each row by itself. Evaluators apply them once per element, and ``forward``
            once per position of each row, so a hook on g_j gets other batches. f declares no structure while a g_j
            applies dropout or normalises over its batch.

    Shapes: (T, k, in_features) -> (T, out_features), or (T, rank).
    Raises:
        TypeError: for sizes that are not integers, or rows that are not a tensor.
        ValueError: for k, in_features, rank or out_features below 1, or a g that is not k modules. For rows that are
            not (T, k, in_features), or a g_j that does not return (N, rank).

    Example:
        >>> TupleProduct(2, in_features=3, rank=16, out_features=1)(torch.zeros(5, 2, 3)).shape
        torch.Size([5, 1])
    """

    def __init__(
        self,
        k: int | None = None,
        in_features: int | None = None,
        rank: int | None = None,
        *,
        out_features: int | None = None,
        g: Callable[[int], nn.Module] | Sequence[nn.Module] | nn.ModuleList | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        given: dict[str, Any] = {"k": k, "in_features": in_features, "rank": rank, "out_features": out_features}
        optional = [name for name in ("k", "out_features") if given[name] is None]
        check_widths(self, **{name: width for name, width in given.items() if name not in optional})
        self.k = cast(int, None)
        self.in_features = cast(int, in_features)
        self.rank = cast(int, rank)
        self._to_build = g, out_features, (device, dtype)
        if k is not None:
            self.take_k(k)

    def build(self, k: int) -> None:
        g, out_features, (device, dtype) = self._to_build
        if g is None:
            networks: list[nn.Module] = [_AboutOne(self.in_features, self.rank, 1 / k) for _ in range(k)]
        elif isinstance(g, Sequence | nn.ModuleList):
            networks = list(g)
        elif isinstance(g, nn.Module):
            networks = [g]
        elif callable(g):
            networks = [g(j) for j in range(k)]
        else:
            networks = [g]
        single = isinstance(g, nn.Module) and not isinstance(g, nn.ModuleList)
        if single or len(networks) != k or not all(isinstance(network, nn.Module) for network in networks):
            names = "one module" if single else f"[{', '.join(type(network).__name__ for network in networks)}]"
            raise ValueError(
                f"TupleProduct expects as g a sequence of k={k} modules, or a callable that makes one for each j; "
                f"got {names}."
            )
        self.g = nn.ModuleList(networks)
        self.output = None if out_features is None else nn.Linear(self.rank, out_features)
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the weights anew."""
        draw_anew(self)

    def forward(self, x: Tensor) -> Tensor:
        check_rows(self, x)
        if isinstance(self.g[0], nn.Linear):  # other modules may take a dtype other than their weights'
            check_dtype(self, x)
        product = self._factor(0, x[:, 0])
        for j in range(1, self.k):
            product = product * self._factor(j, x[:, j])
        return self._rest(product)

    def structure(self) -> Product | None:
        """Returns the factors and the layer behind them; None if evaluators would then skip code of the user.

        Such code is a forward of a subclass, or a hook on f or on ``output``. The result is also None while g applies
        dropout or batch norm in training, which evaluators would run on other batches.
        """
        if self.k is None or overridden(self, TupleProduct.forward) or has_hooks(self):
            return None
        if self.output is not None and (overridden(self.output, nn.Linear.forward) or hooked(self.output)):
            return None
        if draws_or_mixes_rows(self.g):
            return None
        return Product(self.k, self.rank, self._factors, self._rest)

    def _factors(self, elements: Tensor) -> Tensor:
        """Returns every g_j of each element, (N, d) -> (N, k, R)."""
        check_elements(self, elements)
        return torch.stack([self._factor(j, elements) for j in range(self.k)], dim=1)

    def _factor(self, j: int, x: Tensor) -> Tensor:
        """Returns g_j of each element, (N, d) -> (N, R)."""
        z = self.g[j](x)
        if z.shape != (x.shape[0], self.rank):
            raise ValueError(
                f"TupleProduct expects g_{j} to map {tuple(x.shape)} to ({len(x)}, {self.rank}); got {tuple(z.shape)}. "
                "Match its outputs to rank."
            )
        return cast(Tensor, z)

    def _rest(self, products: Tensor) -> Tensor:
        return products if self.output is None else self.output(products)

    def config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            "k": self.k,
            "in_features": self.in_features,
            "rank": self.rank,
            "out_features": None if self.output is None else self.output.out_features,
            "g": None if all(type(network) is _AboutOne for network in self.g) else list(self.g),
        }


class _AboutOne(nn.Linear):
    """A linear map whose outputs start with mean 1 and this variance, for independent inputs of variance 1."""

    def __init__(self, in_features: int, rank: int, variance: float) -> None:
        self.variance = variance  # super().__init__ draws the parameters
        super().__init__(in_features, rank)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=(self.variance / self.in_features) ** 0.5)
        nn.init.ones_(self.bias)
