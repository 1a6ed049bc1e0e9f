"""Molecules: atoms, and the tuples of atoms for which force fields have terms."""

from dataclasses import dataclass
from itertools import combinations

from torch import Tensor

from janossy import Ragged

ELEMENTS = ("H", "C", "N", "O", "F", "P", "S", "Cl", "Br", "I")
MAX_BONDS = 4
NUM_FEATURES = len(ELEMENTS) + MAX_BONDS + 1
TUPLES = {"atoms": 1, "bonds": 2, "angles": 3, "torsions": 4, "impropers": 4}


@dataclass(frozen=True)
class Molecules:
    """Molecules, with their tuples of each kind as positions within the molecule.

    Shapes: atoms.values (N, NUM_FEATURES + 3): element (one of ten), number of bonds (one of four), partial charge
        (AM1-BCC, in quarters of e), and coordinates in Å. tuples[kind].values (T, k).
    """

    atoms: Ragged
    tuples: dict[str, Ragged]

    def __len__(self) -> int:
        return len(self.atoms)

    def __getitem__(self, chosen: Tensor) -> "Molecules":
        return Molecules(self.atoms[chosen], {kind: of_each[chosen] for kind, of_each in self.tuples.items()})

    def positions(self, kind: str) -> Tensor:
        """Returns the tuples of all molecules as positions in ``atoms.values``."""
        within, owners = self.tuples[kind].to_index()
        return within + self.atoms.offsets[owners, None]


def tuples_of(neighbours: list[list[int]], planar: set[int]) -> dict[str, list[tuple[int, ...]]]:
    """Returns atoms; bonds, angles, torsions in one direction each; impropers, a planar atom before its neighbours."""
    bonds = [(i, j) for i, others in enumerate(neighbours) for j in others if i < j]
    return {
        "atoms": [(i,) for i in range(len(neighbours))],
        "bonds": bonds,
        "angles": [(i, j, k) for j, others in enumerate(neighbours) for i, k in combinations(others, 2)],
        "torsions": [
            (i, j, k, m) for j, k in bonds for i in neighbours[j] for m in neighbours[k] if i != k and m != j and i != m
        ],
        "impropers": [(i, *neighbours[i]) for i in sorted(planar) if len(neighbours[i]) == 3],
    }
