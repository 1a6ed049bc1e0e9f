"""Orders of candidates: what is collected of a table, and an order's regret beside a plain loop."""

import json
from pathlib import Path

import numpy as np
import pytest

from janossy.estimators.candidates import Candidate
from janossy.estimators.classical.paths import LEARNERS
from studies.experiments.anytime import portfolio
from studies.experiments.anytime.page import packed, unpacked
from studies.experiments.anytime.tables import SOURCES

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "anytime"

TRIED = [Candidate("linear"), Candidate("k1"), Candidate("k1", {"amounts": "log"}), Candidate("max")]


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch):
    """Eight candidates, learners and networks."""
    monkeypatch.setattr(portfolio, "NAMES", portfolio.NAMES[4:12])
    monkeypatch.setattr(portfolio, "RANDOM_ORDERS", 5)


def made(num_tables, seed):
    """Cells of random seconds and losses, a third of whose candidates were not tried."""
    source = np.random.default_rng(seed)
    return [
        {
            "data": str(i),
            "num_sets": int(source.integers(50, 5000)),
            "constant": [1.0, 1.0],
            "candidates": {
                name: {"seconds": float(source.exponential(1.0)), "losses": source.uniform(0.2, 1.1, 2).tolist()}
                for name in portfolio.NAMES
                if source.random() < 2 / 3
            },
        }
        for i in range(num_tables)
    ]


def judged(cell, names, chooser):
    """The loss of the candidate that one half of the sets chooses, on the other half."""
    if not names:
        return cell["constant"][1 - chooser]
    best = min((cell["candidates"][name]["losses"] for name in names), key=lambda losses: losses[chooser])
    return best[1 - chooser]


def regret(cell, order, seconds):
    """The regret of an order on a table, by the definition."""
    tried = [portfolio.NAMES[i] for i in order if portfolio.NAMES[i] in cell["candidates"]]
    folds = {name: 5 if cell["num_sets"] <= 2000 and name.split(" ")[0] in LEARNERS else 1 for name in tried}
    ends = np.cumsum([folds[name] * cell["candidates"][name]["seconds"] for name in tried])
    done = [name for name, end in zip(tried, ends, strict=True) if end <= seconds]
    total = 0.0
    for chooser in (0, 1):
        least = judged(cell, tried, chooser)
        gain = max(cell["constant"][1 - chooser] - least, portfolio.LEAST_GAIN)
        total += np.clip((judged(cell, done, chooser) - least) / gain, -1, 1) / 2
    return total


def test_regrets_are_those_of_a_plain_loop():
    cells, order = made(5, seed=0), np.random.default_rng(1).permutation(len(portfolio.NAMES)).tolist()
    expected = [[regret(cell, order, seconds) for seconds in portfolio.SECONDS] for cell in cells]
    np.testing.assert_allclose(portfolio.Tables.of(cells).regrets(order), expected)


def test_the_best_and_cheapest_candidate_is_learnt_to_be_first():
    cells = made(6, seed=2)
    for cell in cells:
        cell["candidates"][portfolio.NAMES[-1]] = {"seconds": 0.1, "losses": [0.1, 0.1]}
    tables = portfolio.Tables.of(cells)
    order = tables.learnt(range(len(portfolio.NAMES)))
    assert order[0] == len(portfolio.NAMES) - 1 and sorted(order) == list(range(len(portfolio.NAMES)))
    assert tables.regrets(order).max() == 0


def test_an_order_is_judged_on_a_table_that_it_was_not_learnt_from():
    cells = made(4, seed=3)
    found = portfolio.left_out(portfolio.Tables.of(cells), portfolio.features_of(cells))
    for one, cell in enumerate(cells):
        others = portfolio.Tables.of([each for each in cells if each is not cell])
        order = others.learnt(range(len(portfolio.NAMES)))
        expected = portfolio.Tables.of([cell]).regrets(order)[0]
        np.testing.assert_allclose(found["learnt on the other tables"][one], expected)


def written(folder):
    """Writes a table of 60 sets of words, of which one tells each class, and returns its name."""
    (folder / "spam").mkdir()
    source = np.random.default_rng(0)
    rows = [f"{i},{word},{i % 2}" for i in range(60) for word in source.choice(["a", "b", "c", "de"[i % 2]], 3)]
    (folder / "spam" / "train.csv").write_text("\n".join(["set,word,target", *rows]), encoding="utf-8")
    return "spam"


def test_each_candidate_has_a_first_round_on_a_table(tmp_path):
    """Candidates that suit the sets have seconds and two losses."""
    found = portfolio.collect(tmp_path, written(tmp_path), TRIED)
    assert found["num_sets"] == 60 and found["tried"] == ["linear", "k1", "k1 (amounts=log)", "max"]
    assert found["constant"] == pytest.approx([np.log(2)] * 2, abs=0.1)
    assert list(found["candidates"]) == ["linear", "k1", "max"]
    for each in found["candidates"].values():
        assert each["seconds"] > 0 and 0 < min(each["losses"]) < np.log(2)


def test_a_search_is_scored_on_sets_that_it_has_not_seen(tmp_path):
    found = portfolio.search(tmp_path, written(tmp_path), [0, portfolio.AUTO.index(Candidate("k1"))], 2.0)
    losses = unpacked(found["losses"])
    assert len(losses) == 15 and set(losses) <= {0.0, 1.0} and found["score"] == pytest.approx(1 - losses.mean())


def test_searches_are_compared_by_table():
    """On b the learnt order is ahead by more than two standard errors; on a both are level."""
    scores = {"a": ([0, 1] * 8, [1, 0] * 8), "b": ([1] * 15 + [0], [0] * 16)}
    cells = [
        {"data": data, "order": order, "budget": 10.0, "losses": packed(np.array(losses))}
        for data, both in scores.items()
        for order, losses in zip(portfolio.ORDERS, both, strict=True)
    ]
    text = portfolio.searches(cells)
    assert "10 CPU seconds on 2 tables" in text and "changes by +0.4688 ±" in text
    assert "ahead on 1 (b) and behind on 0." in text


def test_the_page_has_the_searches_of_the_record():
    """Orders are not learnt anew here, which takes a minute."""
    cells = json.loads((RESULTS / "searches.json").read_text(encoding="utf-8"))["cells"]
    collected = json.loads((RESULTS / "portfolio.json").read_text(encoding="utf-8"))["cells"]
    assert portfolio.searches(cells) in (RESULTS / "portfolio.md").read_text(encoding="utf-8")
    assert {cell["data"] for cell in cells} <= {cell["data"] for cell in portfolio.by_table(collected)} == set(SOURCES)


def test_candidates_of_several_runs_are_joined():
    first, second = made(2, seed=4)
    later = {**first, "candidates": {"new": {"seconds": 1.0, "losses": [0.5, 0.6]}}}
    joined = portfolio.by_table([first, second, later])
    assert [cell["data"] for cell in joined] == ["0", "1"] and joined[1] == second
    assert joined[0]["candidates"] == first["candidates"] | later["candidates"]
