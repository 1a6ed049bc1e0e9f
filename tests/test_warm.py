"""Forks of a warm process: functions get the code of a changed file, lines are traced, what is told comes back."""

import os
import signal
import time

import pytest

from tests.warm import Lines, chosen, collect, forked, functions_of, swap, swaps

TEXT = """
LIMIT = 3

def outer(x, most=10):
    def inner(y):
        return y + x
    return [inner(each) for each in range(x)]

class Kind:
    size = 2

    def twice(self, x):
        return x * self.size
"""


def loaded(text: str, file: str) -> dict:
    names: dict = {}
    exec(compile(text, file, "exec"), names)
    return names


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("y + x", "y - x", ([-3, -2, -1], 8)),
        ("inner(each) for each in range(x)]", "0]", ([0], 8)),
        ("x * self.size", "x + self.size", ([3, 4, 5], 6)),
        ("return y + x", "return None", ([None] * 3, 8)),  # takes no variable from outside
    ],
)
def test_functions_get_the_code_of_a_changed_file(old, new, expected, tmp_path):
    file = str(tmp_path / "module.py")
    names = loaded(TEXT, file)
    of_class, closure = names["Kind"]().twice, names["outer"]
    pairs = swaps(*(compile(text, file, "exec") for text in (TEXT, TEXT.replace(old, new))))
    assert swap(pairs, functions_of({file}))
    assert (closure(3), of_class(4)) == expected


@pytest.mark.parametrize(("old", "new"), [("LIMIT = 3", "LIMIT = 4"), ("most=10", "most=11"), ("size = 2", "size = 3")])
def test_what_is_loaded_is_not_swapped(old, new):
    assert swaps(*(compile(text, "a file", "exec") for text in (TEXT, TEXT.replace(old, new)))) is None


def test_lines_that_run(tmp_path):
    file = str(tmp_path / "module.py")
    names = loaded(TEXT, file)
    with Lines({file: {6, 7, 13}}) as lines:
        names["outer"](2)
    assert lines.seen == {(file, 6), (file, 7)}
    with lines:
        names["Kind"]().twice(1)
    assert lines.seen == {(file, 13)}


def test_what_forks_tell_and_how_they_end():
    def several(tell):
        for i in range(3):
            tell([i, "a" * 100_000])

    assert forked(several) == ([[i, "a" * 100_000] for i in range(3)], 0)

    def killed(tell):
        tell("begun")
        os.kill(os.getpid(), signal.SIGKILL)

    assert forked(killed) == (["begun"], -signal.SIGKILL)

    def endless(tell):
        while True:
            time.process_time()

    told, status = forked(endless, 1)
    assert told == [] and status in (-signal.SIGXCPU, -signal.SIGKILL)
    assert forked(lambda tell: 1 / 0)[1] == 1


def test_of_each_test_the_quickest_case_comes_first():
    runs = [("a[slow]", 3.0), ("a[quick]", 1.0), ("b", 2.0), ("c[x]", 0.5), ("c[y]", 0.6)]
    assert chosen(runs, 100.0) == ["c[x]", "a[quick]", "b", "c[y]", "a[slow]"]
    assert chosen(runs, 4.0) == ["c[x]", "a[quick]", "b"]
    assert chosen(runs, 0.0) == ["c[x]"]
    assert chosen([], 1.0) == []


TESTS = """
import pytest

@pytest.fixture(scope="module")
def two():
    return 2

@pytest.mark.parametrize("i", range(3))
def test_a(i, two):
    assert i < two

def test_b():
    pytest.skip("as an example")
"""


def test_what_is_collected_runs_in_forks(tmp_path):
    """In a fork of its own, for pytest within pytest."""
    (tmp_path / "test_it.py").write_text(TESTS)

    def collected(tell):
        def work(found):
            tell(sorted(found.items))
            for tests in ([], sorted(found.items)[:2], sorted(found.items)):
                tell(forked(lambda tell, tests=tests: found.first_failure(tests, tell))[0])
            tell([found.passes("test_it.py::test_b"), found.skipped])

        os.chdir(tmp_path)
        collect(["test_it.py"], work)

    names = [*(f"test_it.py::test_a[{i}]" for i in range(3)), "test_it.py::test_b"]
    assert forked(collected)[0] == [
        names,
        [[None]],
        [*names[:2], [None]],
        [*names[:3], [names[2]]],
        [True, True],
    ]
