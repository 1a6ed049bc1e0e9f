"""The cases that make test runs hold every combination of values that they should; the planted faults fit the tree.

No test takes a private name of what it tests.
"""

import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults import FAULTS
from tests.thinning import covering

ROOT = Path(__file__).parent.parent


def law_covers(cases, chosen, strength):
    """Checks that every combination of so many values that any case holds is held by a chosen one."""

    def held(some):
        return {
            frozenset(part)
            for case in some
            for part in combinations(case.items(), min(strength, len(case)))
        }  # fmt: skip

    assert held(cases[i] for i in chosen) == held(cases)


some_cases = st.lists(
    st.tuples(*(st.integers(0, 3) for _ in range(4))).map(lambda values: dict(zip("abcd", values, strict=True))),
    max_size=40,
)


@given(some_cases, st.integers(1, 5))
def test_every_combination_is_covered(cases, strength):
    chosen = covering(cases, strength)
    law_covers(cases, chosen, strength)
    assert chosen == sorted(set(chosen)) == covering(cases, strength)
    if strength >= 4:
        assert len(chosen) == len({tuple(case.values()) for case in cases})


def test_the_law_of_coverings_can_fail():
    cases = [{"a": a, "b": b, "c": c} for a in range(3) for b in range(3) for c in range(3)]
    law_covers(cases, covering(cases, 1), 1)
    with pytest.raises(AssertionError):
        law_covers(cases, covering(cases, 1), 2)


def test_a_covering_is_much_smaller_than_the_product():
    cases = [{"a": a, "b": b, "c": c, "d": d} for a in range(10) for b in range(8) for c in range(5) for d in range(4)]
    assert 80 <= len(covering(cases, 2)) <= 100


def test_values_of_other_types_and_values_without_a_hash():
    cases = [{"a": value, "b": b} for value in (1, True, 1.0, [1], {1}) for b in (0, 1)]
    assert len(covering(cases, 1)) == 5
    assert len(covering(cases, 2)) == 10


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_fault_fits_its_file_once(fault):
    assert (ROOT / fault.file).read_text(encoding="utf-8").count(fault.old) == 1
    assert fault.new != fault.old
    assert all((ROOT / test).is_file() for test in fault.tests)


def test_there_are_faults_enough():
    assert len({fault.what for fault in FAULTS}) == len(FAULTS) >= 30


@pytest.mark.only_all
def test_a_fork_finds_a_planted_fault():
    """In a process of its own, which collects tests."""
    (number,) = (i for i, fault in enumerate(FAULTS) if fault.what == "a table that is not closed is taken for a group")
    command = [sys.executable, "-m", "tests.mutations", "--forks", "--only", str(number)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found, rest = done.stdout.strip().split("\n")[-2:]
    assert found.startswith(f"{number} make test: {FAULTS[number].what}: {FAULTS[number].tests[0]}::"), done.stderr
    assert rest == "not found in forks: none"


PRIVATE = re.compile(
    r"""(setattr|setitem|patch)\(.*"_[a-z]|["' ](janossy|studies)[.\w]* import .*\b_[a-zA-Z]|"janossy\.[.\w]*\._"""
)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('monkeypatch.setattr(atomic, "_exchange", one)', True),
        ("from janossy.orderings.schemes import SCHEMES, _reverses", True),
        ("from janossy.estimators.processes import _Sum", True),
        ('monkeypatch.setattr("janossy.sets.ragged._sizes", one)', True),
        ("from janossy.orderings.schemes import SCHEMES", False),
        ('monkeypatch.setattr(atomic, "exchange_names", one)', False),
    ],
)
def test_private_names_in_texts_are_found(line, found):
    assert bool(PRIVATE.search(line)) == found


def test_tests_take_public_names():
    """Ruff's SLF001 sees attributes; this finds imports, and names in texts."""
    private = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.name not in ("test_thinning.py", "standin.py"):
            lines = path.read_text(encoding="utf-8").splitlines()
            private += [f"{path}: {line}" for line in lines if PRIVATE.search(line) and "noqa: SLF001" not in line]
    assert private == []
