"""Tests that are collected once and run many times, each time in a fork of this process.

A fork runs them traced, or with one function of the library changed. It starts at once, because torch, the library and
the tests are loaded. Code that runs when a module is loaded cannot be changed in this way. ``loading`` changes it, in a
process that loads the library later.
"""

import gc
import json
import os
import resource
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import SourceFileLoader
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

CPU_SECONDS = 90
"""The CPU seconds after which a mutant counts as found, because it does not end."""

IS_FUNCTION = 0x1
"""The flag of function code, which modules and classes do not have (``inspect.CO_OPTIMIZED``)."""

OPTIONS = ("-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "timeout=300")

Tell = Callable[[Any], None]


def forked(work: Callable[[Tell], None], seconds: int = CPU_SECONDS) -> tuple[list[Any], int]:
    """Calls ``work`` in a fork. Returns the JSON values that ``work`` reported, and the exit status of the fork."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        code = 1
        try:
            work(lambda told: _write(theirs, json.dumps(told)))
            code = 0
        finally:
            os._exit(code)
    os.close(theirs)
    with open(ours, encoding="utf-8") as pipe:
        told = pipe.read().splitlines()
    return [json.loads(line) for line in told], os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _write(pipe: int, line: str) -> None:
    rest = line.encode() + b"\n"
    while rest:
        rest = rest[os.write(pipe, rest) :]


class Collected:
    """A plugin of pytest that passes the cases to a function instead of running them, and runs cases on request."""

    def __init__(self, work: Callable[["Collected"], None]) -> None:
        self.work = work
        self.items: dict[str, pytest.Item] = {}
        self.failed = self.skipped = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.unfreeze()  # functions_of looks through what tests/conftest.py keeps out of garbage collections
        self.items = {item.nodeid: item for item in session.items}
        session.config.pluginmanager.unregister(name="terminalreporter")  # forks would write to its copy of stdout
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed
        self.skipped |= report.skipped

    def passes(self, test: str, following: str | None = None) -> bool:
        """Runs a case, and keeps the fixtures that the following case needs. Returns False if it fails."""
        self.failed = self.skipped = False
        item, nextitem = self.items[test], None if following is None else self.items[following]
        item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        return not self.failed

    def first_failure(self, tests: Sequence[str], tell: Tell) -> None:
        """Reports each of these cases before it runs, and at the end the first failing one, or None. Then stops."""
        for i, test in enumerate(tests):
            tell(test)
            if not self.passes(test, tests[i + 1] if i + 1 < len(tests) else None):
                return tell([test])
        return tell([None])


def collect(tests: Sequence[str], work: Callable[[Collected], None]) -> None:
    """Calls ``work`` with the cases of these files that make test runs.

    Raises: RuntimeError if pytest ends for another reason.
    """
    if code := pytest.main([*OPTIONS, *tests], plugins=[Collected(work)]):
        raise RuntimeError(f"pytest ended with {int(code)}")


class Lines:
    """A tracer of some lines of some files. ``seen`` holds the lines that ran since it was entered."""

    def __init__(self, wanted: dict[str, set[int]]) -> None:
        self.wanted = wanted
        self.seen: set[tuple[str, int]] = set()
        self._holds: dict[tuple[str, int, str], bool] = {}

    def __enter__(self) -> "Lines":
        self.seen.clear()
        threading.settrace(self._call)
        sys.settrace(self._call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]  # as its documentation says

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        wanted = self.wanted.get(code.co_filename)
        if wanted is None:
            return None
        name = code.co_filename, code.co_firstlineno, code.co_name
        if name not in self._holds:
            self._holds[name] = any(line in wanted for _, _, line in code.co_lines())
        return self._line if self._holds[name] else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        file, line = frame.f_code.co_filename, frame.f_lineno
        if line in self.wanted[file]:
            self.seen.add((file, line))
        return self._line


def trace(collected: Collected, tests: Sequence[str], wanted: dict[str, set[int]], tell: Tell) -> None:
    """Reports for each passing case its name, its CPU seconds, and the wanted lines that it runs."""
    lines = Lines(wanted)
    for test, following in zip(tests, [*tests[1:], None], strict=True):
        start = time.process_time()
        with lines:
            passes = collected.passes(test, following)
        seen = sorted(lines.seen) if passes and not collected.skipped else []
        tell([test, time.process_time() - start, seen])


def functions_of(files: set[str]) -> dict[tuple[str, str, int], list[FunctionType]]:
    """Returns every existing function of these files, by file, name and first line."""
    found = defaultdict(list)
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename in files:
            found[_name(each.__code__)].append(each)
    return found


def _name(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def swaps(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """Returns the code of each function that changed in a file, before and after; None if its loading changed."""
    nested_pairs = list(zip(_nested(old), _nested(new), strict=False))
    alike = _bare(old) == _bare(new) and len(_nested(old)) == len(_nested(new))
    if not old.co_flags & IS_FUNCTION and not alike:
        return None
    found = []
    for pair in nested_pairs if alike else ():
        inner = swaps(*pair)
        if inner is None:
            return None
        found += inner
    if old.co_flags & IS_FUNCTION and (found or not alike):
        found.append((old, new))  # its constants hold the functions inside
    return found


def _nested(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _bare(code: CodeType) -> tuple[object, ...]:
    constants = [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
    variables = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, code.co_exceptiontable, constants, variables


def swap(pairs: list[tuple[CodeType, CodeType]], functions: dict[tuple[str, str, int], list[FunctionType]]) -> bool:
    """Gives functions their changed code. Returns False if one takes other variables from around it."""
    for old, new in pairs:
        if old.co_freevars != new.co_freevars:
            return False
        for function in functions.get(_name(old), ()):
            function.__code__ = new
    return True


def loading(file: str, text: str) -> None:
    """Makes this process load this file with this text."""
    real = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> CodeType | None:
        return compile(text, file, "exec", dont_inherit=True) if self.path == file else real(self, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def chosen(runs: Iterable[tuple[str, float]], seconds: float) -> list[str]:
    """Returns some cases that take ``seconds`` together: first the quickest case per test, then the others."""
    by_test = defaultdict(list)
    for test, each in sorted(runs, key=lambda run: run[1]):
        by_test[test.partition("[")[0]].append((test, each))
    ranked = sorted((i, each, test) for cases in by_test.values() for i, (test, each) in enumerate(cases))
    found = []
    for _, each, test in ranked:
        seconds -= each
        if found and seconds < 0:
            break
        found.append(test)
    return found
