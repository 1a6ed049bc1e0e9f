"""The report's plots: what they compute, and that they can be drawn of whatever there is."""

from functools import partial
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import binomtest

from janossy.cli.pages import panels, render
from janossy.cli.workflow import figures


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_bins_hold_every_set_once_in_the_order_of_probabilities(sets):
    probabilities, right = (np.array(each) for each in zip(*sets, strict=True))
    said, is_so, counts = figures.binned(probabilities, right)
    assert counts.sum() == len(sets) and counts.max() - counts.min() <= 1 and len(counts) == min(10, len(sets))
    assert np.isclose((is_so * counts).sum(), right.sum()) and np.isclose((said * counts).sum(), probabilities.sum())
    assert (np.diff(said) >= -1e-12).all()


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_scipys(case):
    found, num = case
    low, high = figures.wilson(np.array([found / num]), np.array([num]))
    expected = binomtest(found, num).proportion_ci(method="wilson")
    assert np.allclose((low[0], high[0]), (expected.low, expected.high), atol=1e-4)
    assert low[0] <= found / num <= high[0]


CURVES = [figures.Curve("k2", [0.9], [0.8]), figures.Curve("gru", [0.9, 0.0], [0.8, 0.1])]
ONE = np.ones(1)
PLOTS = {
    "curves, one of one epoch, a loss of 0": partial(figures.learning_curves, CURVES),
    "two classes, one without sets": partial(figures.confusion, np.array([[3, 1], [0, 0]]), ["no", "yes"]),
    "many classes": partial(figures.confusion, np.eye(60, dtype=int), [str(i) for i in range(60)]),
    "one residual": partial(figures.residuals, ONE, ONE),
    "many residuals": partial(figures.residuals, np.arange(4000.0), np.arange(4000.0) % 7),
    "all sure and right": partial(figures.confidence, np.ones(40), np.ones(40, bool)),
    "one set": partial(figures.confidence, ONE, np.array([False])),
    "means of one": partial(figures.means, ONE, ONE),
    "constant predictions": partial(figures.means, np.zeros(50), np.arange(50.0)),
    "permutations": partial(figures.by_permutations, [1, 5, 20], [0.8, 0.9, 0.9], "accuracy"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_plots_of_extremes(plot):
    assert render(plot, "light")[:4] == b"\x89PNG"


def test_the_palette_cannot_be_seen():
    """Lines of a hundred colours, some half transparent: no pixel is farther from matplotlib's than 32 of 255."""
    drawn = []

    def plot(colours):
        figure, (axes,) = panels(1)
        for i in range(100):
            axes.plot([0, 1], [i, (7 * i) % 100], color=(i / 99, 1 - i / 99, (i % 10) / 9), alpha=0.5 + 0.5 * (i % 2))
        drawn.append(figure)
        return figure

    found = Image.open(BytesIO(render(plot, "dark")))
    exact = BytesIO()
    drawn[0].savefig(exact, dpi=130)
    farthest = np.abs(np.asarray(found.convert("RGB"), int) - np.asarray(Image.open(exact).convert("RGB"), int)).max()
    assert found.mode == "P" and 0 < farthest <= 32
