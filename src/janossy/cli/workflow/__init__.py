"""The work of ``janossy fit``, ``predict`` and ``inspect`` (needs the extras ``cli`` and ``estimators``)."""

import janossy.estimators as _estimators  # noqa: F401  # first, so that the error of its missing extra comes first
