"""Permutations that stop set by set: the savings of a tolerance, at the accuracy of 20 permutations for every set.

    python -m studies.experiments.sampling.stopping

10,000 test sets of range and of variance, GRU and LSTM, five seeds. Writes stopping.json and stopping.md.
"""

from statistics import mean, stdev

import torch
from torch import Tensor

from janossy import predict
from studies.experiments import markdown
from studies.experiments.record import Record
from studies.experiments.sampling.networks import ARITHMETIC, FUNCTIONS, Trained, load, parser

NUM_SETS = 10_000
TOLERANCES = {"range": 0.45, "variance": 5.0}
"""The tolerances of a prediction, in its units: range is rounded to an integer, variance goes up to 2450."""

WAYS = {
    "1": {"num_permutations": 1},
    "5": {"num_permutations": 5, "block": 5},
    "10": {"num_permutations": 10, "block": 10},
    "20, independent": {"num_permutations": 20},
    "20": {"num_permutations": 20},
    "tolerance, up to 20": {"num_permutations": 20, "tolerance": True},
    "tolerance, up to 100": {"num_permutations": 100, "tolerance": True},
}


def score(predicted: Tensor, trained: Trained, task: str) -> dict[str, float]:
    """Returns the root mean squared error, and for range the accuracy after rounding."""
    error = (predicted - trained.targets).double()
    rounded = (predicted.round() == trained.targets).double().mean().item()
    scores = {"rmse": error.square().mean().sqrt().item()}
    return scores | ({"accuracy": rounded} if task == "range" else {})


def cell(trained: Trained, task: str) -> dict:
    """Returns the scores and permutations of each way."""
    found = {}
    for way, options in WAYS.items():
        torch.manual_seed(2)
        arguments = {**options, "link": trained.link}
        if options.get("tolerance"):
            arguments["tolerance"] = TOLERANCES[task]
        orderings = trained.network.pooling.orderings
        scheme = "independent" if "independent" in way else "auto"
        trained.network.pooling.orderings = type(orderings)(1, scheme=scheme)
        parts = [predict(trained.network, trained.sets[b : b + 2000], **arguments) for b in range(0, NUM_SETS, 2000)]
        predicted = torch.cat([part.mean for part in parts])
        found[way] = score(predicted, trained, task) | {
            "num_permutations": torch.cat([part.num_permutations for part in parts]).double().mean().item(),
            "finished": torch.cat([part.finished for part in parts]).double().mean().item(),
        }
    return found


def table(cells: list[dict]) -> str:
    """Returns means over seeds, with their standard deviations."""
    header = ["network", "permutations", "accuracy", "RMSE", "permutations a set, mean", "sets within the tolerance"]
    rows = []
    for task in ARITHMETIC:
        for function in FUNCTIONS:
            some = [c["found"] for c in cells if (c["task"], c["function"]) == (task, function)]
            for way in WAYS if some else ():
                row = [_number([f[way].get(key) for f in some]) for key in ("accuracy", "rmse", "num_permutations")]
                finished = _number([f[way]["finished"] for f in some]) if "tolerance" in way else ""
                rows.append([f"{task} {function.upper()}", way, *row, finished])
    return markdown.table(header, rows)


def _number(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    return f"{mean(known):.3f}" + (f" ({stdev(known):.3f})" if len(known) > 1 else "")


def main() -> None:
    """Measures the missing cells, and writes the table."""
    options = parser(__doc__).parse_args()
    record = Record(options.out / "stopping.json", "python -m studies.experiments.sampling.stopping")
    for seed in range(options.seeds):
        for task in ARITHMETIC:
            for function in FUNCTIONS:
                key = {"task": task, "function": function, "seed": seed}
                if not record.holds(key):
                    trained = load(task, function, seed, NUM_SETS, options.networks, options.data)
                    record.add({**key, "tolerance": TOLERANCES[task], "found": cell(trained, task)})
                    print(
                        key,
                        {w: round(f["num_permutations"], 2) for w, f in record.cells[-1]["found"].items()},
                        flush=True,
                    )
    (options.out / "stopping.md").write_text(table(record.cells))


if __name__ == "__main__":
    main()
