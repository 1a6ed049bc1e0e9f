"""The random mutants: each is another program, and its file has tests."""

import ast

import pytest

from tests.mutants import ROOMS, ROOT, Mutant, Result, key, mutants, nearest_tests, sampled, table

FILES = [path for room in ROOMS for path in sorted((ROOT / "src/janossy" / room).rglob("*.py"))]


@pytest.mark.parametrize("path", FILES[::12], ids=lambda path: str(path.relative_to(ROOT / "src/janossy")))
def test_a_mutant_is_another_program(path):
    content = path.read_bytes()
    before = ast.dump(ast.parse(content))
    for mutant in mutants(path):
        assert content[mutant.begin : mutant.end].decode() == mutant.old
        after = content[: mutant.begin] + mutant.new.encode() + content[mutant.end :]
        assert ast.dump(ast.parse(after)) != before, mutant


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "src/janossy")))
def test_a_file_has_tests(path):
    tests = nearest_tests(str(path.relative_to(ROOT)))
    assert tests and all((ROOT / test.partition("::")[0]).is_file() for test in tests)


def test_a_longer_run_begins_as_a_shorter_one():
    some = sampled(20, 0)
    assert some == sampled(30, 0)[:20] != sampled(20, 1)
    assert len({(mutant.file, mutant.line) for mutant in some}) == 20


def test_the_table_has_each_survivor():
    one, other = sampled(2, 0)
    text = table([Result(one, None, 1.0), Result(other, "a test", 1.0)])
    assert text.count("| 1 | 1 | 0 | 0 |") == 1 and one.code.split()[0] in text
    assert isinstance(one, Mutant) and key(one) != key(other)
