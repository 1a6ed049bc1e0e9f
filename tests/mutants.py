"""Changes random lines of the library, and reports which test finds each: ``python -m tests.mutants --out FILE``.

These faults are random, unlike those of tests/faults.py. Each mutant changes one operator, constant, condition or
statement. The tests that run its line are tried until one fails. Therefore the lines of each test are found first.

Both results are appended to files, so that an interrupted run resumes. A mutant keeps its result when other lines
change. ``--again`` tries the survivors again, and appends their new results. ``--table`` writes the results as
Markdown, with the reasons in tests/survivors.json.
"""

import argparse
import ast
import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import hypothesis
import numpy
import pandas
import pyarrow.parquet
import pytest
import scipy.stats
import sklearn.ensemble
import torch

from tests.warm import (
    CPU_SECONDS,
    OPTIONS,
    Collected,
    Tell,
    chosen,
    collect,
    forked,
    functions_of,
    loading,
    swap,
    swaps,
    trace,
)

ROOT = Path(__file__).parent.parent
SURVIVORS = ROOT / "tests" / "survivors.json"
ROOMS = ("orderings", "evaluate", "inference", "estimators")
LOADED = (hypothesis, numpy, pandas, pyarrow, scipy, sklearn, torch)
"""Modules that are loaded once, before the processes of the mutants are forked."""

TESTS = (
    *("tests/orderings", "tests/evaluate", "tests/inference", "tests/estimators", "tests/nn", "tests/losses"),
    *("tests/test_laws.py", "tests/test_special_cases.py", "tests/test_doors.py", "tests/test_completeness.py"),
    *("tests/test_extending.py", "tests/test_known_models.py", "tests/functions", "tests/saving/test_network.py"),
    *("tests/cli/test_evaluation.py", "tests/kernels/test_product_means.py"),
)
"""The tests that are tried with mutants, unless ``--tests`` names others."""

NOT_TRACED = (
    *("processes.py::test_gradients", "processes.py::test_fits", "processes.py::test_a_fit"),
    *("processes.py::test_what_is_wrong", "processes.py::test_one_that_dies", "test_accelerate.py"),
    "test_estimator_checks",
    "estimators_page",
    "user_pages",
    "_compiled",
)
"""Tests that start processes, belong to another library, or read how functions are made."""

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any", "sum": "max", "zeros": "ones", "ones": "zeros"}


@dataclass(frozen=True)
class Mutant:
    """One changed piece of a file. ``begin`` and ``end`` are positions in its text."""

    file: str
    line: int
    code: str
    """The line, which identifies a mutant when lines above it change."""
    begin: int
    end: int
    old: str
    new: str


@dataclass(frozen=True)
class Result:
    """The outcome of a mutant: the first failing test, or None, and the number of tests tried."""

    mutant: Mutant
    killed_by: str | None
    num_tests: int
    seconds: float


def mutants(path: Path) -> list[Mutant]:
    """Returns every mutant of a file: one changed piece of code. Annotations, texts and errors are not changed."""
    return _mutants(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))


