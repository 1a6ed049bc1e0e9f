"""FreeSolv's files, read by RDKit."""

import tarfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from janossy import Ragged
from studies.bench.data.freesolv import DATABASE, STRUCTURES, URL
from studies.bench.files import file_at
from studies.experiments.freesolv.molecules import ELEMENTS, MAX_BONDS, TUPLES, Molecules, tuples_of

try:
    from rdkit import Chem
except ImportError as error:
    raise ImportError("studies.experiments.freesolv needs RDKit: pip install janossy[chemistry]") from error


def read(data: Path | None) -> tuple[Molecules, Tensor]:
    """Returns the 642 molecules in the order of the database, and their measured energies in kcal/mol, (642, 1)."""
    database, structures = (file_at(data, place, URL + Path(place).name) for place in (DATABASE, STRUCTURES))
    rows = [line.split(";") for line in database.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    with tarfile.open(structures) as tar:
        files = {Path(member.name).stem: tar.extractfile(member) for member in tar if member.isfile()}
        blocks = {name: file.read().decode("ascii") for name, file in files.items() if file is not None}
    molecules = gathered([_molecule(blocks[row[0].strip()]) for row in rows])
    return molecules, torch.tensor([[float(row[3])] for row in rows])


def gathered(molecules: Sequence[tuple[Chem.Mol, list[float]]]) -> Molecules:
    """Returns RDKit's molecules with the partial charges of their atoms."""
    found = [tuples_of([[b.GetIdx() for b in a.GetNeighbors()] for a in m.GetAtoms()], planar(m)) for m, _ in molecules]
    tuples = {
        kind: Ragged.from_sets([torch.tensor(of_one[kind], dtype=torch.long).view(-1, k) for of_one in found])
        for kind, k in TUPLES.items()
    }
    return Molecules(Ragged.from_sets([_features(molecule, charges) for molecule, charges in molecules]), tuples)


def planar(molecule: Chem.Mol) -> set[int]:
    """Returns the atoms that are sp2 by RDKit."""
    sp2 = Chem.HybridizationType.SP2
    return {atom.GetIdx() for atom in molecule.GetAtoms() if atom.GetHybridization() == sp2}


def _molecule(block: str) -> tuple[Chem.Mol, list[float]]:
    molecule = Chem.MolFromMolBlock(block, removeHs=False)
    lines = block.splitlines()
    start = lines.index("> <partial_charges>") + 1
    return molecule, [float(line) for line in lines[start : start + molecule.GetNumAtoms()]]


def _features(molecule: Chem.Mol, charges: list[float]) -> Tensor:
    atoms = list(molecule.GetAtoms())
    elements = torch.tensor([ELEMENTS.index(atom.GetSymbol()) for atom in atoms])
    bonds = torch.tensor([atom.GetDegree() - 1 for atom in atoms])
    places = torch.tensor(molecule.GetConformer().GetPositions(), dtype=torch.float32)
    kinds = (one_hot(elements, len(ELEMENTS)), one_hot(bonds, MAX_BONDS))
    return torch.cat((*kinds, 4 * torch.tensor(charges)[:, None], places), dim=1)
