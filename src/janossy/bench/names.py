"""Names that the command line checks before anything heavy is loaded."""

DATA = ("musk1", "musk2", "elephant", "corel-dogs", "birds", "breast", "protein", "web")

OURS = ("k1", "k2", "k2+features", "k3", "max", "attention", "gru")
AUTO = "auto"
PEERS = ("deepsets", "abmil", "set-transformer", "set-transformer-isab", "pyg-lstm", "trees", "trees-raw")

MODELS = (*OURS, *PEERS, AUTO)
"""In the order in which they run: what takes longest is the last of a fold."""
