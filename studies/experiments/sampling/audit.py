"""The orders of the tasks' targets, and the remaining order-sensitivity of the trained networks.

    python -m studies.experiments.sampling.audit [--networks results/sampling] [--out docs/results/sampling]

Writes ``interaction_order.json`` and ``.md`` on the five arithmetic tasks. If ``networks.py`` has trained networks,
also writes ``sensitivity.json`` and ``.md`` on those of seed 0, with a plot of one.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from janossy import Ragged, predict
from janossy.inference import InteractionOrder, interaction_order, sensitivity
from studies.experiments import markdown
from studies.experiments.sampling.networks import ARITHMETIC, FUNCTIONS, load
from studies.paper.arithmetic.tasks import TASKS, Task

NUM_CUBES = 500_000
MAX_ORDER = 3
NUM_SETS = 500
NUM_PERMUTATIONS = 20
NUM_SWAPS = 50
PLOTTED = ("range", "gru")


@dataclass(frozen=True)
class Audit:
    """One network's sensitivity, in the units of its task's target."""

    task: str
    function: str
    order_share: float
    intraclass_correlation: float
    within: float
    between: float
    error_share: float
    """The share of the squared error of one permutation's prediction that averaging over permutations would remove."""
    rmse_of_one: float
    median_deviation: float
    median_worst_sampled: float
    median_worst_found: float
    largest_worst_found: float
    num_evaluations: int


def orders_of(task: Task) -> InteractionOrder:
    """Returns the orders of a task's own targets, for its own set size and vocabulary."""

    def target(sets: Ragged) -> torch.Tensor:
        return task.target(sets.values.view(len(sets), task.num_integers))

    integers = torch.arange(task.vocabulary)
    return interaction_order(target, integers, task.num_integers, max_order=MAX_ORDER, num_samples=NUM_CUBES)


def write_orders(out: Path) -> None:
    """Writes ``interaction_order.json`` and ``.md``."""
    results = {name: orders_of(task) for name, task in TASKS.items()}
    columns = ("shares", "standard_error", "cumulative", "cumulative_standard_error", "variance", "num_evaluations")
    kept = {
        name: {column: torch.as_tensor(getattr(result, column)).tolist() for column in columns}
        for name, result in results.items()
    }
    (out / "interaction_order.json").write_text(json.dumps(kept, indent=1) + "\n")
    ks = range(1, MAX_ORDER + 1)
    shares = [
        [
            _name(name),
            TASKS[name].num_integers,
            TASKS[name].vocabulary,
            *map(_percent, result.shares.tolist(), result.standard_error.tolist()),
            _percent(result.remainder.item(), result.cumulative_standard_error[-1].item()),
        ]
        for name, result in results.items()
    ]
    errors = [[_name(name), *(_least_rmse(result, k) for k in ks)] for name, result in results.items()]
    lines = [
        "# Interaction orders of the arithmetic tasks\n",
        f"Share of each target's variance by the order of interaction, in %, ± one standard error, from {NUM_CUBES:,}",
        f"cubes: {NUM_CUBES * 2 ** (MAX_ORDER + 1):,} evaluations of the target each. From `interaction_order`.\n",
        _table(["task", "n", "vocabulary", *(f"k = {k}" for k in ks), f"k > {MAX_ORDER}"], shares),
        "The least RMSE that k-ary pooling can reach under an affine ρ, the root of variance × (1 − shares up to k).",
        "After < stands the bound at two standard errors, where the share that is missing may well be none.\n",
        _table(["task", *(f"k = {k}" for k in ks)], errors),
    ]
    (out / "interaction_order.md").write_text("\n".join(lines))


def _least_rmse(result: InteractionOrder, k: int) -> str:
    missing, error = 1 - result.cumulative[k - 1].item(), result.cumulative_standard_error[k - 1].item()
    bounded = missing < 3 * error
    missing = missing + 2 * error if bounded else missing
    return f"{'< ' if bounded else ''}{(missing * result.variance.item()) ** 0.5:.3g}"


