"""The effect of a change on the benchmarks' times: ``python -m benchmarks.before_after CHECKOUT NAME [NAME …]``.

The rows of each benchmark run in the other checkout ("before") and in this one ("after"), in turn, each run in its own
process. The references are the same code on both sides, so their difference shows the effect of the machine. References
that take more than a second are left out. ``scale`` has no reference, and counts CPU seconds.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from benchmarks.run import BENCHMARKS, RESULTS

HERE = Path(__file__).parent.parent
SCALE, SCALE_ROWS = "scale", 200_000
"""The name of ``benchmarks.scale``, a separate program, and the number of rows of its table here."""

SLOW = 1.0
"""The seconds per call above which a reference is left out."""

Times = dict[str, dict[str, list[float]]]
"""The median of each run in milliseconds, by row and side."""


def main() -> None:
    """Runs the pairs, prints the tables and writes each as results/before_after/NAME.json and .md."""
    if sys.argv[1:2] == ["--one-side"]:
        json.dump(one_side(sys.argv[2], float(sys.argv[3])), sys.stdout)
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("before", type=Path, metavar="CHECKOUT", help="a checkout of the state to compare with")
    parser.add_argument(
        "names", nargs="+", metavar="NAME", choices=[*BENCHMARKS, SCALE], help=", ".join([*BENCHMARKS, SCALE])
    )
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds per row, side and run, about")
    arguments = parser.parse_args()
    (RESULTS / "before_after").mkdir(exist_ok=True)
    for name in arguments.names:
        data = compare(arguments.before, name, arguments.rounds, arguments.seconds)
        (RESULTS / "before_after" / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")
        (RESULTS / "before_after" / f"{name}.md").write_text(table(data))
        print(table(data), flush=True)


def compare(before: Path, name: str, rounds: int, seconds: float) -> dict:
    """Returns the record of one benchmark, run ``rounds`` times on each side."""
    from studies.experiments.record import about_here  # noqa: PLC0415 (an older checkout, on one side, has no such module)

    times: Times = defaultdict(lambda: defaultdict(list))
    for round_ in range(rounds):
        sides = [("before", before), ("after", HERE)]
        for side, checkout in sides if round_ % 2 == 0 else sides[::-1]:
            for row, (ours, reference) in _run(checkout, name, seconds).items():
                times[row][side].append(ours)
                if reference is not None:
                    times[row][f"reference {side}"].append(reference)
    # The names of checkouts belong to this machine only.
    command = f"python -m benchmarks.before_after CHECKOUT {name} --rounds {rounds} --seconds {seconds:g}"
    return {"command": command, **about_here(), "rows": times, "before": _commit(before), "after": _commit(HERE)}


def _run(checkout: Path, name: str, seconds: float) -> dict[str, tuple[float, float | None]]:
    """Runs ``one_side`` in a checkout: this file, which need not exist there, on that checkout's rows and library."""
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--one-side", name, str(seconds)]
    paths = os.pathsep.join(str(checkout.resolve() / folder) for folder in ("src", "."))
    done = subprocess.run(
        command, cwd=checkout, env=os.environ | {"PYTHONPATH": paths}, check=True, stdout=subprocess.PIPE
    )
    return json.loads(done.stdout.splitlines()[-1])  # behind what commands say


def one_side(name: str, seconds: float) -> dict[str, tuple[float, float | None]]:
    """Returns the median milliseconds of each row, for our side and the reference; None for a slow reference."""
    if name == SCALE:
        return of_scale()
    torch.manual_seed(0)
    times = {}
    for row in BENCHMARKS[name].rows():
        start = time.perf_counter()
        row.reference()
        slow = time.perf_counter() - start > SLOW
        times[row.name] = _median(row.ours, seconds), None if slow else _median(row.reference, seconds)
    return times


def of_scale() -> dict[str, tuple[float, None]]:
    """Returns the milliseconds of the processor that each of ``benchmarks.scale``'s runs takes, by one process."""
    scale = import_module("benchmarks.scale")  # which loads the estimators
    times = {}
    with TemporaryDirectory() as folder:
        for what, memory in (("group", scale.SMALL), ("fit", None), ("predict", None)):
            measured = scale.measured(what, SCALE_ROWS, 1, 0, Path(folder), memory)
            row = f"{scale.TITLES[what]}, {SCALE_ROWS:,} rows"
            times[row] = 1000 * measured["seconds"], None
            if "training" in measured:
                times[f"{row}, without modules that the first fit loads"] = 1000 * measured["training"], None
    return times


def _median(call: Callable[[], object], seconds: float) -> float:
    for _ in range(3):
        call()
    taken: list[float] = []
    gc.disable()
    while len(taken) < 5 or sum(taken) < seconds:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    gc.enable()
    return 1000 * median(taken)


def _commit(checkout: Path) -> str:
    return subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()


def table(data: dict) -> str:
    """Returns a record as Markdown."""
    lines = [
        f"`{data['command']}`, {data['before']} before and {data['after']} after, on {data['machine']['cpu']}, "
        f"{data['machine']['cores']} cores, {data['finished'][:10]}. Milliseconds: the least of the runs' medians, "
        "as what else the machine does only adds to them. The last column, of code that did not change, is how much "
        "the machine varied; references that take more than a second were not timed.",
        "",
        "| case | before | after | after / before | the reference's |",
        "|---|---|---|---|---|",
    ]
    for name, sides in data["rows"].items():
        if "before" not in sides or "after" not in sides:
            continue
        before, after = (min(sides[side]) for side in ("before", "after"))
        reference = [min(sides[f"reference {side}"]) for side in ("before", "after") if f"reference {side}" in sides]
        varied = f"{reference[1] / reference[0]:.2f}" if len(reference) == 2 else "—"
        lines.append(f"| {name} | {before:.2f} | {after:.2f} | {after / before:.2f} | {varied} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
