"""Reports whose plots are made but not drawn: that takes a quarter of a second, and few tests are about it."""

import pytest

from janossy.cli.pages import plots


@pytest.fixture
def drawn():
    """Requests drawn plots, which tests otherwise get with ``--all`` only."""


@pytest.fixture(autouse=True)
def _plots_are_not_drawn(request, monkeypatch):
    def made(plot, theme):
        if theme == "light":
            plot(plots.THEMES[theme])
        return b"\x89PNG"

    if not request.config.option.all and "drawn" not in request.fixturenames:
        monkeypatch.setattr(plots, "render", made)
