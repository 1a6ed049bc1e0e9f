"""Networks of sets of sets: a strategy pools the elements of each inner set, and another pools their vectors."""

from dataclasses import replace
from typing import Any

from janossy.estimators.strategies import ENCODERS, SAMPLED, STRATEGIES, build_network, readout_for, settings_of
from janossy.nn import ColumnEmbedding, InnerSets, SetEncoder
from janossy.nn.encoder import SetLayer
from janossy.nn.network import JanossyNetwork
from janossy.tables.layout import Layout

OF_INNER = ("width", "depth", "activation", "dropout", "norm", "embedding_features", "amounts")
"""The settings that hold for both levels. Others are for the vectors of inner sets."""


def build_nested(
    strategy: str, element_layout: Layout, context_layout: Layout, num_outputs: int, **settings: Any
) -> JanossyNetwork:
    """Returns a network of two levels, for sets of sets whose elements have these columns.

    The setting ``inner`` names the strategy for the elements of each inner set. Its network gives one vector of
    ``width`` features per inner set. ``strategy`` pools these vectors. Pairs and triples are all used, in training too.

    ``settings``: as in ``build_network``.
    Shapes: sets.values (N, element_layout.width), context (B, context_layout.num_columns) -> (B, num_outputs).
    Raises: TypeError or ValueError as ``build_network``; ValueError for a strategy that samples orders.

    Example:
        >>> network = build_nested("max", Layout(num_numbers=1, inner=True), Layout(), 1, inner="sum")
        >>> network(Ragged.from_sets([torch.tensor([[0.5, 0.0], [1.5, 1.0], [2.5, 0.0]])])).shape
        torch.Size([1, 1])
    """
    chosen = settings_of(strategy, settings)
    elements = replace(element_layout, inner=False, largest_size=None)
    if strategy in SAMPLED:
        raise ValueError(
            f"sets of sets expect a strategy that samples no orders; got {strategy!r}. Use another, such as 'k1'."
        )
    of_inner = {name: value for name, value in settings.items() if name in OF_INNER}
    inner = build_network(chosen.inner, elements, Layout(), chosen.width, **of_inner, num_tuples=None)
    own = replace(chosen, num_tuples=None, amounts="raw")
    vectors, h = Layout(num_numbers=chosen.width), ColumnEmbedding((), num_numbers=chosen.width)
    pooling = STRATEGIES[strategy](own, vectors, h)
    encoder: SetLayer = InnerSets(inner)
    if strategy in ENCODERS:
        encoder = SetEncoder([encoder, ENCODERS[strategy](own, vectors, h)])
    return JanossyNetwork(None, pooling, readout_for(pooling, chosen, context_layout, num_outputs), encoder=encoder)
