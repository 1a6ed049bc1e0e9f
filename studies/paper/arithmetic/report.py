"""The report of a results directory: report.md, report.html and the plots."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies.paper.arithmetic.costs import beside_plain_loop, costs, replicas
from studies.paper.arithmetic.patterns import pattern_checks
from studies.paper.arithmetic.plots import PLOTS
from studies.paper.arithmetic.summary import summarise
from studies.paper.arithmetic.tables import (
    ALL_MODELS,
    DIGITS,
    MODELS,
    PAPER_TASKS,
    REAL_TASKS,
    comparison,
    metric_of,
    number,
    tasks_of,
)
from studies.paper.arithmetic.tasks import TASKS
from studies.paper.arithmetic.verdicts import CLEAR, FEW, counted, verdicts
from studies.paper.checks import tally
from studies.paper.printed import Score
from studies.runs.durations import duration
from studies.runs.page import write_pages
from studies.runs.results import Result

NEEDS = {"scores-by-k": "scores", "error-by-permutations": "curve", "learning-curves": "history"}
"""The part of a result that each plot needs."""

CAPTIONS = {
    "scores-by-k": "Test accuracy by k and ρ (LSTM and GRU with 20 permutations at inference), for "
    f"{REAL_TASKS} the RMSE "
    "on a log scale. Dots are ours, with the standard deviation over seeds if there are several; bars are the paper's.",
    "error-by-permutations": "Test error of LSTM and GRU against the number of permutations averaged at inference, on "
    "a log scale: dashed with linear ρ, solid with an MLP as ρ; seeds, if several, are faint lines behind their mean.",
    "learning-curves": "Score on the validation set after each epoch: accuracy, for "
    f"{REAL_TASKS} the RMSE on a log scale. "
    "Seeds, if several, are faint lines behind their mean.",
}
ALTS = {
    "scores-by-k": "One panel a task: dots for our score of every model, bars for the paper's. The same numbers are in "
    "the first table.",
    "error-by-permutations": "One panel a task: lines of the test error of the LSTM and GRU models against 1 to 20 "
    "permutations.",
    "learning-curves": "Two panels a task, linear and MLP ρ: lines of the validation score of every model by epoch.",
}
MAE_NOTE = (
    "The paper's mean absolute errors of the integer tasks are of rounded predictions, as its 0.000 beside an accuracy "
    "of 1.00 shows. Its RMSE of the GRU with MLP ρ on variance (0.42 and 0.40) is below its mean absolute error (0.594 "
    "and 0.517), which no set of predictions can have, so those tables are not of the same runs."
)
VERDICT_NOTE = (
    "Beside each verdict the difference in its standard errors, positive where ours is better, and our number of "
    f"seeds. It is better or short beyond {CLEAR:g} standard errors, which hold the spread over runs on both sides and "
    f"what the paper rounded off; with fewer than {FEW} seeds the paper's spread stands for ours."
)
COST_NOTE = (
    "Seconds of the CPU (in results that do not name a stack, of the clock) for a replica and an epoch, its share of a "
    "stack's, the median over seeds, and in parentheses the epochs. An epoch of L-BFGS (k = 1, 2, 3) is one pass over "
    "all examples, its share of the preconditioners included; one of Adam is all batches, and scores on validation."
)
LOOP_NOTE = (
    "Seconds of an epoch of 100,000 examples, one thread, nothing else running, and in parentheses how many times as "
    "long the authors' loop takes, in torch's layers, on as large batches. A stack's are a replica's share: each has "
    "its own examples, order, permutations and state of Adam. The study stacks 15 replicas of k = 1, 2, 3, and 5 of an "
    "LSTM or GRU."
)


def write_report(directory: Path, results: Sequence[Result], skipped: Sequence[str]) -> list[Path]:
    """Writes report.md, report.html and the plots into the directory of the results. Returns their paths.

    ``skipped`` are lines on files there that do not count. Raises: OSError.
    """
    plots = {name: PLOTS[name] for name, part in NEEDS.items() if any(result[part] for result in results)}
    return write_pages(directory, __package__, _context(results, skipped, directory), plots, results)


def _context(results: Sequence[Result], skipped: Sequence[str], directory: Path) -> dict[str, Any]:
    """Returns the values that both templates use."""
    tasks = tasks_of(results)
    checks = pattern_checks(results)
    has_wide = any(result["model"] not in MODELS for result in results)
    wide = (
        {"wide": comparison(results, wide=True), "wide_mae": comparison(results, "mae", wide=True)} if has_wide else {}
    )
    found = {"score": verdicts(results), "mae": verdicts(results, "mae")}
    if has_wide:
        found |= {"wide": verdicts(results, wide=True), "wide_mae": verdicts(results, "mae", wide=True)}
    integer = all(TASKS[task].is_integer for task in tasks)
    return {
        "run": summarise(results, directory),
        "num_results": len(results),
        "tasks": tasks,
        "titles": {task: task.replace("_", " ") for task in tasks},
        "tables": {"score": comparison(results), "mae": comparison(results, "mae"), **wide},
        "verdicts": {**found, "counted": counted(list(found.values()))},
        "verdict_note": VERDICT_NOTE,
        "paper_tasks": [task for task in tasks if task in PAPER_TASKS],
        "costs": costs(results),
        "cost_note": COST_NOTE,
        "loop": beside_plain_loop(),
        "loop_note": f"{LOOP_NOTE} By {replicas()['command']}.",
        "checks": checks,
        "tally": tally(checks),
        "skipped": skipped,
        "captions": CAPTIONS,
        "alts": ALTS,
        "mae_note": MAE_NOTE,
        "score_heading": "accuracy" + ("" if integer else f", for {REAL_TASKS} RMSE"),
        "results": [_result_line(result) for result in sorted(results, key=_place)],
    }


def _place(result: Result) -> tuple[int, int, int]:
    order = ALL_MODELS
    return (
        list(TASKS).index(result["task"]),
        order.index(result["model"]) if result["model"] in order else len(order),
        result["seed"],
    )


def _result_line(result: Result) -> dict[str, str]:
    """Returns a row of the list of results."""
    metric = metric_of(result["task"])
    scores = [
        ("" if score["num_permutations"] is None else f"×{score['num_permutations']}: ")
        + Score(number(score[metric]), None, DIGITS[metric]).short
        for score in result["scores"]
    ]
    return {
        "task": result["task"],
        "model": result["model"],
        "seed": str(result["seed"]),
        "score": ", ".join(scores),
        "epochs": str(result["config"]["epochs"]),
        "time": duration(result["seconds"]),
        "finished": str(result.get("finished", "–")),
    }
