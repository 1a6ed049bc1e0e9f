import json
import re
import warnings
from html.parser import HTMLParser
from io import StringIO
from itertools import product

import pytest
from rich.console import Console

from janossy.cli.pages import THEMES
from studies.paper.arithmetic.models import MODELS as MODELS_BY_NAME
from studies.paper.arithmetic.plots import PLOTS
from studies.paper.arithmetic.settings import settings_for
from studies.paper.arithmetic.study import ARITHMETIC
from studies.paper.arithmetic.tables import MODELS, PAPER_TASKS, ROWS, metric_of, paper_parameters
from studies.paper.arithmetic.tasks import TASKS, Task

FILES = ["report.md", "report.html", "scores-by-k.png", "error-by-permutations.png", "learning-curves.png"]
SHOWN = {task: metric_of(task) for task in PAPER_TASKS}
VOID = {"br", "col", "hr", "img", "link", "meta", "source"}


def cell(task, model, seed=0, **changes):
    """Returns a made-up result whose every score is a number of its own."""
    place = list(SHOWN).index(task) * 1000 + MODELS.index(model) * 50 + seed * 5
    sampled = not model.startswith("k")

    def scores(m):
        value = (place + 100 + (m or 0)) / 7000
        return {"accuracy": value, "rmse": 10 * value, "mae": value / 2}

    return {
        "format": 1,
        "task": task,
        "model": model,
        "seed": seed,
        "config": {"preset": "quick", "protocol": "fast", "epochs": 3, "num_test": 500, "adam": {"betas": [0.9, 0.99]}},
        "num_trainable_parameters": paper_parameters(model),
        "scores": [{"num_permutations": m, **scores(m)} for m in ((1, 20) if sampled else (None,))],
        "curve": [{"num_permutations": m, **scores(m)} for m in range(1, 21)] if sampled else [],
        "history": [{"epoch": e, "train_loss": 0.5, **scores(e), "seconds": 1.0} for e in (1, 2, 3)],
        "seconds": 31.2,
        "finished": "2026-11-21T07:30:00+00:00",
        "versions": {"janossy": "0.1.0", "torch": "2.13.0", "platform": "a <b> & c", "num_threads": 1},
        **changes,
    }


def write(directory, cells):
    (directory / "cells").mkdir(exist_ok=True)
    for c in cells:
        path = directory / "cells" / f"{c['task']}-{c['model']}-seed{c['seed']}.json"
        path.write_text(json.dumps(c), encoding="utf-8")


def write_report(directory):
    results, skipped = ARITHMETIC.read(directory)
    return ARITHMETIC.write_report(directory, results, [str(each) for each in skipped])


def reported(directory, cells):
    """Returns the texts of report.md and report.html."""
    write(directory, cells)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paths = write_report(directory)
    assert set(paths) == {path for path in directory.iterdir() if path.is_file()}
    return [(directory / f"report.{kind}").read_text(encoding="utf-8") for kind in ("md", "html")]


