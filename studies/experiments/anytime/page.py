"""The page of the study: scores, differences with their standard errors, and mean ranks, as text and as plots."""

import zlib
from base64 import b64decode, b64encode
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import rankdata

from studies.bench.plots import OF_OURS, rank_diagram
from studies.bench.ranks import critical_difference
from studies.experiments import markdown
from studies.experiments.anytime.baselines import KINDS
from studies.experiments.anytime.names import PEERS
from studies.experiments.anytime.tables import ALL

TUNED_ON = (
    "cuisines",
    "esol",
    "fox",
    "glass",
    "movies",
    "supercon",
    "tiger",
    "enthalpies",
    "heuslers",
    "metals",
    "modes",
    "perovskites",
    "steels",
)
"""Tables by whose training parts the search's rules were chosen, by cross-validation; the others confirm them."""

SEEN = 0.0005
"""The least difference that is not 0 in the table."""

LEVEL = 2.0
"""Standard errors of the mean difference within which two models are level."""

Cells = list[dict[str, Any]]
"""Results of fits."""

Pairs = dict[str, tuple[Cells, Cells]]
"""Ours and the baseline's cells of each table."""


def losses_of(predicted: np.ndarray, truth: np.ndarray, is_class: bool) -> np.ndarray:
    """Returns the loss of each test set, (V,), whose mean is 1 - accuracy or 1 - R²."""
    if is_class:
        return (predicted != truth).astype(np.float64)
    found: np.ndarray = np.square(np.asarray(predicted, np.float64).reshape(len(truth)) - truth) / truth.var()
    return found


def packed(losses: np.ndarray) -> str:
    """Returns losses as text: of float16, which has three digits."""
    return b64encode(zlib.compress(losses.astype("<f2").tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """Returns the losses of a text, (V,) float64."""
    return np.frombuffer(zlib.decompress(b64decode(text)), "<f2").astype(np.float64)


def page(cells: Cells) -> str:
    """Returns a summary of each budget, its table, and one of the peers that were fitted."""
    parts = []
    for budget, pairs in by_budget(cells).items():
        parts += [f"## {budget:g} CPU seconds\n", summary(pairs), table(pairs)]
        peers = {data: {peer: of(cells, data, peer, budget) for peer in PEERS} for data in pairs}
        if fitted := {data: found for data, found in peers.items() if any(found.values())}:
            parts += [
                f"### Peers after {budget:g} CPU seconds\n",
                peers_table(pairs, fitted),
                beside_peers(pairs, fitted),
            ]
    return "\n".join(parts)


def write(cells: Cells, folder: Path) -> None:
    """Writes the page and its plots."""
    (folder / "anytime.md").write_text(page(cells), encoding="utf-8")
    for budget, pairs in by_budget(cells).items():
        ranks, critical = mean_ranks(pairs)
        rank_diagram(ranks, critical, ["ours"], "black").savefig(folder / f"ranks-{budget:g}.png", dpi=110)
        differences(pairs).savefig(folder / f"differences-{budget:g}.png", dpi=110)


def by_budget(cells: Cells) -> dict[float, Pairs]:
    """Returns the pairs of both models' cells, by budget."""
    found = {}
    for budget in sorted({cell["budget"] for cell in cells}):
        pairs = {data: (of(cells, data, "ours", budget), of(cells, data, "baseline", budget)) for data in ALL}
        if complete := {data: pair for data, pair in pairs.items() if all(pair)}:
            found[budget] = complete
    return found


def of(cells: Cells, data: str, model: str, budget: float) -> Cells:
    """Returns the cells of a model on a table, one per seed."""
    return [c for c in cells if (c["data"], c["model"], c["budget"]) == (data, model, budget)]


def difference(ours: Cells, theirs: Cells) -> tuple[float, float]:
    """Returns our score minus theirs, and the standard error of that over the test sets.

    The losses of a test set are averaged over the seeds before.
    """
    mine, other = (np.mean([unpacked(cell["losses"]) for cell in some], axis=0) for some in (ours, theirs))
    better = other - mine
    return float(better.mean()), float(better.std(ddof=1) / len(better) ** 0.5)


def is_level(better: float, error: float) -> bool:
    """Returns True if a difference is within its standard errors, or is not seen in the digits of the table."""
    return abs(better) <= LEVEL * error or abs(better) < SEEN


def summary(pairs: Pairs) -> str:
    """Counts where ours is ahead, level and behind, and ranks it among the three kinds of learners."""
    ahead, behind = [], []
    for data, (ours, theirs) in pairs.items():
        better, error = difference(ours, theirs)
        if not is_level(better, error):
            (ahead if better > 0 else behind).append(data)
    num_level = len(pairs) - len(ahead) - len(behind)
    names = f" ({', '.join(behind)})" if behind else ""
    lines = [
        f"Of {len(pairs)} tables ours is ahead of the baseline on {len(ahead)}, level on {num_level} and behind on "
        f"{len(behind)}{names}.",
    ]
    ranks, critical = mean_ranks(pairs)
    by_rank = ", ".join(f"{name} {rank:.2f}" for name, rank in ranks.items())
    lines.append(f"Mean ranks: {by_rank}; Nemenyi's critical difference is {critical:.2f}.")
    return "\n".join(lines) + "\n"


def mean_ranks(pairs: Pairs) -> tuple[dict[str, float], float]:
    """Returns the mean ranks of ours and of each kind of learners, the best first, and the critical difference."""
    ranked = np.array([_scores(*pair) for pair in pairs.values()])
    ranks = dict(zip(("ours", *KINDS), rankdata(-ranked, axis=1).mean(0).tolist(), strict=True))
    return dict(sorted(ranks.items(), key=lambda each: each[1])), critical_difference(len(ranks), len(pairs))


def differences(pairs: Pairs) -> Figure:
    """Draws our score minus the baseline's for each table, with two standard errors."""
    found = sorted((*difference(*pair), data) for data, pair in pairs.items())
    figure = Figure(figsize=(7, 1 + 0.22 * len(found)), layout="constrained")
    axes = figure.subplots()
    for place, (better, error, _) in enumerate(found):
        dot: dict[str, Any] = {"fmt": "o", "markersize": 4, "elinewidth": 1.2, "color": OF_OURS}
        axes.errorbar(better, place, xerr=LEVEL * error, **dot)
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(found)), [data for *_, data in found], fontsize=8)
    axes.set_xscale("symlog", linthresh=0.05)
    axes.set_xlabel("our score minus the tuned baseline's, with two standard errors")
    return figure


