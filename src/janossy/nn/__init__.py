"""Modules on sets: pooling layers, networks around them, and the parts that embed columns and read pooled vectors."""

from janossy.nn.cached_mean import CachedMean
from janossy.nn.column_embedding import ColumnEmbedding
from janossy.nn.equivariant import JanossyEquivariant
from janossy.nn.network import JanossyNetwork
from janossy.nn.pooling import JanossyPooling
from janossy.nn.readout import AttentionMean, PooledNorm, Readout

__all__ = [
    "AttentionMean",
    "CachedMean",
    "ColumnEmbedding",
    "JanossyEquivariant",
    "JanossyNetwork",
    "JanossyPooling",
    "PooledNorm",
    "Readout",
]
