"""The coverage of the default 95 % intervals of ``predict`` on small sets of 1 to 12 elements.

    python -m studies.experiments.sampling.small

There are five GRUs and five LSTMs, freshly initialised. They depend on the order more evenly than trained ones. Each
network predicts 150 sets of each size, ten times, in three ways:

- by default, where small sets use all their orders
- without that
- with independent permutations

The truth is the mean over all n! orders up to n = 7, and over 4,000 further permutations beyond. Two minutes on one
core. Writes small.json and small.md.
"""

import argparse
from pathlib import Path

import torch
from torch import nn

from janossy import GRU, LSTM, AllPermutations, JanossyNetwork, JanossyPooling, Ragged, Sampled, predict
from studies.experiments import markdown
from studies.experiments.record import Record

FUNCTIONS = {"gru": GRU, "lstm": LSTM}
SIZES, SEEDS, NUM_SETS, NUM_PREDICTIONS = range(1, 13), range(5), 150, 10
FEATURES, WIDTH = 3, 16
ENUMERATED, NUM_FOR_TRUTH = 7, 4000
DRAWN = {"default": {}, "always drawn": {"exhaust": 0}, "independent": {"exhaust": 0, "scheme": "independent"}}


@torch.no_grad()
def truth(network: JanossyNetwork, sets: Ragged) -> torch.Tensor:
    """Returns the mean over all permutations, or a close estimate."""
    if max(sets.sizes) <= ENUMERATED:
        return network(sets, AllPermutations())  # ρ is affine: it commutes with the mean
    return network(sets, Sampled(NUM_FOR_TRUTH))


def cell(n: int, function: str, seed: int) -> dict:
    """Returns, per way of sampling, the share of intervals that hold, and the error."""
    torch.manual_seed(seed)
    pooling = JanossyPooling(FUNCTIONS[function](FEATURES, WIDTH), Sampled(1))
    network = JanossyNetwork(None, pooling, nn.Linear(WIDTH, 1)).eval()
    sets = Ragged.from_padded(torch.randn(NUM_SETS, n, FEATURES))
    true = torch.cat([truth(network, sets[b : b + 50]) for b in range(0, NUM_SETS, 50)])
    sets, true = Ragged.cat([sets] * NUM_PREDICTIONS), true.repeat(NUM_PREDICTIONS, 1)
    found = {}
    for name, options in DRAWN.items():
        pooling.orderings = Sampled(1, **options)
        prediction = predict(network, sets)
        error = (prediction.mean - true).abs()
        found[name] = {
            "coverage": (error <= prediction.margin() + 1e-6).double().mean().item(),
            "rmse": error.square().mean().sqrt().item(),
            "permutations": int(prediction.num_permutations[0]),
            "blocks": int(prediction.num_blocks[0]),
        }
    return found


def table(cells: list[dict]) -> str:
    """Returns, over networks, permutations and blocks, coverage in percent, and the error relative to independent."""
    rows = []
    for n in sorted({cell["n"] for cell in cells}):
        of_size = [cell["found"] for cell in cells if cell["n"] == n]
        baseline = sum(found["independent"]["rmse"] ** 2 for found in of_size) ** 0.5
        rows.append([n, *(_entry([found[name] for found in of_size], baseline) for name in DRAWN)])
    return markdown.table(["n", *DRAWN], rows)


def _entry(found: list[dict], baseline: float) -> str:
    first = found[0]
    if first["blocks"] == 1:
        return f"all {first['permutations']}: exact"
    coverage = 100 * sum(each["coverage"] for each in found) / len(found)
    error = sum(each["rmse"] ** 2 for each in found) ** 0.5 / baseline if baseline > 1e-5 else 0.0
    return f"{first['permutations']} in {first['blocks']} blocks: {coverage:.1f} %, error {error:.2f}"


def main() -> None:
    """Measures the missing cells, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results/sampling"))
    out = parser.parse_args().out
    torch.set_num_threads(1)
    record = Record(out / "small.json", "python -m studies.experiments.sampling.small")
    for n in SIZES:
        for function in FUNCTIONS:
            for seed in SEEDS:
                key = {"n": n, "function": function, "seed": seed}
                if not record.holds(key):
                    record.add({**key, "num_predictions": NUM_SETS * NUM_PREDICTIONS, "found": cell(n, function, seed)})
        print(table([each for each in record.cells if each["n"] == n]).splitlines()[-1], flush=True)
    (out / "small.md").write_text(table(record.cells))


if __name__ == "__main__":
    main()
