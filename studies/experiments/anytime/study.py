"""Scores of test sets after a budget of CPU seconds: ``strategy="auto"``, the best of tuned baselines, and peers.

    python -m studies.experiments.anytime.study --data FOLDER [--budgets 10,60] [--seeds 1] [--only cuisines,esol]
        [--models ours,flaml] [--fresh]

One process and one thread; time is that of the process. Writes anytime.json, and at the end
anytime.md and plots; resumes where it was cut. With --fresh, the tables are those that no rule was chosen on.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from janossy.estimators import SetClassifier, SetRegressor
from janossy.estimators.interrupts import time_by
from studies.experiments.anytime.baselines import TunedBaseline
from studies.experiments.anytime.names import PEERS
from studies.experiments.anytime.page import losses_of, packed, write
from studies.experiments.anytime.peers import peer, why_not
from studies.experiments.anytime.tables import ALL, FRESH, SOURCES, read
from studies.experiments.record import Record

COMMAND = "python -m studies.experiments.anytime.study --data FOLDER"
OUT = Path("docs/results/anytime")
MODELS = ("ours", "baseline", *PEERS)


def fit(folder: Path, data: str, model: str, budget: float, seed: int) -> dict[str, Any]:
    """Fits a model to the training part of a table within the budget, and scores it on the test part."""
    is_class = ALL[data].is_class
    sets, targets = read(folder, data, "train")
    began = time.process_time()
    with time_by(time.process_time):
        fitted: Any
        if model == "ours":
            fitted = (SetClassifier if is_class else SetRegressor)(time_budget=budget, random_state=seed)
        elif model == "baseline":
            fitted = TunedBaseline(is_class, seconds=budget, seed=seed)
        else:
            fitted = peer(model, is_class, seconds=budget, seed=seed)
        fitted.fit(sets, targets)
    seconds = time.process_time() - began
    tests, truth = read(folder, data, "test")
    began = time.process_time()
    losses = losses_of(fitted.predict(tests), truth, is_class)
    cell: dict[str, Any] = {"score": 1 - float(losses.mean()), "fit_seconds": seconds}
    cell |= {"predict_seconds": time.process_time() - began, "num_train": len(sets), "num_test": len(tests)}
    cell["losses"] = packed(losses)
    if model == "ours":
        used = {str(trial): trial.weight for trial in fitted.trials_ if trial.weight}
        return cell | {"weights": used, "num_networks": len(fitted.ensemble_.networks)}
    cell["weights"] = {fitted.name: 1.0}
    return cell | {"kinds": fitted.scores(tests, truth)} if model == "baseline" else cell


def main() -> None:
    """Fits the cells that are missing, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder that has a folder per table")
    parser.add_argument("--budgets", default="10,60", help="CPU seconds, with commas between")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="the tables that no rule was chosen on")
    parser.add_argument("--only", help="some of the tables, with commas between")
    parser.add_argument("--models", default=",".join(MODELS), help="some of these")
    parser.add_argument("--out", type=Path, help="docs/results/anytime, or docs/results/anytime/fresh")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tables = options.only.split(",") if options.only else list(FRESH if options.fresh else SOURCES)
    out = options.out or OUT / ("fresh" if options.fresh else "")
    models = options.models.split(",")
    for model in models:
        if reason := why_not(model):
            print(f"{model} is left out: {reason}", flush=True)
    record = Record(out / "anytime.json", COMMAND + " --fresh" * options.fresh)
    runs = (
        {"data": data, "model": model, "budget": float(budget), "seed": seed}
        for seed in range(options.seeds)
        for budget in options.budgets.split(",")
        for data in tables
        for model in models
        if not why_not(model)
    )
    for key in record.missing(runs):
        with threadpool_limits(1):
            record.add(key | fit(options.data, **key))
        print(record.cells[-1], flush=True)
    write(record.cells, out)


if __name__ == "__main__":
    main()
