"""The savings of exact averages over the last positions of permutations, and of k-tuples without replacement.

    python -m studies.experiments.sampling.rao_blackwell

The first table is the variance of the mean of 4 permutations, times its cost in steps of the recurrence. The second is
the variance of the mean of m distinct 2-tuples. Both are relative to independent ones. Writes rao_blackwell.json and
.md.
"""

from math import perm

import torch
from torch import nn

from janossy import Distinct, JanossyPooling, Ragged, Sampled, TupleMLP
from studies.experiments.record import Record
from studies.experiments.sampling.networks import ARITHMETIC, FUNCTIONS, Trained, load, parser

LAST = (0, 2, 3, 4)
NUM, NUM_REPEATS, NUM_SETS = 4, 60, 200
TUPLES = (10, 45, 80)
"""The numbers of tuples, of the 90 tuples of two of ten elements."""


@torch.no_grad()
def over_permutations(trained: Trained) -> dict:
    """Returns, by scheme and number of last positions, the variance and the variance times steps, both relative."""
    torch.manual_seed(3)
    n = trained.sets.sizes[0]
    base = _variance(trained, Sampled(NUM, scheme="independent")) * n
    found = {}
    for scheme in ("independent", "designed"):
        for last in LAST:
            steps = n - last + (sum(perm(last, depth) for depth in range(1, last + 1)))
            variance = _variance(trained, Sampled(NUM, scheme=scheme, exact_last=last))
            found[f"{scheme}, last {last}"] = {
                "steps": steps / n,
                "variance": variance * n / base,
                "variance times steps": variance * steps / base,
            }
    return found


def _variance(trained: Trained, orderings: Sampled) -> float:
    means = []
    for _ in range(NUM_REPEATS):
        rows = trained.link(trained.network.rows(trained.sets, orderings=orderings).values)
        means.append(rows.unflatten(0, (len(trained.sets), -1)).mean(1))
    return torch.stack(means).double().var(0).mean().item()


@torch.no_grad()
def over_tuples(seed: int) -> dict:
    """Returns the relative variance of the mean of m tuples, for a TupleMLP of two of ten Gaussian elements."""
    torch.manual_seed(seed)
    f, sets = TupleMLP(2, 4, 16, activation="tanh"), Ragged.from_padded(torch.randn(200, 10, 4))
    nn.init.normal_(next(f.parameters()))
    found: dict[str, dict[int, float]] = {}
    for scheme in ("independent", "latin", "designed", "stratified", "distinct"):
        for m in TUPLES:
            pool = JanossyPooling(f, Distinct(m, k=2) if scheme == "distinct" else Sampled(m, k=2, scheme=scheme))
            means = torch.stack([pool(sets) for _ in range(NUM_REPEATS)]).double()
            found.setdefault(scheme, {})[m] = means.var(0).mean().item()
    return {s: {m: v / found["independent"][m] for m, v in each.items()} for s, each in found.items()}


def table(cells: list[dict]) -> str:
    """Returns both tables: for the networks of seed 0, and for the tuples of five seeds."""
    permutations = [c for c in cells if "function" in c]
    names = list(permutations[0]["found"])
    lines = ["| network | | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    for c in permutations:
        for key in ("steps", "variance", "variance times steps"):
            row = " | ".join(f"{c['found'][name][key]:.2f}" for name in names)
            lines.append(f"| {c['task']} {c['function'].upper()} | {key} | {row} |")
    tuples = [c["found"] for c in cells if "function" not in c]
    lines += ["", "| tuples, of 90 | " + " | ".join(tuples[0]) + " |", "|---|" + "---|" * len(tuples[0])]
    for m in map(str, TUPLES):
        row = [sum(found[s][m] for found in tuples) / len(tuples) for s in tuples[0]]
        lines.append(f"| {m} | " + " | ".join(f"{ratio:.2f}" for ratio in row) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures the missing cells, and writes the tables."""
    options = parser(__doc__).parse_args()
    record = Record(options.out / "rao_blackwell.json", "python -m studies.experiments.sampling.rao_blackwell")
    for task in ARITHMETIC:
        for function in FUNCTIONS:
            key = {"task": task, "function": function, "seed": 0}
            if not record.holds(key):
                trained = load(task, function, 0, NUM_SETS, options.networks, options.data)
                record.add({**key, "found": over_permutations(trained)})
    for seed in range(options.seeds):
        key = {"task": "tuples", "seed": seed}
        if not record.holds(key):
            record.add({**key, "found": {s: {str(m): v for m, v in r.items()} for s, r in over_tuples(seed).items()}})
    (options.out / "rao_blackwell.md").write_text(table(record.cells))


if __name__ == "__main__":
    main()
