"""Griffe extension: sections such as ``Shapes:`` and ``Cost:`` become paragraphs of their own in the API reference."""

import re
from typing import Any

import griffe

PROSE = re.compile(r"^(Shapes|Invariance|Cost|Raises|Source|Returns|Yields|Needs): +(?=\S)", re.MULTILINE)
"""Sections whose text begins on the line of their name; the parser of Google's style takes them for admonitions."""


def as_paragraphs(docstring: str) -> str:
    """Returns a docstring whose one-line sections are paragraphs that begin with a name in bold."""
    docstring = re.sub(r"^Example:$", "Examples:", docstring, flags=re.MULTILINE)  # whose prompts are code
    lines = re.sub(r"(?<=\S) {2,}(?=(?:Cost|Raises|Invariance): )", "\n", docstring).splitlines()
    written: list[str] = []
    inside = False
    for line in lines:
        if PROSE.match(line):
            written += ["", PROSE.sub(r"**\1:** ", line)]
            inside = True
        else:
            inside = inside and line.startswith("    ")
            written.append(line.strip() if inside else line)
    return "\n".join(written)


class Sections(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = as_paragraphs(obj.docstring.value)
