"""The report of the graph experiments, on made-up results and on those that are committed."""

import re
import shutil
import warnings
from dataclasses import asdict, replace
from io import StringIO
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from studies.paper.graphs.datasets import NAMES, OTHER_LABELS, SIZES
from studies.paper.graphs.patterns import patterns
from studies.paper.graphs.permutations import curves
from studies.paper.graphs.settings import PAPER_ROWS, Row, settings_for
from studies.paper.graphs.study import GRAPHS
from studies.paper.graphs.summary import CHARACTERISTICS, CONTENTS, settings, table_10
from studies.paper.graphs.tables import comparison, grouped, notes, other_measures, our_score, paper_f1, print_table
from studies.paper.printed import paper_tables
from studies.runs.results import cell_path, write_json
from tests.studies.paper.test_report import Page

COMMITTED = Path(__file__).parents[3] / "docs" / "results" / "graphs"
IMAGES = re.compile(r"data:image/png;base64,[^\"]*")
FILES = ["report.md", "report.html", "micro-f1.png", "inference-permutations.png"]


def result(dataset, row, seed, f1, preset="full", **changes):
    """Returns a made-up result in the format of ``train_row``. ``f1`` is micro-F1 on test vertices, or its curve."""
    settings = replace(settings_for(dataset, Row.named(row), preset), **changes)
    curve = [float(value) for value in np.broadcast_to(f1, settings.num_permutations if np.ndim(f1) == 0 else len(f1))]
    return {
        "format": 1,
        "dataset": dataset,
        "row": row,
        "seed": seed,
        "config": {**asdict(settings), "optimizer": "Adam"},
        "num_trainable_parameters": 1234 if row == "mean" else 987654,
        "scores": {"validation": 0.5, "test": curve[-1]},
        "curve": curve,
        "losses": [0.5] * 10,
        "vertices_per_second": 1991.4,
        "seconds": 61.0,
        "finished": "2026-11-21T19:48:54+00:00",
        "versions": {"janossy": "0.1.0", "platform": "a <b> & c"},
    }


def noisy(dataset, row, num, mean, gain=0.01, seed=0):
    """Returns results whose curves rise by the gain, each around its own level."""
    rng, steps = np.random.default_rng(seed), np.arange(20)
    noise = rng.normal(0, 0.01, (num, 1)) + rng.normal(0, 0.001, (num, 20)) + gain * (1 - 0.5**steps)
    return [result(dataset, row, s, (mean + noise[s]).round(6)) for s in range(num)]


def of_the_paper(dataset, rows=PAPER_ROWS):
    """Returns a run of each row with the paper's mean, for a dash that of the first row."""
    name = dataset.removesuffix("-go")
    return [result(dataset, row, 0, (paper_f1(name, row) or paper_f1(name, PAPER_ROWS[0])).mean) for row in rows]


def checks_of(results):
    found = patterns(results)
    return [*found.sentences, *found.means, *found.ours]


def verdicts(results, words):
    return [check.holds for check in checks_of(results) if words in check.sentence]


def shown(results, width=120):
    console = Console(width=width, record=True, file=StringIO())
    print_table(console, results)
    return console.export_text()


def write_report(directory):
    results, skipped = GRAPHS.read(directory)
    return GRAPHS.write_report(directory, results, [str(each) for each in skipped])


def reported(directory, results):
    """Returns the texts of report.md and report.html."""
    for each in results:
        write_json(cell_path(directory, each["dataset"], each["row"], each["seed"]), each)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paths = write_report(directory)
    assert set(paths) == {path for path in directory.iterdir() if path.is_file()}
    return [(directory / name).read_text(encoding="utf-8") for name in FILES[:2]]


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    directory = tmp_path_factory.mktemp("full")
    results = [
        *noisy("cora", "lstm-3-3", 5, 0.86),
        *noisy("ppi-go", "lstm-3-3", 12, 0.4),
        *[result("ppi-go", "mean", seed, 0.5 + seed / 100) for seed in range(2)],
        result("ppi-go", "gru-5-5", 3, 0.4321),
    ]
    for each in results:
        if each["dataset"] == "ppi-go":
            each |= {"loss_curve": [1 - value for value in each["curve"]], "tuned_curve": each["curve"]}
    return directory, results, *reported(directory, results)


