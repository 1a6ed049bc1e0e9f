"""The estimands of losses of sampled permutations, and π-SGD's convergence to the optimum of J̄: a minute on one core.

    python -m studies.experiments.sampling.objectives [--out docs/results/sampling]

Three parts, each with the enumeration of all permutations as the truth, in float64:

1. Jensen: J̄ >= the bounds of m permutations >= L̄, for GRUs trained by π-SGD with three convex losses.
2. The gradient of "exact_squared", averaged over every pair of permutations, is that of L̄.
3. π-SGD on a model that is linear in its weights, for which the optima of J̄ and of L̄ solve normal equations.

Writes objectives.json, objectives.md and pi-sgd.png.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from itertools import permutations, product
from math import sqrt
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from janossy import GRU, LSTM, AllPermutations, JanossyNetwork, JanossyPooling, Ragged, Sampled
from janossy.losses import PermutationLoss, RobbinsMonro
from studies.experiments import markdown

# Part 1
NUM_SETS = 64
SIZE = 5
NUM_PERMUTATIONS = (2, 4, 8, 20)
NUM_DRAWS = 20_000
TRAINING_STEPS = 1000

# Part 3
REPLICATES = 20
STEPS = 10_000
SEED = 3  # of the permutations; each replicate has its own samples
RATE, TAU = 0.1, 200.0
SCALARS_SIZE = 4


def draw_sets(num_sets: int, size: int, generator: torch.Generator) -> Ragged:
    """Samples sets of digits."""
    return Ragged.from_padded(torch.randint(10, (num_sets, size), generator=generator))


def num_distinct(sets: Ragged) -> Tensor:
    """Returns the number of different digits of each set."""
    return torch.tensor([len(x.unique()) for x in sets])


def recurrent_network(function: Callable[[int, int], nn.Module], out: int, seed: int) -> JanossyNetwork:
    """Returns a network of embedded digits, a recurrence and a linear ρ, with weights from a seed."""
    torch.manual_seed(seed)
    return JanossyNetwork(
        nn.Embedding(10, 8), JanossyPooling(function(8, 16), Sampled(1, scheme="independent")), nn.Linear(16, out)
    )


def all_outputs(network: JanossyNetwork, sets: Ragged) -> Tensor:
    """Returns the outputs of every order of sets of one size: (B, n!, out)."""
    return torch.stack(list(network.rows(sets, orderings=AllPermutations())))


# 1. Jensen


def jensen() -> list[dict[str, Any]]:
    """Returns J̄, the bounds and L̄ for each loss."""
    return [
        _bounds("squared", nn.MSELoss, None, 1),
        _bounds("absolute", nn.L1Loss, None, 1),
        _bounds("cross-entropy", nn.CrossEntropyLoss, "softmax", SIZE),
    ]


def _bounds(name: str, kind: Callable[..., nn.Module], link: str | None, out: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    loss = kind(reduction="none")
    average_loss, network = PermutationLoss(loss), recurrent_network(GRU, out, seed=0)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)

    def target(sets: Ragged) -> Tensor:
        return num_distinct(sets) - 1 if link == "softmax" else num_distinct(sets)[:, None].double()

    for _ in range(TRAINING_STEPS):
        sets = draw_sets(NUM_SETS, SIZE, generator)
        optimizer.zero_grad()
        average_loss(network, sets, target(sets), generator=generator).backward()
        optimizer.step()
    with torch.no_grad():
        sets = draw_sets(NUM_SETS, SIZE, generator)
        outputs, wanted = all_outputs(network, sets), target(sets)
        output_loss = PermutationLoss(loss, objective="average_output", link=link)
        bounds = []
        for m in NUM_PERMUTATIONS:
            means = torch.stack(
                [
                    output_loss.of_outputs(_draws(outputs, m, generator), wanted.repeat_interleave(100, 0))
                    for _ in range(NUM_DRAWS // 100)
                ]
            )
            error = means.std().item() / sqrt(len(means))
            bounds.append({"num_permutations": m, "value": means.mean().item(), "standard_error": error})
        return {
            "loss": name,
            "average_loss": average_loss.of_outputs(outputs, wanted).item(),
            "bounds": bounds,
            "loss_of_average": output_loss.of_outputs(outputs, wanted).item(),
        }


def _draws(outputs: Tensor, m: int, generator: torch.Generator) -> Tensor:
    """Returns a hundred independent samples of m of the outputs of each set: (100·B, m, out)."""
    num_sets, num_orders, _ = outputs.shape
    chosen = torch.randint(num_orders, (num_sets * 100, m), generator=generator)
    owners = torch.arange(num_sets).repeat_interleave(100)[:, None]
    return outputs[owners, chosen]


# 2. The gradient identity


def gradient_identity() -> list[dict[str, Any]]:
    """Returns the gradient of "exact_squared" over pairs, beside that of the squared loss of the mean over orders."""
    orders = list(permutations(range(SIZE)))
    number = {order: s for s, order in enumerate(orders)}
    every = range(len(orders))
    pairs = {
        "independent": list(product(every, repeat=2)),
        "distinct": [(s, t) for s, t in product(every, repeat=2) if s != t],
        "antithetic": [(s, number[order[::-1]]) for s, order in enumerate(orders)],
        "identical": [(s, s) for s in every],
    }
    generator = torch.Generator().manual_seed(1)
    sets = draw_sets(4, SIZE, generator)
    target = num_distinct(sets)[:, None].double()
    found = []
    for function in (GRU, LSTM):
        network = recurrent_network(function, 1, seed=1)
        outputs, weights = all_outputs(network, sets), list(network.parameters())
        gradient = partial(_gradient, weights)
        exact = gradient((outputs.mean(1) - target).square().mean())
        pi_sgd = gradient(PermutationLoss().of_outputs(outputs, target))
        differences = {}
        for name, drawn in pairs.items():
            of_pairs = outputs[:, torch.tensor(drawn)].flatten(0, 1)
            value = PermutationLoss(objective="exact_squared").of_outputs(
                of_pairs, target.repeat_interleave(len(drawn), 0)
            )
            differences[name] = (gradient(value) - exact).abs().max().item()
        found.append(
            {
                "function": function.__name__,
                "num_pairs": {name: len(drawn) for name, drawn in pairs.items()},
                "max_abs_gradient": exact.abs().max().item(),
                "max_abs_difference": differences | {"average_loss": (pi_sgd - exact).abs().max().item()},
            }
        )
    return found


def _gradient(weights: list[nn.Parameter], value: Tensor) -> Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(value, weights, retain_graph=True)])


# 3. π-SGD


class Terms(nn.Module):
    """The features φ(x_π) = (1, x_1, x_1·x_2, |x_1 − x_2| − 1). w·φ depends on the order, and on w linearly.

    Weights of positions alone, Σ_j w_j·x_π(j), would suffice for J̄, but L̄ would depend only on Σ_j w_j.

    Shapes: (T, L, 1) -> (T, 4).
    """

    def forward(self, rows: Tensor) -> Tensor:
        first, second = rows[:, 0, 0], rows[:, 1, 0]
        return torch.stack((torch.ones_like(first), first, first * second, (first - second).abs() - 1), 1)


class Replicates(nn.Module):
    """ρ as w·φ, with other weights for each of several copies of the sets. Shapes: (R·T, p) -> (R·T, 1)."""

    def __init__(self, num_replicates: int, num_terms: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(num_replicates, num_terms))

    def forward(self, terms: Tensor) -> Tensor:
        copies = terms.unflatten(0, (len(self.weights), -1))
        return torch.einsum("rtp,rp->rt", copies, self.weights).reshape(-1, 1)


def convergence() -> dict[str, Any]:
    """Returns the distances of π-SGD, and of the exact squared loss, from the optima of J̄ and L̄, by step.

    Both start from zero weights.
    """
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(40, SCALARS_SIZE, 1, generator=generator)
    y = x.amax(1) + 0.3 * torch.randn(40, 1, generator=generator)
    orders = torch.tensor(list(permutations(range(SCALARS_SIZE))))
    terms = Terms()(x[:, orders].flatten(0, 1)).unflatten(0, (len(x), -1))  # (B, n!, p)
    optima = {"J̄": _least_squares(terms, y), "L̄": _least_squares(terms.mean(1, keepdim=True), y)}
    checkpoints = np.unique(np.geomspace(1, STEPS, 100).round().astype(int)).tolist()
    run = partial(_run, x, y, checkpoints)
    runs = {
        "π-SGD, Robbins–Monro": ("J̄", run(PermutationLoss(), power=1.0)),
        "π-SGD, Robbins–Monro, averaged": ("J̄", run(PermutationLoss(), power=2 / 3, averaged=True)),
        "π-SGD, constant step": ("J̄", run(PermutationLoss(), power=None)),
        "exact squared, Robbins–Monro": ("L̄", run(PermutationLoss(objective="exact_squared"), power=1.0)),
    }
    found: dict[str, Any] = {
        "num_sets": len(x),
        "set_size": SCALARS_SIZE,
        "steps": STEPS,
        "replicates": REPLICATES,
        "seed": SEED,
        "rate": RATE,
        "tau": TAU,
        "optimum_of_J": optima["J̄"][0].tolist(),
        "optimum_of_L": optima["L̄"][0].tolist(),
        "squared_distance_of_optima": _distance(optima["J̄"][0], optima["L̄"][0]).item(),
        "J_at_its_optimum": optima["J̄"][2],
        "L_at_its_optimum": optima["L̄"][2],
        "L_at_the_optimum_of_J": optima["L̄"][2] + _gap(optima["L̄"], optima["J̄"][0]).item(),
        "J_at_the_optimum_of_L": optima["J̄"][2] + _gap(optima["J̄"], optima["L̄"][0]).item(),
        "checkpoints": checkpoints,
        "runs": {},
    }
    for name, (own, path) in runs.items():
        gaps = _gap(optima[own], path)
        found["runs"][name] = {
            "objective": own,
            "gap": _curve(gaps),
            "squared_distance_to_optimum_of_J": _curve(_distance(path, optima["J̄"][0])),
            "squared_distance_to_optimum_of_L": _curve(_distance(path, optima["L̄"][0])),
            "final_gaps": gaps[-1].tolist(),
            "slope": _slope(checkpoints, gaps.mean(1)),
        }
    return found


def _curve(values: Tensor) -> dict[str, list[float]]:
    """Returns the mean and the quantiles of the runs, from (len(checkpoints), R)."""
    low, high = values.quantile(torch.tensor([0.1, 0.9]), dim=1)
    curves = {"mean": values.mean(1), "low": low, "high": high}
    return {name: [float(f"{value:.4g}") for value in curve.tolist()] for name, curve in curves.items()}


def _least_squares(terms: Tensor, y: Tensor) -> tuple[Tensor, Tensor, float]:
    """Returns the weights that minimise the mean over sets and orders of (w·φ − y)², its matrix, and the minimum."""
    flat, target = terms.flatten(0, 1), y[:, 0].repeat_interleave(terms.shape[1])
    matrix = flat.mT @ flat / len(flat)
    weights = torch.linalg.solve(matrix, flat.mT @ target / len(flat))
    return weights, matrix, (flat @ weights - target).square().mean().item()


def _gap(optimum: tuple[Tensor, Tensor, float], weights: Tensor) -> Tensor:
    """Returns the objective, which is quadratic, minus its minimum."""
    away = weights - optimum[0]
    return torch.einsum("...p,pq,...q->...", away, optimum[1], away)


def _distance(weights: Tensor, optimum: Tensor) -> Tensor:
    return (weights - optimum).square().sum(-1)


def _slope(steps: list[int], gaps: Tensor) -> float:
    """Returns the exponent of the mean gap in t, over the last decade."""
    late = [i for i, t in enumerate(steps) if t >= steps[-1] / 10]
    return float(np.polyfit(np.log([steps[i] for i in late]), np.log([gaps[i].item() for i in late]), 1)[0])


def _run(
    x: Tensor, y: Tensor, checkpoints: list[int], loss: PermutationLoss, *, power: float | None, averaged: bool = False
) -> Tensor:
    """Returns the weights at the checkpoints, (len(checkpoints), R, p), of R simultaneous runs.

    Every copy of a set has its own samples. ``averaged`` returns the mean of the iterates so far, from a tenth of them
    on.
    """
    generator = torch.Generator().manual_seed(SEED)
    rho = Replicates(REPLICATES, 4)
    network = JanossyNetwork(None, JanossyPooling(Terms(), Sampled(1), evaluate="gather"), rho)
    sets, target = Ragged.from_padded(x.repeat(REPLICATES, 1, 1)), y.repeat(REPLICATES, 1)
    # The loss is also a mean over the copies.
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE * REPLICATES)
    schedule = None if power is None else RobbinsMonro(optimizer, tau=TAU, power=power)
    sums, path = [torch.zeros_like(rho.weights)], []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss(network, sets, target, generator=generator).backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        if averaged:
            sums.append(sums[-1] + rho.weights.detach())
        if averaged and step in checkpoints:
            path.append((sums[step] - sums[step // 10]) / (step - step // 10))
        elif step in checkpoints:
            path.append(rho.weights.detach().clone())
    return torch.stack(path)


# Plot and tables

STYLE: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e8eb",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
}
BLUE, ORANGE, GREEN, PURPLE, GREY = "#2b83c6", "#d55e00", "#009e73", "#cc79a7", "#8a8f98"


def plot(found: dict[str, Any]) -> Figure:
    """Draws the distance of π-SGD from the optimum of J̄, and the optimum of each objective.

    Lines are means, and bands 10–90 % of the runs.
    """
    steps, runs = found["checkpoints"], found["runs"]
    figure = Figure(figsize=(11.5, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.set_title("π-SGD reaches the minimum of J̄")
    left.set_ylabel("J̄(w) − J̄(w*)")
    for name, colour, label in (
        ("π-SGD, constant step", ORANGE, "constant step"),
        ("π-SGD, Robbins–Monro", BLUE, "Robbins–Monro, $η_t \\propto 1/(1 + t/τ)$"),
        ("π-SGD, Robbins–Monro, averaged", GREEN, "Robbins–Monro, power 2/3, iterates averaged"),
    ):
        _lines(left, steps, runs[name]["gap"], colour, label)
    reference = [t for t in steps if t >= 200]
    start = runs["π-SGD, Robbins–Monro"]["gap"]["mean"][steps.index(reference[0])]
    left.plot(reference, [6 * start * reference[0] / t for t in reference], color=GREY, linestyle=":", label="slope −1")
    right.set_title("J̄ and L̄ have different optima")
    right.set_ylabel("squared distance from an optimum")
    for name, of, colour, style, label in (
        ("π-SGD, Robbins–Monro", "L", BLUE, "--", "π-SGD, from the optimum of L̄"),
        ("exact squared, Robbins–Monro", "J", PURPLE, "--", "exact squared loss, from that of J̄"),
        ("exact squared, Robbins–Monro", "L", PURPLE, "-", "exact squared loss, from that of L̄"),
        ("π-SGD, Robbins–Monro", "J", BLUE, "-", "π-SGD, from that of J̄"),
    ):
        _lines(right, steps, runs[name][f"squared_distance_to_optimum_of_{of}"], colour, label, style)
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="step t")
        axes.legend(loc="lower left", fontsize=9)
    return figure


def _lines(
    axes: Axes, steps: list[int], curve: dict[str, list[float]], colour: str, label: str, style: str = "-"
) -> None:
    axes.fill_between(steps, curve["low"], curve["high"], color=colour, alpha=0.13, linewidth=0)
    axes.plot(steps, curve["mean"], color=colour, linewidth=2, label=label, linestyle=style)


def tables(found: dict[str, Any]) -> str:
    """Returns the three parts as Markdown."""
    lines = [
        "# What losses of sampled permutations estimate",
        "",
        f"By `python -m studies.experiments.sampling.objectives`, in {found['seconds']:.0f} s on one core. "
        "J̄ and L̄ are enumerated over all n! orders, in float64.",
        "",
        f"**Between J̄ and L̄** (GRUs after {TRAINING_STEPS} steps of π-SGD; {NUM_SETS} sets of {SIZE} digits; the "
        f"loss of the average of m permutations, ± its standard error over {NUM_DRAWS:,} draws a set):",
        "",
    ]
    rows = []
    for row in found["jensen"]:
        bounds = (f"{b['value']:.5f} ± {b['standard_error']:.5f}" for b in row["bounds"])
        rows.append([row["loss"], f"{row['average_loss']:.5f}", *bounds, f"{row['loss_of_average']:.5f}"])
    header = ["Loss", "J̄ (m = 1)", *(f"m = {m}" for m in NUM_PERMUTATIONS), "L̄"]
    lines += [
        markdown.table(header, rows, "|---|" + "---:|" * (len(NUM_PERMUTATIONS) + 2)),
        "**The gradient of `exact_squared`**, averaged over all pairs of the 120 orders of sets of 5, less that of L̄ "
        "(largest absolute difference of any weight). Only independent pairs, with replacement, are unbiased:",
        "",
    ]
    rows = []
    kinds = ("independent", "distinct", "antithetic", "identical", "average_loss")
    for row in found["gradient_identity"]:
        values = (row["max_abs_gradient"], *(row["max_abs_difference"][kind] for kind in kinds))
        rows.append([row["function"], *(f"{value:.2g}" for value in values)])
    header = ["f", "largest gradient", *kinds[:-1], "`average_loss`"]
    part = found["convergence"]
    lines += [
        markdown.table(header, rows, "|---|---:|---:|---:|---:|---:|---:|"),
        f"**π-SGD finds the optimum of J̄** (a model linear in its weights; {part['num_sets']} sets of "
        f"{part['set_size']}; {part['steps']:,} steps, {part['replicates']} runs, mean of the runs). The optima of J̄ "
        f"and L̄ are {part['squared_distance_of_optima']:.2g} apart, squared; at that of J̄, L̄ is "
        f"{part['L_at_the_optimum_of_J']:.4f}, and at its own {part['L_at_its_optimum']:.4f}.",
        "",
        "![The gap of J̄, and the distance from both optima, against the step](pi-sgd.png)",
        "",
    ]
    rows = []
    for name, run in part["runs"].items():
        gaps = run["final_gaps"]
        gap = f"{np.mean(gaps):.2g} ({min(gaps):.2g}–{max(gaps):.2g})"
        ends = (f"{run[f'squared_distance_to_optimum_of_{of}']['mean'][-1]:.2g}" for of in "JL")
        rows.append([name, run["objective"], gap, f"{run['slope']:.2f}", *ends])
    header = ["Run", "minimises", "final gap (smallest–largest)", "slope", "‖w − w*_J‖²", "‖w − w*_L‖²"]
    lines += [
        markdown.table(header, rows, "|---|---|---:|---:|---:|---:|"),
        "Slope: the exponent of t in the gap, over the last decade.\n",
    ]
    return "\n".join(lines)


def main() -> None:
    """Runs the three parts and writes them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/results/sampling"))
    out = parser.parse_args().out
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    start = time.perf_counter()
    found: dict[str, Any] = {}
    for part in (jensen, gradient_identity, convergence):
        found[part.__name__] = part()
        print(part.__name__, f"{time.perf_counter() - start:.0f} s", flush=True)
    found["seconds"] = time.perf_counter() - start
    out.mkdir(parents=True, exist_ok=True)
    (out / "objectives.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "objectives.md").write_text(tables(found), encoding="utf-8")
    with mpl.rc_context(STYLE):
        plot(found["convergence"]).savefig(out / "pi-sgd.png", dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    main()
