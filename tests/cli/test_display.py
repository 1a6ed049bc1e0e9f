"""The screen of a fit: a candidate whose training will not end in time is told of first, and a note is explained."""

import io

import pytest
from rich.console import Console

from janossy.cli.workflow.display import FitDisplay
from janossy.estimators import Progress, Trial
from janossy.estimators.trials import Epoch


def said(*events: Progress) -> list[str]:
    """Returns the lines that remain on the screen."""
    console = Console(file=io.StringIO(), width=300)
    with FitDisplay(console, "accuracy") as display:
        for event in events:
            display(event)
    return [line.strip() for line in console.file.getvalue().splitlines() if line.strip()]


def progress(epoch: int, planned: int, seconds: float, left: float, trial: Trial | None = None) -> Progress:
    return Progress("k2", 0, 0, 1, Epoch(epoch, planned, 0.5, 0.6), seconds, left, trial)


@pytest.mark.parametrize(("left", "expected"), [(100.0, 1), (61 * 30.0, 0)], ids=["short", "enough"])
def test_a_slow_candidate_is_told_of_after_an_epoch(left, expected):
    slow = "k2: an epoch takes 0:30, so that the time suffices for 4 of 60 at most."
    lines = said(progress(1, 60, 30.0, left), progress(2, 60, 60.0, left - 30), progress(1, 60, 90.0, left - 60))
    assert [line.startswith(slow) for line in lines] == [True] * expected


def test_a_line_per_candidate_has_its_score_and_the_time_left():
    trial = Trial("k2", {}, 0, 3, 5.0, 0.51, 0.9, note="out of time")
    (line,) = said(progress(3, 3, 65.0, 535.0, trial))
    assert line.startswith("1:05  round 1  k2") and "loss 0.5100  accuracy 0.9000  best so far" in line
    assert "more --time-budget trains it longer" in line and line.endswith("at most 8:55 left")
