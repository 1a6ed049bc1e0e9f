"""Modules on sets: pooling layers, layers from sets to sets, networks, and the modules that embed and read out."""

from janossy.nn.cached_mean import CachedMean
from janossy.nn.column_embedding import ColumnEmbedding
from janossy.nn.encoder import (
    AppendSize,
    BesidePooled,
    ConcatenatedElements,
    InducedAttention,
    Relations,
    Residual,
    SeedAttention,
    SelfAttention,
    SetEncoder,
    SetLayer,
    SetNorm,
    SlotAttention,
    attention_blocks,
)
from janossy.nn.equivariant import JanossyEquivariant
from janossy.nn.inner_sets import InnerSets
from janossy.nn.network import JanossyNetwork
from janossy.nn.pooling import JanossyPooling
from janossy.nn.readout import AttentionMean, PooledNorm, Readout
from janossy.nn.reductions import PowerMean, Quantile, SoftmaxMean

__all__ = [
    "AppendSize",
    "AttentionMean",
    "BesidePooled",
    "CachedMean",
    "ColumnEmbedding",
    "ConcatenatedElements",
    "InducedAttention",
    "InnerSets",
    "JanossyEquivariant",
    "JanossyNetwork",
    "JanossyPooling",
    "PooledNorm",
    "PowerMean",
    "Quantile",
    "Readout",
    "Relations",
    "Residual",
    "SeedAttention",
    "SelfAttention",
    "SetEncoder",
    "SetLayer",
    "SetNorm",
    "SlotAttention",
    "SoftmaxMean",
    "attention_blocks",
]
