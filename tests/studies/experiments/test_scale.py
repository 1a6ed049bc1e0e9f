"""A fit that is killed at random moments ends as the one that is left alone; tables of any length; the plan's table."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from pyarrow import parquet

from benchmarks import ray_workers, scale
from studies.experiments.scale import killed_fit
from studies.experiments.scale.table import CHUNK, write_table

ROOT = Path(__file__).parents[3]


def test_a_fit_that_is_killed_ends_as_the_one_left_alone(tmp_path):
    command = [
        sys.executable,
        "-m",
        "studies.experiments.scale.killed_fit",
        "--kills",
        "3",
        "--rows",
        "2000",
        "--out",
        tmp_path,
    ]
    subprocess.run(command, check=True, timeout=280)
    data = json.loads((tmp_path / "killed_fit.json").read_text())
    assert data["equal"] and data["kills"] == 3 and data["saved_again"] == 0 and data["computed"] >= data["steps"]
    assert killed_fit.page(data) == (tmp_path / "killed_fit.md").read_text()
    assert "equal, bit for bit" in killed_fit.page(data) and "NOT" in killed_fit.page(data | {"equal": False})


def test_fifty_kills():
    data = json.loads((ROOT / "docs/results/scale/killed_fit.json").read_text(encoding="utf-8"))
    assert killed_fit.page(data) == (ROOT / "docs/results/scale/killed_fit.md").read_text(encoding="utf-8")
    assert data["equal"] and data["kills"] >= 50 and data["saved_again"] == 0
    assert len(data["starts"]) == data["kills"] + 1


def test_a_longer_table_begins_with_the_shorter(tmp_path):
    num_sets = write_table(tmp_path / "short.parquet", 1000)
    write_table(tmp_path / "long.parquet", CHUNK + 1000)
    short, long = (parquet.read_table(tmp_path / f"{name}.parquet") for name in ("short", "long"))
    assert len(long) == CHUNK + 1000
    whole = short["set_id"].to_numpy() < num_sets - 1
    for name in short.column_names:
        assert np.array_equal(short[name].to_numpy()[whole], long[name].to_numpy()[:1000][whole])
    ids = long["set_id"].to_numpy()
    assert (np.diff(ids) >= 0).all() and np.array_equal(np.unique(ids), np.arange(ids[-1] + 1))


def test_the_pages_are_those_of_the_numbers():
    cells = json.loads((ROOT / "benchmarks/results/scale.json").read_text(encoding="utf-8"))["cells"]
    assert scale.table(cells) == (ROOT / "benchmarks/results/scale.md").read_text(encoding="utf-8")
    assert scale.plan(cells) in (ROOT / "docs/scale.md").read_text(encoding="utf-8")
    rows = scale.medians(cells)
    assert [row["runs"] for row in rows if row["num_rows"] == scale.ROWS[0]] == [3, 3, 3, 3]
    for what in ("fit", "predict"):
        short, long = (row for row in rows if row["what"] == what and row["processes"] == 1)
        assert long["peak_mib"] <= 1.1 * short["peak_mib"] and max(row["reading_share"] for row in (short, long)) < 0.15


def test_medians_are_of_runs_of_one_kind():
    cell = {"what": "group", "num_rows": 10, "processes": 1, "memory": "1GB"}
    cells = [cell | {"run": i, "seconds": seconds} for i, seconds in enumerate((5.0, 1.0, 2.0))]
    small, large = scale.medians([*cells, cell | {"run": 0, "seconds": 9.0, "memory": "256MB"}])
    assert (small["seconds"], small["runs"], large["seconds"], large["runs"]) == (9.0, 1, 2.0, 3)


def test_the_page_of_ray_is_that_of_its_record():
    data = json.loads((ROOT / "benchmarks/results/ray_workers.json").read_text(encoding="utf-8"))
    assert ray_workers.page(data) == (ROOT / "benchmarks/results/ray_workers.md").read_text(encoding="utf-8")
    assert (data["workers"], data["sets"]) == (2, ray_workers.SETS) and len(data["rounds"]) >= 5


def test_what_ray_takes_more_is_the_median_of_pairs():
    plain = [{"seconds": seconds, "processors": 2.0} for seconds in (1.0, 2.0, 4.0)]
    more = [{"seconds": 1.5 * each["seconds"], "processors": 2.0} for each in plain]
    sides = (ray_workers.PLAIN, ray_workers.RAY)
    rounds = [{"load": 0.5, **dict(zip(sides, pair, strict=True))} for pair in zip(plain, more, strict=True)]
    data = {"command": "c", "machine": {"cpu": "x", "cores": 2}, "ray": "2", "finished": "2026-01-01", "strategy": "k1"}
    data |= {"workers": 2, "sets": 100, "ray_itself": 3.0, "starts": dict.fromkeys(sides, 7.0), "rounds": rounds}
    lines = ray_workers.page(data).splitlines()
    assert lines[-3] == "| Ray more than plain, in pairs | | +50.0% (+50.0%, +50.0%) | +0.0% (+0.0%, +0.0%) | |"
    assert lines[-4].startswith("| Ray's actors | 67 | 3.00 (1.50, 6.00) |")


def test_the_plan_divides():
    cells = [
        {"what": what, "num_rows": rows, "processes": 1, "sets_a_second": rows // 100, "scanned_a_second": 10**6}
        for what in ("group", "fit", "predict")
        for rows in (10**7, 10**6)
    ]
    lines = scale.plan(cells).splitlines()
    assert lines[-1] == "| predict | 100,000 | 2.8 | 0.2 | 0.0 |" and lines[2].endswith("| 2.8 | one machine |")
