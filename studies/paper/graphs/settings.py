"""The rows of Table 2, and others like them: aggregation and numbers of neighbours, with the training of each."""

import re
from dataclasses import dataclass
from typing import Literal

Preset = Literal["smoke", "quick", "full"]
Precision = Literal["float32", "bfloat16"]

NAMES = {"cora": "Cora", "pubmed": "PubMed", "ppi": "PPI", "ppi-go": "PPI-GO"}
"""The names of data sets, with their spelling."""

PAPER_ROWS = (
    "lstm-3-3",
    "lstm-5-5",
    "lstm-10-25",
    "lstm-25-10",
    "lstm-25-25",
    "lstm-all-all",
    "mean",
)
"""The rows of Table 2, in its order."""

RECURRENT = ("lstm", "gru")
"""The aggregations that read neighbours in order."""

STOPPED = "-stopped"
"""The suffix of rows with early stopping."""

NUM_RUNS = {"cora": 30, "pubmed": 30, "ppi": 4, "ppi-go": 4}
"""The paper's numbers of runs."""


@dataclass(frozen=True)
class Row:
    """An aggregation of ``GraphSAGE`` that reads k_1 and k_2 neighbours in layers one and two, None for all.

    ``stopped`` is not in the paper: training takes three times as long, and keeps the best weights on the validation
    vertices.
    """

    aggregation: str
    k_1: int | None = None
    k_2: int | None = None
    stopped: bool = False

    @classmethod
    def named(cls, name: str) -> "Row":
        """Returns the row of a name: "mean", "gcn", "max", "k2", … over whole neighbourhoods, or with numbers.

        Names with numbers are "lstm-3-3", "gru-all-all", "max-10-25", …. All names may end in "-stopped".

        Raises: ValueError for another name.
        """
        k = "([1-9][0-9]*|all)"
        match = re.fullmatch(f"(mean|gcn|max|k[1-6]|lstm|gru)(?:-{k}-{k})?({STOPPED})?", name)
        if match is None or (match[1] in RECURRENT and match[2] is None):
            raise ValueError(
                "a row is mean, gcn, max, k2 or k3, of whole neighbourhoods, or an aggregation with the numbers of "
                f"neighbours of layers one and two, as lstm-3-3, gru-10-25 or lstm-all-all, and perhaps -stopped; "
                f"got {name!r}."
            )
        k_1, k_2 = (None if k in (None, "all") else int(k) for k in match.groups()[1:3])
        return cls(match[1], k_1, k_2, match[4] is not None)

    @property
    def reads_in_order(self) -> bool:
        """True if a prediction depends on the order of the neighbours, or on which of them are sampled."""
        return self.aggregation in RECURRENT or (self.k_1, self.k_2) != (None, None)


@dataclass(frozen=True)
class Settings:
    """Everything besides the data set, the row and the seed that decides a result. Every result file contains it."""

    preset: Preset
    learning_rate: float
    batch_size: int
    k_1: int | None
    k_2: int | None
    num_batches: int | None = None
    """The number of batches, each a random subset of the training vertices; None for passes over epochs."""
    epochs: int | None = None
    keep: str = "last"
    """The weights that are scored: the "last", or the "best" of ten validations, of one pass each."""
    hidden_features: int = 256
    num_permutations: int = 20
    """The number of passes whose probabilities are averaged: 1 if a pass has no randomness."""
    num_test: int | None = None
    """The test and validation vertices that are scored, None for all."""
    precision: Precision = "float32"
    """The precision of a pass, bfloat16 by autocast. Weights, gradients and Adam's moments are always float32."""


def settings_for(dataset: str, row: Row, preset: Preset, precision: Precision | None = None) -> Settings:
    """Returns the paper's training of a row; ``precision`` overrides.

    - smoke: two steps, scored on 100 vertices, to see that everything runs.
    - quick: as in the paper on Cora and PubMed, and a fifth of its epochs on PPI.
    - full: as in the paper. "All" neighbours of PPI's vertices means 100 of them.

    Recurrences that read more than 250 neighbours of neighbours on PPI compute in bfloat16. It costs little accuracy,
    and is faster if the processor has instructions for it (docs/graphs.md).
    """
    is_ppi = dataset.startswith("ppi")
    is_capped = is_ppi and row.reads_in_order
    k_1, k_2 = (100 if k is None and is_capped else k for k in (row.k_1, row.k_2))
    longer = 3 if row.stopped else 1
    is_long = is_capped and row.aggregation in RECURRENT and (k_1 or 0) * (k_2 or 0) > 250
    schedule = {"epochs": longer * (2 if preset == "quick" else 10)} if is_ppi else {"num_batches": longer * 100}
    return Settings(
        preset=preset,
        learning_rate=0.005 if dataset == "cora" else 0.01,
        batch_size=512 if is_ppi else 256,
        k_1=k_1,
        k_2=k_2,
        keep="best" if row.stopped else "last",
        precision=precision or ("bfloat16" if is_long else "float32"),
        num_permutations=(20 if preset != "smoke" else 3) if row.reads_in_order else 1,
        **({"num_batches": 2, "num_test": 100} if preset == "smoke" else schedule),
    )
