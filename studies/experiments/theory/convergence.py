"""Proposition 2.2: π-SGD's distance from its optimum, and the objective's gap, beside the bound of the proof.

    python -m studies.experiments.theory.convergence

The model is linear in its weights (``Terms`` of ``studies.experiments.sampling.objectives``). The conditions of the
proposition therefore hold, with constants that are computed from the data. M says how the gradient points to the
optimum, and δ² how large a step's gradient is. With step sizes η_t, the proof's A_t = ‖w_t − w*‖² obeys

    E A_t <= (1 − 2 M η_t + δ² η_t²) E A_{t−1} + δ² η_t².

Writes convergence.json, .md and .png, with one record per schedule; resumes an interrupted run.
"""

import argparse
import time
from itertools import permutations
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from janossy import JanossyNetwork, JanossyPooling, Ragged, Sampled
from janossy.losses import PermutationLoss, RobbinsMonro
from studies.experiments.record import Record
from studies.experiments.sampling.objectives import Replicates, Terms

COMMAND = "python -m studies.experiments.theory.convergence"
NUM_SETS, SIZE = 40, 4
REPLICATES, STEPS, SEED = 50, 10_000, 3
SCHEDULES = {"Robbins–Monro": True, "constant step": False}


class Problem:
    """Sets of numbers with their targets, and all constants of the proposition's conditions in closed form."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(2)
        self.x = torch.randn(NUM_SETS, SIZE, 1, generator=generator, dtype=torch.float64)
        noise = torch.randn(NUM_SETS, 1, generator=generator, dtype=torch.float64)
        self.y = self.x.amax(1) + 0.3 * noise
        orders = torch.tensor(list(permutations(range(SIZE))))
        terms = Terms()(self.x[:, orders].flatten(0, 1)).unflatten(0, (NUM_SETS, -1))  # (B, n!, p)
        self.matrix = torch.einsum("bop,boq->pq", terms, terms) / terms[..., 0].numel()
        self.optimum = torch.linalg.solve(
            self.matrix, torch.einsum("bop,b->p", terms, self.y[:, 0]) / terms[..., 0].numel()
        )
        errors = terms @ self.optimum - self.y
        self.least = errors.square().mean().item()
        self.average_loss_of_mean = errors.mean(1).square().mean().item()
        # The gradient of set b in order π is 2 φ (φ·u + e) at w = w* + u: linear in (1, u).
        linear = 2 * terms[..., None] * torch.cat((errors[..., None], terms), dim=-1)[..., None, :]  # (B, n!, p, 1 + p)
        second = torch.einsum("bopi,bopj->bij", linear, linear) / linear.shape[1]
        of_sets = linear.mean(1)
        mean = of_sets.mean(0)
        noise = (second - of_sets.mT @ of_sets).sum(0) / NUM_SETS**2
        self.modulus = 2 * torch.linalg.eigvalsh(self.matrix)[0].item()
        self.noise = torch.linalg.eigvalsh(mean.mT @ mean + noise)[-1].item()

    def distance(self, weights: Tensor) -> Tensor:
        """Returns ‖w − w*‖² for weights (…, p)."""
        return (weights - self.optimum).square().sum(-1)

    def gap(self, weights: Tensor) -> Tensor:
        """Returns J̄(w) − J̄(w*) for weights (…, p)."""
        away = weights - self.optimum
        return torch.einsum("...p,pq,...q->...", away, self.matrix, away)

    @property
    def curvature(self) -> float:
        """The largest gap at a distance of 1."""
        return torch.linalg.eigvalsh(self.matrix)[-1].item()

    def rates(self) -> tuple[float, float]:
        """Returns η_0 and τ: the proof's best first step, and 2·M·η_0·τ = 4, for which its bound falls as 1/t."""
        rate = self.modulus / (2 * self.noise)
        return rate, 2 / (self.modulus * rate)


def bound(problem: Problem, decreasing: bool, steps: int = STEPS) -> np.ndarray:
    """Returns the proof's bound of E A_t for t = 1 … steps, from zero weights."""
    rate, tau = problem.rates()
    found, a = np.empty(steps), problem.distance(torch.zeros_like(problem.optimum)).item()
    for t in range(steps):
        eta = rate / (1 + t / tau) if decreasing else rate
        a = (1 - 2 * problem.modulus * eta + problem.noise * eta**2) * a + problem.noise * eta**2
        found[t] = a
    return found


