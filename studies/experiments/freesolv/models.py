"""An energy from sums over atoms, bonds, angles and torsions: the terms of a force field as networks."""

from itertools import permutations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from janossy.nn.groups import Group, GroupPooling, reversal, symmetric
from studies.experiments.freesolv.molecules import NUM_FEATURES, Molecules

GROUPS = {
    "atoms": symmetric(1),
    "bonds": reversal(2),
    "angles": reversal(3),
    "torsions": reversal(4),
    # The three neighbours of a planar atom have no order.
    "impropers": Group([(0, *others) for others in permutations((1, 2, 3))]),
}
TYPICAL = 20.0
"""The approximate number of tuples of one kind in a molecule, by which sums are scaled."""
SHAPES = {"atoms": 0, "bonds": 1, "angles": 1, "torsions": 2, "impropers": 2}
"""The number of values that describe a tuple's shape."""


def shape(places: Tensor) -> Tensor:
    """Returns the shapes of tuples, (T, k, 3) -> (T, 1 or 2), or nothing for atoms.

    They are a bond's length in Å, an angle's cosine, and a torsion's cos φ and cos 2φ. They depend neither on the
    molecule's position nor on the tuple's direction.
    """
    steps = places.diff(dim=1)
    if places.shape[1] == 1:
        return places[:, 0, :0]
    if places.shape[1] == 2:
        return steps.norm(dim=2)
    if places.shape[1] == 3:
        return -(normalize(steps[:, :1], dim=2) * normalize(steps[:, 1:], dim=2)).sum(2)
    normals = normalize(torch.linalg.cross(steps[:, :-1], steps[:, 1:]), dim=2)
    cosine = (normals[:, 0] * normals[:, 1]).sum(1, keepdim=True)
    return torch.cat((cosine, 2 * cosine**2 - 1), dim=1)


class Term(nn.Module):
    """A perceptron on the features of k atoms and, optionally, on the shape of the tuple.

    Shapes: (T, k, features + 3), the coordinates last -> (T, width).
    """

    def __init__(self, kind: str, k: int, width: int, with_shape: bool) -> None:
        super().__init__()
        self.with_shape = with_shape
        inputs = k * NUM_FEATURES + (SHAPES[kind] if with_shape else 0)
        self.layers = nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())

    def forward(self, rows: Tensor) -> Tensor:
        features = rows[:, :, :-3].flatten(1)
        return self.layers(torch.cat((features, shape(rows[:, :, -3:])), 1) if self.with_shape else features)


class Energy(nn.Module):
    """ρ of the sums over tuples, with one sum and one network per kind of tuple."""

    def __init__(self, kinds: tuple[str, ...], width: int, with_shape: bool) -> None:
        super().__init__()
        self.terms = nn.ModuleDict(
            {kind: GroupPooling(Term(kind, GROUPS[kind].k, width, with_shape), GROUPS[kind]) for kind in kinds}
        )
        self.rho = nn.Sequential(nn.Linear(len(kinds) * width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, molecules: Molecules) -> Tensor:
        sums = [term.of_sets(molecules.atoms, molecules.positions(kind)) for kind, term in self.terms.items()]
        return self.rho(torch.cat(sums, dim=1) / TYPICAL)
