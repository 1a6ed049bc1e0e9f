"""The names of the study's tasks and models, for options without torch."""

from typing import Literal

TASKS = ("sum", "range", "unique_sum", "unique_count", "variance")
TABLE_3 = tuple(f"{f}-{rho}" for fs in (("k1", "k2", "k3"), ("lstm", "gru")) for rho in ("linear", "mlp") for f in fs)
WIDE = tuple(f"k{k}-{rho}-100" for rho in ("linear", "mlp") for k in (2, 3))
"""The models of Tables 6 and 7 only, with an embedding of 100 for every k."""
MODELS = TABLE_3 + WIDE

Preset = Literal["smoke", "quick", "full"]
Protocol = Literal["fast", "paper", "released"]
