"""FreeSolv: free energies of hydration of small molecules, as sets of atoms with coordinates and charges."""

import tarfile
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold

from janossy.tables import Column, SetTable
from janossy.tables.columns import from_numpy
from janossy.tables.table import offsets_of
from studies.bench.data_set import DataSet, Fold, Sample
from studies.bench.files import check_digest, file_at

DATABASE, STRUCTURES = "freesolv/database.txt", "freesolv/sdffiles.tar.gz"
URL = "https://raw.githubusercontent.com/MobleyLab/FreeSolv/v0.52/"
DIGEST = "eacbefd298e1b2f7fb45ca411b3f7649adf8e65eed385ac26ae4e7727c18f19e"
NUM_FOLDS = 10
STRATA = 10
"""The number of quantile groups of the target by which folds are stratified."""


def freesolv(data: Path | None = None) -> DataSet:
    """Returns ten folds of version 0.52's 642 molecules, stratified by the target."""
    whole = read(*(file_at(data, place, URL + Path(place).name) for place in (DATABASE, STRUCTURES)))
    strata = np.argsort(np.argsort(whole.targets, kind="stable")) * STRATA // len(whole.targets)
    folds = list(StratifiedKFold(NUM_FOLDS, shuffle=True, random_state=0).split(strata, strata))

    def fold(number: int) -> Fold:
        train, test = (Sample(whole.sets[chosen], whole.targets[chosen]) for chosen in folds[number])
        return Fold(train, {"test": lambda: test})

    return DataSet(
        name="freesolv",
        about="A set is the atoms of a molecule, with element, coordinates in Å, bonds and partial charge. The target "
        "is its free energy of hydration in kcal/mol (FreeSolv 0.52, Mobley and Guthrie, 2014).",
        task="regression",
        scores=("RMSE", "MAE"),
        num_folds=NUM_FOLDS,
        fold=fold,
        published={
            "MPNN (MoleculeNet, random split)": "RMSE 1.15",
            "XGBoost (MoleculeNet, random split)": "RMSE 1.74",
            "molecular dynamics with GAFF (the data's own column)": "RMSE 1.54, MAE 1.11",
        },
        expert_settings={
            "strategy": "k2+features",
            "features": {
                "equal": [["element"]],
                "absolute_differences": ["num_bonds"],
                "products": ["partial_charge"],
                "distances": [["x", "y", "z"]],
            },
        },
    )


def read(database: Path, structures: Path) -> Sample:
    """Returns the molecules in the order of the database, with their experimental free energies.

    The columns of an atom are the element, x, y and z from the molecule's centre, the number of bonds, and the partial
    charge (AM1-BCC). The files of structures contain the charges.
    """
    rows = [line.split(";") for line in database.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    with tarfile.open(structures) as tar:
        members = {Path(member.name).stem: tar.extractfile(member) for member in tar if member.isfile()}
        texts = {name: file.read().decode("ascii") for name, file in members.items() if file is not None}
    molecules = [read_molecule(texts[row[0].strip()]) for row in rows]
    elements, places, bonds, charges = (np.concatenate(parts) for parts in zip(*molecules, strict=True))
    targets = np.array([float(row[3]) for row in rows])
    sizes = np.array([len(atoms) for atoms, *_ in molecules])
    check_digest(structures, (elements, places, bonds, charges, sizes, targets), DIGEST)
    offsets = offsets_of(sizes)
    places -= np.repeat(np.add.reduceat(places, offsets[:-1]) / sizes[:, None], sizes, axis=0)
    columns = {"element": from_numpy(elements, "element")}
    columns |= {name: Column("numeric", places[:, i]) for i, name in enumerate("xyz")}
    columns |= {"num_bonds": Column("numeric", bonds), "partial_charge": Column("numeric", charges)}
    return Sample(SetTable(offsets, columns, {}), targets)


def read_molecule(text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns the atoms of an SD file (V2000): elements (n,), positions (n, 3), bond counts (n,), charges (n,)."""
    lines = text.splitlines()
    num_atoms, num_bonds = int(lines[3][:3]), int(lines[3][3:6])
    atoms, bonds = lines[4 : 4 + num_atoms], lines[4 + num_atoms : 4 + num_atoms + num_bonds]
    charges = lines.index("> <partial_charges>") + 1
    ends = np.array([int(line[i : i + 3]) for line in bonds for i in (0, 3)])
    return (
        np.array([line[31:34].strip() for line in atoms]),
        np.array([[float(line[i : i + 10]) for i in (0, 10, 20)] for line in atoms]),
        np.bincount(ends - 1, minlength=num_atoms),
        np.array(lines[charges : charges + num_atoms], np.float64),
    )
