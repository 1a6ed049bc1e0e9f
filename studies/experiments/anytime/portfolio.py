"""The order in which ``strategy="auto"`` tries its candidates: learnt on tables, and judged on tables left out.

    python -m studies.experiments.anytime.portfolio --data FOLDER [--only cuisines,esol]

A quarter of each table's training sets is held out; test sets are not read. Each candidate has its first round on the
others. One half of the held-out sets chooses a candidate, and the other half judges it; then the halves change places.
The regret of an order after some seconds is the loss of the candidate that is chosen from those that are trained by
then, less the loss of the one that is chosen from all. It is a part of what the latter gains over a constant.
Whole searches of --budget seconds are then compared, in the order of AUTO and in the order that other tables teach, on
the held-out sets. Writes portfolio.json, searches.json and portfolio.md. Resumes where it was cut, and tries candidates
that are new.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from janossy.estimators import SetClassifier, SetRegressor, repetitions
from janossy.estimators.candidates import AUTO, Candidate
from janossy.estimators.classical.paths import LEARNERS
from janossy.estimators.contenders import Contender
from janossy.estimators.interrupts import time_by
from janossy.estimators.limits import PARTS
from janossy.estimators.search import Search, SearchResult
from janossy.estimators.splits import FEW_SETS, FOLDS
from janossy.estimators.trainer import Trainer
from studies.experiments.anytime.page import Cells, difference, is_level, losses_of, packed
from studies.experiments.anytime.tables import SOURCES, read
from studies.experiments.markdown import table
from studies.experiments.record import Record

COMMAND = "python -m studies.experiments.anytime.portfolio --data FOLDER"

HELD_OUT = 0.25
MOST_SETS = 6_000
"""The most sets of a table that are used."""

MOST_SECONDS = 40.0
"""A candidate whose first round is estimated to take longer is left out."""

SECONDS = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 18.0, 30.0)
"""The seconds of first rounds by which an order is judged: a search of 10 s gives them 3 s, one of 60 s 18 s."""

NAMES = [str(candidate) for candidate in AUTO]

LEAST_GAIN = 0.01
"""The least loss that the best candidate gains over a constant, for a regret to be a part of it."""

TOLERANCE = 1e-4
"""The least mean regret by which a move must improve an order."""

ORDERS = ("AUTO", "learnt")

NEAREST = 15
"""The number of tables that are most alike."""

RANDOM_ORDERS = 100

SWEEPS = 5
"""The most sweeps of the local search for an order."""


class FirstRounds(Search):
    """A search that ends when every candidate had its first round."""

    def __init__(self, trainer: Trainer, found: dict[str, Any]) -> None:
        super().__init__(trainer)
        self.found = found

    def run(self, candidates: Sequence[Candidate]) -> SearchResult:
        """Trains each candidate, and keeps its seconds and its losses on both halves of the held-out sets."""
        trainer = self.trainer
        self.contenders = trainer.contenders = [Contender(i, candidate) for i, candidate in enumerate(candidates)]
        largest = max(trainer.examples.sets.sizes)
        generator = np.random.default_rng(0)
        halves = np.array_split(generator.permutation(len(trainer.targets)), 2)
        self.found["constant"] = _by_half(trainer.losses(_constant(trainer)), halves)
        for contender in self.contenders:
            candidate = contender.candidate
            if candidate.least_size > largest or candidate.why_not(trainer.statistics):
                continue
            try:
                if trainer.estimate(contender, PARTS[0]) > MOST_SECONDS:
                    continue
            except ValueError:  # too many rows
                continue
            began = time.process_time()
            if candidate.classical:
                trainer.fit(contender, inf, 1)
            else:
                trainer.train_further(contender, PARTS[0], inf)
            seconds = time.process_time() - began
            if contender.runs:
                losses = _by_half(trainer.losses(contender.predicted(1)), halves)
                self.found["candidates"][str(candidate)] = {"seconds": round(seconds, 3), "losses": losses}
        return self._result()


def _constant(trainer: Trainer) -> torch.Tensor:
    """Returns the best constant prediction of the held-out sets, (V, out)."""
    targets = trainer.targets
    if targets.is_floating_point():
        return targets.reshape(len(targets), -1).mean(0).expand(len(targets), -1)
    shares = torch.bincount(targets, minlength=trainer.task.num_outputs) / len(targets)
    return shares.expand(len(targets), -1)


def _strategies(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    return [{"strategy": each.strategy, **each.settings} for each in candidates]


def _by_half(losses: torch.Tensor, halves: Sequence[np.ndarray]) -> list[float]:
    return [round(float(losses[half].mean()), 5) for half in halves]


def collect(folder: Path, data: str, candidates: Sequence[Candidate]) -> dict[str, Any]:
    """Returns the seconds and losses of the first round of each candidate on a table that it suits."""
    sets, targets = read(folder, data, "train")
    if len(sets) > MOST_SETS:
        some = np.sort(np.random.default_rng(0).permutation(len(sets))[:MOST_SETS])
        sets, targets = sets[some], targets[some]
    tried = [str(candidate) for candidate in candidates]
    found: dict[str, Any] = {"num_sets": len(sets), "tried": tried, "constant": [], "candidates": {}}
    estimator = SetClassifier if SOURCES[data].is_class else SetRegressor
    with (
        time_by(time.process_time),
        mock.patch.object(repetitions, "Search", lambda trainer: FirstRounds(trainer, found)),
    ):
        estimator(_strategies(candidates), time_budget=None, validation=HELD_OUT, random_state=0).fit(sets, targets)
    return found


@dataclass(frozen=True)
class Tables:
    """The seconds and losses of C candidates on T tables. Those that were not tried have 0 seconds and infinite losses.

    Shapes: seconds (T, C), losses (T, 2, C) by half, constant (T, 2).
    """

    seconds: np.ndarray
    losses: np.ndarray
    constant: np.ndarray

    @classmethod
    def of(cls, cells: Sequence[dict[str, Any]]) -> "Tables":
        """Returns those of one cell per table. In the first round, classical learners are fitted to all folds."""
        nothing = {"seconds": 0.0, "losses": [inf, inf]}
        rows = [[cell["candidates"].get(name, nothing) for name in NAMES] for cell in cells]
        seconds = np.array([[each["seconds"] for each in row] for row in rows])
        has_folds = np.array([cell["num_sets"] <= FEW_SETS for cell in cells])
        are_classical = np.array([name.split(" ")[0] in LEARNERS for name in NAMES])
        return cls(
            seconds * np.where(has_folds[:, None] & are_classical, FOLDS, 1),
            np.array([[each["losses"] for each in row] for row in rows]).transpose(0, 2, 1),
            np.array([cell["constant"] for cell in cells]),
        )

    def __getitem__(self, some: np.ndarray) -> "Tables":
        return Tables(self.seconds[some], self.losses[some], self.constant[some])

    def regrets(self, order: Sequence[int]) -> np.ndarray:
        """Returns the regret of an order on each table after each of ``SECONDS``, (T, len(SECONDS))."""
        ends = self.seconds[:, order].cumsum(1)
        done = np.stack([(ends <= seconds).sum(1) for seconds in SECONDS], 1)
        total = np.zeros(done.shape)
        for chooser, judge in ((0, 1), (1, 0)):
            least, judged = np.full(len(ends), inf), [self.constant[:, judge]]
            for candidate in order:
                is_better = self.losses[:, chooser, candidate] < least
                least = np.where(is_better, self.losses[:, chooser, candidate], least)
                judged.append(np.where(is_better, self.losses[:, judge, candidate], judged[-1]))
            after = np.take_along_axis(np.stack(judged, 1), done, 1)
            gain = np.maximum(self.constant[:, judge] - judged[-1], LEAST_GAIN)
            total += np.clip((after - judged[-1][:, None]) / gain[:, None], -1, 1) / 2
        return total

    def learnt(self, order: Sequence[int]) -> list[int]:
        """Returns the order of the least mean regret that moves of single candidates find, from an order on."""
        best, least = list(order), float(self.regrets(order).mean())
        for _ in range(SWEEPS):
            before = least
            for candidate in list(best):
                others = [each for each in best if each != candidate]
                for place in range(len(best)):
                    moved = [*others[:place], candidate, *others[place:]]
                    regret = float(self.regrets(moved).mean())
                    if regret < least - TOLERANCE:
                        best, least = moved, regret
            if least == before:
                break
        return best


def left_out(tables: Tables, features: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the regrets of orders on each table, (T, len(SECONDS)), and of the learnt ones without the table.

    Shapes: features (T, F), by whose distance tables are alike.
    """
    given, num = list(range(len(NAMES))), len(features)
    generator = np.random.default_rng(0)
    drawn = [tables.regrets(generator.permutation(len(NAMES)).tolist()) for _ in range(RANDOM_ORDERS)]
    found = {"the order of AUTO": tables.regrets(given), "random orders": np.mean(drawn, 0)}
    everywhere: list[np.ndarray] = []
    alike: list[np.ndarray] = []
    for one in range(num):
        others = np.delete(np.arange(num), one)
        distances = np.linalg.norm(features[others] - features[one], axis=1)
        nearest = others[distances.argsort(kind="stable")[:NEAREST]]
        for some, regrets in ((others, everywhere), (nearest, alike)):
            regrets.append(tables[np.array([one])].regrets(tables[some].learnt(given))[0])
    found["learnt on the other tables"] = np.stack(everywhere)
    found[f"learnt on the {NEAREST} nearest of them"] = np.stack(alike)
    return found


