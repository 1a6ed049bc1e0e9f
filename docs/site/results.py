"""The page of benchmarks and results, made from the JSON files that are committed."""

import json
import statistics
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks" / "results"
RESULTS = ROOT / "docs" / "results"
BENCH = RESULTS / "sets" / "bench"
TIMED = {"name", "ours", "reference", "ratio", "ours_quartiles"}
"""The fields of a row that times janossy beside a reference."""

OPENING = """# Benchmarks and results

All numbers on this page come from JSON files in the repository, at the time when the site is built. The linked pages
have more: quartiles, versions, commands, and the tables of the studies.

## Speed

Each row times janossy and a reference, in turn, in one process. Times are medians in milliseconds. The ratio is the
median of reference / janossy over the pairs of runs: above 1, janossy is faster.
"""

SCORES = """## Scores on data sets

The bench fits janossy's strategies and other methods to the same folds of each data set. The score is the mean over
test folds, and the seconds are CPU seconds per fit. Rows are sorted by the score: models with fewer folds are not
compared fairly. [The report](sets/bench/report.md) describes the models, and compares them fold by fold.
"""


def page() -> str:
    """Returns the page, in Markdown, with links as from docs/results."""
    timed = {path.stem: data for path in sorted(BENCHMARKS.glob("*.json")) if is_timed(data := read(path))}
    parts = [OPENING, *(timing_table(name, data) for name, data in timed.items())]
    others = [path for path in BENCHMARKS.rglob("*.md") if path.parent != BENCHMARKS or path.stem not in timed]
    parts += ["### Other measurements\n", links(others, BENCHMARKS), SCORES]
    parts += [score_table(path.stem, read(path)) for path in sorted(BENCH.glob("*.json"))]
    return "\n".join([*parts, "## Studies\n", links(list(RESULTS.rglob("*.md")), RESULTS)])


def read(path: Path) -> Any:
    """Reads a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def is_timed(data: dict[str, Any]) -> bool:
    """Returns True if all rows of a file time janossy beside a reference."""
    rows = data.get("rows")
    return isinstance(rows, list) and all(row.keys() >= TIMED for row in rows)


def timing_table(name: str, data: dict[str, Any]) -> str:
    """Returns the section of a benchmark: machine, date, and a row per case."""
    machine, versions = data["machine"], data["versions"]
    lines = [
        f"### {name}\n",
        data["about"].partition("\n\n")[0].strip() + "\n",
        f"{machine['cpu']}, {machine['cores']} cores, torch {versions['torch']}, {data['finished'][:10]}. "
        f"[Quartiles and command]({prefix(BENCHMARKS)}{name}.md).\n",
        "| case | janossy, ms | reference, ms | ratio |\n|---|--:|--:|--:|",
    ]
    for row in data["rows"]:
        lines.append(f"| {row['name']} | {row['ours']:.2f} | {row['reference']:.2f} | {row['ratio']:.2f} |")
    return "\n".join(lines) + "\n"


def score_table(name: str, data: dict[str, Any]) -> str:
    """Returns the section of a data set of the bench: a row per model, the best first."""
    score = data["data_set"]["scores"][0]
    rows = []
    for model, found in data["models"].items():
        values = found["scores"].get("test", {}).get(score, [])
        if values:
            seconds = statistics.mean(found["fit_seconds"])
            rows.append((statistics.mean(values), standard_error(values), model, len(values), seconds))
    rows.sort(reverse=higher_is_better(score))
    lines = [
        f"### {name}\n",
        f"{data['data_set']['about'].rstrip('.')}.\n",
        f"| model | {score} | standard error | folds | seconds |\n|---|--:|--:|--:|--:|",
    ]
    for mean, error, model, folds, seconds in rows:
        lines.append(f"| {model} | {mean:.4f} | {error} | {folds} | {seconds:.0f} |")
    return "\n".join(lines) + "\n"


def higher_is_better(score: str) -> bool:
    """Returns True for scores, False for errors."""
    return score not in ("RMSE", "MAE", "log loss")


def standard_error(values: list[float]) -> str:
    """Returns the standard error of a mean, or a dash for a single fold."""
    return f"{statistics.stdev(values) / len(values) ** 0.5:.4f}" if len(values) > 1 else "–"


def links(paths: list[Path], folder: Path) -> str:
    """Returns a list of links to pages, each named by its place in a folder."""
    names = sorted(path.relative_to(folder).with_suffix("").as_posix() for path in paths)
    return "".join(f"- [{name}]({prefix(folder)}{name}.md)\n" for name in names)


def prefix(folder: Path) -> str:
    """Returns the way from docs/results to a folder."""
    return "" if folder == RESULTS else "../../" + folder.relative_to(ROOT).as_posix() + "/"
