"""Reductions of rows beyond the named ones: quantiles, power means, softmax-weighted means."""

from numbers import Real

import torch
from torch import Tensor, nn

from janossy.checks import check_flag
from janossy.evaluate.reduce import reduce_segments, widened
from janossy.functions.shown import arguments_shown
from janossy.sets import Ragged

SMALLEST = 1e-7
"""The value to which smaller rows are raised in a power mean."""


class RowReduction(nn.Module):
    """A reduction of each set's rows (T, c), at least one per set, to (B, c), for ``JanossyPooling(reduce=…)``.

    Its scale does not depend on the number of rows. All rows are held at once.
    """

    def forward(self, rows: Ragged) -> Tensor:
        raise NotImplementedError

    def meaning(self) -> str:
        """Returns what must be equal for weights to load, as text."""
        return self.extra_repr()


class Quantile(RowReduction):
    """The q-quantile of each column, interpolated linearly as by ``torch.quantile``; q = 0.5 is the median.

    Shapes: rows.values (T, c) -> (B, c).      Cost: T log T for each column.
    Raises: ValueError if q is not a number in [0, 1].

    Example:
        >>> pool = JanossyPooling(TupleMLP(2, 3, 8), Tuples(2), reduce=("mean", Quantile(0.1), Quantile(0.9)))
        >>> pool(Ragged.from_sizes(torch.randn(5, 3), [3, 2])).shape
        torch.Size([2, 24])
    """

    q: float

    def __init__(self, q: float = 0.5) -> None:
        super().__init__()
        if not isinstance(q, Real) or isinstance(q, bool) or not 0 <= q <= 1:
            raise ValueError(f"Quantile expects q as a number in [0, 1]; got {q!r}.")
        self.q = float(q)

    def forward(self, rows: Ragged) -> Tensor:
        values, owners = rows.to_index()
        by_value = values.argsort(0)
        in_sets = owners[by_value].argsort(dim=0, stable=True)  # by value within each set
        ordered = values.gather(0, by_value.gather(0, in_sets))
        starts, counts = rows.offsets[:-1], rows.offsets.diff()
        place = self.q * (counts - 1).to(widened(values[:0]).dtype)
        below = place.floor().long()
        low, high = ordered[starts + below], ordered[starts + place.ceil().long()]
        part = (place - below)[:, None].to(values.dtype)
        between = torch.where(part == 0, low, low.lerp(high, part))  # 0 · inf would be NaN
        last = ordered[starts + counts - 1]
        return torch.where(last.isnan(), last, between)  # NaN sorts last

    def meaning(self) -> str:
        return f"q={self.q:g}"

    def extra_repr(self) -> str:
        return arguments_shown(self)


class PowerMean(RowReduction):
    """(mean of x^p)^(1/p) of each column, for positive rows; values below 1e-7 count as 1e-7.

    p = 1 is the mean, p = 2 the root mean square, and p = −1 the harmonic mean. Large p approach the maximum.

    Args:
        p: the power, a finite number other than 0.
        learn: True to make p a parameter that starts with the given value.

    Shapes: rows.values (T, c) -> (B, c).
    Raises: TypeError or ValueError if p is not a finite number other than 0, or learn not a bool.
    """

    p: Tensor | float

    def __init__(self, p: float = 2.0, *, learn: bool = False) -> None:
        super().__init__()
        self.p = _number("PowerMean", "p", p, learn)
        if p == 0:
            raise ValueError(f"PowerMean expects p as a number other than 0; got {p!r}. Use p=1e-3.")
        self.learn, self._first = learn, float(p)

    def reset_parameters(self) -> None:
        """Gives a learned p its first value again."""
        _begin_again(self.p, self._first)

    def forward(self, rows: Ragged) -> Tensor:
        p = self.p
        logs = rows.map(lambda x: p * widened(x).clamp(min=SMALLEST).log())
        return (reduce_segments("logmeanexp", logs) / p).exp().to(rows.dtype)

    def config(self) -> dict[str, float | bool]:
        """Returns the arguments of the constructor."""
        return {"p": self._first, "learn": self.learn}

    def meaning(self) -> str:
        return "learn=True" if self.learn else f"p={self.p:g}"

    def extra_repr(self) -> str:
        return arguments_shown(self)


class SoftmaxMean(RowReduction):
    """The mean of each column weighted by softmax(t·x) over the set's rows: Σ x e^(tx) / Σ e^(tx).

    The inverse temperature t = 0 gives the mean. Large t approach the maximum, large −t the minimum. The source is
    DeeperGCN's softmax aggregation (Li et al., 2020).

    Args:
        t: the inverse temperature.
        learn: True to make t a parameter that starts with the given value.

    Shapes: rows.values (T, c) -> (B, c).
    Raises: TypeError or ValueError if t is not a finite number, or learn not a bool.
    """

    t: Tensor | float

    def __init__(self, t: float = 1.0, *, learn: bool = False) -> None:
        super().__init__()
        self.t = _number("SoftmaxMean", "t", t, learn)
        self.learn, self._first = learn, float(t)

    def reset_parameters(self) -> None:
        """Gives a learned t its first value again."""
        _begin_again(self.t, self._first)

    def forward(self, rows: Ragged) -> Tensor:
        rows = rows.map(widened)
        t = self.t
        scaled = rows.map(lambda x: t * x)
        owners = rows.to_index()[1]
        largest = reduce_segments("max", scaled.detach())
        weights = (scaled.values - largest[owners]).exp()
        total = reduce_segments("sum", rows.with_values(weights * rows.values))
        return total / reduce_segments("sum", rows.with_values(weights))

    def config(self) -> dict[str, float | bool]:
        """Returns the arguments of the constructor."""
        return {"t": self._first, "learn": self.learn}

    def meaning(self) -> str:
        return "learn=True" if self.learn else f"t={self.t:g}"

    def extra_repr(self) -> str:
        return arguments_shown(self)


def _number(owner: str, name: str, value: float, learn: bool) -> Tensor | float:
    """Returns the number as a parameter if ``learn``, else as a float. Raises: ValueError unless it is finite."""
    check_flag(owner, "learn", learn)
    if not isinstance(value, Real) or isinstance(value, bool) or not abs(float(value)) < float("inf"):
        raise ValueError(f"{owner} expects {name} as a finite number; got {value!r}.")
    return nn.Parameter(torch.tensor(float(value))) if learn else float(value)


def _begin_again(number: Tensor | float, first: float) -> None:
    if isinstance(number, nn.Parameter):
        nn.init.constant_(number, first)
