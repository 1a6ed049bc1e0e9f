"""What a change does to the benchmarks' times: ``python -m benchmarks.before_after CHECKOUT NAME [NAME …]``.

Each benchmark runs in the other checkout ("before") and in this one ("after"), in turn, every run a process of its own.
The reference sides are the same code in both: what they differ by is what the machine did meanwhile.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

from benchmarks.harness import about_here
from benchmarks.run import BENCHMARKS, RESULTS

HERE = Path(__file__).parent.parent
Times = dict[str, dict[str, list[float]]]
"""By row and side, the median of each run in milliseconds."""


def main() -> None:
    """Run the pairs, print the tables and write each as results/before_after/NAME.json and .md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("before", type=Path, metavar="CHECKOUT", help="a checkout of the state to compare with")
    parser.add_argument("names", nargs="+", metavar="NAME", choices=BENCHMARKS, help=", ".join(BENCHMARKS))
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds a row and run, about")
    arguments = parser.parse_args()
    (RESULTS / "before_after").mkdir(exist_ok=True)
    for name in arguments.names:
        data = compare(arguments.before, name, arguments.rounds, arguments.seconds)
        (RESULTS / "before_after" / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")
        (RESULTS / "before_after" / f"{name}.md").write_text(table(data))
        print(table(data), flush=True)


def compare(before: Path, name: str, rounds: int, seconds: float) -> dict:
    """The record of one benchmark, run ``rounds`` times on each side."""
    times: Times = defaultdict(lambda: defaultdict(list))
    for round_ in range(rounds):
        sides = [("before", before), ("after", HERE)]
        for side, checkout in sides if round_ % 2 == 0 else sides[::-1]:
            for row in _run(checkout, name, seconds):
                times[row["name"]][side].append(row["ours"])
                times[row["name"]][f"reference {side}"].append(row["reference"])
    # Names of checkouts are this machine's own.
    command = f"python -m benchmarks.before_after CHECKOUT {name} --rounds {rounds} --seconds {seconds:g}"
    return {"command": command, **about_here(), "rows": times, "before": _commit(before), "after": _commit(HERE)}


def _run(checkout: Path, name: str, seconds: float) -> list[dict]:
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "benchmarks.run", name, "--seconds", str(seconds), "--out", out]
        environment = os.environ | {"PYTHONPATH": str(checkout.resolve() / "src")}
        subprocess.run(command, cwd=checkout, env=environment, check=True, stdout=subprocess.DEVNULL)
        return json.loads((Path(out) / f"{name}.json").read_text())["rows"]


def _commit(checkout: Path) -> str:
    return subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()


def table(data: dict) -> str:
    """A record as Markdown."""
    lines = [
        f"`{data['command']}`, {data['before']} before and {data['after']} after, on {data['machine']['cpu']}, "
        f"{data['machine']['cores']} cores, {data['finished'][:10]}. Milliseconds: medians over the runs of each run's "
        "median. The last column, of code that did not change, is how much the machine varied.",
        "",
        "| case | before | after | after / before | the reference's |",
        "|---|---|---|---|---|",
    ]
    for name, sides in data["rows"].items():
        if "before" not in sides or "after" not in sides:
            continue
        before, after, *reference = (
            median(sides[side]) for side in ("before", "after", "reference before", "reference after")
        )
        lines.append(
            f"| {name} | {before:.2f} | {after:.2f} | {after / before:.2f} | {reference[1] / reference[0]:.2f} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
