"""The README's code runs, in order, as one program; its commands are ones that exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from janossy.cli.app import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def commands(program: str) -> list[list[str]]:
    lines = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]
    return [words[1:] for words in lines if words and words[0] == program]


def test_python_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = blocks("python")
    assert len(program) >= 2
    names: dict[str, object] = {}
    for block in program:
        exec(compile(block, "README.md", "exec"), names)
    assert names["prediction"].mean.shape == (4, 1)


@pytest.mark.parametrize("arguments", commands("janossy"), ids=" ".join)
def test_janossy_commands_parse(arguments):
    parse(typer.main.get_command(app), arguments)


def test_an_unknown_option_would_be_seen():
    with pytest.raises(typer.TyperException):
        parse(typer.main.get_command(app), ["fit", "table.csv", "--no-such-option"])


def test_it_stays_short():
    assert README.count("\n") <= 150


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [words[0] for words in commands("make")]
    assert {"reproduce", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_linked_files_exist():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def parse(command, arguments: list[str]) -> None:
    """Parses as the command line would, without running anything."""
    context = command.make_context("janossy", list(arguments))
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)
