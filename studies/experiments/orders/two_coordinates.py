"""The paper's two coordinates (Section 2.1): the cost of the wrong order, and whether the right one is learned.

    python -m studies.experiments.orders.two_coordinates

Elements are pairs (a, b), uniform on [-1, 1]². The target is a_(1) − a_(2) + a_(3) − …, in the order of b. A GRU reads
a and b of each element. The order is that of b ("right"), that of a ("wrong"), random, or learned from a scorer that
starts as a. Writes two_coordinates.json, cell by cell, .md and .png.
"""

import argparse
from pathlib import Path
from statistics import mean, median

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from janossy import GRU, Canonical, JanossyNetwork, JanossyPooling, PermutationLoss, Sampled, predict
from janossy.losses.order_loss import OrderLoss
from janossy.orderings import Learned, Orderings
from studies.experiments.orders import strips
from studies.experiments.orders.training import Plan, batch_of, fit, kendall
from studies.experiments.record import Record

COMMAND = "python -m studies.experiments.orders.two_coordinates"
N, NUM_TRAIN, NUM_TEST, HIDDEN, NUM_ORDERS, TEMPERATURE = 4, 20_000, 2_000, 24, 4, 0.1
PLAN = Plan(steps=2500, num_rows=256, rate=5e-3, scorer_rate=5e-2)
SEEDS = range(3)
LEARNED = ("score", "straight_through", "search")
ROWS = ("right", "wrong", "random", *LEARNED)
NAMES = {
    "right": "sorted by b (right)",
    "wrong": "sorted by a (wrong)",
    "random": "π-SGD, 20 permutations in prediction",
    "score": "learned: score function",
    "straight_through": "learned: straight-through",
    "search": "learned: search",
}


def draw(num: int, seed: int) -> tuple[Tensor, Tensor]:
    """Samples sets (num, N, 2), and returns them with targets (num,)."""
    x = torch.rand(num, N, 2, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    in_order = x[..., 0].gather(1, x[..., 1].argsort(1))
    return x, in_order @ torch.tensor([1.0, -1.0]).repeat(N)[:N]


def scorer_of_a() -> nn.Module:
    """Returns a network that scores elements by a, which is useless, and that can learn any other score."""
    scorer = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(scorer.parameters(), 1e-2)
    for _ in range(300):
        x = torch.rand(256, 2) * 2 - 1
        optimizer.zero_grad()
        (scorer(x)[:, 0] - x[:, 0]).square().mean().backward()
        optimizer.step()
    return scorer


def orders(row: str) -> tuple[Orderings, nn.Module]:
    """Returns the orders of a row, and the loss that trains with them."""
    if row in ("right", "wrong"):
        return Canonical(key=1 if row == "right" else 0), nn.MSELoss()
    if row == "random":
        return Sampled(1), PermutationLoss()
    return Learned(scorer_of_a()), OrderLoss(None, estimator=row, num_permutations=NUM_ORDERS, temperature=TEMPERATURE)


def cell(row: str, seed: int, plan: Plan = PLAN) -> dict:
    """Trains one network and scores it on new sets."""
    torch.manual_seed(seed)
    orderings, loss = orders(row)
    network = JanossyNetwork(None, JanossyPooling(GRU(2, HIDDEN), orderings), nn.Linear(HIDDEN, 1))
    test, truth = draw(NUM_TEST, 1)
    sets = batch_of(test, torch.arange(len(test)))
    found: dict = {"tau_before": round(_tau(orderings, test), 4)} if row in LEARNED else {}
    seconds = fit(network, loss, *draw(NUM_TRAIN, 100 + seed), plan, seed)
    error = predict(network, sets, 20, block=20).mean[:, 0] - truth
    found |= {"r2": round(1 - float(error.square().mean() / truth.var()), 4), "seconds": seconds}
    return found | ({"tau": round(_tau(orderings, test), 4)} if row in LEARNED else {})


@torch.no_grad()
def _tau(orderings: Learned, test: Tensor) -> float:
    return kendall(orderings.scorer(test.flatten(0, 1)).view(test.shape[:2]), test[..., 1])


def table(cells: list[dict]) -> str:
    """Returns the page, in the order of ``ROWS``."""
    lines = ["# Two coordinates", "", f"`{COMMAND}`", ""]
    lines += [
        f"Sets of {N} pairs (a, b), uniform; the target is a_(1) − a_(2) + a_(3) − …, in the order of b. GRU of",
        f"{HIDDEN} units, {PLAN.steps} steps in each of which f reads {PLAN.num_rows} sequences: as many sets, or "
        f"{PLAN.num_rows // NUM_ORDERS} sets in {NUM_ORDERS} orders where",
        "the order is learned. R² on 2,000 other sets. Kendall's τ is that of the learned order with the order of b,",
        "whichever way round, as a GRU reads either. It starts at the order of a.",
        "",
        "| order | R², median | of each seed | abs τ, before | after, of each seed | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        of_row = sorted((c for c in cells if c["row"] == row), key=lambda c: c["seed"])
        if not of_row:
            continue
        r2 = [c["r2"] for c in of_row]
        before = f"{mean(abs(c['tau_before']) for c in of_row):.2f}" if row in LEARNED else ""
        after = " ".join(f"{abs(c['tau']):.3f}" for c in of_row) if row in LEARNED else ""
        seconds = f"{mean(c['seconds'] for c in of_row):.0f}"
        each = " ".join(f"{value:.3f}" for value in r2)
        lines.append(f"| {NAMES[row]} | {median(r2):.3f} | {each} | {before} | {after} | {seconds} |")
    if len(cells) < len(ROWS) * len(SEEDS):
        lines += ["", f"Of {len(ROWS) * len(SEEDS)} runs {len(cells)} have been made; the same command goes on."]
    return "\n".join(lines) + "\n"


def draw_figure(cells: list[dict], path: Path) -> None:
    """Draws the R² of every run."""
    figure = Figure(figsize=(6.5, 2.6), layout="constrained")
    rows = {NAMES[row]: [c["r2"] for c in cells if c["row"] == row] for row in ROWS}
    colours = [strips.LEARNED if row in LEARNED else strips.GIVEN for row in ROWS]
    strips.strips(figure.subplots(), rows, colours, median, "R² on other sets (each seed, and the median)")
    figure.savefig(path, dpi=130, metadata={"Software": None})


def main() -> None:
    """Runs the missing cells, and writes page and figure."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--out", type=Path, default=Path("docs/results/orders"))
    out = arguments.parse_args().out
    torch.set_num_threads(1)
    record = Record(out / "two_coordinates.json", COMMAND)
    for key in record.missing({"row": row, "seed": seed} for seed in SEEDS for row in ROWS):
        record.add(key | cell(**key))
        print(record.cells[-1], flush=True)
    (out / "two_coordinates.md").write_text(table(record.cells), encoding="utf-8")
    draw_figure(record.cells, out / "two_coordinates.png")


if __name__ == "__main__":
    main()
