"""Peak memory of one forward and backward pass, beyond the inputs, each side in a fresh process.

``python -m benchmarks.memory`` writes results/memory.json and memory.md. The peak is the kernel's high-water mark of
resident memory, minus the resident memory before. It is reset after a first pass on a small batch, which loads kernels.
"""

import argparse
import gc
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import permutations
from pathlib import Path

import torch

from benchmarks import attention
from benchmarks.fused import tuples_row
from benchmarks.graph import whole_row
from benchmarks.harness import Row
from benchmarks.recurrent import as_packed, as_pyg, exact_row, power_law_row
from benchmarks.relations import attention_row, complete_graph_row
from janossy import Tuples
from studies.experiments.record import about_here


def _tuples(num_sets: int, n: int, d: int, H: int, k: int) -> Row:
    return tuples_row(num_sets, n, d, H, Tuples(k), permutations)


CASES: dict[str, tuple[Callable[[], Row], Callable[[], Row]]] = {
    "injective tuples, B=32 n=100 d=64 H=128 k=2": (
        partial(_tuples, 32, 100, 64, 128, 2),
        partial(_tuples, 2, 5, 64, 128, 2),
    ),
    "injective tuples, B=128 n=10 d=100 H=30 k=3": (
        partial(_tuples, 128, 10, 100, 30, 3),
        partial(_tuples, 2, 5, 100, 30, 3),
    ),
    "LSTM(64, 64), 2000 sets of power-law sizes, against PyG's LSTMAggregation": (
        partial(power_law_row, as_pyg),
        partial(power_law_row, as_pyg, 5),
    ),
    "LSTM(64, 64), 2000 sets of power-law sizes, against pack_padded_sequence": (
        partial(power_law_row, as_packed),
        partial(power_law_row, as_packed, 5),
    ),
    "LSTM(64, 64), 2373 whole neighbourhoods, PPI's degrees, against PyG's LSTMAggregation": (
        whole_row,
        partial(whole_row, 5),
    ),
    "GRU(100, 80), 4 sets of 7, all 5040 orders, against enumerating": (exact_row, partial(exact_row, 1, 3)),
    "a block of attention, 16 sets of 500, against padded TransformerEncoderLayer": (
        lambda: attention.block_row("16 sets", attention.equal(16, 500)),
        lambda: attention.block_row("2 sets", attention.equal(2, 5)),
    ),
    "a block of attention, 64 sets of power-law sizes, against padded TransformerEncoderLayer": (
        lambda: attention.block_row("64 sets", attention.power_law(64)),
        lambda: attention.block_row("2 sets", attention.power_law(2)),
    ),
    "a Set Transformer, 64 sets of power-law sizes, against SetTransformerAggregation": (
        lambda: attention.aggregation_row("64 sets", attention.power_law(64)),
        lambda: attention.aggregation_row("2 sets", attention.power_law(2)),
    ),
    "all pairs of tanh, n = 1,000, against message passing on the complete graph": (
        partial(complete_graph_row, "tanh", 1_000),
        partial(complete_graph_row, "tanh", 20),
    ),
    "all pairs of ReLU, n = 1,000, against message passing on the complete graph": (
        partial(complete_graph_row, "relu", 1_000),
        partial(complete_graph_row, "relu", 20),
    ),
    "all pairs of tanh, n = 3,000, against attention": (partial(attention_row, 3_000), partial(attention_row, 20)),
}
"""The cases, each with a similar small one."""

RESULTS = Path(__file__).parent / "results"


def peak(case: str, side: str) -> float:
    """Returns the MiB that one side's pass adds to the resident memory, at its highest."""
    large, small = CASES[case]
    getattr(small(), side)()
    run = getattr(large(), side)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    run()
    return _resident("VmHWM") - before


def _resident(line: str) -> float:
    status = dict(row.split(":", 1) for row in Path("/proc/self/status").read_text().splitlines())
    return int(status[line].split()[0]) / 1024


def main() -> None:
    """Measures the named cases, or every case, each side three times in its own process, and writes the medians.

    The other cases' rows stay as they are.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default all")
    parser.add_argument("--one", nargs=2, metavar=("CASE", "SIDE"), help="measure one side here and print it")
    arguments = parser.parse_args()
    if arguments.one:
        torch.manual_seed(0)
        print(peak(*arguments.one))
        return
    before = json.loads((RESULTS / "memory.json").read_text()) if arguments.cases else {"rows": []}
    rows = {row["name"]: row for row in before["rows"]}
    for case in arguments.cases or CASES:
        ours, reference = (sorted(_elsewhere(case, side) for _ in range(3))[1] for side in ("ours", "reference"))
        rows[case] = {"name": case, "ours": round(ours, 2), "reference": round(reference, 1)}
    rows = [rows[case] for case in CASES if case in rows]
    data = {"about": __doc__, "command": "python -m benchmarks.memory", **about_here(), "rows": rows}
    (RESULTS / "memory.json").write_text(json.dumps(data, indent=1) + "\n")
    (RESULTS / "memory.md").write_text(table(data))
    print(table(data))


def _elsewhere(case: str, side: str) -> float:
    command = [sys.executable, "-m", "benchmarks.memory", "--one", case, side]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def table(data: dict) -> str:
    """Returns a record as Markdown."""
    lines = [data["about"].strip().split("\n")[0], "", f"`{data['command']}`, {data['finished'][:10]}. MiB.", ""]
    lines += ["| case | janossy | reference | janossy / reference |", "|---|---|---|---|"]
    for row in data["rows"]:
        share = row["reference"] / row["ours"]
        lines.append(f"| {row['name']} | {row['ours']:.1f} | {row['reference']:.0f} | 1/{share:.{int(share < 10)}f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