def features_of(cells: Sequence[dict[str, Any]]) -> np.ndarray:
    """Returns what tells tables apart: the logarithm of the number of sets, and which candidates suit them, (T, F)."""
    suits = [[float(name in cell["candidates"]) for name in NAMES] for cell in cells]
    return np.column_stack((np.log10([cell["num_sets"] for cell in cells]), suits))


def search(folder: Path, data: str, order: Sequence[int], budget: float) -> dict[str, Any]:
    """Returns the losses of held-out sets after a search that tries the candidates in this order."""
    sets, targets = read(folder, data, "train")
    is_class = SOURCES[data].is_class
    mixed = np.random.default_rng(0).permutation(len(sets))
    held_out, rest = np.split(mixed, [int(HELD_OUT * len(sets))])
    estimator = SetClassifier if is_class else SetRegressor
    strategies = _strategies([AUTO[candidate] for candidate in order])
    with time_by(time.process_time):
        fitted = estimator(strategies, time_budget=budget, random_state=0).fit(sets[rest], targets[rest])
    losses = losses_of(fitted.predict(sets[held_out]), targets[held_out], is_class)
    return {"score": 1 - float(losses.mean()), "losses": packed(losses)}


def searches(cells: Cells) -> str:
    """Returns the comparison of searches in both orders, on the tables that have both."""
    of = {(cell["data"], cell["order"]): cell for cell in cells}
    both = [data for data in dict.fromkeys(data for data, _ in of) if all((data, order) in of for order in ORDERS)]
    better = {data: difference([of[data, "learnt"]], [of[data, "AUTO"]]) for data in both}
    means = np.array([mean for mean, _ in better.values()])
    apart = {data: mean for data, (mean, error) in better.items() if not is_level(mean, error)}
    counts = []
    for where, sign in {"ahead": 1, "behind": -1}.items():
        names = [data for data, mean in apart.items() if sign * mean > 0]
        counts.append(f"{where} on {len(names)}" + f" ({', '.join(names)})" * bool(names))
    return (
        f"Searches of {cells[0]['budget']:g} CPU seconds on {len(both)} tables: in the order that the other tables "
        f"teach, the score changes by {means.mean():+.4f} ± {means.std(ddof=1) / len(means) ** 0.5:.4f}. It is "
        f"{' and '.join(counts)}.\n"
    )