def run(
    problem: Problem, decreasing: bool, checkpoints: list[int], steps: int = STEPS, replicates: int = REPLICATES
) -> Tensor:
    """Returns π-SGD's weights at the checkpoints, (len(checkpoints), R, p), in R runs with their own permutations."""
    torch.manual_seed(SEED)
    rate, tau = problem.rates()
    rho = Replicates(replicates, len(problem.optimum)).double()
    network = JanossyNetwork(None, JanossyPooling(Terms(), Sampled(1), evaluate="gather"), rho)
    sets, target = Ragged.from_padded(problem.x.repeat(replicates, 1, 1)), problem.y.repeat(replicates, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate * replicates)  # the loss is also a mean over replicates
    schedule = RobbinsMonro(optimizer, tau=tau) if decreasing else None
    loss, path = PermutationLoss(), []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss(network, sets, target).backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        if step in checkpoints:
            path.append(rho.weights.detach().clone())
    return torch.stack(path)


def measure(schedule: str) -> dict:
    """Returns means over runs of distance and gap, with standard errors, and the bounds."""
    start, problem = time.perf_counter(), Problem()
    checkpoints = np.unique(np.geomspace(1, STEPS, 60).round().astype(int)).tolist()
    path = run(problem, SCHEDULES[schedule], checkpoints)
    limits = bound(problem, SCHEDULES[schedule])[np.array(checkpoints) - 1]
    rate, tau = problem.rates()
    found = {"schedule": schedule, "modulus": problem.modulus, "noise": problem.noise, "curvature": problem.curvature}
    found |= {"least": problem.least, "rate": rate, "tau": tau, "checkpoints": checkpoints}
    for name, values in (("distance", problem.distance(path)), ("gap", problem.gap(path))):
        found[name] = _rounded(values.mean(1))
        found[f"{name}_error"] = _rounded(values.std(1) / values.shape[1] ** 0.5)
    return found | {"bound": _rounded(limits), "seconds": time.perf_counter() - start}


def _rounded(values) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]


def table(records: list[dict]) -> str:
    """Returns distance and gap beside their bounds, at powers of ten."""
    first = records[0]
    lines = [
        f"M = {first['modulus']:.3g}, δ² = {first['noise']:.3g}, J̄(w*) = {first['least']:.4g}; "
        f"η_0 = {first['rate']:.3g}, τ = {first['tau']:.3g}; means of {REPLICATES} runs ± standard errors",
        "",
        "| step sizes | t | E‖w_t − w*‖² | its bound | E J̄(w_t) − J̄(w*) | its bound |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for record in records:
        for step in (1, 10, 100, 1000, 10_000):
            i = int(np.argmin([abs(c - step) for c in record["checkpoints"]]))
            cells = [f"{record[name][i]:.3g} ± {record[f'{name}_error'][i]:.1g}" for name in ("distance", "gap")]
            limit = record["bound"][i]
            lines.append(
                f"| {record['schedule']} | {record['checkpoints'][i]:,} | {cells[0]} | {limit:.3g} | {cells[1]} | "
                f"{record['curvature'] * limit:.3g} |"
            )
    return "\n".join(lines) + "\n"


def plot(records: list[dict], path: Path) -> None:
    """Draws distance and gap against the step, with the bounds above them."""
    import matplotlib.pyplot as plt  # noqa: PLC0415, needed for the picture only

    figure, panels = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for panel, name, label in zip(
        panels, ("distance", "gap"), ("E‖wₜ − w*‖²", "E J̄(wₜ) − J̄(w*): the objective's gap"), strict=True
    ):
        for record, colour in zip(records, ("#2b83c6", "#d55e00"), strict=True):
            steps, limit = record["checkpoints"], np.array(record["bound"])
            limit = limit * record["curvature"] if name == "gap" else limit
            panel.plot(steps, record[name], color=colour, linewidth=2, label=record["schedule"])
            panel.plot(steps, limit, color=colour, linestyle="--", linewidth=1, label="bound of the proof")
        panel.set(xscale="log", yscale="log", xlabel="step t", title=label)
        panel.grid(True, color="#e6e8eb")
    panels[0].legend(fontsize=8.5, frameon=False)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    """Measures the missing schedules, and writes table and figure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/results/theory"))
    out = parser.parse_args().out
    torch.set_num_threads(1)
    record = Record(out / "convergence.json", COMMAND)
    for schedule in SCHEDULES:
        if not record.holds({"schedule": schedule}):
            record.add(measure(schedule))
    (out / "convergence.md").write_text(table(record.cells))
    plot(record.cells, out / "convergence.png")


if __name__ == "__main__":
    main()
