"""Amortised clustering of mixtures of Gaussians: which networks say the mixture that points were drawn from.

    python -m experiments.sets.clustering   docs/results/sets/clustering.json and clustering.md: 40 minutes on one core

It needs the extra ``dev``. Each run is one process of one thread, and goes on where it was cut.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from experiments.record import Record
from janossy.bench.clustering import BATCH, LEARNING_RATE, MODELS, NUM_TEST, fit_and_score, oracle

COMMAND = "python -m experiments.sets.clustering"
STEPS = 1500
MORE_STEPS = 6000
"""Of those that take as long for these as the Set Transformer for ``STEPS``."""

SLOW = ("set-transformer-isab",)

PUBLISHED = {
    "the true parameters": (-1.4726, None),
    "deepsets": (-2.0006, -1.6186),
    "attention": (-1.8549, -1.5621),
    "set-transformer-isab": (-1.5009, -1.4530),
}
"""Lee et al. (2019), Table 3, after 50,000 steps; "attention" is their rFF + Dotprod, of one head."""


def runs() -> Iterator[dict[str, Any]]:
    """Every cell: a network, its steps, and a seed."""
    for model in MODELS:
        yield {"model": model, "steps": STEPS, "seed": 0}
    for model in MODELS:
        if model not in SLOW:
            yield {"model": model, "steps": MORE_STEPS, "seed": 0}


def table(cells: Sequence[dict[str, Any]]) -> str:
    """The page, in the order of ``runs``."""
    done, asked = sum("steps" in cell for cell in cells), len(list(runs()))
    lines = [
        "# Amortised clustering of mixtures of Gaussians",
        "",
        f"`{COMMAND}`; the task is Set Transformer's (Lee et al., 2019, Section 5.3): `janossy.bench.mixtures`.",
        "",
        "Log-likelihood a point of the mixture that a network says of 100 to 500 points, and after one step of EM from",
        f"it; the mean of {NUM_TEST:,} test sets, the same for all. Trained on fresh sets, {BATCH} a step, by AdamW",
        f"with one cycle of {LEARNING_RATE:g}; one seed. The paper trained for 50,000 steps: its figures, in the last",
        "columns, are what more training gives, and not to be compared with. EM sees the test set itself, so that it",
        "passes the true parameters. Seconds are those of one thread's processor.",
        "",
    ]
    if done < asked:
        lines += [f"Of {asked} runs {done} have been made; the same command goes on.", ""]
    lines += [
        "| | steps | log-likelihood | after EM | seconds to fit | to predict | parameters | paper's | after EM |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in [cell for cell in cells if "steps" not in cell] + [cell for cell in cells if "steps" in cell]:
        lines.append(_row(cell))
    return "\n".join(lines) + "\n"


def _row(cell: dict[str, Any]) -> str:
    name, found = cell["model"], f"{cell['log_likelihood']:.3f} ± {cell['error']:.3f} | {cell['after_em']:.3f}"
    theirs = " | ".join("" if x is None else f"{x:.3f}" for x in PUBLISHED.get(name, (None, None)))
    if "steps" not in cell:
        return f"| {name} | | {found} | | | | {theirs} |"
    seconds = f"{cell['seconds_fit']:.0f} | {cell['seconds_predict']:.0f}"
    return f"| `{name}` | {cell['steps']:,} | {found} | {seconds} | {cell['parameters']:,} | {theirs} |"


def main() -> None:
    """Run what is missing, and write the page."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--out", type=Path, default=Path("docs/results/sets"))
    out = arguments.parse_args().out
    torch.set_num_threads(1)
    record = Record(out / "clustering.json", COMMAND)
    if not record.cells:
        for name, score in oracle().items():
            record.add({"model": name} | score)
    for cell in runs():
        if record.holds(cell):
            continue
        score = fit_and_score(MODELS[cell["model"]], cell["seed"], cell["steps"])
        record.add(cell | score)
        print(json.dumps(cell | score), flush=True)
        (out / "clustering.md").write_text(table(record.cells), encoding="utf-8")


if __name__ == "__main__":
    main()