def test_our_means_and_deviations_are_those_of_the_runs():
    values = {row: np.random.default_rng(i).random(6) for i, row in enumerate(("lstm-3-3", "gru-5-5"))}
    results = [result("pubmed", row, seed, f1) for row in values for seed, f1 in enumerate(values[row])]
    table = {row: entries.popitem()[1] for row, entries in comparison([*results, result("pubmed", "mean", 0, 0.5)])}
    assert list(table) == [*PAPER_ROWS, "gru-5-5"]
    for row, f1 in values.items():
        assert table[row].ours.mean == pytest.approx(np.mean(f1))
        assert table[row].ours.std == pytest.approx(np.std(f1, ddof=1))
        assert table[row].num_runs == 6
    assert (table["mean"].ours.mean, table["mean"].ours.std, table["mean"].num_runs) == (0.5, None, 1)
    assert (table["lstm-5-5"].ours, table["lstm-5-5"].num_runs) == (None, 0)


@pytest.mark.parametrize("dataset", ["cora", "pubmed", "ppi"])
def test_the_papers_numbers_are_those_of_table_2(dataset):
    table = comparison([result(dataset, "gru-5-5", 0, 0.5)])
    for (row, entries), printed in zip(table, [*paper_tables()["table_2_micro_f1"], None], strict=True):
        (entry,) = entries.values()
        if printed is None:
            assert (row, entry.paper) == ("gru-5-5", "")
        elif printed[dataset] is None:
            assert (paper_f1(dataset, row), entry.paper) == (None, "–")
        else:
            assert (paper_f1(dataset, row).mean, paper_f1(dataset, row).std) == tuple(printed[dataset].values())
            assert entry.paper == "{mean:.3f} ({std:.3f})".format(**printed[dataset])
            assert row == ("mean" if printed["f"] == "mean" else f"{printed['f']}-{printed['k1']}-{printed['k2']}")


def test_what_differs_in_settings_is_not_averaged():
    results = [result("ppi-go", "lstm-3-3", 0, 0.1, "smoke"), result("ppi-go", "lstm-3-3", 1, 0.5)]
    results += [result("ppi-go", "lstm-3-3", 2, 0.9, batch_size=64), result("cora", "mean", 0, 0.7)]
    means = {
        column.title: [entry.ours.mean for row, entries in comparison(results) if (entry := entries[column]).ours]
        for column in grouped(results)
    }
    assert means == {
        "Cora, full": [0.7],
        "PPI-GO, full, batch_size 512": [0.5],
        "PPI-GO, full, batch_size 64": [0.9],
        "PPI-GO, smoke": [0.1],
    }
    assert not curves(results)
    assert [column.title for column in grouped(results[:1])] == ["PPI-GO"]


def test_a_result_from_before_a_setting_has_its_default():
    old, new = result("cora", "mean", 0, 0.5), result("cora", "mean", 1, 0.7)
    del old["config"]["precision"]
    (column,) = grouped([old, new])
    assert dict(comparison([old, new]))["mean"][column].ours.mean == pytest.approx(0.6)
    assert dict(settings([old, new]))["precision"] == ["float32"]


def test_rows_in_bfloat16_are_noted():
    rows = ("lstm-3-3", "lstm-25-25", "lstm-all-all")
    assert notes([result("ppi-go", row, 0, 0.5) for row in rows])[2] == (
        "PPI-GO by LSTM (25, 25), LSTM (all, all): in bfloat16."
    )


@pytest.mark.parametrize("dataset", ["cora", "pubmed", "ppi"])
def test_every_pattern_of_table_2_holds_in_the_paper(dataset):
    found = patterns(of_the_paper(dataset))
    assert {check.verdict for check in (*found.sentences, *found.means)} == {"holds"}
    assert (len(found.sentences), len(found.means)) == (3, 7 if dataset == "ppi" else 2)
    assert found.ours == []


