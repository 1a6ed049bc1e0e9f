"""Candidates: the networks that a search may try, given by name and settings, or by a user's function."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from janossy.estimators.classical.cached import CachedStatistics
from janossy.estimators.classical.choosing import encoded_columns, has_more_than_compact
from janossy.estimators.classical.learners import ClassicalLearner, classical_settings
from janossy.estimators.classical.paths import LEAF, LEARNERS
from janossy.estimators.nested import build_nested
from janossy.estimators.networks import check_set_network, drawn_in_training, seconds_of
from janossy.estimators.strategies import FLAT, STRATEGIES, Settings, build_network, samples_tuples, settings_of
from janossy.estimators.suited import suited
from janossy.nn.modes import untouched
from janossy.orderings.contract import Orderings
from janossy.sets import Ragged
from janossy.tables.layout import Layout

Factory = Callable[[Layout, Layout, int], nn.Module]
"""A function of the layouts of elements and context, and the number of outputs, that builds a network."""

SAMPLE = 64
"""The number of sets from which the cost of a network is estimated."""


SMALL_LEAVES = 1_000
"""The most sets for which boosting with smaller leaves than by default is tried. Among more, those are small."""

DRAWN = ("k2", "k2+features", "k3", "k3+features")
"""The strategies that may predict from sampled tuples."""


@dataclass(frozen=True)
class Candidate:
    """A strategy with settings, or a factory of networks."""

    strategy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    factory: Factory | None = None

    @property
    def classical(self) -> bool:
        """True if scikit-learn fits the candidate to statistics of sets."""
        return self.factory is None and self.strategy in LEARNERS

    @property
    def least_size(self) -> int:
        """The smallest set size for which the candidate is more than a simpler strategy."""
        num_points: int = self.settings.get("num_points", Settings.num_points)
        least = dict.fromkeys((*LEARNERS, "k1"), 0) | {"k3": 3, "k3+features": 3, "induced": num_points + 1}
        return 0 if self.factory else least.get(self.strategy, 2)

    def why_not(self, statistics: CachedStatistics) -> str:
        """Returns the reason why the candidate equals a simpler one on these sets, or does not suit them, or ""."""
        layout, form = statistics.layouts[0], self.settings.get("amounts")
        if self.classical and self.settings.get("scheme") == "share" and not statistics.are_compositions:
            return "the sets are no compositions: amounts of categories, each at most once in a set"
        if form == "log" and not layout.amounts:
            return "no column of numbers spans orders of magnitude"
        if self.classical and self.settings.get("compact") and not has_more_than_compact(layout):
            return "its statistics are compact anyway"
        has_small_leaves = self.strategy == "trees" and self.settings.get("min_samples_leaf", LEAF) < LEAF
        if has_small_leaves and len(statistics.examples) > SMALL_LEAVES:
            return f"among more than {SMALL_LEAVES:,} sets, leaves of {LEAF} are small"
        if self.classical and self.settings.get("pairs") is False and not statistics.has_pairs:
            return "its statistics are without pairs anyway"
        if self.settings.get("categories") == "targets" and not any(encoded_columns(statistics.layouts)):
            return "no column has many categories"
        if form == "quantile" and not layout.skewed:
            return "no column of numbers is skewed"
        if form == "codes" and not layout.coded:
            return "no column holds a few whole numbers, which may be codes"
        if form == "by-category" and not (layout.vocabularies and layout.num_numbers):
            return "no column of numbers is beside one of categories"
        return ""

    @property
    def variants(self) -> list["Candidate"]:
        """The candidate and, for exact pairs or triples, the one that predicts from samples if all take too long."""
        drawn = (
            self.strategy in DRAWN
            and not {"exact", "inner"} & self.settings.keys()
            and samples_tuples(settings_of(self.strategy, self.settings))
        )
        return [self, replace(self, settings={**self.settings, "exact": False})] if drawn else [self]

    def suited(self, num_sets: int, mean_size: float) -> "Candidate":
        """Returns the candidate with the settings that suit the number and mean size of the training sets."""
        if self.factory is not None or self.classical:
            return self
        return replace(self, settings=suited(self.strategy, self.settings, num_sets, mean_size))

    def build(self, element_layout: Layout, context_layout: Layout, num_outputs: int) -> nn.Module:
        """Returns a network with random weights, or a classical learner before its fit."""
        if self.classical:
            return ClassicalLearner(self.strategy, (element_layout, context_layout), num_outputs, self.settings)
        if self.factory is None and element_layout.inner and self.settings.get("inner") != FLAT:
            return build_nested(self.strategy, element_layout, context_layout, num_outputs, **self.settings)
        if self.factory is None:
            return build_network(self.strategy, element_layout, context_layout, num_outputs, **self.settings)
        network = self.factory(element_layout, context_layout, num_outputs)
        check_set_network(network, "strategy, as a function,")
        return network

    @property
    def identity(self) -> str:
        """Text that identifies the candidate, the same in every process: a function by its module and name."""
        if self.factory is None:
            return str(self)
        owner = self.factory if hasattr(self.factory, "__qualname__") else type(self.factory)
        return f"{owner.__module__}.{owner.__qualname__}"

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.strategy} ({settings})" if settings else self.strategy


NAMES = (*LEARNERS, *STRATEGIES)
"""The strategies that have a name."""

TARGETS = (
    Candidate("trees", {"categories": "targets"}),
    Candidate("linear", {"categories": "targets"}),
    Candidate("forest", {"categories": "targets", "extra": True}),
)
"""The candidates for columns with many categories. Their statistics are few, so each takes about a second."""

SHARES = (
    Candidate("forest", {"scheme": "share", "extra": True}),
    Candidate("forest", {"scheme": "share"}),
)
"""The candidates for compositions, such as formulas. They read half as many statistics as compact ones."""

AUTO = (
    Candidate("linear"),
    *TARGETS,
    *SHARES,
    Candidate("forest", {"compact": True, "extra": True}),
    Candidate("forest", {"compact": True}),
    Candidate("trees", {"compact": True}),
    Candidate("linear", {"pairs": False}),
    Candidate("forest", {"extra": True}),
    Candidate("k1"),
    Candidate("trees", {"scheme": "count"}),
    Candidate("k1", {"amounts": "log"}),
    Candidate("k1", {"amounts": "quantile"}),
    Candidate("k1", {"amounts": "codes"}),
    Candidate("k1", {"reduce": "mean+std"}),
    Candidate("k2+features"),
    Candidate("attention"),
    Candidate("forest"),
    Candidate("trees", {"compact": True, "min_samples_leaf": 5}),
    Candidate("set-transformer"),
    Candidate("max"),
    Candidate("sum"),
    Candidate("k1", {"amounts": "by-category"}),
    Candidate("k1", {"width": 128, "depth": 3, "readout_depth": 2}),
    Candidate("induced"),
    Candidate("relations"),
    Candidate("k2"),
    Candidate("k2+features", {"width": 128, "depth": 3}),
    Candidate("gru"),
    Candidate("k3"),
)
"""The candidates of ``strategy="auto"``: first those that take a second or two, then those that are best most often."""

FOR_LARGER = (
    Candidate("sum", {"readout_depth": 0}),
    Candidate("k2", {"depth": 1, "reduce": "sum", "readout_depth": 0}),
)
"""The candidates of ``strategy="auto"`` for sets larger than in training: sums over elements or pairs go on with the
size. An evaluator takes n log n for all n² pairs of one layer."""

AUTO_NESTED = (
    Candidate("linear"),
    *TARGETS,
    Candidate("forest", {"compact": True, "extra": True}),
    Candidate("forest", {"compact": True}),
    Candidate("trees", {"compact": True}),
    Candidate("k1"),
    Candidate("trees"),
    Candidate("max", {"inner": "sum"}),
    Candidate("attention"),
    Candidate("k1", {"inner": FLAT}),
    Candidate("k1", {"amounts": "log"}),
    Candidate("k1", {"inner": "k2+features"}),
    Candidate("max", {"inner": "max"}),
    Candidate("sum", {"inner": "sum"}),
    Candidate("set-transformer"),
    Candidate("k1", {"inner": "set-transformer"}),
    Candidate("k2+features"),
    Candidate("k1", {"width": 128, "depth": 3, "readout_depth": 2}),
    Candidate("k1", {"inner": "attention"}),
)
"""The candidates of ``strategy="auto"`` for sets of sets, in the same order."""


def candidates(strategy: Any, nested: bool = False) -> list[Candidate]:
    """Returns the candidates that a ``strategy`` stands for; ``nested`` is True for sets of sets.

    Raises: TypeError or ValueError for anything that is not a strategy.
    """
    if isinstance(strategy, str) and strategy == "auto":
        return list(AUTO_NESTED if nested else AUTO)
    if isinstance(strategy, str):
        _check_settings(strategy, {})
        return [Candidate(strategy)]
    if isinstance(strategy, Mapping):
        settings = dict(strategy)
        name = settings.pop("strategy", None)
        if not isinstance(name, str):
            raise ValueError(
                f"strategy expects, as a dict, its name under 'strategy', among {', '.join(NAMES)}, and settings; "
                f"got {dict(strategy)!r}."
            )
        _check_settings(name, settings)
        return [Candidate(name, settings)]
    if callable(strategy):
        return [Candidate(getattr(strategy, "__name__", type(strategy).__name__), {}, strategy)]
    if isinstance(strategy, Sequence) and len(strategy):
        return [candidate for one in strategy for candidate in candidates(one, nested)]
    raise TypeError(
        f"strategy expects 'auto', one of {', '.join(map(repr, NAMES))}, a dict of settings, a function that "
        f"returns a JanossyNetwork, or a list of these; got {strategy!r}."
    )


def _check_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Raises a TypeError or ValueError for an unknown strategy, or settings that it does not have."""
    if name in LEARNERS:
        classical_settings(name, settings)
    elif name in STRATEGIES:
        settings_of(name, settings)
    else:
        raise ValueError(f"strategy expects one of {', '.join(map(repr, NAMES))}; got {name!r}.")


def seconds_an_epoch(network: nn.Module, training: Ragged, validation: Ragged) -> float:
    """Returns the estimated seconds of an epoch: steps on the training sets, and the loss of the validation sets.

    Raises: ValueError if the evaluator refuses because there are too many rows.
    """
    seconds = _seconds(network, training)
    with untouched(network):
        return seconds + _seconds(network, validation, drawn_in_training(network))


def seconds_to_predict(network: nn.Module, sets: Ragged) -> float:
    """Returns the estimated seconds of a prediction of these sets.

    Raises: ValueError if the evaluator refuses because there are too many rows.
    """
    with untouched(network):
        return _seconds(network, sets)


def _seconds(network: nn.Module, sets: Ragged, orderings: Orderings | None = None) -> float:
    some = sets[:: max(1, len(sets) // SAMPLE)]
    return seconds_of(network, some, orderings) / len(some) * len(sets)
