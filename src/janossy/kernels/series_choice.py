"""The sets whose means are computed by series, and those whose tuples are enumerated."""

import numpy as np

from janossy.kernels.expansions import EXPANSIONS, TRIG, num_harmonics
from janossy.kernels.limits import num_tuples, series_cost

MAX_STATES = 2**18
"""The harmonics × subsets of positions that a thread keeps at most, for each lane: 32 MB in float64."""


def chosen_for_series(
    n: np.ndarray,
    k: int,
    num_units: int,
    increasing: bool,
    activation: str,
    tolerance: float,
    enumerate_up_to: int,
    small: np.ndarray,
    bounds: np.ndarray,
    finite: np.ndarray,
    max_enumerated: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns True for the sets of n elements, (B,), to compute by series, and the costs of all series, (B,).

    ``small`` sets (B,) are enumerated whatever their numbers are. ``bounds`` (B,) are how far the pre-activations of
    ``finite`` sets (B,) reach, and 0 for the others. Others than small ones are enumerated if a series cannot compute
    them, and with ``enumerate_up_to`` of -1 where that is cheaper.

    Raises: ValueError for a set that a series cannot compute, of more than ``max_enumerated`` activations.
    """
    tuples, harmonics = num_tuples(n, k, increasing), num_harmonics(activation, tolerance, bounds)
    cost = series_cost(n, k, increasing, harmonics)
    is_trig = EXPANSIONS[activation].family == TRIG
    usable = ~small & (finite | is_trig) & (harmonics <= MAX_STATES >> (k + 1))
    hopeless = ~small & ~usable & (tuples * num_units > max_enumerated)
    if hopeless.any():
        b = int(hopeless.argmax())
        reach = f"reach {bounds[b]:.1g}, which takes {harmonics[b]:.1g} harmonics"
        raise ValueError(
            f"the spectral evaluator cannot compute set {b}: its pre-activations "
            f"{reach if finite[b] else 'are not all finite'}, and its {n[b]} elements have {tuples[b]:.1g} tuples, too "
            "many to enumerate. Check the elements for NaN and infinity, and scale them."
        )
    return usable if enumerate_up_to >= 0 else usable & (tuples > cost), cost
