"""Saved networks: a folder, or one zip of it, of safetensors weights and a JSON description; no pickle, no code."""

from janossy.saving.network import describe, load, rebuild, save, weights
from janossy.saving.reading import Model, SavedModelError, digest, read_model
from janossy.saving.writing import write_model

__all__ = [
    "Model",
    "SavedModelError",
    "describe",
    "digest",
    "load",
    "read_model",
    "rebuild",
    "save",
    "weights",
    "write_model",
]