def by_table(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns one cell per table, with the candidates of all cells of the table."""
    found: dict[str, dict[str, Any]] = {}
    for cell in cells:
        one = found.setdefault(cell["data"], {**cell, "candidates": {}})
        one["candidates"] |= cell["candidates"]
    return list(found.values())


def _alone(tables: Tables) -> list[list[str]]:
    """Returns a row per candidate: the tables that it suits, its seconds, its regret, its place in a learnt order."""
    losses, constant = tables.losses.mean(1), tables.constant.mean(1)
    best = losses.min(1)
    regrets = (losses - best[:, None]) / np.maximum(constant - best, LEAST_GAIN)[:, None]
    places = tables.learnt(range(len(NAMES)))
    rows = []
    for candidate, name in enumerate(NAMES):
        tried = np.isfinite(losses[:, candidate])
        seconds = np.median(tables.seconds[tried, candidate]) if tried.any() else 0.0
        regret = np.minimum(regrets[tried, candidate], 1).mean() if tried.any() else 0.0
        num_best = int((losses[:, candidate] == best).sum())
        place = str(places.index(candidate) + 1)
        rows.append([name, str(tried.sum()), f"{seconds:.1f}", f"{regret:.3f}", str(num_best), place])
    return rows


def page(cells: Sequence[dict[str, Any]]) -> str:
    """Returns the regrets of orders, and the order that all tables teach. There is one cell per table."""
    tables = Tables.of(cells)
    found = left_out(tables, features_of(cells))
    given = found["the order of AUTO"]
    rows = []
    for name, regrets in found.items():
        gain = given.mean(1) - regrets.mean(1)
        error = gain.std(ddof=1) / len(gain) ** 0.5
        rows.append([name, *(f"{regret:.3f}" for regret in regrets.mean(0)), f"{gain.mean():+.4f} ± {error:.4f}"])
    header = ["order", *(f"{seconds:g} s" for seconds in SECONDS), "less than that of AUTO"]
    lines = [
        f"# Orders of candidates on {len(cells)} tables\n",
        "Mean regrets by the seconds of first rounds, as a part of what the best candidate gains over a constant.\n",
        table(header, rows),
        "Each candidate alone, by the mean loss of both halves. Its regret is that beside the table's best one.\n",
        table(["candidate", "tables", "median seconds", "mean regret", "best on", "place learnt"], _alone(tables)),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Collects the tables that are missing, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder that has a folder per table")
    parser.add_argument("--only", default=",".join(SOURCES), help="some of the tables, with commas between")
    parser.add_argument("--budget", type=float, default=10.0, help="the CPU seconds of a search")
    parser.add_argument("--out", type=Path, default=Path("docs/results/anytime"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    only = options.only.split(",")
    record = Record(options.out / "portfolio.json", COMMAND)
    for data in only:
        tried = {name for cell in record.cells if cell["data"] == data for name in cell["tried"]}
        if missing := [candidate for candidate in AUTO if str(candidate) not in tried]:
            with threadpool_limits(1):
                record.add({"data": data, **collect(options.data, data, missing)})
            print(data, len(record.cells[-1]["candidates"]), flush=True)
    cells, given = by_table(record.cells), list(range(len(NAMES)))
    tables, searched = Tables.of(cells), Record(options.out / "searches.json", COMMAND)
    for one, cell in enumerate(cells):
        for key in searched.missing(
            {"data": cell["data"], "order": order, "budget": options.budget} for order in ORDERS if cell["data"] in only
        ):
            others = np.delete(np.arange(len(cells)), one)
            order = given if key["order"] == "AUTO" else tables[others].learnt(given)
            with threadpool_limits(1):
                searched.add(key | search(options.data, cell["data"], order, options.budget))
            print(key, searched.cells[-1]["score"], flush=True)
    text = page(cells) + "\n" + searches(searched.cells)
    (options.out / "portfolio.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
