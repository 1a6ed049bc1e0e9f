"""Layers from sets to sets, between h and the pooling of a network."""

from janossy.nn.encoder.append_size import AppendSize
from janossy.nn.encoder.beside_pooled import BesidePooled
from janossy.nn.encoder.induced_attention import InducedAttention
from janossy.nn.encoder.layer import SetLayer
from janossy.nn.encoder.relations import Relations
from janossy.nn.encoder.residual import Residual
from janossy.nn.encoder.seed_attention import ConcatenatedElements, SeedAttention
from janossy.nn.encoder.self_attention import SelfAttention
from janossy.nn.encoder.set_encoder import SetEncoder, attention_blocks
from janossy.nn.encoder.set_norm import SetNorm
from janossy.nn.encoder.slot_attention import SlotAttention

__all__ = [
    "AppendSize",
    "BesidePooled",
    "ConcatenatedElements",
    "InducedAttention",
    "Relations",
    "Residual",
    "SeedAttention",
    "SelfAttention",
    "SetEncoder",
    "SetLayer",
    "SetNorm",
    "SlotAttention",
    "attention_blocks",
]
