"""The variance of the mean of m permutations, relative to independent ones, for every scheme.

    python -m studies.experiments.sampling.variance [--seeds 5]

The networks are those of ``studies.experiments.sampling.networks``. Writes variance.json and variance.md. Resumes an
interrupted run.
"""

import json
from pathlib import Path
from statistics import mean, stdev

import torch

from janossy import Sampled
from janossy.orderings.schemes import SCHEMES
from studies.experiments import markdown
from studies.experiments.record import Record
from studies.experiments.sampling.networks import ARITHMETIC, FUNCTIONS, GRAPH, Trained, load, parser

COUNTS = (2, 4, 8, 20)
NUM_SETS, NUM_REPEATS = {"range": 400, "variance": 300, "ppi_go": 200}, {"range": 120, "variance": 80, "ppi_go": 40}
BLOCKS_OF = 4
"""The block in which ``predict`` samples 20 permutations, so that an error bar has five independent blocks."""


@torch.no_grad()
def measure(trained: Trained, num_repeats: int) -> dict:
    """Returns, per scheme and count m, the mean variance over samples times m, relative to a single sample."""
    torch.manual_seed(0)
    base = _variance(trained, Sampled(1, scheme="independent"), 2000 // num_repeats * num_repeats)
    found = {}
    for scheme in SCHEMES:
        found[scheme] = {m: m * _variance(trained, Sampled(m, scheme=scheme), num_repeats) / base for m in COUNTS}
    in_blocks = Sampled(20, scheme="designed", block=BLOCKS_OF)
    found[f"designed, blocks of {BLOCKS_OF}"] = {20: 20 * _variance(trained, in_blocks, num_repeats) / base}
    return found


def _variance(trained: Trained, orderings: Sampled, num_repeats: int) -> float:
    """Returns the variance of the mean of a sample, over ``num_repeats`` samples, averaged over sets and outputs."""
    means, sets = [], trained.sets
    for _ in range(num_repeats):
        rows = trained.link(trained.network.rows(sets, orderings=orderings).values)
        means.append(rows.unflatten(0, (len(sets), -1)).mean(1))
    return torch.stack(means).double().var(0).mean().item()


def table(cells: list[dict]) -> str:
    """Returns ratios as means over seeds, with their standard deviations."""
    schemes, rows = list(cells[0]["ratios"]), []
    for task in dict.fromkeys(cell["task"] for cell in cells):
        for function in FUNCTIONS:
            some = [c["ratios"] for c in cells if (c["task"], c["function"]) == (task, function)]
            for m in map(str, COUNTS) if some else ():
                row = [_number([ratios[s][m] for ratios in some if m in ratios[s]]) for s in schemes]
                rows.append([f"{task} {function.upper()}", m, *row])
    return markdown.table(["network", "m", *schemes], rows)


def _number(values: list[float]) -> str:
    if not values:
        return ""
    return f"{mean(values):.2f}" + (f" ({stdev(values):.2f})" if len(values) > 1 else "")


def main() -> None:
    """Measures the missing cells, and writes the table."""
    options = parser(__doc__).parse_args()
    record = Record(options.out / "variance.json", "python -m studies.experiments.sampling.variance")
    for seed in range(options.seeds):
        for task in (*ARITHMETIC, GRAPH):
            for function in FUNCTIONS:
                key = {"task": task, "function": function, "seed": seed}
                if not record.holds(key):
                    trained = load(task, function, seed, NUM_SETS[task], options.networks, options.data)
                    ratios = measure(trained, NUM_REPEATS[task])
                    record.add({**key, "ratios": json.loads(json.dumps(ratios))})
                    print(key, {s: round(r[max(r)], 2) for s, r in ratios.items()}, flush=True)
    Path(options.out / "variance.md").write_text(table(record.cells))


if __name__ == "__main__":
    main()
