"""The checker of prose finds each kind of break, and passes plain sentences."""

import json

import pytest

from tests import prose


@pytest.mark.parametrize("opening", ["Whether to stop", "What is drawn", "Of each set the mean", "Which rows count"])
def test_a_docstring_that_opens_badly_is_found(opening, tmp_path):
    file = tmp_path / "module.py"
    file.write_text(f'"""A module."""\n\n\ndef f():\n    """{opening}."""\n')
    assert [line for _, line, _ in prose.breaks(file)] == [5]


@pytest.mark.parametrize("phrase", ["a bool is none", "it has not a mean", "writes a row a set"])
def test_a_phrase_is_found_in_code_and_in_pages(phrase, tmp_path):
    (tmp_path / "module.py").write_text(f'"""A module: {phrase}."""\n')
    (tmp_path / "page.md").write_text(f"# A page\n\nHere {phrase}.\n")
    for file in tmp_path.iterdir():
        assert len(list(prose.breaks(file))) == 1


def test_a_long_sentence_is_found_with_its_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\nShort.\n\n" + "word " * (prose.MAX_WORDS + 1) + "end.\n")
    assert [(line, message[:25]) for _, line, message in prose.breaks(page)] == [(5, "a sentence of 32 words: w")]


def test_plain_text_passes(tmp_path):
    (tmp_path / "module.py").write_text(
        '"""Settings of one candidate. It does not have a mean, and has not been run."""\n'
    )
    long = "word " * 60
    (tmp_path / "page.md").write_text(f"# {long}\n\nOne row per set.\n\n```sh\n{long}\n```\n\n| {long} |\n")
    assert not [each for file in tmp_path.iterdir() for each in prose.breaks(file)]


def test_a_count_that_rises_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(prose, "COUNTS", tmp_path / "prose.json")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("word " * (prose.MAX_WORDS + 1) + "end.\n")
    assert prose.main(["--write"]) == 0 and json.loads(prose.COUNTS.read_text()) == {"pages": 1}
    prose.COUNTS.write_text("{}")
    assert prose.main([]) == 1 and "pages: 1 breaks" in capsys.readouterr().out


def test_no_page_breaks_the_rules():
    pages = [path for path in prose.files() if path.suffix == ".md" and path.name != "CHANGELOG.md"]
    assert pages and not [each for page in pages for each in prose.breaks(page)]
