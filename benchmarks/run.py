"""Runs benchmarks and writes their tables: ``python -m benchmarks.run [NAME ...] [--rows TEXT]``."""

import argparse
import json
import sys
from pathlib import Path

import torch

from benchmarks import (
    attention,
    auto,
    density,
    distinct,
    folds,
    fused,
    gather,
    graph,
    rates,
    recurrent,
    relations,
    sampling,
    sizes,
    spectral,
    stacks,
    step,
    tables,
    vocabulary,
)
from benchmarks.harness import check_gpu, measure, record, table

BENCHMARKS = {
    "gather": gather,
    "distinct": distinct,
    "fused": fused,
    "spectral": spectral,
    "recurrent": recurrent,
    "sampling": sampling,
    "sizes": sizes,
    "graph": graph,
    "auto": auto,
    "tables": tables,
    "step": step,
    "stacks": stacks,
    "folds": folds,
    "vocabulary": vocabulary,
    "density": density,
    "attention": attention,
    "relations": relations,
}
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Measures the named benchmarks, prints each table, and writes it as results/NAME.json and NAME.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(BENCHMARKS)}; default all")
    parser.add_argument("--pairs", type=int, default=50, help="pairs of runs a row, at most")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds per row, about")
    parser.add_argument("--rows", default="", help="only rows whose names contain this")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="cuda: fit auto's rates and print them"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"expected some of {', '.join(BENCHMARKS)}; got {', '.join(unknown)}")
    torch.manual_seed(0)
    if arguments.device == "cuda":
        if arguments.names != ["auto"]:
            parser.error(f"--device cuda fits the rates of auto alone; got {arguments.names}: write auto --device cuda")
        check_gpu("python -m benchmarks.run auto --device cuda")
        rates.print_rates("cuda")
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or BENCHMARKS:
        rows = (row for row in BENCHMARKS[name].rows() if arguments.rows in row.name)
        timings = measure(rows, arguments.pairs, arguments.seconds)
        data = record(timings, BENCHMARKS[name].__doc__ or "", " ".join(["python -m benchmarks.run", *sys.argv[1:]]))
        (arguments.out / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")
        (arguments.out / f"{name}.md").write_text(table(data))
        print(table(data))


if __name__ == "__main__":
    main()