def test_what_the_paper_does_not_have_is_no_pattern_of_the_paper(tmp_path):
    tuned = [{**each, "tuned_curve": each["curve"]} for each in curve("ppi", (0, 0.01, 0.015, 0.016))]
    results = [*tuned, *curve("ppi", (0, -0.01, 0, 0), row="mean-3-3"), *curve("cora", (0, 0.01, 0.01, 0.01))]
    results += [*of_the_paper("ppi-go"), result("cora", "mean-stopped", 0, 0.1)]
    found = patterns(results)
    assert [check.sentence for check in found.sentences if check.sentence.startswith("PPI: ")][2:] == [
        "PPI: micro-F1 rises from one permutation at inference to three, in every row.",
        "PPI: diminishing returns set in by permutation 7: in every row, 20 add less to 7 than three to 1.",
        "PPI: micro-F1 is better with 7 permutations at inference than with 1, p < 0.001 by both paired tests.",
    ]
    assert all(check.holds for check in found.sentences if "permutation" in check.sentence)
    assert not [check for check in found.sentences if "tuned" in check.sentence or "PPI-GO" in check.sentence]
    assert [check.sentence for check in found.means if "mean" in check.sentence.partition(":")[0]] == []
    ours = {check.sentence: check.holds for check in found.ours}
    assert ours["PPI, other rows: micro-F1 rises from one permutation at inference to three, in every row."] is False
    assert [sentence for sentence in ours if sentence.startswith("Cora: micro-F1 is better with 7")]
    num = len(found.sentences)
    for text in reported(tmp_path, results):
        assert f"Of the paper's {num} sentences below" in text.replace("&#39;", "'")


@pytest.mark.parametrize(
    ("dataset", "row", "value", "words"),
    [
        ("cora", "mean", 0.8519, "mean: within one standard deviation"),
        ("ppi", "lstm-3-3", 0.5329, "LSTM (3, 3): within one standard deviation"),
        ("pubmed", "lstm-10-25", 0.8785, "differ from LSTM (3, 3) by less than 0.01"),
        ("ppi-go", "lstm-all-all", 0.7, "increasing k improves micro-F1"),
        ("ppi", "lstm-all-all", 0.768, "mean-pooling of whole neighbourhoods is better than every LSTM row"),
        ("ppi", "mean", 0.7, "mean-pooling of whole neighbourhoods is better than every LSTM row"),
    ],
)
def test_a_broken_pattern_does_not_hold(dataset, row, value, words):
    sound = of_the_paper(dataset)
    broken = [result(dataset, row, 0, value) if each["row"] == row else each for each in sound]
    assert verdicts(sound, words) == [True]
    assert verdicts(broken, words) == [False]


def test_a_pattern_is_decided_on_the_rows_that_were_run():
    three = of_the_paper("ppi-go", ("mean", "lstm-5-5", "lstm-10-25"))
    rises, best, _ = patterns(three).ours
    assert rises.sentence.endswith("over the 2 of 6 rows that were run.")
    assert best.sentence.endswith("over the 3 of 7 rows that were run.")
    assert rises.holds and best.holds
    assert rises.numbers == "LSTM (5, 5): 0.579, 1 run; LSTM (10, 25): 0.650, 1 run"
    assert best.numbers == f"{rises.numbers}; mean: 0.767, 1 run"
    assert [check.holds for check in checks_of(three[:1])] == [None, None]


def test_an_lstm_whose_parameters_depend_on_k_is_seen():
    results = of_the_paper("pubmed")
    results[2]["num_trainable_parameters"] += 1
    assert verdicts(of_the_paper("pubmed"), "as many parameters") == [True]
    assert verdicts(results, "as many parameters") == [False]


def curve(dataset, steps, num=12, row="lstm-3-3"):
    """Runs at levels of their own, whose curves change as these steps of 1, 3, 7 and 20 permutations say."""
    changes = np.interp(np.arange(1, 21), (1, 3, 7, 20), steps)
    jitter = np.random.default_rng(0).normal(0, 1e-4, (num, 20))
    return [result(dataset, row, s, (0.5 + s / 100 + changes + jitter[s]).round(6)) for s in range(num)]


@pytest.mark.parametrize(
    ("steps", "three", "diminishing"),
    [
        ((0, 0.01, 0.015, 0.016), [True], [True]),
        ((0, 0.01, 0.015, 0.03), [True], [False]),
        ((0, -0.001, 0.01, 0.02), [False], [False]),
        ((0, -0.01, -0.01, -0.03), [False], [True]),
    ],
)
def test_what_figure_2_shows_holds_or_not(steps, three, diminishing):
    sound = curve("ppi", (0, 0.01, 0.015, 0.016), row="lstm-5-5")
    assert verdicts([*curve("ppi", steps), *sound], "rises from one permutation") == three
    assert verdicts([*curve("ppi", steps), *sound], "diminishing returns") == diminishing
    assert not verdicts(curve("cora", steps), "permutation at inference to three")


