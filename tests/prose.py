"""``python -m tests.prose``: the rules of docs/style.md that a machine can check, and where they are broken.

python -m tests.prose            counts per folder, beside those of tests/prose.json, which may only fall
python -m tests.prose PLACE ...  each break below these files or folders
python -m tests.prose --write    the counts as they are, into tests/prose.json
"""

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
COUNTS = ROOT / "tests" / "prose.json"
MAX_WORDS = 30

OPENING = re.compile(r"(What|Whether|Which|Of|Those|That|Who|How|Where|As)\b")
"""Words that no docstring begins with: a function begins with a verb, a class or a module with a noun phrase."""

PHRASES = re.compile(
    r"\b(?:is|are) none\b|\b(?:has|have|had) not\b(?! (?:been|yet))|: of each\b"
    r"|\ban? (?:row|line|number|mean|error|file) an? (?:set|element|row|cell|result|candidate|trial|epoch)\b"
)
"""Turns that read as a translation: plain English has "no", "does not have" and "per"."""

Break = tuple[Path, int, str]


def breaks_in_docstrings(path: Path) -> Iterator[Break]:
    """Yields each docstring of a Python file that opens with a banned word or holds a banned phrase."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node) or ""
        line = node.body[0].lineno if text else 0
        if OPENING.match(text):
            yield path, line, f"opens with {text.split()[0]!r}"
        for phrase in PHRASES.findall(text):
            yield path, line, f"says {phrase!r}"


def breaks_in_page(path: Path) -> Iterator[Break]:
    """Yields each sentence of a Markdown page that is too long, and each banned phrase, but for code and tables."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?: *\|.*|    .*|#.*)$", "", text, flags=re.MULTILINE)
    for paragraph in re.finditer(r"(?:^.*\S.*\n?)+", text, re.MULTILINE):
        for item in re.split(r"^\s*(?:[-*]|\d+\.) ", paragraph[0], flags=re.MULTILINE):
            line = text.count("\n", 0, paragraph.start() + max(0, paragraph[0].find(item))) + 1
            words = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", item))
            for sentence in re.split(r"(?<=[.!?])\s+", words):
                if (count := len(sentence.split())) > MAX_WORDS:
                    yield path, line, f"a sentence of {count} words: {' '.join(sentence.split()[:6])} …"
            for phrase in PHRASES.findall(words):
                yield path, line, f"says {phrase!r}"


def breaks(path: Path) -> Iterator[Break]:
    """Yields the breaks of a file."""
    return breaks_in_docstrings(path) if path.suffix == ".py" else breaks_in_page(path)


def files() -> list[Path]:
    """The files that the rules hold for: Python code, and pages that people write."""
    code = [
        path
        for folder in ("src", "studies", "benchmarks", "examples", "tests")
        for path in (ROOT / folder).rglob("*.py")
    ]
    return sorted([*code, *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")])


def counts() -> dict[str, int]:
    """The number of breaks per folder of the checkout, two levels deep below src."""
    found: Counter[str] = Counter()
    for path in files():
        parts = path.relative_to(ROOT).parts
        folder = "/".join(parts[:3] if parts[0] == "src" else parts[:1]) if path.suffix == ".py" else "pages"
        if path.name != "CHANGELOG.md":
            found[folder] += sum(1 for _ in breaks(path))
    return {folder: number for folder, number in sorted(found.items()) if number}


def main(arguments: list[str] | None = None) -> int:
    """Prints what is asked for. The exit code is 1 if a count has risen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    if options.places:
        chosen = [path for path in files() if any(path.is_relative_to(place.resolve()) for place in options.places)]
        for path, line, message in (each for file in chosen for each in breaks(file)):
            print(f"{path.relative_to(ROOT)}:{line}: {message}")
        return 0
    now = counts()
    if options.write:
        COUNTS.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    allowed = json.loads(COUNTS.read_text(encoding="utf-8"))
    risen = {folder: number for folder, number in now.items() if number > allowed.get(folder, 0)}
    for folder, number in risen.items():
        print(
            f"{folder}: {number} breaks of docs/style.md, {allowed.get(folder, 0)} allowed. "
            f"List them by python -m tests.prose {folder}."
        )
    print(f"{sum(now.values())} breaks of docs/style.md in all, {sum(allowed.values())} allowed")
    return 1 if risen else 0


if __name__ == "__main__":
    sys.exit(main())
