"""The places that fits write to, and names that are printed escaped."""

from pathlib import Path

from janossy.cli.workflow import fitting
from janossy.cli.workflow.evaluation import evaluate
from janossy.cli.workflow.inspecting import printable
from janossy.files.atomic import claimed
from tests.cli.commands import FIT, janossy, orders, write

__all__ = ["janossy"]


def test_the_second_fit_to_a_place_says_so_before_it_trains(janossy):
    write("orders.csv", orders())
    with claimed(Path("model").absolute()):
        code, _, stderr = janossy(*FIT, "--out", "model")
    assert code == 2 and "another janossy fit is writing to model now" in stderr
    assert [each.name for each in Path().iterdir()] == ["orders.csv"]


def test_what_came_meanwhile_stays_and_the_model_is_kept_beside_it(janossy, monkeypatch):
    write("orders.csv", orders())

    def evaluated(*arguments):
        Path("model").write_text("another")
        return evaluate(*arguments)

    monkeypatch.setattr(fitting, "evaluate", evaluated)
    code, stdout, _ = janossy(*FIT, "--validation", "0.3", "--out", "model")
    assert code == 0 and "was created meanwhile" in stdout
    assert Path("model").read_text() == "another" and Path("model-2/report.html").is_file()
    assert sorted(each.name for each in Path().iterdir()) == ["model", "model-2", "orders.csv"]


def test_escape_sequences_are_escaped():
    assert printable("a\x1b[31mb\r\u202e é") == "a\\x1b[31mb\\r\\u202e é"
