"""Names that pages and runs share; pages are written where no peer is installed."""

PEERS = {"deepsets": "DeepSets", "abmil": "gated attention", "set-transformer": "Set Transformer", "flaml": "FLAML"}
"""The peers by name, and their titles."""
