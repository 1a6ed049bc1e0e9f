"""Sets of table rows: an h that embeds their columns, a ρ that reads a set's own columns beside the pooled vector."""

from janossy.tabular.attention_mean import AttentionMean
from janossy.tabular.column_embedding import ColumnEmbedding
from janossy.tabular.pooled_norm import PooledNorm
from janossy.tabular.readout import Readout

__all__ = ["AttentionMean", "ColumnEmbedding", "PooledNorm", "Readout"]
