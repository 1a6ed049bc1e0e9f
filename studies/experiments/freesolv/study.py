"""Five folds of FreeSolv: atoms alone, and with bonds, angles and torsions, each pooled by its group.

    python -m studies.experiments.freesolv.study [--data FOLDER] [--seeds 1]

Every model has the same atom features, width and training, including the number of epochs, which was fixed beforehand.
No test molecule takes part in training. Writes freesolv.json, .md and .png; resumes an interrupted run.
"""

import argparse
import time
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import torch
from matplotlib.figure import Figure
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from studies.experiments.freesolv.models import Energy
from studies.experiments.freesolv.molecules import Molecules
from studies.experiments.record import Record

COMMAND = "python -m studies.experiments.freesolv.study"
NUM_FOLDS, STRATA = 5, 10
EPOCHS, BATCH, RATE, DECAY, WIDTH = 60, 32, 1e-2, 1e-2, 32
KINDS = {
    "atoms": ("atoms",),
    "atoms, bonds": ("atoms", "bonds"),
    "atoms, bonds, angles": ("atoms", "bonds", "angles"),
    "atoms, bonds, angles, torsions": ("atoms", "bonds", "angles", "torsions"),
    "atoms, bonds, angles, torsions, impropers": ("atoms", "bonds", "angles", "torsions", "impropers"),
}
ROWS = [*((kinds, False) for kinds in KINDS), ("atoms, bonds, angles, torsions", True)]
"""The kinds of tuples, and whether their shapes are known."""


def folds(targets: Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns folds with similar distributions of energies."""
    strata = np.argsort(np.argsort(targets[:, 0].numpy(), kind="stable")) * STRATA // len(targets)
    return list(StratifiedKFold(NUM_FOLDS, shuffle=True, random_state=0).split(strata, strata))


def fit(
    molecules: Molecules, targets: Tensor, fold: int, kinds: str, with_shape: bool, seed: int, epochs: int = EPOCHS
) -> dict:
    """Returns the errors on the molecules of a fold, of a network trained on the others."""
    start = time.process_time()
    train, test = (torch.as_tensor(part) for part in folds(targets)[fold])
    torch.manual_seed(seed)
    model = Energy(KINDS[kinds], WIDTH, with_shape)
    center, scale = targets[train].mean(), targets[train].std()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    num_steps = epochs * -(-len(train) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, num_steps)
    for _ in range(epochs):
        for chosen in train[torch.randperm(len(train))].split(BATCH):
            loss = torch.nn.functional.mse_loss(model(molecules[chosen]), (targets[chosen] - center) / scale)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        errors = (model.eval()(molecules[test]) * scale + center - targets[test]).double()
        of_train = (model(molecules[train]) * scale + center - targets[train]).double()
    return {
        "squared_error": errors.square().mean().item(),
        "absolute_error": errors.abs().mean().item(),
        "squared_error_in_training": of_train.square().mean().item(),
        "num_parameters": sum(p.numel() for p in model.parameters()),
        "cpu_seconds": time.process_time() - start,
    }


def summary(cells: list[dict], kinds: str, with_shape: bool) -> dict[str, float] | None:
    """Returns scores over all folds, with each molecule tested once per seed. The RMSE's error is over folds."""
    some = [cell for cell in cells if (cell["kinds"], cell["with_shape"]) == (kinds, with_shape)]
    if not some:
        return None
    squares = [cell["squared_error"] for cell in some]
    rmse = mean(squares) ** 0.5
    return {
        "rmse": rmse,
        "error": stdev(squares) / len(squares) ** 0.5 / (2 * rmse) if len(squares) > 1 else 0.0,
        "mae": mean(cell["absolute_error"] for cell in some),
        "train": mean(cell["squared_error_in_training"] for cell in some) ** 0.5,
        "num_parameters": some[0]["num_parameters"],
        "cpu_seconds": sum(cell["cpu_seconds"] for cell in some),
        "folds": len(some),
    }


def table(cells: list[dict]) -> str:
    """Returns the table, with one row per model."""
    lines = [
        "| pooled | shapes | RMSE | MAE | RMSE in training | weights | folds | CPU seconds |",
        "|---|---|" + "---:|" * 6,
    ]
    for kinds, with_shape in ROWS:
        if (found := summary(cells, kinds, with_shape)) is not None:
            lines.append(
                f"| {kinds} | {'yes' if with_shape else 'no'} | {found['rmse']:.2f} ± {found['error']:.2f} | "
                f"{found['mae']:.2f} | {found['train']:.2f} | {found['num_parameters']:,} | {found['folds']} | "
                f"{found['cpu_seconds']:.0f} |"
            )
    return "\n".join(lines) + "\n"


def plot(cells: list[dict], path: Path) -> None:
    """Draws the RMSE by kind of pooling: per fold, and over all folds with its standard error."""
    figure = Figure(figsize=(7.5, 2.9), layout="constrained")
    axes, labels = figure.subplots(), []
    for place, (kinds, with_shape) in enumerate(ROWS):
        found = summary(cells, kinds, with_shape)
        last = kinds.rpartition(", ")[2]
        labels.append(last if place == 0 else "… torsions, with shapes" if with_shape else f"+ {last}")
        some = [c["squared_error"] ** 0.5 for c in cells if (c["kinds"], c["with_shape"]) == (kinds, with_shape)]
        axes.plot(some, [place] * len(some), "o", color="#8a8f98", alpha=0.5, markersize=4)
        if found is not None:
            axes.errorbar(found["rmse"], place, xerr=found["error"], fmt="o", color="#2b83c6", capsize=3)
    axes.set(xlabel="RMSE, kcal/mol: all folds ± standard error, and each", yticks=range(len(ROWS)), yticklabels=labels)
    axes.invert_yaxis()
    axes.grid(True, axis="x", color="#e6e8eb")
    figure.savefig(path, dpi=120, metadata={"Software": None})


def main() -> None:
    """Fits the missing cells, and writes table and figure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="the folder that has freesolv/; else it is downloaded once")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/results/freesolv"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = Record(options.out / "freesolv.json", COMMAND)
    runs = (
        {"kinds": kinds, "with_shape": with_shape, "fold": fold, "seed": seed}
        for seed in range(options.seeds)
        for fold in range(NUM_FOLDS)
        for kinds, with_shape in ROWS
    )
    if missing := list(record.missing(runs)):
        from studies.experiments.freesolv.reading import read  # noqa: PLC0415, which needs the extra chemistry

        molecules, targets = read(options.data)
        for key in missing:
            record.add(key | fit(molecules, targets, **key))
            print(record.cells[-1], flush=True)
    (options.out / "freesolv.md").write_text(table(record.cells))
    plot(record.cells, options.out / "freesolv.png")


if __name__ == "__main__":
    main()
