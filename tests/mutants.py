"""Changes random lines of the library and says which test finds each: ``python -m tests.mutants --out FILE``.

Nobody chooses these faults, unlike those of tests/faults.py. Each mutant changes one operator, constant, condition or
statement. It is tried with the tests of its file until one fails. Results are appended, so that a run goes on where
another ended. ``--table`` writes them as Markdown, with the reasons of tests/survivors.json.
"""

import argparse
import ast
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import hypothesis
import numpy
import pandas
import pyarrow.parquet
import pytest
import scipy.stats
import sklearn.ensemble
import torch

ROOT = Path(__file__).parent.parent
SURVIVORS = ROOT / "tests" / "survivors.json"
ROOMS = ("orderings", "evaluate", "inference", "estimators")
CPU_SECONDS = 90
"""A mutant that takes longer has been found: it does not end."""

LOADED = (hypothesis, numpy, pandas, pyarrow, scipy, sklearn, torch)
"""Loaded once, before the processes of the mutants are forked."""

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any", "sum": "max", "zeros": "ones", "ones": "zeros"}

LAWS = "tests/test_laws.py::"
ROWS = [f"{LAWS}test_count_and_rows", f"{LAWS}test_definition_at_five_elements", f"{LAWS}test_invariance"]
EVALUATED = [f"{LAWS}test_definition", "tests/evaluate/test_choice.py", f"{LAWS}test_parity_of_evaluators"]
TUPLES = ["evaluate/test_every_tuple", "evaluate/test_spectral", "evaluate/test_operators", "evaluate/test_memory"]
CELLS = ["evaluate/test_recurrences", "evaluate/test_forest", "evaluate/test_by_torch"]
TESTS = {
    "orderings": ["orderings/test_orderings", "orderings/test_arguments", "orderings/test_canonical"],
    "orderings/schemes": ["orderings/test_schemes"],
    "orderings/contract": ["orderings/test_schemes", "orderings/test_importance", "inference/test_error_bars"],
    "orderings/drawn": ["inference/test_small_sets", "inference/test_predict"],
    "orderings/source": ["orderings/test_sampling_statistics"],
    "evaluate": ["evaluate/test_gather", "evaluate/test_validation", "evaluate/test_precision"],
    "evaluate/tuples": TUPLES,
    "evaluate/fused": TUPLES,
    "evaluate/spectral": TUPLES,
    "evaluate/permanent": TUPLES,
    "evaluate/per_element": ["nn/test_equivariant"],
    "evaluate/cells": CELLS,
    "evaluate/packed": CELLS,
    "evaluate/shared_prefixes": CELLS,
    "evaluate/sampled_prefixes": CELLS,
    "evaluate/rows": ["evaluate/test_memory", "evaluate/test_distinct"],
    "inference": ["inference/test_predict", "inference/test_error_bars", "inference/test_small_sets"],
    "inference/sensitivity": ["inference/test_sensitivity"],
    "inference/interaction": ["inference/test_sensitivity"],
    "estimators": ["estimators/test_bad_input", "estimators/test_training", "estimators/test_estimators"],
    "estimators/search": ["estimators/test_clock"],
    "estimators/candidates": ["estimators/test_search", "estimators/test_strategies"],
    "estimators/trials": ["estimators/test_search"],
    "estimators/set_estimator": ["estimators/test_saved_estimators", "estimators/test_streams"],
    "estimators/saved": ["estimators/test_saved_estimators"],
    "estimators/description": ["estimators/test_saved_estimators"],
    "estimators/checkpoint": ["estimators/test_streams"],
    "estimators/streams": ["estimators/test_streams"],
    "estimators/interrupts": ["cli/test_interrupts"],
    "estimators/splits": ["estimators/test_search"],
    "estimators/networks": ["estimators/test_strategies"],
    "estimators/tasks": ["estimators/test_ensemble", "estimators/test_finite"],
    "estimators/predictions": ["estimators/test_ensemble"],
}
"""The tests of each room, and before them those of a folder or file. One that is named like the file needs no line."""