def test_permutations_of_cora_are_no_sentence_of_the_paper():
    """The paper says that the degrees of Cora are too small for this test, and makes none."""
    words = "Cora: micro-F1 is better with 7 permutations"
    for steps, num, verdict in (((0, 0, 0, 0), 12, False), ((0, 0.01, 0.01, 0.01), 12, True), ((0, 0, 0, 0), 5, None)):
        found = patterns(curve("cora", steps, num))
        assert [check.holds for check in found.ours if words in check.sentence] == [verdict]
        assert not [check for check in found.sentences if "permutation" in check.sentence]


@pytest.mark.parametrize("num", [3, 12])
def test_paired_tests_and_intervals_are_scipys(num):
    results = noisy("ppi", "lstm-3-3", num, 0.5, gain=0.002)
    (of,) = curves(results)
    f1 = np.array([each["curve"] for each in results])
    tests = of.tests()
    assert tests.num_runs == num
    assert tests.t == pytest.approx(stats.ttest_rel(f1[:, 6], f1[:, 0]).pvalue, rel=1e-6)
    assert tests.wilcoxon == pytest.approx(stats.wilcoxon((f1[:, 6] - f1[:, 0]).round(6)).pvalue)
    for interval, values in [(tests.difference, f1[:, 6] - f1[:, 0]), (of.at(20), f1[:, 19]), (of.at(1), f1[:, 0])]:
        expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        assert (interval.mean - interval.half, interval.mean + interval.half) == pytest.approx(tuple(expected))
    assert [gain.mean for gain in of.gains()] == pytest.approx(f1.mean(0) - f1[:, 0].mean())
    assert of.gains()[0].half == 0


def test_equal_differences_share_a_rank():
    """Differences of thousandths that are equal are not so in floating point."""
    few = np.array([451, 542, 522, 352, 937, 377, 658, 383])
    change = np.array([1, 1, 1, -1, 1, 2, -2, 3])
    results = [
        result("cora", "lstm-3-3", seed, np.r_[[a / 1000] * 6, b / 1000])
        for seed, (a, b) in enumerate(zip(few, few + change, strict=True))
    ]
    unrounded = np.array([each["curve"][6] - each["curve"][0] for each in results])
    assert stats.wilcoxon(unrounded).pvalue != pytest.approx(stats.wilcoxon(change).pvalue)
    assert curves(results)[0].tests().wilcoxon == pytest.approx(stats.wilcoxon(change).pvalue)


def test_seven_permutations_against_one_hold_fail_and_stay_open():
    def verdict(num, gain):
        return verdicts(noisy("ppi-go", "lstm-3-3", num, 0.4, gain), "micro-F1 is better with 7 permutations")

    assert verdict(12, 0.01) == [True]
    assert verdict(12, 0) == verdict(12, -0.01) == [False]
    assert verdict(10, 0.01) == [None]  # Wilcoxon's p is at least 2/2¹⁰
    assert verdict(1, 0.01) == []


def test_a_lower_cross_entropy_is_better():
    results = noisy("ppi-go", "lstm-3-3", 12, 0.4, gain=-0.01)
    for each in results:
        each |= {"tuned_curve": [value + 0.2 for value in each["curve"]], "loss_curve": each["curve"]}
    found = {check.sentence: check.holds for check in checks_of(results) if "better with 7" in check.sentence}
    assert list(found.values()) == [False, False, True]
    assert "cross entropy" in list(found)[2]
    assert [str(score) for score in other_measures(results)[0][2]][2] == str(our_score(results))


