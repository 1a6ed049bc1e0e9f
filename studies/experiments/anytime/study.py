"""Scores of test sets after a budget of CPU seconds: ``strategy="auto"``, and the best of tuned baselines.

    python -m studies.experiments.anytime.study --data FOLDER [--budgets 60] [--seeds 1] [--only cuisines,esol]

One process and one thread; time is that of the process. Writes anytime.json and .md; resumes where it was cut.
"""

import argparse
import time
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from janossy.estimators import SetClassifier, SetRegressor
from janossy.estimators.interrupts import time_by
from studies.experiments.anytime.baselines import TunedBaseline
from studies.experiments.anytime.tables import SOURCES, read
from studies.experiments.record import Record

COMMAND = "python -m studies.experiments.anytime.study --data FOLDER"
MODELS = ("ours", "baseline")
TUNED_ON = ("cuisines", "esol", "glass", "supercon", "tiger")
"""Tables by whose training parts the search's rules were chosen, by cross-validation; the others confirm them."""


def fit(folder: Path, data: str, model: str, budget: float, seed: int) -> dict[str, Any]:
    """Fits a model to the training part of a table within the budget, and scores it on the test part."""
    is_class = SOURCES[data].is_class
    sets, targets = read(folder, data, "train")
    began = time.process_time()
    with time_by(time.process_time):
        fitted: Any
        if model == "ours":
            fitted = (SetClassifier if is_class else SetRegressor)(time_budget=budget, random_state=seed)
        else:
            fitted = TunedBaseline(is_class, seconds=budget, seed=seed)
        fitted.fit(sets, targets)
    seconds = time.process_time() - began
    tests = read(folder, data, "test")
    began = time.process_time()
    score = float(fitted.score(*tests))
    cell = {"score": score, "fit_seconds": seconds, "predict_seconds": time.process_time() - began}
    if model == "ours":
        used = {str(trial): trial.weight for trial in fitted.trials_ if trial.weight}
        return cell | {"num_test": len(tests[0]), "weights": used, "num_networks": len(fitted.ensemble_.networks)}
    return cell | {"num_test": len(tests[0]), "weights": {fitted.name: 1.0}}


def table(cells: list[dict[str, Any]]) -> str:
    """A row for each table and budget: scores, and what ours is made of."""
    lines = [
        "| table | budget, CPU s | ours | baseline | ours is made of | the baseline is | CPU s of both | seeds |",
        "|---|---:|---:|---:|---|---|---:|---:|",
    ]
    budgets = sorted({cell["budget"] for cell in cells})
    for budget in budgets:
        for data in SOURCES:
            of = {
                model: [c for c in cells if (c["data"], c["model"], c["budget"]) == (data, model, budget)]
                for model in MODELS
            }
            if not of["ours"]:
                continue
            scores = [mean(cell["score"] for cell in some) if some else None for some in of.values()]
            ours, theirs = ("–" if score is None else f"{score:.3f}" for score in scores)
            ours = f"**{ours}**" if scores[1] is not None and scores[0] >= scores[1] else ours
            baseline = ", ".join(of["baseline"][0]["weights"]) if of["baseline"] else "not run yet"
            parts = ", ".join(f"{name} {weight:.2f}" for name, weight in _by_weight(of["ours"][0]["weights"]))
            seconds = ", ".join(f"{mean(cell['fit_seconds'] for cell in some):.0f}" for some in of.values() if some)
            name = f"{data} *" if data in TUNED_ON else data
            lines.append(
                f"| {name} | {budget:g} | {ours} | {theirs} | {parts} | {baseline} | {seconds} | {len(of['ours'])} |"
            )
    return "\n".join(lines) + "\n"


def _by_weight(weights: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(weights.items(), key=lambda item: -item[1])


def main() -> None:
    """Fit what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder that has a folder per table")
    parser.add_argument("--budgets", default="60", help="CPU seconds, with commas between")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default=",".join(SOURCES), help="some of the tables, with commas between")
    parser.add_argument("--models", default=",".join(MODELS), help="some of ours and baseline")
    parser.add_argument("--out", type=Path, default=Path("docs/results/anytime"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = Record(options.out / "anytime.json", COMMAND)
    runs = (
        {"data": data, "model": model, "budget": float(budget), "seed": seed}
        for seed in range(options.seeds)
        for budget in options.budgets.split(",")
        for data in options.only.split(",")
        for model in options.models.split(",")
    )
    for key in record.missing(runs):
        with threadpool_limits(1):
            record.add(key | fit(options.data, **key))
        print(record.cells[-1], flush=True)
        (options.out / "anytime.md").write_text(table(record.cells))


if __name__ == "__main__":
    main()