@dataclass(frozen=True)
class Mutant:
    """One piece of a file, changed; ``begin`` and ``end`` are places in its text."""

    file: str
    line: int
    code: str
    """The line, by which a mutant is known when lines above it come and go."""
    begin: int
    end: int
    old: str
    new: str


@dataclass(frozen=True)
class Result:
    """The outcome of a mutant: the first test to fail, or None."""

    mutant: Mutant
    killed_by: str | None
    seconds: float


def nearest_tests(file: str) -> list[str]:
    """The tests that a mutant of this file is tried with, the nearest first."""
    place = file.removeprefix("src/janossy/").removesuffix(".py")
    room, stem = place.partition("/")[0], place.rpartition("/")[2]
    parents = [place[:i] for i in range(len(place), 0, -1) if i == len(place) or place[i] == "/"]
    named = [f"{room}/test_{stem}", *(name for parent in parents for name in TESTS.get(parent, []))]
    files = [f"tests/{name}.py" for name in named if (ROOT / f"tests/{name}.py").exists()]
    laws = {"orderings": ROWS, "evaluate": EVALUATED}.get(room, [])
    return list(dict.fromkeys([*files, *laws]))


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file: one changed piece of code, but for annotations, texts and what raises an error."""
    text = path.read_text(encoding="utf-8")
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.AST, new: str) -> Mutant:
        begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        old = text.encode()[begin:end].decode()
        code = text.splitlines()[node.lineno - 1].strip()
        return Mutant(str(path.relative_to(ROOT)), node.lineno, code, begin, end, old, new)

    for node in _code(ast.parse(text)):
        for new in _changes(node):
            yield place(node, new)


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
    """Yields other code in the place of this piece."""
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


def sampled(num: int, seed: int) -> list[Mutant]:
    """One mutant of each of ``num`` random lines of the four rooms; the first of them are the same for any ``num``."""
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for room in ROOMS:
        for path in sorted((ROOT / "src/janossy" / room).rglob("*.py")):
            for mutant in mutants(path):
                by_line.setdefault((mutant.file, mutant.line), []).append(mutant)
    source = random.Random(seed)
    lines = sorted(by_line)
    source.shuffle(lines)
    return [source.choice(by_line[line]) for line in lines][:num]


class FirstFailure:
    """A plugin of pytest that keeps the first test to fail."""

    found: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.found = self.found or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.found = self.found or f"{report.nodeid} (which cannot be imported)"


def try_mutant(tree: Path, mutant: Mutant) -> Result:
    """Plants a mutant in this copy, runs its tests in a process of their own, and takes the mutant out again.

    Raises: RuntimeError if the test that fails does so without the mutant too.
    """
    path = tree / mutant.file
    before, content = path.stat(), path.read_bytes()
    path.write_bytes(content[: mutant.begin] + mutant.new.encode() + content[mutant.end :])
    start = time.monotonic()
    try:
        found = first_failure(tree, nearest_tests(mutant.file))
    finally:
        path.write_bytes(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    if found and not passes_without(tree, found):
        raise RuntimeError(f"{found} fails without {key(mutant)} too")
    return Result(mutant, found, time.monotonic() - start)


@cache
def passes_without(tree: Path, test: str) -> bool:
    """Returns True if a test passes in this copy as it is. A process that ended and a file that fails to load count."""
    return "::" not in test or first_failure(tree, [test]) is None


def first_failure(tree: Path, tests: list[str]) -> str | None:
    """The first of these tests to fail in this tree, by a fork of this process, which has loaded what they import.

    Raises: RuntimeError if pytest ends for a reason of its own.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        os.chdir(tree)
        sys.dont_write_bytecode = True
        sys.path[:] = [str(tree / "src"), str(tree), *(place for place in sys.path if not place.startswith(str(ROOT)))]
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "janossy", "benchmarks")]:
            del sys.modules[name]
        plugin = FirstFailure()
        code = pytest.main(["-x", "-q", "--tb=no", "-p", "no:cacheprovider", *tests], plugins=[plugin])
        os.write(theirs, json.dumps([int(code), plugin.found]).encode())
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as pipe:
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status or not told:
        return f"a process that ended with {status}"
    code, found = json.loads(told)
    if code not in (0, 1) and found is None:
        raise RuntimeError(f"pytest ended with {code}: {' '.join(tests)}")
    return found