@cache
def _mutants(file: str, text: str) -> list[Mutant]:
    content, lines, starts = text.encode(), text.splitlines(), [0]
    for line in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.AST, new: str) -> Mutant:
        begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        old, code = content[begin:end].decode(), lines[node.lineno - 1].strip()
        return Mutant(file, node.lineno, code, begin, end, old, new)

    return [place(node, new) for node in _code(ast.parse(text)) for new in _changes(node)]


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes whose change may change what the program does."""
    if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return
    yield node
    skipped = {"annotation", "returns", "decorator_list", "type_params"}
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    for name, field in ast.iter_fields(node):
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST) and name not in skipped:
                yield from _code(child)


def _changes(node: ast.AST) -> Iterator[str]:
    """Yields replacements of this piece of code."""
    match node:
        case ast.Compare(left, [operator], [right]) if type(operator) in COMPARISONS:
            yield _written(ast.Compare(left, [COMPARISONS[type(operator)]()], [right]))
        case ast.BinOp(left, operator, right) if type(operator) in OPERATORS:
            yield _written(ast.BinOp(left, OPERATORS[type(operator)](), right))
        case ast.AugAssign(target, operator, value) if type(operator) in OPERATORS:
            yield ast.unparse(ast.AugAssign(target, OPERATORS[type(operator)](), value))
        case ast.BoolOp(operator, values):
            yield _written(ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values))
        case ast.UnaryOp(_, operand):
            yield _written(operand)
        case ast.Constant(bool() as value):
            yield repr(not value)
        case ast.Constant(int() | float() as value):
            yield repr(value + 1)
        case ast.IfExp(test, body, orelse):
            yield _written(ast.IfExp(test, orelse, body))
        case ast.Call(ast.Name(name), arguments, keywords) if name in SWAPPED:
            yield ast.unparse(ast.Call(ast.Name(SWAPPED[name]), arguments, keywords))
        case ast.Call(ast.Attribute(value, name), arguments, keywords) if name in SWAPPED:
            yield ast.unparse(ast.Call(ast.Attribute(value, SWAPPED[name]), arguments, keywords))
        case ast.Return(ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return None"
        case ast.Expr(ast.Call()) | ast.Delete():
            yield "pass"
        case ast.Continue():
            yield "break"
        case ast.Break():
            yield "continue"


def _written(node: ast.expr) -> str:
    return f"({ast.unparse(ast.fix_missing_locations(node))})"


def sampled(num: int, seed: int, known: Iterable[Mutant] = ()) -> list[Mutant]:
    """Returns the known mutants that still exist, and one mutant of each of random other lines, ``num`` with ``known``.

    The rank of a line depends on its own text. The sample therefore stays when other lines change.
    """
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for room in ROOMS:
        for path in sorted((ROOT / "src/janossy" / room).rglob("*.py")):
            for mutant in mutants(path):
                by_line.setdefault((mutant.file, mutant.line), []).append(mutant)
    names = {key(mutant) for mutant in known}
    old, new = {}, []
    for alike in by_line.values():
        old |= {key(mutant): mutant for mutant in alike if key(mutant) in names}
        source = random.Random(f"{seed} {alike[0].file} {alike[0].code}")
        new.append((source.random(), source.choice(alike)))
    others = {key(mutant): mutant for _, mutant in sorted(new, key=lambda each: each[0]) if key(mutant) not in names}
    return [*old.values(), *list(others.values())[: max(0, num - len(names))]]


class Trials:
    """Mutants and the tests that run their lines. Results are appended to two files, which record what is known."""

    def __init__(
        self, mutants: list[Mutant], results: Path, lines: Path, num_cases: int, seconds: float, again: bool = False
    ) -> None:
        self.mutants, self.file, self.lines, self.num_cases, self.seconds = mutants, results, lines, num_cases, seconds
        self.results = read(results)
        self.num_before = len(self.results)
        self.again = again
        self._passes: dict[str, bool] = {}

    def left(self) -> list[Mutant]:
        """Returns the mutants that have no result yet; with ``again``, the survivors of earlier runs too."""
        before = latest(self.results[: self.num_before])
        known = {key(each.mutant) for each in before if not (self.again and each.killed_by is None)}
        known |= {key(each.mutant) for each in self.results[self.num_before :]}
        return [mutant for mutant in self.mutants if key(mutant) not in known]

    def trace(self, collected: Collected) -> None:
        """Finds the lines that each test runs, for the tests that are not in the file."""
        wanted: dict[str, set[int]] = defaultdict(set)
        for mutant in self.mutants:
            wanted[str(ROOT / mutant.file)] |= lines_of(mutant)
        known = {test for test, _, _ in _json_lines(self.lines)}
        by_test, by_file = defaultdict(list), defaultdict(list)
        for case in collected.items:
            if not any(name in case for name in NOT_TRACED):
                by_test[case.partition("[")[0]].append(case)
        for test, cases in by_test.items():
            step = -(-len(cases) // self.num_cases)
            by_file[test.partition("::")[0]] += [case for case in cases[::step] if case not in known]
        for name, tests in by_file.items():
            for i in range(0, len(tests), 60):
                part = tests[i : i + 60]
                told, status = forked(lambda tell, part=part: trace(collected, part, wanted, tell), 10 * CPU_SECONDS)
                _append(self.lines, told)
                print(f"traced {len(told)} of {name}" + (f", which ended with {status}" if status else ""), flush=True)

    def trace_and_try(self, tests: Sequence[str]) -> None:
        """Collects these tests once, and runs them in forks of this process."""

        def work(collected: Collected) -> None:
            self.trace(collected)
            self.try_warm(collected)

        collect(tests, work)

    def tests_of(self, mutant: Mutant, some: Container[str] | None = None) -> list[str]:
        """Returns tests that run a line of ``lines_of`` the mutant, up to ``seconds``, the quickest first.

        Args:
            some: the tests that are considered; None for all.
        """
        wanted = {(str(ROOT / mutant.file), line) for line in lines_of(mutant)}
        runs = [(test, seconds) for test, seconds, lines in self._traced if lines & wanted]
        return chosen([run for run in runs if some is None or run[0] in some], self.seconds)

    @cached_property
    def _traced(self) -> list[tuple[str, float, set[tuple[str, int]]]]:
        """The findings of ``trace``, read once it has ended."""
        return [
            (test, seconds, {(file, line) for file, line in lines}) for test, seconds, lines in _json_lines(self.lines)
        ]

    def try_warm(self, collected: Collected) -> None:
        """Tries the mutants inside functions."""
        functions = functions_of({str(ROOT / mutant.file) for mutant in self.mutants})
        for mutant in self.left():
            path = str(ROOT / mutant.file)
            old, new = (compile(text, path, "exec", dont_inherit=True) for text in (source(mutant), planted(mutant)))
            pairs = swaps(old, new)
            if pairs is None:
                continue

            def work(tell: Tell, mutant: Mutant = mutant, pairs: list[Any] = pairs) -> None:
                if swap(pairs, functions):
                    collected.first_failure(self.tests_of(mutant, collected.items), tell)

            def again(tell: Tell, test: str) -> None:
                collected.first_failure([test], tell)

            self.conclude(mutant, work, again)

    def try_loaded(self) -> None:
        """Tries the other mutants, each in a process that loads the library with it."""
        for mutant in self.left():
            tests = self.tests_of(mutant)

            def work(tell: Tell, mutant: Mutant = mutant, tests: list[str] = tests) -> None:
                loading(str(ROOT / mutant.file), planted(mutant))
                run_until_one_fails(tests, tell)

            self.conclude(mutant, work, lambda tell, test: run_until_one_fails([test], tell))

    def conclude(self, mutant: Mutant, work: Callable[[Tell], None], again: Callable[[Tell, str], None]) -> None:
        """Tries a mutant by ``work`` in a fork, and appends its result, unless a test fails without it too."""
        start = time.monotonic()
        told, status = forked(work)
        tests = [each for each in told if isinstance(each, str)]
        if not told and not status:
            return  # its code could not be swapped
        if self.again and not status and told == [[None]]:
            return  # no test, so that the earlier result stands
        if not told:
            print(f"not tried: the fork for {key(mutant)} ended with {status}", flush=True)
            return
        found = told[-1][0] if isinstance(told[-1], list) else tests[-1]
        if found in tests:
            if found not in self._passes:
                self._passes[found] = forked(lambda tell: again(tell, found))[0][-1:] == [[None]]
            if not self._passes[found]:
                print(f"not tried: {found} fails without {key(mutant)} too", flush=True)
                return
        if found and status:
            found += f", which ended with {status}"
        result = Result(mutant, found, len(tests), time.monotonic() - start)
        self.results.append(result)
        _append(self.file, [asdict(result)])
        print(f"{result.killed_by or 'SURVIVES'}: line {mutant.line} of {key(mutant)}", flush=True)


def lines_of(mutant: Mutant) -> set[int]:
    """Returns the line of a mutant within a function, else the first line of each function of its file.

    Module code runs before tests are traced. The tests that run the file's functions stand for those that need it.
    """
    first = set()
    for node in ast.walk(ast.parse(source(mutant))):
        if isinstance(node, ast.FunctionDef):
            body = [
                each for each in node.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
            ]
            if body and body[0].lineno <= mutant.line <= node.end_lineno:
                return {mutant.line}
            first |= {each.lineno for each in body[:1]}
    return first


def run_until_one_fails(tests: list[str], tell: Tell) -> None:
    """Reports each of these tests before it runs, and at the end the first failing test, or None."""
    first = FirstFailure(tell)
    if tests:  # pytest would run all that it finds
        pytest.main([*OPTIONS, "-x", *tests], plugins=[first])
    tell([first.found])


class FirstFailure:
    """A plugin of pytest that reports each test, and keeps the first failing one."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.found: str | None = None

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.tell(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.found = self.found or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.found = self.found or f"{report.nodeid} (which cannot be imported)"


def source(mutant: Mutant) -> str:
    """Returns the text of a mutant's file as it is."""
    return (ROOT / mutant.file).read_text(encoding="utf-8")


def planted(mutant: Mutant) -> str:
    """Returns the text of a mutant's file with the change."""
    content = source(mutant).encode()
    return (content[: mutant.begin] + mutant.new.encode() + content[mutant.end :]).decode()


def _json_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _append(path: Path, lines: list[Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(each) + "\n" for each in lines)


def table(results: list[Result]) -> str:
    """Returns the counts per room, and each survivor with its reason, in Markdown."""
    reasons = json.loads(SURVIVORS.read_text(encoding="utf-8")) if SURVIVORS.exists() else {}
    at_first = {key(each.mutant) for each in latest(results[::-1]) if each.killed_by is not None}
    results = latest(results)
    num_killed = sum(each.killed_by is not None for each in results)
    num_alike = sum(_changes_nothing(each, reasons) for each in results)
    lines = [
        f"`python -m tests.mutants`: {num_killed} of {len(results)} random mutants are killed. {num_alike} others "
        f"change nothing, so that {num_killed / max(1, len(results) - num_alike):.0%} of those that matter are killed.",
        "",
        "The first run tried the quickest tests of each mutant. Later ones tried more tests, and new ones.",
        "",
    ]
    lines += ["| room | mutants | killed at first | killed later | survive, and change nothing | survive |"]
    lines += ["|---|---|---|---|---|---|"]
    for room in ROOMS:
        some = [each for each in results if each.mutant.file.startswith(f"src/janossy/{room}/")]
        alive = [each for each in some if each.killed_by is None]
        first = sum(each.killed_by is not None and key(each.mutant) in at_first for each in some)
        alike = sum(_changes_nothing(each, reasons) for each in alive)
        since = len(some) - len(alive) - first
        lines.append(f"| {room} | {len(some)} | {first} | {since} | {alike} | {len(alive) - alike} |")
    lines += ["", "| survivor | line | code | mutant | why |", "|---|---|---|---|---|"]
    for each in sorted(results, key=lambda each: (each.mutant.file, each.mutant.line)):
        if each.killed_by is None:
            file = each.mutant.file.removeprefix("src/janossy/")
            codes = each.mutant.code, each.mutant.old, each.mutant.new
            cells = (f"`{' '.join(code.split())}`".replace("|", "\\|") for code in codes)
            lines.append(f"| `{file}` | {' | '.join(cells)} | {reasons.get(key(each.mutant), '')} |")
    return "\n".join([*lines, ""])


def _changes_nothing(result: Result, reasons: dict[str, str]) -> bool:
    return result.killed_by is None and reasons.get(key(result.mutant), "").startswith("the same")


def key(mutant: Mutant) -> str:
    """Returns the name of a mutant in tests/survivors.json."""
    change = f"{' '.join(mutant.old.split())} -> {' '.join(mutant.new.split())}"
    return f"{mutant.file.removeprefix('src/janossy/')}: {mutant.code}: {change}"


def read(path: Path) -> list[Result]:
    """Returns the results of earlier runs, in their order."""
    return [Result(**{**each, "mutant": Mutant(**each["mutant"])}) for each in _json_lines(path)]


def latest(results: list[Result]) -> list[Result]:
    """Returns the last result of each mutant."""
    return list({key(each.mutant): each for each in results}.values())


def main() -> None:
    """Tries the mutants without a result, prints each result, and appends it to the file."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--num", type=int, default=300, help="random lines, one mutant of each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="a file of results, one line per mutant")
    parser.add_argument("--lines", type=Path, help="a file of the lines that each test runs (by default beside --out)")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="the files or folders of tests that are tried")
    parser.add_argument("--cases", type=int, default=1000, help="cases per test at most, spread over all")
    parser.add_argument("--seconds", type=float, default=30.0, help="CPU seconds of tests per mutant at most")
    parser.add_argument("--again", action="store_true", help="try the survivors again")
    parser.add_argument("--table", type=Path, help="a file for the table of all results")
    parser.add_argument("--only-table", action="store_true", help="try none, and write the table")
    arguments = parser.parse_args()
    lines = arguments.lines or arguments.out.with_suffix(".lines")
    some = sampled(arguments.num, arguments.seed, [each.mutant for each in read(arguments.out)])
    trials = Trials(some, arguments.out, lines, arguments.cases, arguments.seconds, arguments.again)
    if not arguments.only_table:
        os.chdir(ROOT)
        child = os.fork()  # the child loads the library, so that this process does not
        if child == 0:
            trials.trace_and_try(arguments.tests)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise SystemExit("the tests could not be collected")
        trials.results = read(arguments.out)
        trials.try_loaded()
    results = latest(trials.results)
    print(f"{sum(each.killed_by is not None for each in results)} of {len(results)} mutants are killed")
    if arguments.table:
        arguments.table.write_text(table(trials.results), encoding="utf-8")


if __name__ == "__main__":
    main()