def test_degenerate_runs_have_no_p_values_and_give_no_warning(tmp_path):
    results = [result("cora", "lstm-3-3", seed, 0.86) for seed in range(4)]
    results += [result("cora", "lstm-5-5", seed, np.r_[0.8 + seed / 100, [0.9 + seed / 100] * 19]) for seed in range(4)]
    results += [result("cora", "lstm-10-25", 0, 0.86), *[result("cora", "mean", seed, 0.86) for seed in range(4)]]
    results += [result("pubmed", "lstm-3-3", seed, [0.8, 0.81], "smoke") for seed in range(2)]
    alike, same, short = curves(results)
    assert (alike.tests().t, alike.tests().wilcoxon) == (None, None)
    assert (same.tests().t, same.tests().wilcoxon) == (None, 0.125)
    assert short.tests() is None
    for text in reported(tmp_path, results):
        assert "+0.0000 ± 0.0000" in text
        assert not re.search(r"\bnan\b", text, re.I)
    assert "| LSTM (3, 3) | micro-F1 | 4 | 0.8600 ± 0.0000" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_without_curves_there_is_no_figure_of_them(tmp_path):
    reported(tmp_path, [result("cora", "lstm-3-3", 0, 0.86), result("cora", "mean", 0, 0.86)])
    assert not (tmp_path / "inference-permutations.png").exists()


def test_the_stand_in_is_never_called_ppi(full):
    _, results, markdown, html = full
    text = Page(html).text
    for page in (markdown, text, shown(results, 200)):
        assert OTHER_LABELS in page
        assert "PPI-GO" in page
        bare = [line for line in page.replace(OTHER_LABELS, "").splitlines() if re.search(r"PPI(?!-GO)", line)]
        assert bare
        assert all("paper" in line for line in bare)
        assert not re.search(r"PPI(?!-GO)[^|]*, ours", page)
    assert "| PPI-GO, ours | runs | paper, PPI (other labels) |" in markdown
    assert "0.538 (0.005)" in markdown
    assert "(other labels)" not in shown([result("ppi", "mean", 0, 0.7)])


def test_both_reports_hold_the_numbers_of_every_run_and_of_the_tables(full):
    directory, results, markdown, html = full
    for text in (re.sub(r" *\| *", " ", markdown), " ".join(re.sub("<[^>]*>", " ", html).split())):
        for each in results:
            f1 = f"{each['scores']['test']:.4f}"
            assert f"{NAMES[each['dataset']]} {each['row']} {each['seed']} {f1} 1 min 01 s 1991" in text
        f1 = [each["scores"]["test"] for each in results[:5]]
        assert f"{np.mean(f1):.3f}" in text
        assert f"({np.std(f1, ddof=1):.3f})" in text
        tests = curves(results)[0].tests()
        assert f"{tests.difference.mean:+.4f} ± {tests.difference.half:.4f}" in text
        for measure in ("micro-F1", "tuned micro-F1", "cross entropy"):
            assert f"PPI-GO LSTM (3, 3) {measure} 12 " in text
        assert "average degree 3.898 3.898 27.87 28.8" in text
        assert "PPI-GO GRU 987654 –" in text
        for fact in ("learning_rate 0.005 0.01", "janossy 0.1.0", "epochs – 10", "20 min 20 s"):
            assert fact in text
        assert "Cora, LSTM (3, 3): seeds 5–29 of the paper's 30 runs." in text.replace("&#39;", "'")
        assert "PPI-GO, GRU (5, 5): seeds 0–2 of the paper's 4 runs." in text.replace("&#39;", "'")
        assert "PPI-GO: not run: LSTM (5, 5), LSTM (10, 25)" in text
        assert (
            f"--dataset ppi-go --rows lstm-3-3,mean,gru-5-5 --seeds 12 --preset full --resume --out {directory}" in text
        )
        assert f"python -m studies report {directory}" in text
    assert "a &lt;b&gt; &amp; c" in html


def test_the_page_is_whole_and_refers_to_nothing_outside(full):
    directory, _, _, html = full
    page = Page(html)
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    for _, name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in {"src", "srcset", "href"} or value.startswith("data:image/png;base64,")
    assert not re.search(r"//|@import|url\(", re.sub(r'"data:image/png;base64,[^"]*"', "", html))
    assert [page.tags.count(tag) for tag in ("h1", "img", "figcaption")] == [1, 2, 2]
    assert "prefers-color-scheme: dark" in html
    assert all((directory / name).read_bytes().startswith(b"\x89PNG") for name in FILES[2:])