def table(results: list[Result]) -> str:
    """The counts per room, and each survivor with its reason, in Markdown."""
    reasons = json.loads(SURVIVORS.read_text(encoding="utf-8")) if SURVIVORS.exists() else {}
    lines = ["| room | mutants | killed | survive, and change nothing | survive |", "|---|---|---|---|---|"]
    for room in ROOMS:
        some = [each for each in results if each.mutant.file.startswith(f"src/janossy/{room}/")]
        alive = [each for each in some if each.killed_by is None]
        alike = sum(reasons.get(key(each.mutant), "").startswith("the same") for each in alive)
        lines.append(f"| {room} | {len(some)} | {len(some) - len(alive)} | {alike} | {len(alive) - alike} |")
    lines += ["", "| survivor | line | code | mutant | why |", "|---|---|---|---|---|"]
    for each in sorted(results, key=lambda each: (each.mutant.file, each.mutant.line)):
        if each.killed_by is None:
            file = each.mutant.file.removeprefix("src/janossy/")
            codes = each.mutant.code, each.mutant.old, each.mutant.new
            cells = (f"`{' '.join(code.split())}`".replace("|", "\\|") for code in codes)
            lines.append(f"| `{file}` | {' | '.join(cells)} | {reasons.get(key(each.mutant), '')} |")
    return "\n".join([*lines, ""])


def key(mutant: Mutant) -> str:
    """Returns the name of a mutant in tests/survivors.json."""
    change = f"{' '.join(mutant.old.split())} -> {' '.join(mutant.new.split())}"
    return f"{mutant.file.removeprefix('src/janossy/')}: {mutant.code}: {change}"


def read(path: Path) -> list[Result]:
    """The results that were written before."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    told = [json.loads(line) for line in lines]
    return [Result(Mutant(**each["mutant"]), each["killed_by"], each["seconds"]) for each in told]


def main() -> None:
    """Tries the mutants that have no result yet, prints each when done, and appends it to the file."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--num", type=int, default=300, help="random lines, one mutant of each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e9, help="ends before, if need be")
    parser.add_argument("--out", type=Path, required=True, help="a file of results, one line per mutant")
    parser.add_argument("--table", type=Path, help="a file for the table of all results")
    arguments = parser.parse_args()
    start, results = time.monotonic(), read(arguments.out)
    known = {key(each.mutant) for each in results}
    with tempfile.TemporaryDirectory() as folder:
        ignored = shutil.ignore_patterns(".*", "results", "build", "dist")
        tree = shutil.copytree(ROOT, Path(folder) / "tree", ignore=ignored)
        for mutant in sampled(arguments.num, arguments.seed):
            if key(mutant) in known or time.monotonic() - start > 60 * arguments.minutes:
                continue
            try:
                result = try_mutant(tree, mutant)
            except RuntimeError as error:
                print(f"not tried: {error}", flush=True)
                continue
            results.append(result)
            with arguments.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(result)) + "\n")
            print(f"{result.killed_by or 'SURVIVES'}: line {mutant.line} of {key(mutant)}", flush=True)
    killed = sum(each.killed_by is not None for each in results)
    print(f"{killed} of {len(results)} mutants are killed")
    if arguments.table:
        arguments.table.write_text(table(results), encoding="utf-8")


if __name__ == "__main__":
    main()
