"""FreeSolv by bonds, angles and torsions: tuples by hand and by RDKit; energies that do not see how they are listed."""

import json
from pathlib import Path

import pytest
import torch

from janossy import Ragged
from studies.experiments.freesolv import study
from studies.experiments.freesolv.models import GROUPS, SHAPES, Energy, shape
from studies.experiments.freesolv.molecules import NUM_FEATURES, TUPLES, Molecules, tuples_of
from tests.laws import close
from tests.studies.bench.shared import shared

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "freesolv"
ALL = study.KINDS["atoms, bonds, angles, torsions, impropers"]
ACETONE = [[1, 4, 5], [0, 2, 3], [1], [1], [0], [0]]
"""C-C(=C)-C of six atoms: two bonded centres with two more neighbours each."""


def test_the_table_is_that_of_the_runs():
    data = json.loads((RESULTS / "freesolv.json").read_text(encoding="utf-8"))
    assert data["command"] == study.COMMAND
    table = study.table(data["cells"])
    assert (RESULTS / "freesolv.md").read_text(encoding="utf-8") == table
    assert table in (RESULTS.parents[1] / "freesolv.md").read_text(encoding="utf-8")
    keys = {(cell["kinds"], cell["with_shape"], cell["fold"], cell["seed"]) for cell in data["cells"]}
    run = [row for row in study.ROWS if (*row, 0, 0) in keys]
    assert ("atoms, bonds, angles", False) in run and keys == {
        (*row, f, 0) for row in run for f in range(study.NUM_FOLDS)
    }
    assert sum(cell["cpu_seconds"] for cell in data["cells"]) < 15 * 60


def test_tuples_by_hand():
    found = tuples_of(ACETONE, planar={0, 2})
    assert found["bonds"] == [(0, 1), (0, 4), (0, 5), (1, 2), (1, 3)]
    assert set(found["angles"]) == {(1, 0, 4), (1, 0, 5), (4, 0, 5), (0, 1, 2), (0, 1, 3), (2, 1, 3)}
    assert set(found["torsions"]) == {(4, 0, 1, 2), (4, 0, 1, 3), (5, 0, 1, 2), (5, 0, 1, 3)}
    assert found["impropers"] == [(0, 1, 4, 5)]
    ring = tuples_of([[1, 2], [0, 2], [0, 1]], planar=set())  # no torsion ends where it begins
    assert ring["torsions"] == [] and len(ring["angles"]) == 3


def test_shapes_by_hand():
    square = torch.tensor([[0.0, 0, 0], [2, 0, 0], [2, 1, 0], [3, 1, 0]])[None]
    close(shape(square[:, :2]), torch.tensor([[2.0]]))
    close(shape(square[:, :3]), torch.tensor([[0.0]]))
    close(shape(square), torch.tensor([[-1.0, 1.0]]))  # trans
    turned = torch.tensor([[0.0, 0, 0], [2, 0, 0], [2, 1, 0], [2, 1, 1]])[None]
    close(shape(turned), torch.tensor([[0.0, -1.0]]))
    for k, width in ((1, 0), (2, 1), (3, 1), (4, 2)):
        x = torch.randn(5, k, 3)
        rotation = torch.linalg.qr(torch.randn(3, 3)).Q
        assert shape(x).shape == (5, width)
        close(shape(x @ rotation + 1), shape(x), atol=1e-5, rtol=1e-4)
        close(shape(x.flip(1)), shape(x), atol=1e-5, rtol=1e-4)


def made(order: torch.Tensor | None = None) -> Molecules:
    """Returns a molecule as above and one of two atoms; the first with its atoms in another order."""
    source = torch.Generator().manual_seed(0)
    atoms = [torch.randn(n, NUM_FEATURES + 3, generator=source, dtype=torch.float64) for n in (6, 2)]
    neighbours = [ACETONE, [[1], [0]]]
    places = torch.arange(6)
    if order is not None:
        places = order.argsort()
        atoms[0] = atoms[0][order]
        neighbours[0] = [[int(places[j]) for j in ACETONE[i]] for i in order.tolist()]
    found = [tuples_of(neighbours[0], {int(places[0])}), tuples_of(neighbours[1], set())]
    tuples = {
        kind: Ragged.from_sets([torch.tensor(of_one[kind], dtype=torch.long).view(-1, k) for of_one in found])
        for kind, k in TUPLES.items()
    }
    return Molecules(Ragged.from_sets(atoms), tuples)


@pytest.mark.parametrize("with_shape", [False, True])
def test_energies_do_not_depend_on_how_a_molecule_is_written(float64, with_shape):
    model = Energy(ALL, 8, with_shape)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    expected = model(made())
    for seed in range(5):
        order = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
        close(model(made(order)), expected)
    assert (expected[0] - expected[1]).abs() > 1e-3
    close(model(made()[torch.tensor([1])]), expected[1:])
    assert set(GROUPS) == set(TUPLES) == set(SHAPES)


def test_reading_by_rdkit():
    """The counts of the bench's own reader, and torsions as RDKit's search for four atoms in a row finds them."""
    chem = pytest.importorskip("rdkit.Chem", reason="needs the extra chemistry")
    from studies.experiments.freesolv.reading import read  # noqa: PLC0415, which needs it too

    molecules, targets = read(shared("freesolv/database.txt"))
    assert len(molecules) == 642 and targets.shape == (642, 1) and len(molecules.atoms.values) == 11_613
    charges = molecules.atoms.values[:, NUM_FEATURES - 1]
    assert all(abs(float(q.sum())) < 0.05 for q in charges.split(list(molecules.atoms.sizes)))
    pattern = chem.MolFromSmarts("*~*~*~*")
    database = (shared("freesolv/database.txt") / "freesolv" / "database.txt").read_text(encoding="utf-8")
    rows = [line.split(";") for line in database.splitlines() if not line.startswith("#")]
    for number in (0, 5, 100, 300):
        molecule = chem.AddHs(chem.MolFromSmiles(rows[number][1].strip()))
        chains = molecule.GetSubstructMatches(pattern, uniquify=False, maxMatches=10_000)
        assert molecules.atoms.sizes[number] == molecule.GetNumAtoms()
        assert 2 * molecules.tuples["torsions"].sizes[number] == len(chains)
        assert molecules.tuples["bonds"].sizes[number] == molecule.GetNumBonds()


def test_a_short_fit():
    source = torch.Generator().manual_seed(1)
    one = made()
    many = one[torch.zeros(60, dtype=torch.long)]
    many = Molecules(many.atoms.with_values(torch.randn(360, NUM_FEATURES + 3, generator=source)), many.tuples)
    targets = many.atoms.values[:, 0].view(60, 6).sum(1, keepdim=True)
    found = study.fit(many, targets, 0, "atoms, bonds", False, seed=0, epochs=15)
    assert found["squared_error_in_training"] < 0.5 * targets.var().item() and found["cpu_seconds"] > 0