def test_damaged_files_are_named(tmp_path):
    path = cell_path(tmp_path, "cora", "mean", 3)
    write_json(path, {"dataset": "cora"})
    for text in reported(tmp_path, [result("cora", "mean", 0, 0.8)]):
        assert "cells/cora-mean-seed3.json is left out: it lacks row, seed" in text
        assert "seeds 1–29 of the paper" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_printed_table_is_whole_at_every_width(width, full):
    _, results, *_ = full
    text = shown([*results, *of_the_paper("pubmed"), *of_the_paper("ppi")], width)
    assert "…" not in text
    assert all(len(line) <= width for line in text.splitlines())
    assert [text.count(name) for name in ("0.860 (0.009)", "0.889 (0.010)", "0.767 (0.013)")] == [1, 1, 2]
    assert shown([]) == ""


def test_tables_9_and_10_are_the_papers():
    paper = paper_tables()["table_9_graph_datasets"]
    for dataset, name in product(("cora", "pubmed"), CHARACTERISTICS):
        ours = CONTENTS[dataset][CHARACTERISTICS.index(name)]
        assert round(ours, 3) == paper[dataset][name]
    for dataset, contents in CONTENTS.items():
        assert (contents[0], *contents[2:4]) == SIZES[dataset]
    results = of_the_paper("cora", ("mean", "lstm-3-3", "lstm-5-5")) + of_the_paper("ppi-go", ("mean",))
    assert [(column.title, *rest) for column, *rest in table_10(results)] == [
        ("Cora", "LSTM", "987654", "2541440"),
        ("Cora", "mean", "1234", "400512"),
        ("PPI-GO", "mean", "1234", "61056"),
    ]


def test_results_are_read_as_written(full):
    directory, results, *_ = full
    assert GRAPHS.read(directory)[1] == []
    assert len(GRAPHS.read(directory)[0]) == len(results)


def test_the_committed_report_is_that_of_the_committed_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(COMMITTED / "cells", Path("docs/results/graphs/cells"))
    write_report(Path("docs/results/graphs"))
    for name in ("report.md", "report.html"):
        text, committed = ((folder / name).read_text("utf-8") for folder in (Path("docs/results/graphs"), COMMITTED))
        assert IMAGES.sub("", text) == IMAGES.sub("", committed)  # a plot's bytes are those of a version of matplotlib


PAGES_ROWS = {
    "LSTM, k₁ = k₂ = 3": "lstm-3-3",
    "LSTM, k₁ = k₂ = 5": "lstm-5-5",
    "LSTM, k₁ = 10, k₂ = 25": "lstm-10-25",
    "LSTM, k₁ = 25, k₂ = 10": "lstm-25-10",
    "LSTM, k₁ = k₂ = 25": "lstm-25-25",
    "LSTM, all": "lstm-all-all",
    "mean": "mean",
    "gcn": "gcn",
    "gcn, stopped early": "gcn-stopped",
}


def test_the_tables_of_the_page_on_vertices_are_the_committed_runs():
    groups = {column.dataset: rows for column, rows in grouped(GRAPHS.read(COMMITTED)[0]).items()}
    named = {title: dataset for dataset, title in NAMES.items()}
    lines = (COMMITTED.parents[1] / "graphs.md").read_text("utf-8").splitlines()
    num_scores, head, last = 0, [], ""
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| micro-F1 |"):
            head = cells
        elif line.startswith("|") and cells[0] in PAGES_ROWS:
            row = PAGES_ROWS[cells[0]]
            for title, cell in zip(head[1:], cells[1:], strict=True):
                last = named.get(title.partition(",")[0], last)
                runs = groups[last].get(row, [])
                if title == "paper":
                    expected = str(paper_f1(last, row) or "")
                elif title == "runs":
                    expected = str(len(runs) or "")
                else:
                    expected = (
                        str(our_score(runs, "tuned_curve" if title.endswith("tuned") else "curve")) if runs else ""
                    )
                assert cell == expected, (row, title)
                num_scores += 1
    assert num_scores > 80


def test_the_committed_runs_have_todays_settings():
    results, damaged = GRAPHS.read(COMMITTED)
    assert len(results) > 180 and damaged == []
    for run in results:
        today = asdict(settings_for(run["dataset"], Row.named(run["row"]), run["config"]["preset"]))
        assert {**today, **run["config"]} == {**today, "optimizer": "Adam"}, (run["dataset"], run["row"], run["seed"])
