"""The study of graphs as one record, with its trials."""

from collections.abc import Sequence
from pathlib import Path

from studies.paper.graphs.datasets import load
from studies.paper.graphs.report import write_report
from studies.paper.graphs.results import GraphResult
from studies.paper.graphs.settings import NUM_RUNS, Precision, Preset, Row, settings_for
from studies.paper.graphs.tables import print_table
from studies.paper.graphs.trial import Trial
from studies.runs.study import Study


def trials(
    datasets: Sequence[str],
    rows: Sequence[str],
    num_seeds: int | None,
    preset: Preset,
    folder: Path,
    precision: Precision | None = None,
    checkpoints: Path | None = None,
) -> list[Trial]:
    """Returns trials of all data sets and rows for each seed. Raises: ValueError; OSError if a data set is missing."""
    found = []
    for name in datasets:
        num = num_seeds or (NUM_RUNS[name] if preset == "full" else 1)
        for row in rows:
            settings = settings_for(name, Row.named(row), preset, precision)
            found += [Trial(name, row, seed, settings, folder, checkpoints) for seed in range(num)]
        load(name, folder)  # once here, before all workers download it
    return found


GRAPHS = Study("graphs", ("dataset", "row", "seed"), GraphResult, print_table, write_report)
