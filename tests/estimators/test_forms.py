"""as_sets: every form of the same sets gives the same table, and shares the memory of what it was given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from janossy.estimators import as_sets
from tests.estimators import forms
from tests.estimators.forms import same

sizes = st.lists(st.integers(0, 4), max_size=5).map(lambda drawn: [*drawn, 1])
VALUES = {
    "number": st.floats(-4, 4),
    "whole": st.integers(-3, 3),
    "word": st.sampled_from(["a", "b", "ü", ""]),
    "flag": st.booleans(),
    "day": st.datetimes(),
}
WHOLE = ("whole", "day")
"""Those of which none are missing, as they would become of another dtype."""


@st.composite
def tables(draw):
    """Columns of elements and of sets, and sizes. Each column has a value, by which its kind is known."""

    def column(name, num):
        values = VALUES[name] if name in WHOLE else VALUES[name] | st.none()
        return [*draw(st.lists(values, min_size=num - 1, max_size=num - 1)), draw(VALUES[name])]

    drawn = draw(sizes)
    elements = {name: column(name, sum(drawn)) for name in VALUES}
    context = {f"set_{name}": column(name, len(drawn)) for name in VALUES}
    return elements, context, drawn


@pytest.mark.parametrize("form", forms.ARRAYS)
@given(sizes=sizes, d=st.integers(1, 3))
def test_arrays_in_every_form(form, sizes, d):
    x = np.arange(float(sum(sizes) * d)).reshape(-1, d)
    table = as_sets(forms.ARRAYS[form](x, sizes))
    assert table.sizes.tolist() == sizes and not table.context and table.ids is None
    assert list(table.elements) == [f"x{j}" for j in range(d)]
    for j, column in enumerate(table.elements.values()):
        assert column.kind == "numeric" and column.values.tolist() == x[:, j].tolist()


@pytest.mark.parametrize("form", forms.TABLES)
@given(table=tables())
def test_tables_of_lists_in_every_form(form, table):
    elements, context, sizes = table
    expected = as_sets(forms.TABLES["Arrow table"](elements, context, sizes))
    same(as_sets(forms.TABLES[form](elements, context, sizes)), expected)
    for columns, given in ((expected.elements, elements), (expected.context, context)):
        assert list(columns) == list(given)
        for name, column in columns.items():
            values = [None if gone else x for x, gone in zip(column.decoded().tolist(), column.missing(), strict=True)]
            assert values == given[name], name
    assert [column.kind for column in expected.elements.values()] == [
        *("numeric", "numeric", "categorical", "boolean", "date")
    ]
    assert expected.sizes.tolist() == sizes
