"""What somebody who knows the data needs to name features of pairs: the columns that networks read, and their units."""

from janossy.estimators import SetTable, TableEncoder
from janossy.estimators.codes import Number


def places_and_units(sets: SetTable) -> tuple[dict[str, int], dict[str, float]]:
    """Where a network finds each column of the elements, and by which number each place was divided.

    They are the columns and ``units`` of ``TupleFeatures``, for an estimator that is fitted on these sets.
    """
    encoder = TableEncoder().fit(sets)
    places = {name: place for place, name in enumerate(encoder.element_names)}
    scales = {code.name: code.scale for code in encoder.elements if isinstance(code, Number) and code.scale}
    return places, {str(places[name]): scale for name, scale in scales.items()}
