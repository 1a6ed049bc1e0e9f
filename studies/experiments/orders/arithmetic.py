"""Range and unique count (Section 4.1): a learned order beside π-SGD and sorting, with one budget and five seeds.

    python -m studies.experiments.orders.arithmetic

Every model is an embedding, a GRU and a linear map. All train for the same number of steps, in which f reads the same
number of sequences. These are from different sets, or if the order is learned, four orders each of a quarter as many
sets. Writes arithmetic.json, run by run, .md and .png.
"""

import argparse
from pathlib import Path
from statistics import mean, median, stdev

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from torch import nn

from janossy import GRU, Canonical, JanossyNetwork, JanossyPooling, PermutationLoss, Sampled, predict
from janossy.losses.order_loss import OrderLoss
from janossy.orderings import Learned, Orderings
from studies.experiments.orders import strips
from studies.experiments.orders.training import Plan, batch_of, fit
from studies.experiments.record import Record
from studies.paper.arithmetic.tasks import TASKS

COMMAND = "python -m studies.experiments.orders.arithmetic"
TASK_NAMES, NUM_TRAIN, NUM_TEST, EMBEDDING, HIDDEN, NUM_ORDERS, TEMPERATURE = (
    ("range", "unique_count"), 20_000, 2_000, 16, 32, 4, 0.1,
)  # fmt: skip
PLAN = Plan(steps=1200, num_rows=128, rate=1e-2, scorer_rate=3e-2)
SEEDS = range(5)
NAMES = {
    "sorted": "sorted",
    "pi-sgd": "π-SGD, 20 permutations in prediction",
    "score": "learned: score function",
    "straight_through": "learned: straight-through",
    "search": "learned: search",
}


def orders(row: str, vocabulary: int) -> tuple[Orderings, nn.Module]:
    """Returns the orders of a row, and its training loss. All initial scores are equal, so that orders are random."""
    if row == "sorted":
        return Canonical(), nn.MSELoss()
    if row == "pi-sgd":
        return Sampled(1), PermutationLoss()
    scorer = nn.Embedding(vocabulary, 1)
    nn.init.zeros_(scorer.weight)
    return Learned(scorer), OrderLoss(None, estimator=row, num_permutations=NUM_ORDERS, temperature=TEMPERATURE)


def cell(task: str, row: str, seed: int, plan: Plan = PLAN) -> dict:
    """Trains one network and scores it on new sets."""
    torch.manual_seed(seed)
    of = TASKS[task]
    orderings, loss = orders(row, of.vocabulary)
    pooling = JanossyPooling(GRU(EMBEDDING, HIDDEN), orderings)
    network = JanossyNetwork(nn.Embedding(of.vocabulary, EMBEDDING), pooling, nn.Linear(HIDDEN, 1))
    x, y = of.draw(NUM_TRAIN, seed)
    scale = float(y.std())
    seconds = fit(network, loss, x, (y - y.mean()) / scale, plan, seed)
    test, truth = of.draw(NUM_TEST, 1000)
    outputs = predict(network, batch_of(test, torch.arange(len(test))), 20, block=20).mean[:, 0]
    predictions = outputs * scale + y.mean()
    accuracy = float((predictions.round() == truth).float().mean())
    error = float((predictions - truth).square().mean().sqrt())
    return {"accuracy": round(accuracy, 4), "rmse": round(error, 4), "seconds": seconds}


def table(cells: list[dict]) -> str:
    """Returns the page, in the order of ``NAMES``."""
    lines = ["# Range and unique count, by learned orders", "", f"`{COMMAND}`", ""]
    lines += [
        f"{PLAN.steps} steps of {PLAN.num_rows} sequences: so many sets, or {PLAN.num_rows // NUM_ORDERS} sets in "
        f"{NUM_ORDERS} orders where the order is learned, from scores",
        f"that are all alike at first. Embedding of {EMBEDDING}, GRU of {HIDDEN}, linear ρ, squared loss. On "
        f"{NUM_TEST:,} other sets, the mean over seeds and their",
        "standard deviation. (This is a small part of the training of the paper's tables, with smaller networks.)",
        "",
    ]
    for name in TASK_NAMES:
        task = TASKS[name]
        lines += [f"## {name.replace('_', ' ').capitalize()} of {task.num_integers} below {task.vocabulary}", ""]
        lines += ["| order | seeds | accuracy | RMSE | seconds |", "|---|---|---|---|---|"]
        for row, title in NAMES.items():
            of_row = [c for c in cells if (c["task"], c["row"]) == (name, row)]
            if of_row:
                accuracy, error = _spread([c["accuracy"] for c in of_row]), _spread([c["rmse"] for c in of_row])
                seconds = mean(c["seconds"] for c in of_row)
                lines.append(f"| {title} | {len(of_row)} | {accuracy} | {error} | {seconds:.0f} |")
        lines += [""]
    num = len(TASK_NAMES) * len(NAMES) * len(SEEDS)
    if len(cells) < num:
        lines += [f"Of {num} runs {len(cells)} have been made; the same command goes on."]
    return "\n".join(lines).rstrip() + "\n"


def _spread(values: list[float]) -> str:
    return f"{mean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


def draw_figure(cells: list[dict], path: Path) -> None:
    """Draws the RMSE of every run on a logarithmic axis."""
    figure = Figure(figsize=(9, 2.4), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(TASK_NAMES), sharey=True), TASK_NAMES, strict=True):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        rows = {
            title: [c["rmse"] for c in cells if (c["task"], c["row"]) == (name, row)] for row, title in NAMES.items()
        }
        colours = [strips.LEARNED if title.startswith("learned") else strips.GIVEN for title in rows]
        strips.strips(axes, rows, colours, median, "RMSE on other sets: each seed, the median")
        axes.set_title(name.replace("_", " "), loc="left")
    figure.savefig(path, dpi=130, metadata={"Software": None})


def main() -> None:
    """Runs the missing cells, and writes page and figure."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--out", type=Path, default=Path("docs/results/orders"))
    out = arguments.parse_args().out
    torch.set_num_threads(1)
    record = Record(out / "arithmetic.json", COMMAND)
    runs = ({"task": task, "row": row, "seed": seed} for seed in SEEDS for task in TASK_NAMES for row in NAMES)
    for key in record.missing(runs):
        record.add(key | cell(**key))
        print(record.cells[-1], flush=True)
    (out / "arithmetic.md").write_text(table(record.cells), encoding="utf-8")
    draw_figure(record.cells, out / "arithmetic.png")


if __name__ == "__main__":
    main()
