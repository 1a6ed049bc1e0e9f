"""Plants faults, and reports which tests find them: ``python -m tests.mutations [--all] [--only N]``.

The covering of cases that ``make test`` runs must find every fault that all cases find. Each fault is tried with the
tests named beside it, with the cases of ``make test``. If these miss it, or with ``--all``, it is tried with all cases.

Faults within functions that are not compiled are first tried in forks of one process, where tests start at once. The
other faults, and those that no fork finds, are tried in a copy of the tree.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.faults import FAULTS, Fault
from tests.warm import Collected, Tell, collect, forked, functions_of, swap, swaps

ROOT = Path(__file__).parent.parent
LEFT_OUT = shutil.ignore_patterns(".*", "results", "build", "dist")
SECONDS = 400
"""CPU seconds of a fault's tests in a fork, after which it is tried in a copy of the tree."""

FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """The first test to find a fault, or None: with the covering, and with all cases if these were run."""

    covering: str | None
    whole: str | None
    whole_was_run: bool
    seconds: float

    @property
    def caught(self) -> str:
        if self.covering:
            return "make test"
        return "only all cases" if self.whole else "not caught"


def copied(folder: Path) -> Path:
    """Returns a copy of the tree with its compiled kernels, which numba knows by the times of their sources."""
    return shutil.copytree(ROOT, folder / "tree", ignore=LEFT_OUT)


def try_fault(tree: Path, fault: Fault, always_all: bool) -> Outcome:
    """Plants the fault in this copy, runs its tests, and removes it.

    Raises: RuntimeError if the test that finds it also fails without it.
    """
    path = tree / fault.file
    before, text = path.stat(), path.read_text(encoding="utf-8")
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    start = time.monotonic()
    try:
        covering = first_failure(tree, fault.tests)
        whole_is_run = always_all or covering is None
        whole = first_failure(tree, fault.tests, "--all") if whole_is_run else None
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    for found in {covering, whole} - {None}:
        if first_failure(tree, (str(found),)) is not None:
            raise RuntimeError(f"{found}, which should have found that {fault.what}, fails without the fault too")
    return Outcome(covering, whole, whole_is_run, time.monotonic() - start)


def find_in_forks(numbers: Sequence[int], rows: dict[str, str], found: Callable[[int, Outcome], None]) -> None:
    """Calls ``found`` with the number of each fault that a test finds in a fork, and passes without the fault.

    The test that a fault's row names is the first to be tried.
    """
    tried = {}
    for i in numbers:
        path = ROOT / FAULTS[i].file
        text = path.read_text(encoding="utf-8")
        planted = text.replace(FAULTS[i].old, FAULTS[i].new)
        pairs = swaps(*(compile(each, str(path), "exec", dont_inherit=True) for each in (text, planted)))
        if "kernels" not in path.parts and pairs is not None:
            tried[i] = pairs

    def work(collected: Collected) -> None:
        functions = functions_of({str(ROOT / FAULTS[i].file) for i in tried})
        for i, pairs in tried.items():
            cases = [case for case in collected.items if case.partition("::")[0] in FAULTS[i].tests]
            known = [case for case in cases if _cell(case) in rows.get(FAULTS[i].what, "")]
            cases = [*known, *(case for case in cases if case not in known)]
            start = time.monotonic()

            def planted(tell: Tell, cases: list[str] = cases, pairs: list[Any] = pairs) -> None:
                if swap(pairs, functions):
                    collected.first_failure(cases, tell)

            last = (forked(planted, SECONDS)[0] or [None])[-1]
            failed = last[0] if isinstance(last, list) else None
            if failed and forked(lambda tell, case=failed: collected.first_failure([case], tell))[0][-1:] == [[None]]:
                found(i, Outcome(failed, None, False, time.monotonic() - start))

    if tried:
        collect(sorted({test for i in tried for test in FAULTS[i].tests}), work)


