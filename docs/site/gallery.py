"""``python docs/site/gallery.py [NAME ...]``: runs the pages of examples/gallery and writes them to build/gallery.

A page is a Python program in cells: ``# %% [markdown]`` begins text in comments, ``# %%`` begins code. A page shows
its text, its code, what the code prints, and its figures. The label of a figure is the picture's alternative text. A
page is run again if it, its data or the library has changed.
"""

import argparse
import contextlib
import hashlib
import io
import os
import re
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "examples" / "gallery"
BUILT = ROOT / "build" / "gallery"
SECONDS = 60
"""The most that a page may take of the processor."""

PATIENCE = 600
"""Seconds on the clock after which a page that waits is given up."""


def names() -> list[str]:
    """Returns the names of all pages, in order."""
    return sorted(path.stem for path in PAGES.glob("*.py"))


def digest(name: str) -> str:
    """Returns a digest of all that the result of a page depends on."""
    files = [PAGES / f"{name}.py", Path(__file__), *(PAGES / "data").iterdir(), *(ROOT / "src").rglob("*.py")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()


def cells(program: str) -> list[tuple[str, str]]:
    """Returns the cells of a page: pairs of a kind, "markdown" or "code", and the text."""
    found = []
    for head, body in re.findall(r"^# %%(.*)\n((?:(?!# %%).*\n?)*)", program, re.MULTILINE):
        kind = "markdown" if "markdown" in head else "code"
        text = re.sub(r"^# ?", "", body, flags=re.MULTILINE) if kind == "markdown" else body
        found.append((kind, text.strip()))
    return found


def write(name: str) -> None:
    """Runs a page in this process and writes its Markdown and its pictures."""
    import matplotlib  # noqa: PLC0415 (this process alone draws)

    matplotlib.use("agg")
    from matplotlib import pyplot  # noqa: PLC0415 (after the backend is chosen)

    pyplot.rcParams.update({"figure.constrained_layout.use": True, "savefig.dpi": 130, "axes.spines.top": False})
    pyplot.rcParams.update({"axes.spines.right": False, "figure.figsize": (6.4, 3.6)})
    pyplot.close("all")
    space, parts, pictures = {"__name__": "__main__"}, [], 0
    for kind, text in cells((PAGES / f"{name}.py").read_text(encoding="utf-8")):
        if kind == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, f"examples/gallery/{name}.py", "exec"), space)
        if printed.getvalue():
            parts.append(f"```text\n{printed.getvalue().rstrip()}\n```")
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            if not figure.get_label():
                raise ValueError(f"{name}: a figure has no text for those who do not see it. Pass num='...'.")
            pictures += 1
            figure.savefig(BUILT / f"{name}-{pictures}.png")
            parts.append(f"![{figure.get_label()}]({name}-{pictures}.png)")
        pyplot.close("all")
    if not pictures:
        raise ValueError(f"{name}: the page draws no figure.")
    parts.append(f"*Ran in {time.process_time():.0f} s of one core. The program: `examples/gallery/{name}.py`.*")
    (BUILT / f"{name}.md").write_text("\n\n".join(parts) + f"\n\n<!-- {digest(name)} -->\n", encoding="utf-8")


def is_fresh(name: str) -> bool:
    """Returns True if a page was written from what is there now."""
    page = BUILT / f"{name}.md"
    return page.exists() and digest(name) in page.read_text(encoding="utf-8")


def run(name: str) -> str | None:
    """Runs a page in a process of its own, in the folder of the pages. Returns what went wrong, or None."""
    command = [sys.executable, __file__, "--here", name]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, cwd=PAGES, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"{name}: took more than {PATIENCE} s"
    if done.returncode == -signal.SIGXCPU:
        return f"{name}: took more than {SECONDS} s of the processor"
    return f"{name}:\n{done.stderr}" if done.returncode else None


def index() -> str:
    """Returns the page that shows all pages: title, first sentence and first picture of each."""
    cards = []
    for name in names():
        text = (BUILT / f"{name}.md").read_text(encoding="utf-8")
        title = re.search(r"^# (.+)$", text, re.MULTILINE)[1]
        about = re.search(r"^# .+\n\n((?:.+\n)+)", text, re.MULTILINE)[1].replace("\n", " ")
        picture = re.search(r"^!\[.+\]\(.+\)$", text, re.MULTILINE)[0]
        cards.append(f"-   [{picture}]({name}.md)\n\n    **[{title}]({name}.md)**\n\n    {about}\n")
    return (
        "# Gallery\n\nEach page is a program that was run when this site was built, on one core, in seconds. "
        'The data are small, and ship with the programs.\n\n<div class="grid cards" markdown>\n\n'
        + "\n".join(cards)
        + "\n</div>\n"
    )


def main(arguments: list[str] | None = None) -> int:
    """Writes the pages that are asked for, or those that have changed. The exit code is 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--here", action="store_true", help="run the pages in this process")
    options = parser.parse_args(arguments)
    BUILT.mkdir(parents=True, exist_ok=True)
    chosen = options.names or [name for name in names() if not is_fresh(name)]
    if options.here:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        for name in chosen:
            write(name)
        return 0
    with ThreadPoolExecutor(2) as pool:
        failures = [failure for failure in pool.map(run, chosen) if failure]
    print(
        "\n".join(
            [*failures, f"{len(chosen) - len(failures)} of {len(names())} pages ran; the others are as they were"]
        )
    )
    if not failures and all((BUILT / f"{name}.md").exists() for name in names()):
        (BUILT / "index.md").write_text(index(), encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
