"""Names that the command line checks before heavy imports."""

DATA = (
    *("poker", "musk1", "musk2", "elephant", "corel-dogs", "birds", "breast", "protein", "web"),
    *("orders", "jets", "digits-sum", "digits-distinct", "freesolv", "clustering"),
    *("maximum", "median", "odd-one-out", "cloud-100", "cloud-500", "omniglot"),
)

SINGLE = (
    *("k1", "mean+std", "k2", "k2+features", "k3", "sum", "additive", "max", "attention", "gru"),
    *("self-attention", "self-attention+features", "induced", "relations", "slots", "slots+moments"),
)
AUTO = "auto"
OURS = (*SINGLE, "told", AUTO)
PEERS = ("deepsets", "abmil", "set-transformer", "set-transformer-isab", "pyg-lstm", "trees", "trees-raw")

MODELS = (*SINGLE, "told", *PEERS, AUTO)
"""The names of all models, in display order."""
