"""The best micro-F1 on each data set: Janossy models beside GCN, GAT and GraphSAGE, all by one loop on the same splits.

    python -m studies.experiments.graphs.best

Each model has the same small grid of architectures and learning rates. It takes the setting with the best mean
validation micro-F1 over the first seeds. No choice depends on test vertices. Writes best.json, run by run, and best.md.
"""

import argparse
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from studies.experiments.graphs.models import CONVOLUTIONS, Architecture, Network, is_sampled
from studies.experiments.graphs.plans import PLANS, chosen
from studies.experiments.graphs.tables import table
from studies.experiments.graphs.training import Schedule, fit, pieces, score
from studies.experiments.record import Record
from studies.paper.graphs.datasets import VertexData, load

NUM_PASSES = 20


def cell(data: VertexData, model: str, seed: int, architecture: Architecture, schedule: Schedule) -> dict:
    """Trains one network and scores it."""
    entropy = (seed, *f"{data.name} {model}".encode())
    torch.manual_seed(np.random.SeedSequence(entropy).generate_state(1)[0].item())
    network = Network(model, data.x.shape[1], data.num_classes, architecture)
    train, validation, test = (pieces(data, vertices) for vertices in (data.train, data.validation, data.test))
    fitted = fit(network, train, validation, schedule)
    start = time.perf_counter()
    curve = score(network, test, NUM_PASSES if is_sampled(model) else 1)
    return {
        **fitted,
        "test": curve,
        "test_seconds": round(time.perf_counter() - start, 2),
        "num_trainable_parameters": sum(p.numel() for p in network.parameters()),
    }


def main() -> None:
    """Runs the missing cells, and writes the tables after every run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--out", type=Path, default=Path("docs/results/graphs"))
    parser.add_argument("--datasets", nargs="+", choices=PLANS, default=list(PLANS))
    parser.add_argument("--models", nargs="+", choices=CONVOLUTIONS, default=list(CONVOLUTIONS))
    parser.add_argument("--seeds", type=int, help="the most seeds; by default those of the plan")
    options = parser.parse_args()
    record = Record(options.out / "best.json", "python -m studies.experiments.graphs.best")

    def run(dataset: str, model: str, seed: int, setting: int) -> None:
        plan, key = PLANS[dataset], {"dataset": dataset, "model": model, "seed": seed, "setting": setting}
        if record.holds(key):
            return
        architecture, schedule = plan.settings[setting]
        settings = {"architecture": asdict(architecture), "schedule": asdict(schedule)}
        data = load(plan.data or dataset, options.data, seed)
        record.add({**key, **settings, **cell(data, model, seed, architecture, schedule)})
        (options.out / "best.md").write_text(table(record.cells))
        last = record.cells[-1]
        print(
            key, {k: last[k] for k in ("validation", "epochs_kept", "epochs", "seconds")}, last["test"][-1], flush=True
        )

    for dataset in options.datasets:
        plan = PLANS[dataset]
        plan = replace(plan, num_seeds=min(plan.num_seeds, options.seeds or plan.num_seeds))
        models = [model for model in plan.models if model in options.models]
        for model in models:
            for seed in plan.seeds(model)[0]:
                for setting in range(len(plan.settings)):
                    run(dataset, model, seed, setting)
        for seed in range(plan.num_seeds):
            for model in models:
                if seed in plan.seeds(model)[1]:
                    run(dataset, model, seed, chosen(record.cells, dataset, model))
    (options.out / "best.md").write_text(table(record.cells))


if __name__ == "__main__":
    main()
