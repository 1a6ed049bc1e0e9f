"""FreeSolv as sets of atoms: an SD file by hand, counts as by its lines, folds that leave out each molecule once."""

import tarfile

import numpy as np
import pytest

from janossy.estimators.strategies import build_network
from janossy.tables import Layout, TableEncoder
from studies.bench.data.freesolv import STRUCTURES, freesolv, read_molecule
from tests.studies.bench.shared import shared

WATER = """water
  by hand

  3  2  0     0  0  0  0  0  0999 V2000
    0.0000    0.0000    0.1000 O   0  0  0  0  0  0  0  0  0  0  0  0
    0.7500   -0.5000   -1.5000 H   0  0  0  0  0  0  0  0  0  0  0  0
   -0.7500    0.5000  -10.5000 Cl  0  0  0  0  0  0  0  0  0  0  0  0
  1  2  1  0  0  0  0
  1  3  1  0  0  0  0
M  END
> <partial_charges>
-0.8
0.3
0.5

$$$$
"""


def test_a_molecule_by_hand():
    elements, places, bonds, charges = read_molecule(WATER)
    assert elements.tolist() == ["O", "H", "Cl"] and bonds.tolist() == [2, 1, 1]
    assert places.tolist() == [[0, 0, 0.1], [0.75, -0.5, -1.5], [-0.75, 0.5, -10.5]]
    assert charges.tolist() == [-0.8, 0.3, 0.5]


@pytest.fixture(scope="module")
def data():
    return freesolv(shared(STRUCTURES))


def test_folds_leave_out_each_molecule_once(data):
    tests = [data.fold(number).tests["test"]() for number in range(data.num_folds)]
    assert sum(len(test.sets) for test in tests) == 642
    assert sum(test.sets.num_elements for test in tests) == 11_613
    train = data.fold(3).train
    held = [tuple(np.concatenate((sets.elements["x"].values, sets.elements["y"].values))) for sets in train.sets]
    left = [tuple(np.concatenate((sets.elements["x"].values, sets.elements["y"].values))) for sets in tests[3].sets]
    assert len(held) + len(left) == 642 and not set(held) & set(left)
    means = [test.targets.mean() for test in tests]
    assert np.ptp(means) < 1.0  # stratified; of folds by chance they are 2 apart
    assert np.array_equal(data.fold(3).train.targets, train.targets)


def test_atoms_are_those_of_the_files(data):
    """Without a charge in all, around their centre, and as many of each element as the files' lines have."""
    whole = data.fold(0)
    parts = (whole.train, whole.tests["test"]())
    counts = sum(
        np.array([np.char.equal(s.sets.elements["element"].decoded().astype(str), e).sum() for e in "HCO"])
        for s in parts
    )
    with tarfile.open(shared(STRUCTURES) / STRUCTURES) as tar:
        lines = [line for m in tar if m.isfile() for line in tar.extractfile(m).read().decode().splitlines()]
    atoms = [line[31:34].strip() for line in lines if len(line) > 60 and line[30:31] == " " and line[5:6] == "."]
    assert counts.tolist() == [atoms.count(e) for e in "HCO"]
    sets = whole.train.sets
    for name in ("x", "y", "z", "partial_charge"):
        sums = np.add.reduceat(sets.elements[name].values, sets.offsets[:-1])
        np.testing.assert_allclose(sums, 0, atol=2e-3)  # charges are rounded


def test_what_is_told_is_a_strategy(data):
    """Distances are in Å, as the columns were."""
    encoder = TableEncoder().fit(data.fold(0).train.sets)
    network = build_network(
        **data.expert_settings, element_layout=encoder.element_layout, context_layout=Layout(), num_outputs=1
    )
    features, at = network.pooling.f.features, [place for (place,) in network.h.places[1:4]]
    assert features.distances == (tuple(at),)
    scales = data.fold(0).train.sets.elements["x"].values.std()
    assert features.units[at[0]] == pytest.approx(scales)
