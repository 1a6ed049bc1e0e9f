"""Saved networks: a folder, or one zip of it, of safetensors weights and a JSON description; no pickle, no code."""

from importlib import import_module
from typing import TYPE_CHECKING

from janossy.saving.reading import SavedModelError, digest

if TYPE_CHECKING:
    from janossy.saving.model import Model, read_model, write_model
    from janossy.saving.network import describe, load, rebuild, save, weights
    from janossy.saving.parts import register

__all__ = [
    "Model",
    "SavedModelError",
    "describe",
    "digest",
    "load",
    "read_model",
    "rebuild",
    "register",
    "save",
    "weights",
    "write_model",
]

_FILES = {
    "Model": "model",
    "describe": "network",
    "load": "network",
    "read_model": "model",
    "rebuild": "network",
    "register": "parts",
    "save": "network",
    "weights": "network",
    "write_model": "model",
}
"""The names whose files import torch, which takes seconds and memory. They are imported at their first use."""


def __getattr__(name: str) -> object:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
