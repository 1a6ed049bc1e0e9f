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


def progress(epoch: int, planned: int, seconds: float, left: float, trial: Trial | None = None, *searches) -> Progress:
    return Progress("k2", 0, 0, 1, Epoch(epoch, planned, 0.5, 0.6), seconds, left, trial, *searches)


@pytest.mark.parametrize(
    ("epoch", "left", "expected"),
    [(30.0, 100.0, 1), (30.0, 61 * 30.0, 0), (2.0, 7.0, 0)],
    ids=["short", "enough", "quick"],
)
def test_a_slow_candidate_is_told_of_after_an_epoch(epoch, left, expected):
    slow = "k2: an epoch takes 0:30, so that the time suffices for 4 of 60 at most."
    lines = said(
        progress(1, 60, epoch, left),
        progress(2, 60, 2 * epoch, left - epoch),
        progress(1, 60, 3 * epoch, left - 2 * epoch),
    )
    assert [line.startswith(slow) for line in lines] == [True] * expected


def test_a_line_per_candidate_has_its_score_and_the_time_left():
    trial = Trial("k2", {}, 0, 3, 5.0, 0.51, 0.9, note="out of time")
    (line,) = said(progress(3, 3, 65.0, 535.0, trial))
    assert line == "1:05  at most 8:55 left  round 1  loss 0.5100  accuracy  0.9000  k2, best so far, out of time"


def of_loss(loss: float, note: str = "") -> Trial:
    return Trial("k2", {}, 0, 3, 5.0, loss, 0.9, note=note)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (
            [(30, 0.5), (99, 0.4)],
            "lowered the best loss by 20%: more will probably help. 1 of 2 candidates had no time.",
        ),
        (
            [(30, 0.5), (99, 0.499)],
            "did not improve the best loss. 1 of 2 candidates had no time. More time helps if one of these is better.",
        ),
        ([(60, 0.5), (99, 0.6)], "No candidate had ended after half of the time: more time will probably help. 1 of 2"),
        ([(30, 0.5), (80, 0.4)], "ended early, as what is left to do takes longer than the time left. 1 of 2"),
        ([], ""),
    ],
    ids=["better", "level", "late", "early", "nothing"],
)
def test_what_more_time_may_bring_is_told(ends, expected):
    with FitDisplay(Console(file=io.StringIO()), "accuracy") as display:
        for seconds, loss in ends:
            display(progress(3, 3, float(seconds), 100.0 - seconds, of_loss(loss)))
        found = display.outlook([of_loss(0.4), of_loss(float("inf"), "not tried: the time was for others")])
        assert expected in found and bool(found) == bool(expected)


def test_more_time_brings_little_if_every_candidate_had_its_time():
    with FitDisplay(Console(file=io.StringIO()), "accuracy") as display:
        for seconds, loss in ((30, 0.5), (99, 0.499)):
            display(progress(3, 3, float(seconds), 100.0 - seconds, of_loss(loss)))
        assert display.outlook([of_loss(0.499)]).endswith("best loss: more will probably help little.")


NOTHING = "The search ended before its time was over: more time changes nothing."
LONGER = "The search ended early, as what is left to do takes longer than the time left."


@pytest.mark.parametrize(
    ("searches", "note", "expected"),
    [
        ((0, 1), "not tried: the largest set has 1 element", NOTHING),
        ((2, 3), "not tried: the largest set has 1 element", NOTHING),
        ((0, 3), "not tried: the largest set has 1 element", LONGER),
        ((0, 1), "not tried: it is estimated to take 90 seconds", f"{LONGER} 1 of 2 candidates had no time."),
    ],
    ids=["not repeated", "the last search", "another search", "a long candidate"],
)
def test_an_early_end_for_lack_of_time_is_told_from_one_for_lack_of_candidates(searches, note, expected):
    with FitDisplay(Console(file=io.StringIO()), "accuracy") as display:
        display(progress(3, 3, 20.0, 80.0, of_loss(0.4), 0, searches[1]))
        display(progress(3, 3, 60.0, 40.0, of_loss(0.4), *searches))
        assert display.outlook([of_loss(0.4), of_loss(float("inf"), note)]) == expected


def test_losses_of_other_folds_are_no_gain_of_time():
    with FitDisplay(Console(file=io.StringIO()), "accuracy") as display:
        display(progress(3, 3, 30.0, 70.0, of_loss(0.5), 0, 3))
        display(progress(3, 3, 99.0, 1.0, of_loss(0.4), 1, 3))
        assert "did not improve the best loss" in display.outlook([of_loss(0.5)])


def test_without_a_limit_nothing_is_said_of_more_time():
    with FitDisplay(Console(file=io.StringIO()), "accuracy") as display:
        display(progress(3, 3, 5.0, float("inf"), of_loss(0.4)))
        assert display.outlook([of_loss(0.4)]) == ""
