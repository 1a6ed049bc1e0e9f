"""Speed on the paper's graphs: a training step on Cora against a loop over vertices, and steps on PPI.

    python -m benchmarks.paper_graphs [--data ../shared/data] [--out docs/results/graphs]

The step on Cora is the paper's: 256 vertices, k_1 = k_2 = 5, LSTM(1433, 256) and LSTM(256, 256). The loop is that of
benchmarks/graph.py: one vertex after the other, in the style of the released code. It has the same weights and reads
the same sampled neighbours, so its logits and gradients are the same.

The steps on PPI have 512 vertices and k_1 = k_2 = 25. Floating-point operations are those of the products: 2 per
multiplication. Each forward product has two more in backward, one per gradient; features need no gradient. Three
networks train by turns on the same neighbours: in float32, in bfloat16, and in bfloat16 by torch operations only.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import get_args
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.graph import step_row
from benchmarks.harness import measure, record
from janossy.evaluate.cells import layers
from janossy.graph import GraphSAGE, TwoHops, two_hops
from studies.experiments.record import about_here
from studies.paper.graphs.datasets import VertexData, load
from studies.paper.graphs.settings import Precision, Row, Settings, settings_for
from studies.paper.graphs.train import MEMORY_BUDGET, autocast, loss_of

BY_TORCH = "bfloat16, torch operations"


def flops(data: VertexData, hops: TwoHops, H: int = 256) -> float:
    """Returns the operations of a training step with LSTMs of H units, as GraphSAGE computes it."""
    d, c = data.x.shape[1], data.num_classes
    read = len(hops.first.values.unique()), len(hops.second.values.unique())
    cells = sum(len(sets.values) for sets in (hops.first, hops.second))
    inner, B = len(hops.inner), len(hops.targets)
    of_features = read[0] * 4 * H * d + inner * (H // 2) * d  # products of the features, which need no gradient
    others = cells * 4 * H * H + read[1] * 4 * H * H + (inner + 2 * B) * (H // 2) * H + B * H * c
    return 2.0 * (2 * of_features + 3 * others)


def steps(data: VertexData, row: str = "lstm-25-25", num_steps: int = 22) -> dict:
    """Returns the times of ``num_steps`` training steps of each network; by default a quarter of an epoch."""
    settings = settings_for(data.name, Row.named(row), "full")
    training = {precision: _Training(data, settings, precision) for precision in get_args(Precision)}
    training[BY_TORCH] = _Training(data, settings, "bfloat16", by_kernels=False)
    drawing, total, cells = 0.0, 0.0, 0
    torch.manual_seed(0)
    for i in range(num_steps):
        batch = data.train[torch.randperm(len(data.train))[: settings.batch_size]]
        start = time.perf_counter()
        hops = two_hops(data.graph, batch, k_1=settings.k_1, k_2=settings.k_2)
        drawing += time.perf_counter() - start
        for each in list(training.values())[:: 1 if i % 2 else -1]:
            each.step(hops, data.y[batch])
        total += flops(data, hops)
        cells += len(hops.first.values) + len(hops.second.values)
    fastest = training["bfloat16"].seconds
    return {
        "dataset": data.name,
        "row": row,
        "steps": num_steps,
        "batch_size": settings.batch_size,
        "seconds_drawing": round(drawing / num_steps, 4),
        "lstm_steps": round(cells / num_steps),
        "flops": round(total / num_steps),
        "seconds": {precision: round(median(each.seconds), 3) for precision, each in training.items()},
        "last_loss": {precision: round(each.loss, 5) for precision, each in training.items()},
        "ratios": {
            name: round(median(slow / fast for slow, fast in zip(each.seconds, fastest, strict=True)), 2)
            for name, each in training.items()
        },
    }


class _Training:
    def __init__(self, data: VertexData, settings: Settings, precision: Precision, *, by_kernels: bool = True) -> None:
        torch.manual_seed(0)
        self.by_kernels = by_kernels
        self.x, self.settings = data.x, replace(settings, precision=precision)
        self.model = GraphSAGE(data.x.shape[1], data.num_classes, aggregation="lstm", memory_budget=MEMORY_BUDGET)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=settings.learning_rate, fused=True)
        self.seconds: list[float] = []
        self.loss = 0.0

    def step(self, hops: TwoHops, y: Tensor) -> None:
        start = time.perf_counter()
        self.optimizer.zero_grad()
        taken = layers.takes_half_cells if self.by_kernels else lambda *_: False
        with patch.object(layers, "takes_half_cells", taken), autocast(self.settings):
            loss = loss_of(self.model.of_hops(self.x, hops), y)
        loss.backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - start)
        self.loss = loss.item()


def table(data: dict) -> str:
    """Returns the record as Markdown."""
    about = data["machine"]
    (step, dense), of = data["rows"], data["steps"]
    lines = [
        "Speed on the paper's graphs.",
        "",
        f"`{data['command']}` on {about['cpu']}, {about['cores']} cores, {about['torch_threads']} torch threads, torch "
        f"{data['versions']['torch']}, {data['finished'][:10]}.",
        "",
        "| a training step on Cora, 256 vertices, k_1 = k_2 = 5 | ours, ms | loop over vertices, ms | ratio | pairs |",
        "|---|---|---|---|---|",
    ]
    for name, row in (("a vertex used twice embedded once", step), ("dense features, each use its own sample", dense)):
        lines.append(
            f"| {name} | {row['ours']:.1f} | {row['reference']:.0f} | {row['ratio']:.1f}× | {row['num_pairs']} |"
        )
    lines += [
        "",
        f"A training step on PPI, {of['batch_size']} vertices, k_1 = k_2 = 25: {of['lstm_steps'] / 1000:.0f} "
        f"thousand steps of LSTMs of 256 units, {of['flops'] / 1e9:.0f} Gflop. Medians of {of['steps']} steps by "
        f"turns. The last column is the median ratio to the step in bfloat16. Drawing the neighbours takes another "
        f"{1000 * of['seconds_drawing']:.0f} ms.",
        "",
        "| precision | s | vertices/s | Gflop/s | loss of the last | time by that of bfloat16 |",
        "|---|---|---|---|---|---|",
    ]
    for precision, seconds in of["seconds"].items():
        lines.append(
            f"| {precision} | {seconds:.2f} | {of['batch_size'] / seconds:.0f} | {of['flops'] / seconds / 1e9:.0f} | "
            f"{of['last_loss'][precision]:.4f} | {of['ratios'][precision]:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures the steps, and writes speed.json and speed.md."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="as for the study of graphs")
    parser.add_argument("--out", type=Path, default=Path("docs/results/graphs"))
    options = parser.parse_args()
    torch.manual_seed(0)
    cora = load("cora", options.data)
    x = cora.x.to_dense()
    on_cora = [step_row(x, cora.graph, sparse=True), step_row(x, cora.graph, sparse=False, resample=True)]
    timings = measure(on_cora, num_pairs=11, seconds=120)
    data = record(timings, (__doc__ or "").split("\n")[0], "python -m benchmarks.paper_graphs")
    data |= {"steps": steps(load("ppi", options.data)), **about_here()}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "speed.json").write_text(json.dumps(data, indent=1) + "\n")
    (options.out / "speed.md").write_text(table(data))
    print(table(data))


if __name__ == "__main__":
    main()
