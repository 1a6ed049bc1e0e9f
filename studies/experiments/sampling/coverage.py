"""The coverage of the 95 % intervals of ``predict``, for every scheme, at m = 20 permutations.

    python -m studies.experiments.sampling.coverage

There are 2,000 test sets of each network, five seeds, and one prediction each. For 5 integers, the truth is the mean
over all 120 orders. For 10 integers and neighbourhoods, it is the mean over 4,000 further permutations. Writes
coverage.json and .md.
"""

from argparse import Namespace
from statistics import mean

import torch

from janossy import AllPermutations, Ragged, Sampled, predict
from janossy.orderings.schemes import SCHEMES
from studies.experiments.record import Record
from studies.experiments.sampling.networks import ARITHMETIC, FUNCTIONS, GRAPH, Trained, load, parser

NUM_SETS, NUM_PERMUTATIONS, CONFIDENCE = 2000, 20, 0.95
NUM_FOR_TRUTH = 4000
SMALL = 40
"""The largest neighbourhoods of the graph, for which the truth is affordable, with ten of their outputs."""


@torch.no_grad()
def truth(trained: Trained, sets: Ragged) -> torch.Tensor:
    """Returns the mean over all permutations, or a close estimate."""
    if max(sets.sizes) <= 5:
        rows = trained.network.rows(sets, orderings=AllPermutations())
        return trained.link(rows.values).unflatten(0, (len(sets), -1)).mean(1)
    total = torch.zeros(())
    for _ in range(NUM_FOR_TRUTH // 200):
        rows = trained.network.rows(sets, orderings=Sampled(200, scheme="designed"))
        total = total + trained.link(rows.values).unflatten(0, (len(sets), 200)).double().mean(1)
    return total / (NUM_FOR_TRUTH // 200)


def cell(trained: Trained, num_outputs: int | None) -> dict:
    """Returns, per scheme, the share of intervals that hold, and the median half width relative to "independent"."""
    torch.manual_seed(1)
    sets, network = trained.sets, trained.network
    true = torch.cat([truth(trained, sets[b : b + 100]) for b in range(0, len(sets), 100)])[:, :num_outputs]
    found = {}
    for scheme in (*SCHEMES, "designed, pairs"):
        name, pairs = scheme.split(",")[0], "pairs" in scheme
        network.pooling.orderings = Sampled(1, scheme=name)
        prediction = predict(network, sets, NUM_PERMUTATIONS, link=trained.link, block=2 if pairs else None)
        margin = prediction.margin(CONFIDENCE)[:, :num_outputs]
        holds = (prediction.mean[:, :num_outputs] - true).abs() <= margin + 1e-6 * true.abs()
        found[scheme] = {
            "coverage": holds.double().mean().item(),
            "median_margin": margin.median().item(),
            "rmse": (prediction.mean[:, :num_outputs] - true).square().mean().sqrt().item(),
            "blocks": int(prediction.num_blocks.double().median()),
        }
    return found


def table(cells: list[dict]) -> str:
    """Returns coverage in percent, mean and range over seeds, with half widths and errors relative to independent."""
    schemes = list(cells[0]["found"])
    lines = ["| network | | " + " | ".join(schemes) + " |", "|---|---|" + "---|" * len(schemes)]
    blocks = [str(cells[-1]["found"][s]["blocks"]) for s in schemes]
    lines.append("| | blocks | " + " | ".join(blocks) + " |")
    for task, function in dict.fromkeys((c["task"], c["function"]) for c in cells):
        found = [c["found"] for c in cells if (c["task"], c["function"]) == (task, function)]
        row = [_range([100 * f[s]["coverage"] for f in found]) for s in schemes]
        lines.append(f"| {task} {function.upper()} | coverage, % | " + " | ".join(row) + " |")
        for key, text in (("median_margin", "median half width"), ("rmse", "error")):
            row = [f"{mean(f[s][key] / f['independent'][key] for f in found):.2f}" for s in schemes]
            lines.append(f"| | {text} | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def _range(values: list[float]) -> str:
    return f"{mean(values):.1f}" + (f" ({min(values):.1f}–{max(values):.1f})" if len(values) > 1 else "")


def main() -> None:
    """Measures the missing cells, and writes the table."""
    options = parser(__doc__).parse_args()
    record = Record(options.out / "coverage.json", "python -m studies.experiments.sampling.coverage")
    for seed in range(options.seeds):
        for task in (*ARITHMETIC, GRAPH):
            for function in FUNCTIONS:
                key = {"task": task, "function": function, "seed": seed}
                if not record.holds(key):
                    trained = _load(task, function, seed, options)
                    found = cell(trained, 10 if task == GRAPH else None)
                    record.add({**key, "num_sets": len(trained.sets), "found": found})
                    print(key, {s: round(f["coverage"], 3) for s, f in found.items()}, flush=True)
    (options.out / "coverage.md").write_text(table(record.cells))


def _load(task: str, function: str, seed: int, options: Namespace) -> Trained:
    if task != GRAPH:
        return load(task, function, seed, NUM_SETS, options.networks, options.data)
    trained = load(task, function, seed, 4 * NUM_SETS, options.networks, options.data)
    small = [b for b, n in enumerate(trained.sets.sizes) if n <= SMALL][:NUM_SETS]
    return Trained(trained.network, trained.sets[small], trained.targets[small], trained.link)


if __name__ == "__main__":
    main()
