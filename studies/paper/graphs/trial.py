"""One training run on a graph, as a job of workers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from studies.paper.graphs.datasets import SIZES, load
from studies.paper.graphs.memory import keep_freed_memory
from studies.paper.graphs.settings import RECURRENT, Settings
from studies.paper.graphs.train import num_batches, train_row
from studies.runs.trials import Progress

NUM_TRAIN = {"cora": 1208, "pubmed": 18217, "ppi": 44906, "ppi-go": 44906}
"""The number of training vertices (Table 9)."""

MEAN_DEGREE = 10
"""The approximate mean degree, if a layer reads all neighbours."""


@dataclass(frozen=True)
class Trial:
    """Names of a data set and a row, a seed, the settings, and the folder of the data. Progress counts batches.

    ``checkpoints`` is a folder from which a killed run resumes at its last epoch.
    """

    dataset: str
    row: str
    seed: int
    settings: Settings
    folder: Path
    checkpoints: Path | None = None

    numbered: ClassVar[str] = "seed"

    @property
    def place(self) -> tuple[str, str, int]:
        return self.dataset, self.row, self.seed

    @property
    def units(self) -> float:
        return num_batches(NUM_TRAIN[self.dataset], self.settings)

    @property
    def cost(self) -> float:
        k_1, k_2 = (k or MEAN_DEGREE for k in (self.settings.k_1, self.settings.k_2))
        recurrent = 100 if self.row.startswith(RECURRENT) else 1
        vertices = min(self.settings.batch_size * (1 + k_2), SIZES[self.dataset][0])
        return self.units * vertices * k_1 * recurrent

    def run(self, progress: Progress) -> dict[str, Any]:
        keep_freed_memory()
        data = load(self.dataset, self.folder, self.seed)
        if self.checkpoints is None:
            return train_row(data, self.row, self.seed, self.settings, progress)
        checkpoint = self.checkpoints / f"{self.dataset}-{self.row}-seed{self.seed}.pt"
        result = train_row(data, self.row, self.seed, self.settings, progress, checkpoint)
        checkpoint.unlink(missing_ok=True)
        return result

    def score(self, result: dict[str, Any]) -> str:
        return f"micro-F1 {result['scores']['test']:.3f} with {self.settings.num_permutations} permutations"
