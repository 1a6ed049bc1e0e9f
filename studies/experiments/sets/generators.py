"""Sets whose classes are a matter of pairs: those of the bench, with what is known of them."""

from collections.abc import Callable
from dataclasses import dataclass
from math import pi

from torch import Tensor

from janossy import Ragged
from janossy.tables.layout import Layout
from studies.bench.data.jets import bayes_jets, draw_jets
from studies.bench.data.orders import NUM_KINDS, bayes_orders, draw_orders


@dataclass(frozen=True)
class Task:
    """Sets to draw, their columns, and what is known of them."""

    about: str
    layout: Layout
    draw: Callable[[int, int], tuple[Ragged, Tensor]]
    """So many sets from this seed, and their classes (B,), 0 or 1."""
    bayes: Callable[[Ragged], Tensor]
    """The probability of class 1 of each set, (B,)."""
    features: dict
    """``TupleFeatures`` that suit, by columns: what somebody who knows the task would ask for."""


TASKS = {
    "orders": Task(
        "orders of a shop: which kinds of items come together, and how prices differ within a kind",
        Layout((NUM_KINDS + 1,), 1),
        draw_orders,
        bayes_orders,
        {"equal": [[0]], "absolute_differences": [1]},
    ),
    "jets": Task(
        "jets of particles: one prong or two, of the same spread",
        Layout((), 3),
        draw_jets,
        bayes_jets,
        {"absolute_differences": [1, 2], "distances": [[1, 2]], "periods": {"2": 2 * pi}},
    ),
}
