"""What the study is of, by name, for those who only name it: its options load no torch."""

from typing import Literal

TASKS = ("sum", "range", "unique_sum", "unique_count", "variance")
MODELS = tuple(f"{f}-{rho}" for fs in (("k1", "k2", "k3"), ("lstm", "gru")) for rho in ("linear", "mlp") for f in fs)

Preset = Literal["smoke", "quick", "full"]
Protocol = Literal["fast", "paper", "released"]