class Page(HTMLParser):
    """The tags of a page, its attributes and its text; fails on tags that do not nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += data


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    directory = tmp_path_factory.mktemp("full")
    cells = [cell(task, model) for task, model in product(SHOWN, MODELS)]
    return directory, cells, *reported(directory, cells)


def test_every_cell_is_in_both_reports(full):
    _, cells, markdown, html = full
    rows = {"md": re.findall(r"^\| .* \|$", markdown, re.M), "html": re.findall(r"<tr>.*?</tr>", html, re.S)}
    for kind, c in product(rows, cells):
        (row,) = (
            row
            for row in rows[kind]
            if re.sub(r"<[^>]*>|\|", " ", row).split()[:3] == [c["task"], c["model"], str(c["seed"])]
        )
        for score in c["scores"]:
            assert f"{score[SHOWN[c['task']]]:.{2 if c['task'] == 'variance' else 3}f}" in row


def test_the_comparison_is_in_both_reports(full):
    _, cells, markdown, html = full
    text = " ".join(Page(html).text.split())
    for c, report_text in product(cells, (markdown, text)):
        for score in c["scores"]:
            assert f"{score['mae']:.3f}" in report_text
    assert text.count("GRU") >= 8
    assert "| GRU | MLP | 20 |" in markdown
    assert "0.517 (0.084)" in markdown
    assert "0.517 (0.084)" in text


def test_the_page_refers_to_nothing_outside(full):
    *_, html = full
    page = Page(html)
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    for _, name, value in page.attributes:
        assert not name.startswith("on")
        if name in {"src", "srcset", "href", "action", "poster", "data"}:
            assert value.startswith("data:image/png;base64,")
    bare = re.sub(r'"data:image/png;base64,[^"]*"', "", html)
    assert not [part for part in ("//", "@import", "url(", "javascript:") if part in bare]


def test_the_page_can_be_read_by_all(full):
    *_, html = full
    page = Page(html)
    assert ("html", "lang", "en") in page.attributes
    assert ("meta", "name", "viewport") in page.attributes
    assert (
        page.tags.count("img")
        == 3
        == len([1 for tag, name, v in page.attributes if (tag, name) == ("img", "alt") and v])
    )
    assert page.tags.count("figcaption") == 3
    assert page.tags.count("h1") == 1
    assert "prefers-color-scheme: dark" in html
    assert all(
        name == "scope"
        for tag, name, _ in page.attributes
        if tag == "th" and name not in {"class", "rowspan", "colspan"}
    )


def test_text_from_result_files_is_escaped(full):
    *_, html = full
    assert "a &lt;b&gt; &amp; c" in html


def test_both_reports_say_what_was_run_and_how_to_run_it_again(full):
    directory, _, markdown, html = full
    for text in (markdown, Page(html).text):
        for fact in ("quick", "fast", "seed 0", "26 min 00 s", "adam.betas", "0.9, 0.99", "2.13.0", "51881"):
            assert fact in text
        assert (
            "python -m studies reproduce arithmetic --preset quick --protocol fast --epochs 3 --seeds 1 --resume"
            in text
        )
        assert f"python -m studies report {directory}" in text
        assert "Missing or damaged" not in text


def test_every_pattern_is_in_both_reports(full):
    _, _, markdown, html = full
    for text in (markdown, Page(html).text):
        assert text.count("rises with k.") == 3
        assert text.count("are at the top on") == 5
        assert text.count("20 permutations do no worse than 1 on") == 5


def test_plots_are_png_files_of_a_readable_size(full):
    directory, *_ = full
    for path in directory.glob("*.png"):
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG")
        width = int.from_bytes(content[16:20], "big")
        assert 900 <= width <= 1600


def test_missing_and_damaged_cells_are_listed(tmp_path):
    cells = [cell(task, model, seed) for task, model, seed in product(("sum", "range"), ("k1-mlp", "gru-mlp"), (0, 1))]
    write(tmp_path, cells[1:])
    (tmp_path / "cells" / "sum-k1-mlp-seed0.json").write_text('{"format": 1, "ta', encoding="utf-8")
    for text in reported(tmp_path, []):
        assert "cells/sum-k1-mlp-seed0.json" in text
        assert "Missing: sum, k1-mlp, seed 0." in text
        assert text.count("Missing:") == 1
        assert "Not run, tasks: unique_sum, unique_count, variance." in text
        assert "Not run, models: k1-linear" in text
        assert "--tasks sum,range --models k1-mlp,gru-mlp" in text


@pytest.mark.parametrize("value", [float("nan"), None])
def test_diverged_runs_are_reported(tmp_path, value):
    c = cell("variance", "gru-mlp")
    for entry in c["scores"] + c["curve"] + c["history"]:
        entry.update(accuracy=value, rmse=value, mae=value)
    for text in reported(tmp_path, [c]):
        assert "NaN score: variance, GRU, MLP ρ, 20 permutations, seed 0." in text


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_extreme_accuracies_are_drawn(tmp_path, value):
    c = cell("unique_sum", "lstm-mlp")
    for entry in c["scores"] + c["curve"] + c["history"]:
        entry["accuracy"] = value
    reported(tmp_path, [c])


def test_many_seeds_give_a_standard_deviation(tmp_path):
    markdown, html = reported(tmp_path, [cell("range", "k2-mlp", seed) for seed in range(15)])
    assert "seeds 0 to 14" in markdown
    assert re.search(r"\*\*0\.\d{3} \(0\.\d{3}\)\*\* / 0\.97 \(0\.01\)", markdown)
    assert "0.97 <small>(0.01)</small>" in html
    assert "--seeds 15" in markdown


def test_settings_that_differ_name_their_models(tmp_path):
    cells = [cell("sum", "k1-linear"), cell("sum", "gru-mlp"), cell("range", "gru-mlp")]
    for c in cells[1:]:
        c["config"] = c["config"] | {"epochs": 9}
    markdown, _ = reported(tmp_path, cells)
    assert "| epochs | 9 (gru-mlp); 3 (k1-linear) |" in markdown
    assert "| num_test | 500 |" in markdown


def test_without_recurrent_cells_there_is_no_plot_over_permutations(tmp_path):
    write(tmp_path, [cell("sum", "k1-linear")])
    assert [path.name for path in write_report(tmp_path)] == [name for name in FILES if "permutations" not in name]
    write(tmp_path, [cell("sum", "gru-linear")])
    assert [path.name for path in write_report(tmp_path)] == FILES


def test_a_full_disk_leaves_the_earlier_report_whole(full, tmp_path, monkeypatch):
    write(tmp_path, full[1][:1])
    write_report(tmp_path)
    before = (tmp_path / "report.md").read_text(encoding="utf-8")

    def full_disk(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_report(tmp_path)
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == before
    assert not list(tmp_path.glob(".*.part"))


def test_each_row_of_table_3_is_in_the_page(full):
    *_, html = full
    bodies = re.findall(r'<table class="comparison">.*?</table>', html, re.S)
    assert [body.count('<th scope="row">') for body in bodies] == [len(ROWS), len(ROWS)]


@pytest.mark.parametrize("is_integer", [True, False])
def test_a_task_that_the_paper_has_not_is_shown_with_ours_alone(is_integer, tmp_path, monkeypatch):
    monkeypatch.setitem(TASKS, "largest", Task("largest", 5, 100, lambda x: x.amax(1), is_integer))
    monkeypatch.setitem(SHOWN, "largest", metric_of("largest"))
    cells = [cell("sum", "k1-mlp"), cell("largest", "k1-mlp"), cell("largest", "gru-mlp")]
    shown = [f"{c['scores'][0][metric_of('largest')]:.{3 if is_integer else 2}f}" for c in cells[1:]]
    markdown, html = reported(tmp_path, cells)
    assert ARITHMETIC.read(tmp_path)[1] == []
    (line,) = re.findall(r"^\| k = 1 \| MLP \|.*$", markdown, re.M)[:1]
    assert line.split(" | ")[-1] == f"**{shown[0]}** |"
    assert [f"| largest | k1-mlp | 0 | {shown[0]} |" in markdown, f"×1: {shown[1]}" in markdown] == [True, True]
    assert f'<td class="ours">{shown[0]}</td><td class="paper"></td>' in html
    console = Console(width=100, record=True, file=StringIO())
    ARITHMETIC.show(console, ARITHMETIC.read(tmp_path)[0])
    (line,) = (line for line in console.export_text().splitlines() if line.split()[:4] == ["k", "=", "1", "MLP"])
    assert line.split()[-1] == shown[0]
    tasks = "--tasks sum,largest"
    assert tasks in markdown and "on largest" not in markdown
    assert settings_for(TASKS["largest"], MODELS_BY_NAME["gru-mlp"], "quick", "fast").epochs == 3


def test_a_plot_of_a_task_that_the_paper_has_not_has_its_panel(monkeypatch):
    monkeypatch.setitem(TASKS, "largest", Task("largest", 5, 100, lambda x: x.amax(1)))
    monkeypatch.setitem(SHOWN, "largest", "accuracy")
    results = [cell("largest", "gru-mlp"), cell("sum", "gru-mlp")]
    for name, plot in PLOTS.items():
        titles = [axes.get_title() for axes in plot(results, THEMES["light"]).axes]
        assert any(title.startswith("largest") for title in titles), name
        assert titles.index(next(t for t in titles if t.startswith("sum"))) == 0
