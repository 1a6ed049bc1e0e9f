"""The gain of higher order: test log-likelihood and pair correlations on three processes with known truth.

    python -m studies.experiments.density.compare [--only urn]   docs/results/density/: twelve minutes of one core

Each process has a file of results, whose cells are a model and a seed. An interrupted run resumes. Runs of different
processes may run side by side.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

from janossy import Ragged
from janossy.cli.pages.plots import render
from janossy.density import ExchangeableDensity
from studies.experiments.density.measures import bounds, log_sizes, pair_correlation, same_pairs
from studies.experiments.density.models import BATCH, CORRELATIONS, MODELS, fit
from studies.experiments.density.picture import plot
from studies.experiments.density.processes import PROCESSES, Process
from studies.experiments.record import Record

COMMAND = "python -m studies.experiments.density.compare"
SEEDS = 2
NUM_TRAIN, NUM_VALIDATION, NUM_TEST, NUM_SAMPLES = 4000, 400, 400, 1500
STEPS = 1200
TRUTH = "the truth"


def runs() -> Iterator[dict[str, Any]]:
    for process in PROCESSES:
        yield {"process": process, "model": TRUTH, "seed": 0}
        for model in MODELS:
            for seed in range(SEEDS):
                yield {"process": process, "model": model, "seed": seed}


def data_of(process: Process) -> tuple[Ragged, Ragged, Ragged]:
    """Returns the training, validation and test sets of a process, the same for all seeds, without empty sets."""
    drawn = process.draw(NUM_TRAIN, 1), process.draw(NUM_VALIDATION, 4), process.draw(NUM_TEST, 2)
    return tuple(sets[[b for b, n in enumerate(sets.sizes) if n]] for sets in drawn)  # type: ignore[return-value]


def run(cell: dict[str, Any], train: Ragged, validation: Ragged, test: Ragged) -> dict[str, Any]:
    """Measures a cell. Log-likelihoods are in nats per set, given its size."""
    process = PROCESSES[cell["process"]]
    sizes = [test.sizes[i % len(test)] for i in range(NUM_SAMPLES)]
    pairs = same_pairs if cell["process"] == "urn" else pair_correlation
    truth = process.log_prob(test)
    if cell["model"] == TRUTH:
        drawn = process.draw(10 * NUM_SAMPLES, 3)
        return {"log_likelihood": float(truth.mean()), "pairs": pairs(drawn), "sizes": log_sizes(process, train, test)}
    fitted = fit(cell["model"], process.head(), train, validation, cell["seed"], STEPS)
    model = fitted.model
    torch.manual_seed(100 + cell["seed"])
    with torch.no_grad():
        found = model.log_prob(test)
        drawn = model.sample(sizes=sizes)
        missing = (truth - found.log_prob.double()).numpy()
        result = {
            "log_likelihood": float(found.log_prob.mean()),
            "below_truth": float(missing.mean()),
            "standard_error": float(missing.std(ddof=1) / len(missing) ** 0.5),
            "of_estimate": float(found.standard_error.mean()),
            "pairs": pairs(drawn),
            "illegal": float((process.log_prob(drawn) == -torch.inf).double().mean()),
            "seconds": round(fitted.seconds, 1),
            "parameters": sum(weight.numel() for weight in model.parameters()),
        }
        if cell["model"] == "k = n" and isinstance(model, ExchangeableDensity):
            result["bounds"] = bounds(model, test)
        if fitted.correlation is not None:
            result["correlation"] = fitted.correlation
    return result


def table(cells: Sequence[dict[str, Any]]) -> str:
    """Returns the page, in the order of ``runs``."""
    lines = [
        "# What higher order buys a density",
        "",
        f"`{COMMAND}`; processes, models and measures: `studies/experiments/density/`.",
        "",
        f"Trained on {NUM_TRAIN:,} sets by {STEPS:,} steps of {BATCH} sets, tested on {NUM_TEST}, the same for all.",
        "Sets have up to seven elements: log-likelihoods of ours are exact. They are in nats a set, given its size;",
        f"*below the truth* is the truth's less the model's: the mean over {SEEDS} seeds, the worse of them, and the",
        "standard error over the test sets. *Illegal* are samples whose true density is 0. Seconds are those of one",
        f"processor in training. BRUNO-like processes are trained from {len(CORRELATIONS)} starts, correlations of",
        f"{', '.join(map(str, CORRELATIONS))} between elements; the best on {NUM_VALIDATION} other sets is kept.",
        "",
    ]
    for process in PROCESSES:
        some = [cell for cell in cells if cell["process"] == process]
        truths = [cell for cell in some if cell["model"] == TRUTH]
        if not truths:
            continue
        truth = truths[0]
        urn = process == "urn"
        lines += [f"## {process.capitalize()}: {PROCESSES[process].about}", ""]
        pairs = "pairs of one colour, to those of independent ones" if urn else "error of the pair correlation"
        lines += [f"| | log-likelihood | below the truth | worst | ± | {pairs} | illegal | parameters | seconds |"]
        lines += ["|---|---|---|---|---|---|---|---|---|"]
        shown = f"{truth['pairs']['ratio']:.2f}" if urn else "0"
        lines += [f"| {TRUTH} | {truth['log_likelihood']:.2f} | 0 | | | {shown} | 0 | | |"]
        for model in MODELS:
            same = [cell for cell in some if cell["model"] == model]
            if same:
                lines.append(_row(model, same, truth, urn))
        sizes = truth["sizes"]
        lines += [
            "",
            f"Sizes, log P(n) of the test: the truth {sizes['truth']:.3f}, `CategoricalSizes` "
            f"{sizes['categorical']:.3f}, `NegativeBinomialSizes` {sizes['negative binomial']:.3f}, both fitted to the "
            "training sets.",
            "",
        ]
        lines += _of_bounds(some)
    return "\n".join(lines).rstrip() + "\n"


def _row(model: str, same: list[dict[str, Any]], truth: dict[str, Any], urn: bool) -> str:
    below = [cell["below_truth"] for cell in same]
    if urn:
        pairs = f"{mean(cell['pairs']['ratio'] for cell in same):.2f}"
    else:
        true = np.array(truth["pairs"]["ratio"])
        pairs = f"{mean(float(np.abs(np.array(cell['pairs']['ratio']) - true).mean()) for cell in same):.3f}"
    illegal = mean(cell["illegal"] for cell in same)
    error = mean(cell["standard_error"] for cell in same)
    label = "Pólya's urn" if urn and model == "BRUNO-like" else model
    note = f" (normaliser ± {mean(cell['of_estimate'] for cell in same):.2f})" if model == "DeepSets energy" else ""
    numbers = [f"{mean(cell['log_likelihood'] for cell in same):.2f}", f"{mean(below):.2f}", f"{max(below):.2f}"]
    numbers += [f"{error:.2f}", pairs, f"{illegal:.0%}", f"{same[0]['parameters']:,}"]
    return f"| {label}{note} | {' | '.join(numbers)} | {mean(cell['seconds'] for cell in same):.0f} |"


def _of_bounds(some: list[dict[str, Any]]) -> list[str]:
    measured = [cell["bounds"] for cell in some if "bounds" in cell]
    if not measured:
        return []
    counts = list(next(iter(measured[0].values())))
    lines = ["How far bounds of m orders are below the exact value of k = n, and their standard error as reported:", ""]
    lines += ["| orders | " + " | ".join(f"m = {m}" for m in counts) + " |", "|---|" + "---|" * len(counts)]
    for scheme in measured[0]:
        each = [[cell[scheme][m] for cell in measured] for m in counts]
        texts = [f"{mean(gap for gap, _ in x):.3f} ± {mean(error for _, error in x):.3f}" for x in each]
        lines.append(f"| {scheme} | " + " | ".join(texts) + " |")
    return [*lines, ""]


def results(out: Path) -> list[dict[str, Any]]:
    """Returns the cells of all processes."""
    return [cell for name in PROCESSES for cell in Record(_file(out, name), COMMAND).cells]


def _file(out: Path, process: str) -> Path:
    return out / f"{process.replace(' ', '-')}.json"


def main() -> None:
    """Runs the missing cells, and writes the page and the figure."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--out", type=Path, default=Path("docs/results/density"))
    arguments.add_argument("--only", choices=list(PROCESSES), help="one process")
    options = arguments.parse_args()
    out = options.out
    torch.set_num_threads(1)
    for name in [options.only] if options.only else PROCESSES:
        record = Record(_file(out, name), COMMAND)
        missing = [cell for cell in record.missing(runs()) if cell["process"] == name]
        if missing:
            data = data_of(PROCESSES[name])
            for cell in missing:
                record.add(cell | run(cell, *data))
                print(json.dumps({x: y for x, y in record.cells[-1].items() if not isinstance(y, dict)}), flush=True)
    cells = results(out)
    (out / "compare.md").write_text(table(cells), encoding="utf-8")
    (out / "compare.png").write_bytes(render(lambda colours: plot(cells, colours), "light"))


if __name__ == "__main__":
    main()