def first_failure(tree: Path, tests: tuple[str, ...], *options: str) -> str | None:
    """Returns the first failing test in this tree, or None if all pass.

    Raises: RuntimeError if pytest finds no tests, or stops for another reason.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider", *options, *tests]
    environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    failed = FAILED.search(done.stdout)
    if failed is None:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return failed[1]


def table(rows: dict[str, str], command: str) -> str:
    """Returns the rows of ``row``, sorted by description, as Markdown."""
    lost, missed = (sum(f"| {caught} |" in row for row in rows.values()) for caught in ("only all cases", "not caught"))
    return "\n".join(
        [
            f"`{command}` (`--only` keeps the rows of the others): of {len(rows)} planted faults, the cases that "
            f"`make test` runs find {len(rows) - lost - missed}; all cases find {lost} more.",
            "",
            "| fault | file | found by | first to fail in `make test` | in `make test-all`, where that was run |",
            "|---|---|---|---|---|",
            *rows.values(),
            "",
        ]
    )


def row(fault: Fault, outcome: Outcome) -> str:
    """Returns a fault and its outcome as a row of the table."""
    return (
        f"| {fault.what} | {_place(fault)} | {outcome.caught} "
        f"| {_cell(outcome.covering)} | {_cell(outcome.whole) if outcome.whole_was_run else ''} |"
    )


def kept(path: Path) -> dict[str, str]:
    """Returns the rows of an earlier table for faults that still exist, each with its current file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = {
        line.split(" | ")[0].removeprefix("| "): line.split(" | ", 2)[-1] for line in lines if line.startswith("| ")
    }
    return {
        fault.what: f"| {fault.what} | {_place(fault)} | {rows[fault.what]}" for fault in FAULTS if fault.what in rows
    }


def _place(fault: Fault) -> str:
    return f"`{fault.file.removeprefix('src/janossy/')}`"


def _cell(test: str | None) -> str:
    return f"`{test.replace('|', chr(92) + '|')}`" if test else "none"


def written(rows: dict[str, str]) -> str:
    """Returns the table of these rows, in the order of the faults."""
    return table({fault.what: rows[fault.what] for fault in FAULTS if fault.what in rows}, "python -m tests.mutations")


def main() -> None:
    """Tries the faults, prints each result, and writes the table. Returns 1 if only all cases find one, or none."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--all", action="store_true", help="run all cases for every fault")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help=f"numbers from 0 to {len(FAULTS) - 1}")
    parser.add_argument("--forks", action="store_true", help="try in forks only")
    parser.add_argument("--jobs", type=int, default=2, help="faults tried at a time, each in a copy of its own")
    parser.add_argument("--out", type=Path, help="a file for the table")
    arguments = parser.parse_args()
    chosen = list(range(len(FAULTS))) if arguments.only is None else arguments.only
    outcomes: dict[int, Outcome] = {}
    untried: list[int] = []
    rows = kept(arguments.out) if arguments.out else {}

    def conclude(i: int, outcome: Outcome) -> None:
        outcomes[i] = outcome
        rows[FAULTS[i].what] = row(FAULTS[i], outcome)
        found = outcome.covering or outcome.whole or "no test fails"
        print(f"{i:2d} {outcome.caught}: {FAULTS[i].what}: {found} ({outcome.seconds:.0f} s)", flush=True)
        if arguments.out:
            arguments.out.write_text(written(rows), encoding="utf-8")

    if not arguments.all:
        find_in_forks(chosen, rows, conclude)
        chosen = [i for i in chosen if i not in outcomes]
    if arguments.forks:
        print(f"not found in forks: {' '.join(map(str, chosen)) or 'none'}")
        return
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for job in range(arguments.jobs):
            trees.put(copied(Path(folder) / str(job)))

        def one(i: int) -> None:
            tree = trees.get()
            try:
                conclude(i, try_fault(tree, FAULTS[i], arguments.all))
            except RuntimeError as error:
                untried.append(i)
                print(f"{i:2d} not tried: {error}", flush=True)
            finally:
                trees.put(tree)

        list(pool.map(one, chosen))
    print(written(rows))
    sys.exit(bool(untried) or any(outcome.caught == "only all cases" for outcome in outcomes.values()))


if __name__ == "__main__":
    main()