def write_sensitivity(out: Path, networks: Path, data: Path) -> None:
    """Writes ``sensitivity.json`` and ``.md``, and the plot."""
    audits = []
    for task in ARITHMETIC:
        for function in FUNCTIONS:
            if (networks / "networks" / f"{task}-{function}-0.pt").exists():
                audits.append(_audit(task, function, out, networks, data))
    if not audits:
        return
    (out / "sensitivity.json").write_text(json.dumps([asdict(audit) for audit in audits], indent=1) + "\n")
    lines = [
        "# Order sensitivity of the trained networks\n",
        f"{NUM_SETS} test sets of one network each (seed 0), {NUM_PERMUTATIONS} permutations, in units of the target;",
        f"the worst order by up to {NUM_SWAPS} swaps. From `sensitivity`. The share of variance due to the order is",
        "within / (within + between); that of the error is within / the mean squared error of one permutation.\n",
        _table(
            [
                "task",
                "f",
                "share of variance due to the order, %",
                "share of squared error due to the order, %",
                "RMSE of one permutation",
                "median sd over orders",
                f"median worst of {NUM_PERMUTATIONS}",
                "median worst found",
                "largest worst found",
            ],
            [
                [
                    _name(audit.task),
                    audit.function,
                    f"{100 * audit.order_share:.3f}",
                    f"{100 * audit.error_share:.0f}",
                    f"{audit.rmse_of_one:.3g}",
                    f"{audit.median_deviation:.3g}",
                    f"{audit.median_worst_sampled:.3g}",
                    f"{audit.median_worst_found:.3g}",
                    f"{audit.largest_worst_found:.3g}",
                ]
                for audit in audits
            ],
        ),
        f"![Sensitivity of {PLOTTED[0]}, {PLOTTED[1]}]({_plot_name()})",
    ]
    (out / "sensitivity.md").write_text("\n".join(lines) + "\n")


def _audit(task: str, function: str, out: Path, networks: Path, data: Path) -> Audit:
    trained = load(task, function, 0, NUM_SETS, networks, data)
    arguments = {"num_permutations": NUM_PERMUTATIONS, "link": trained.link}
    result = sensitivity(
        trained.network, trained.sets, num_swaps=NUM_SWAPS, generator=torch.Generator().manual_seed(0), **arguments
    )
    if (task, function) == PLOTTED:
        result.plot(out / _plot_name())
    # The same permutations, because the audit samples them first.
    mean = predict(trained.network, trained.sets, generator=torch.Generator().manual_seed(0), **arguments).mean
    within = result.within.item()
    squared_error = (mean - trained.targets).square().mean().item() + within * (1 - 1 / NUM_PERMUTATIONS)
    return Audit(
        task,
        function,
        result.order_share.item(),
        result.intraclass_correlation.item(),
        within,
        result.between.item(),
        within / squared_error,
        squared_error**0.5,
        result.standard_deviation.median().item(),
        result.worst_sampled.median().item(),
        result.worst_deviation.median().item(),
        result.worst_deviation.max().item(),
        result.num_evaluations,
    )


def _plot_name() -> str:
    return f"sensitivity-{'-'.join(PLOTTED)}.png"


def _name(task: str) -> str:
    return task.replace("_", " ")


def _percent(share: float, error: float) -> str:
    # Adding zero turns a rounded -0.00 into 0.00.
    return f"{round(100 * share, 2) + 0.0:.2f} ± {100 * error:.2f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return markdown.table(heads, rows, "|" + " --- |" * len(heads))


def main() -> None:
    """Writes both audits."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/results/sampling"))
    parser.add_argument("--networks", type=Path, default=Path("results/sampling"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    write_orders(options.out)
    write_sensitivity(options.out, options.networks, options.data)


if __name__ == "__main__":
    main()
