"""The random mutants: each is another program, is tried with the tests that run its line, and has its row."""

import ast
import json
from dataclasses import replace

import pytest

from tests.mutants import (
    ROOMS,
    ROOT,
    TESTS,
    Result,
    Trials,
    key,
    latest,
    lines_of,
    mutants,
    planted,
    read,
    sampled,
    table,
)

FILES = [path for room in ROOMS for path in sorted((ROOT / "src/janossy" / room).rglob("*.py"))]


@pytest.mark.parametrize("path", FILES[::12], ids=lambda path: str(path.relative_to(ROOT / "src/janossy")))
def test_a_mutant_is_another_program(path):
    content = path.read_bytes()
    before = ast.dump(ast.parse(content))
    for mutant in mutants(path)[::10]:
        assert content[mutant.begin : mutant.end].decode() == mutant.old
        assert ast.dump(ast.parse(planted(mutant))) != before, mutant


def test_the_tests_are_there():
    assert all((ROOT / test).exists() for test in TESTS)


def test_a_longer_run_begins_as_a_shorter_one():
    some = sampled(20, 0)
    assert some == sampled(30, 0)[:20] != sampled(20, 1)
    assert len({(mutant.file, mutant.line) for mutant in some}) == 20


def test_known_mutants_stay_in_the_sample():
    some = sampled(20, 0)
    known = [sampled(20, 1)[7], replace(some[0], code="a line that is gone")]
    assert sampled(20, 0, known) == [known[0], *some[:18]]


def test_the_sample_stays_when_another_line_changes(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.mutants.ROOT", tmp_path)
    file = tmp_path / "src/janossy/orderings/lines.py"
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"x{i} = y{i} + 1\n" for i in range(30)))
    before = [key(mutant) for mutant in sampled(10, 0)]
    file.write_text("z = y + 2\n" + file.read_text())
    after = [key(mutant) for mutant in sampled(11, 0)]
    assert [name for name in after if "z = " not in name][:10] == before


@pytest.fixture
def trials(tmp_path):
    """Gives two mutants. The first one's line is run by two tests, one of which is slow."""
    some = sampled(2, 0)
    line = [str(ROOT / some[0].file), some[0].line]
    runs = [["slow", 100.0, [line]], ["quick", 1.0, [line]], ["another", 1.0, []]]
    (tmp_path / "lines").write_text("".join(json.dumps(each) + "\n" for each in runs))
    return Trials(some, tmp_path / "results", tmp_path / "lines", num_cases=10, seconds=30.0)


def test_a_mutant_is_tried_with_the_tests_that_run_its_line(trials):
    one, other = trials.mutants
    assert trials.tests_of(one) == ["quick"] and trials.tests_of(other) == []


def test_one_that_is_loaded_is_tried_with_the_tests_of_its_file():
    every = [mutant for path in FILES for mutant in mutants(path)]
    (loaded,) = (each for each in every if each.code == "SMALL_SETS = 40")
    inside = next(each for each in every if each.file == loaded.file and lines_of(each) == {each.line})
    assert inside.line != loaded.line not in lines_of(loaded) and len(lines_of(loaded)) > 1


def test_a_test_that_fails_without_the_mutant_too_finds_none(trials):
    one, other = trials.mutants

    def fails(tell):
        tell("a::test")
        tell(["a::test"])

    trials.conclude(one, fails, lambda tell, test: tell(["a::test"]))
    assert trials.left() == [one, other] and trials.results == []
    trials.conclude(other, fails, lambda tell, test: tell([None]))
    assert trials.left() == [one, other]  # it is known of this test by now
    trials.conclude(one, lambda tell: 1 / 0, None)
    assert trials.left() == [one, other]
    trials.conclude(one, lambda tell: (tell("b::test"), tell([None])), None)
    trials.conclude(other, lambda tell: (tell("c::test"), 1 / 0), lambda tell, test: tell([None]))
    assert trials.left() == [] and read(trials.file) == trials.results
    survivor, killed = trials.results
    assert (survivor.killed_by, survivor.num_tests) == (None, 1)
    assert killed.killed_by == "c::test, which ended with 1"
    again = Trials(trials.mutants, trials.file, trials.lines, num_cases=10, seconds=30.0, again=True)
    assert again.left() == [one]
    again.conclude(one, lambda tell: (tell("d::test"), tell(["d::test"])), lambda tell, test: tell([None]))
    assert again.left() == [] and [each.killed_by for each in latest(read(trials.file))] == [
        "d::test",
        killed.killed_by,
    ]


def test_the_table_has_each_survivor():
    one, *others = sampled(20, 0)
    other = next(each for each in others if each.file.split("/")[2] != one.file.split("/")[2])
    text = table([Result(one, None, 0, 1.0), Result(other, "a test", 3, 1.0)])
    assert text.count("| 1 | 1 | 0 | 0 | 0 |") == 1 and one.code.split()[0] in text
    text = table([Result(one, None, 0, 1.0), Result(other, "a test", 3, 1.0), Result(one, "a test", 1, 1.0)])
    assert "2 of 2" in text and text.count("| 1 | 0 | 1 | 0 | 0 |") == 1
    assert key(one) != key(other)
