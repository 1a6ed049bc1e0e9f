"""The checker of prose finds each kind of break, and passes plain sentences."""

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
    assert [(line, message[:25]) for _, line, message in prose.breaks(page)] == [(5, "a sentence of 27 words: w")]


def test_plain_text_passes(tmp_path):
    (tmp_path / "module.py").write_text(
        '"""Settings of one candidate. It does not have a mean, and has not been run."""\n'
    )
    long = "word " * 60
    (tmp_path / "page.md").write_text(f"# {long}\n\nOne row per set.\n\n```sh\n{long}\n```\n\n| {long} |\n")
    assert not [each for file in tmp_path.iterdir() for each in prose.breaks(file)]


def test_a_break_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    page.write_text("Plain.\n")
    assert prose.main([str(tmp_path)]) == 0
    page.write_text("word " * (prose.MAX_WORDS + 1) + "end.\n")
    assert prose.main([str(page)]) == 1 and "docs/page.md:1: a sentence of 27 words" in capsys.readouterr().out


def test_help_errors_and_attributes_are_read(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        '"""A module."""\n\nsize = 3\n"""Of a set."""\noption(help="What it is.")\n\n\ndef f():\n'
        '    """Fails."""\n    raise ValueError(f"{size} is none.")\n'
    )
    assert sorted(line for _, line, _ in prose.breaks(file)) == [4, 5, 10]