def table(pairs: Pairs) -> str:
    """Returns a row per table of sets."""
    header = ["table", "sets", "ours", "baseline", "ours − baseline", *KINDS, "ours is made of", "CPU s"]
    rows = []
    for data, (ours, theirs) in pairs.items():
        better, error = difference(ours, theirs)
        mine, other = (mean(cell["score"] for cell in some) for some in (ours, theirs))
        kinds = (f"{score:.3f}" if np.isfinite(score) else "–" for score in _scores(ours, theirs)[1:])
        made_of = ", ".join(f"{name} {weight:.2f}" for name, weight in _by_weight(ours[0]["weights"]))
        row = (
            f"{data} *" if data in TUNED_ON else data,
            f"{ours[0]['num_train']:,}",
            f"{mine:.3f}",
            f"{other:.3f}",
            f"{_sign(better, error)}{better:+.3f} ± {error:.3f}",
            *kinds,
            made_of,
            f"{mean(cell['fit_seconds'] for cell in ours):.0f}",
        )
        rows.append(row)
    return markdown.table(header, rows, "|---|---:|---:|---:|---:|---:|---:|---:|---|---:|")


def peers_table(pairs: Pairs, fitted: dict[str, dict[str, Cells]]) -> str:
    """Returns the peers' scores on tables that a peer was fitted to."""
    rows = []
    for data, peers in fitted.items():
        ours = pairs[data][0]
        scores = [_beside(ours, theirs) if theirs else "–" for theirs in peers.values()]
        rows.append([data, f"{ours[0]['num_train']:,}", f"{mean(cell['score'] for cell in ours):.3f}", *scores])
    return markdown.table(["table", "sets", "ours", *PEERS.values()], rows, "|---|---:|---:|" + "---:|" * len(PEERS))


def beside_peers(pairs: Pairs, fitted: dict[str, dict[str, Cells]]) -> str:
    """Counts for each peer where ours is ahead, level and behind."""
    lines = []
    for peer, title in PEERS.items():
        both = {data: (pairs[data][0], peers[peer]) for data, peers in fitted.items() if peers[peer]}
        if not both:
            continue
        signs = [_sign(*difference(*pair)) for pair in both.values()]
        behind = [data for data, sign in zip(both, signs, strict=True) if sign == "▼ "]
        names = f" ({', '.join(behind)})" if behind else ""
        lines.append(
            f"- {title}, {len(both)} tables: ours is ahead on {signs.count('▲ ')}, level on {signs.count('')} and "
            f"behind on {len(behind)}{names}."
        )
    return "\n".join(lines) + "\n"


def _beside(ours: Cells, theirs: Cells) -> str:
    return f"{_sign(*difference(ours, theirs))}{mean(cell['score'] for cell in theirs):.3f}"


def _sign(better: float, error: float) -> str:
    """Returns ▲ if ours is ahead, ▼ if it is behind, and nothing if both are level."""
    return "" if is_level(better, error) else "▲ " if better > 0 else "▼ "


def _scores(ours: Cells, theirs: Cells) -> list[float]:
    """Returns our score and that of each kind, -inf for a kind that no fit had time for."""
    of_kinds = [[cell["kinds"].get(kind, -np.inf) for cell in theirs] for kind in KINDS]
    return [mean(cell["score"] for cell in ours), *(float(np.mean(scores)) for scores in of_kinds)]


def _by_weight(weights: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(weights.items(), key=lambda item: -item[1])
