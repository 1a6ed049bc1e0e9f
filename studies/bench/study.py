"""The study of the bench as one record, with its trials."""

from collections.abc import Sequence
from pathlib import Path

from studies.bench.cells import Cell
from studies.bench.data_sets import load
from studies.bench.names import AUTO
from studies.bench.page import show, write_report
from studies.bench.settings import Settings
from studies.bench.trial import Trial
from studies.runs.study import Study


def trials(
    data: Sequence[str], models: Sequence[str], num_folds: int | None, settings: Settings, folder: Path | None
) -> list[Trial]:
    """Returns trials of all models on all data sets, fold by fold, with "auto" last in each.

    A run that is cut short has then compared all models.
    Raises: OSError or ValueError if a data set cannot be obtained.
    """
    folds = {name: min(load(name, folder).num_folds, num_folds or 10**9) for name in data}
    return [
        Trial(name, model, fold, settings, folder)
        for fold in range(max(folds.values()))
        for some in ([model for model in models if model != AUTO], [model for model in models if model == AUTO])
        for name in data
        if fold < folds[name]
        for model in some
    ]


SETS = Study("sets", ("data", "model", "fold"), Cell, show, write_report)
