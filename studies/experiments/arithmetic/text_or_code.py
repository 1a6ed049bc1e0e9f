"""The effect of each difference between the paper's text and the released code: one seed of each.

    python -m studies.experiments.arithmetic.text_or_code

There are four differences:

- sum or mean of the tuples' values
- the mode of 20 rounded outputs, or their mean
- absolute or squared errors
- the last weights, or those that are best on validation

Each change is made by itself, from the released code's choice. The batch size is that of the code, and the rate of Adam
is constant. Epochs are fewer than its 1000. Writes text_or_code.json and .md, run by run.
"""

import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import torch

from studies.experiments import markdown
from studies.experiments.record import Record
from studies.paper.arithmetic.models import MODELS
from studies.paper.arithmetic.scoring import score
from studies.paper.arithmetic.settings import PROTOCOLS, Settings
from studies.paper.arithmetic.tables import DIGITS, metric_of
from studies.paper.arithmetic.tasks import TASKS
from studies.paper.arithmetic.train import train_networks

COMMAND = "python -m studies.experiments.arithmetic.text_or_code"
FOLDER = Path("docs/results/arithmetic-text-or-code")
TASK_NAMES, RATE, SEED = ("range", "variance"), 1e-3, 0
EPOCHS = {"k1-mlp": 40, "k2-linear": 100, "gru-linear": 12}
VARIANTS = {"released": {}, "mean": {"reduce": "mean"}, "squared": {"loss": "squared"}}
"""The variants that are trained. A recurrence has one row, whose sum and mean are equal."""


def run(task_name: str, model_name: str, variant: str) -> dict:
    """Trains one variant, and scores its last weights on test, with either vote, and its best epoch's weights."""
    task, model, start = TASKS[task_name], MODELS[model_name], time.perf_counter()
    settings = Settings("quick", "released", EPOCHS[model_name], **PROTOCOLS["released"])
    settings = replace(settings, learning_rates=(RATE,), **VARIANTS[variant])
    (trained,) = train_networks(task, model, [SEED], settings, lambda _: None)
    x, y = task.draw(settings.num_test, SEED, 2)
    outputs = trained.scaled.outputs(x, settings.num_permutations if model.is_sampled else 1, trained.source)
    metric = metric_of(task_name)
    validation = [entry[metric] for entry in trained.history]
    return {
        "task": task_name,
        "model": model_name,
        "variant": variant,
        "epochs": EPOCHS[model_name],
        "one": score(outputs[:, :1], y, "mean", task)[metric],
        "mean": score(outputs, y, "mean", task)[metric],
        "mode": score(outputs, y, "mode", task)[metric],
        "last": validation[-1],
        "best": (max if task.is_integer else min)(validation),
        "seconds": round(time.perf_counter() - start, 1),
    }


def page(cells: list[dict]) -> str:
    """Returns a page on the four differences, from the finished runs."""
    found = {(cell["task"], cell["model"], cell["variant"]): cell for cell in cells}
    epochs = ", ".join(f"{num} ({model})" for model, num in EPOCHS.items())
    variants, choices = [], []
    for task, model in product(TASK_NAMES, EPOCHS):
        scores = [_shown(found.get((task, model, variant)), "one", task) for variant in VARIANTS]
        variants.append([task, model, *scores])
        cell = found.get((task, model, "released"))
        votes = ("mean", "mode") if MODELS[model].is_sampled else ()
        scores = [_shown(cell, key, task) for key in ("last", "best", *votes)] + [""] * (2 - len(votes))
        choices.append([task, model, *scores])
    header = ["task", "model", "last epoch", "best epoch", "mean of 20", "mode of 20"]
    lines = [
        "# The paper's text and the released code",
        "",
        "The text and the code differ in four choices; each is changed here by itself, from the code's, one seed each:",
        f"Adam at a constant rate of {RATE:g} on batches of 128, on 100,000 examples. Epochs: {epochs}.",
        "The code trains for 1000.",
        "",
        markdown.table(["task", "model", "sum, L1", "mean, L1", "sum, squared"], variants, "|:--|:--|--:|--:|--:|"),
        "On test examples, with one permutation: accuracy, for the variance the RMSE.",
        "",
        markdown.table(header, choices, "|:--|:--|--:|--:|--:|--:|"),
        "The epochs on validation examples, with one permutation; the votes on test examples, of the last epoch.",
    ]
    return "\n".join([*lines, "", f"By `{COMMAND}`.", ""])


def _shown(cell: dict | None, key: str, task: str) -> str:
    return "–" if cell is None else f"{cell[key]:.{DIGITS[metric_of(task)]}f}"


def main() -> None:
    torch.set_num_threads(1)
    record = Record(FOLDER / "text_or_code.json", COMMAND)
    for model in EPOCHS:
        for task in TASK_NAMES:
            for variant in VARIANTS:
                key = {"task": task, "model": model, "variant": variant, "epochs": EPOCHS[model]}
                same = MODELS[model].is_sampled and variant == "mean"
                if not same and not record.holds(key):
                    record.add(run(task, model, variant))
                    print(record.cells[-1], flush=True)
                (FOLDER / "text_or_code.md").write_text(page(record.cells), encoding="utf-8")


if __name__ == "__main__":
    main()
