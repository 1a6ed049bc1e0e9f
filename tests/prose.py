"""Breaks of the rules in docs/style.md that a machine can check: ``python -m tests.prose [PLACE ...]``.

Without a place, all code and pages are read. The exit code is 1 if a rule is broken.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_WORDS = 25

OPENING = re.compile(r"(What|Whether|Which|Of|Those|That|Who|How|Where|As)\b")
"""Words that no docstring begins with. A function begins with a verb, a class or a module with a noun phrase."""

PHRASES = re.compile(
    r"\b(?:is|are) none\b|\b(?:has|have|had) not\b(?! (?:been|yet))|: of each\b"
    r"|\b(?:an?|one|1|each) "
    r"(?:row|line|number|mean|error|file|value|weight|order|permutation|target|label|score|vector) "
    r"an? (?:set|element|row|cell|result|candidate|trial|epoch|tuple|step|hand|network|fold|vertex|node|bin|point)\b"
    r"(?! of one)"
)
"""Phrases that read like a translation. Plain English has "no", "does not have" and "per"."""

Break = tuple[Path, int, str]


def breaks_in_code(path: Path) -> Iterator[Break]:
    """Yields the banned openings and phrases in the docstrings, help and errors of a Python file."""
    for line, text, opens in texts(ast.parse(path.read_text(encoding="utf-8"))):
        if opens and OPENING.match(text):
            yield path, line, f"opens with {text.split()[0]!r}"
        for phrase in PHRASES.findall(text):
            yield path, line, f"says {phrase!r}"


def texts(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yields the texts of a module for people: line, text, and True for the beginning of a docstring or help."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and is_text(node.value):  # of modules, classes, functions and attributes
            yield node.lineno, node.value.value, True
        if isinstance(node, ast.keyword) and node.arg == "help":
            parts = [part for part in ast.walk(node.value) if is_text(part)]
            yield from ((part.lineno, part.value, part is parts[0]) for part in parts)
        if isinstance(node, ast.Raise):
            yield from ((part.lineno, part.value, False) for part in ast.walk(node) if is_text(part))


def is_text(node: ast.AST) -> bool:
    """Returns True for a string literal."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def breaks_in_page(path: Path) -> Iterator[Break]:
    """Yields each overlong sentence of a Markdown page, and each banned phrase. Code and tables are skipped."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?: *\|.*|    .*|#.*)$", "", text, flags=re.MULTILINE)
    for paragraph in re.finditer(r"(?:^.*\S.*\n?)+", text, re.MULTILINE):
        for item in re.split(r"^\s*(?:[-*]|\d+\.) ", paragraph[0], flags=re.MULTILINE):
            line = text.count("\n", 0, paragraph.start() + max(0, paragraph[0].find(item))) + 1
            words = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", item))
            for sentence in re.split(r"(?<=[.!?])[*_)]*\s+", words):
                if (count := len(sentence.split())) > MAX_WORDS:
                    yield path, line, f"a sentence of {count} words: {' '.join(sentence.split()[:6])} …"
            for phrase in PHRASES.findall(words):
                yield path, line, f"says {phrase!r}"


def breaks(path: Path) -> Iterator[Break]:
    """Yields the breaks of a file."""
    return breaks_in_code(path) if path.suffix == ".py" else breaks_in_page(path)


def files() -> list[Path]:
    """Returns the files to which the rules apply: Python code, and pages that people write."""
    code = [
        path
        for folder in ("src", "studies", "benchmarks", "examples", "tests")
        for path in (ROOT / folder).rglob("*.py")
    ]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted([*code, *(page for page in pages if page.name != "CHANGELOG.md")])


def main(arguments: list[str] | None = None) -> int:
    """Prints each break. The exit code is 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", type=Path, default=[ROOT])
    places = [place.resolve() for place in parser.parse_args(arguments).places]
    chosen = [path for path in files() if any(path.is_relative_to(place) for place in places)]
    found = [each for path in chosen for each in breaks(path)]
    for path, line, message in found:
        print(f"{path.relative_to(ROOT)}:{line}: {message}")
    print(f"{len(found)} breaks of docs/style.md in {len(chosen)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
