"""The meaning of weights beyond their shapes, as a part of a module's state."""

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class StatesItsMeaning(nn.Module):
    """A module whose state says what its weights mean, so that weights of equal shapes and other meaning do not load.

    The meaning is in ``get_extra_state``: the bytes of a JSON object in a tensor, as code that copies or writes a state
    expects tensors. A state without a meaning, such as one from an earlier version, loads.
    """

    def meaning(self) -> Mapping[str, Any]:
        """Returns the names and numbers that must be equal for weights to load."""
        raise NotImplementedError

    def get_extra_state(self) -> Tensor:
        return torch.tensor(list(_written(self.meaning()).encode()), dtype=torch.uint8, device="cpu")

    def set_extra_state(self, state: Any) -> None:
        """Does nothing: a state of another meaning was refused before."""

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        key = f"{prefix}_extra_state"
        said, here = _read(state_dict.get(key)), json.loads(_written(self.meaning()))
        differing = [name for name in here if name in said and said[name] != here[name]]
        for name in differing:
            error_msgs.append(
                f"{prefix.rstrip('.') or type(self).__name__} has {name}={here[name]!r}, and the state is of "
                f"{name}={said[name]!r}: the weights would mean another function. Build the module as it was saved."
            )
        if differing:
            return
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if key in missing_keys:
            missing_keys.remove(key)


def _written(meaning: Mapping[str, Any]) -> str:
    return json.dumps(dict(meaning), default=int)  # int converts numpy's integers


def _read(state: Any) -> dict[str, Any]:
    """Returns the meaning in a state; nothing if the state is not one of this module."""
    if not isinstance(state, Tensor) or state.dim() != 1:
        return {}
    try:
        said = json.loads(bytes(state.round().to(torch.uint8).tolist()))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
