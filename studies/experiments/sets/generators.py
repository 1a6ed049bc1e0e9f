"""Sets whose classes depend on pairs: those of the bench, with their known properties."""

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
    """A generator of sets, with their columns and known properties."""

    about: str
    layout: Layout
    draw: Callable[[int, int], tuple[Ragged, Tensor]]
    """Samples a number of sets from a seed, with their classes (B,), 0 or 1."""
    bayes: Callable[[Ragged], Tensor]
    """Returns the true probability of class 1 for each set, (B,)."""
    features: dict
    """``TupleFeatures`` that suit, by columns: the choice of an expert on the task."""


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
