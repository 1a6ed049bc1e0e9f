"""Networks as descriptions of their parts, beside their weights; and back, whoever wrote them."""

from collections.abc import Mapping
from math import isfinite
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from janossy.functions.structure import hooked
from janossy.nn.network import JanossyNetwork, check_network
from janossy.saving.parts import NAMES, PARTS
from janossy.saving.reading import SavedModelError, read_model
from janossy.saving.writing import write_model

MOST_PARTS = 10_000
MOST_DEPTH = 64
"""Of parts within parts, of a description that anybody may have written."""

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

REMEDY = "Save network.state_dict() by torch.save, and build the network by your own code"


def save(network: JanossyNetwork, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a network as a folder of model.safetensors and model.json, or as one zip of it, for a path in .zip.

    The folder appears whole or not at all. It holds no code: the network must be made of parts that janossy and torch
    have (``janossy.saving.parts``), without hooks, and its orderings' keys are columns or such parts.

    Raises: TypeError for what is no JanossyNetwork; ValueError for a part that is not ours, which it names;
        FileExistsError if there is something at the path, unless it is a saved model and overwrite is True.

    Shapes: none.

    Example:
        >>> network = JanossyNetwork(None, JanossyPooling(GRU(3, 8), Sampled(1)), nn.Linear(8, 1))
        >>> path = save(network, tempfile.mkdtemp() + "/model")
        >>> load(path).rho
        Linear(in_features=8, out_features=1, bias=True)
    """
    return write_model(path, {"network": describe(network)}, weights(network), overwrite=overwrite)


def load(path: str | PathLike[str]) -> JanossyNetwork:
    """The network that ``save`` has written to a folder or a zip, on the CPU, in evaluation mode.

    Anybody may have written it: no code is run, and no more memory taken than the files' sizes say.

    Raises: FileNotFoundError where there is nothing; SavedModelError for what is no saved model, a damaged one, or one
        of a version that this one cannot read.

    Shapes: none.

    Example:
        >>> network = JanossyNetwork(None, JanossyPooling(TupleMLP(2, 3, 8), Tuples(2)), None)
        >>> path = save(network, tempfile.mkdtemp() + "/model.zip")
        >>> sets = Ragged.from_sets([torch.randn(4, 3)])
        >>> torch.equal(load(path)(sets), network(sets))
        True
    """
    model = read_model(path)
    return rebuild(model.description.get("network"), model.tensors)


def describe(network: nn.Module) -> dict[str, Any]:
    """What a network is made of, as JSON values: the names of its parts, and the arguments that build each of them.

    Raises: TypeError for what is no JanossyNetwork; ValueError for a part that is not ours, a hook, or a key function.
    """
    check_network(network, "janossy.saving")
    if hooked(network):
        raise ValueError(f"janossy.saving expects a network without hooks, which are code; got one. {REMEDY}.")
    description = _told(network, "network")
    again = _Builder(MOST_PARTS).build(description)
    theirs = [(name, type(module)) for name, module in again.named_modules()]
    for name, module in network.named_modules():
        if (name, type(module)) not in theirs or "forward" in vars(module):
            raise _not_ours(f"network.{name}", module)
    if _shapes(weights(again)) != _shapes(weights(network)):
        raise ValueError(f"janossy.saving expects weights as the parts of a network make them; got others. {REMEDY}.")
    return description


def rebuild(description: Any, tensors: Mapping[str, Tensor]) -> JanossyNetwork:
    """The network of this description with these weights, in evaluation mode.

    Parts are built without memory first, and their shapes compared with the tensors.

    Raises: SavedModelError for a description that ``describe`` has not made, or weights that are not those of it.
    """
    try:
        network = _Builder(len(tensors)).build(description)
        told = _told(network, "network")
    except SavedModelError:
        raise
    except Exception as error:  # whatever a constructor says of arguments that nobody has checked
        reason = f"{error}\n".splitlines()[0][:200]
        raise SavedModelError(
            f"a saved network expects arguments that build its parts; got others: {reason}. Was it edited?"
        ) from error
    if not isinstance(network, JanossyNetwork) or told != description:
        raise SavedModelError("a saved network expects a description as describe makes it; got another. Was it edited?")
    expected = weights(network)
    if missing := sorted(expected.keys() ^ tensors.keys()):
        raise SavedModelError(
            f"a saved network of these parts expects weights for {len(expected)} names; got {len(tensors)}, differing "
            f"in {', '.join(missing[:3])[:200]}. Is model.safetensors that of this model.json?"
        )
    for name, weight in expected.items():
        given = tensors[name]
        fits = given.dtype in FLOATING if weight.is_floating_point() else given.dtype == weight.dtype
        if given.shape != weight.shape or not fits:
            raise SavedModelError(
                f"a saved network expects {name} of shape {tuple(weight.shape)}; got {tuple(given.shape)} in "
                f"{given.dtype}. Is model.safetensors that of this model.json?"
            )
    network.load_state_dict(dict(tensors), assign=True)
    return network.eval()


def weights(network: nn.Module) -> dict[str, Tensor]:
    """The state of a network, but for what its modules say of its meaning, which the description says too."""
    state = network.state_dict(keep_vars=True)
    return {name: tensor.detach() for name, tensor in state.items() if not name.endswith("_extra_state")}


def _told(value: Any, place: str) -> Any:
    """A part, or an argument of one, as JSON values."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        if not isfinite(value):
            raise ValueError(f"janossy.saving expects finite numbers; got {place}={value}.")
        return float(value)
    if isinstance(value, list | tuple):
        return [_told(each, f"{place}[{i}]") for i, each in enumerate(value)]
    if isinstance(value, dict):
        return {str(name): _told(each, f"{place}[{name!r}]") for name, each in value.items()}
    if type(value) not in NAMES:
        raise _not_ours(place, value)
    name = NAMES[type(value)]
    arguments = PARTS[name].arguments(value)
    return {"part": name} | {key: _told(each, f"{place}.{key}") for key, each in arguments.items()}


def _not_ours(place: str, value: Any) -> ValueError:
    return ValueError(
        f"janossy.saving expects parts that janossy or torch have, unchanged; got {place}, of type "
        f"{type(value).__name__}, which is none or was changed: its code would not be saved. {REMEDY}."
    )


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


class _Builder:
    """Builds parts on the meta device, no more of them than a file of so many tensors can be about."""

    def __init__(self, num_tensors: int) -> None:
        self.num_tensors = num_tensors
        self.num_parts = 0

    def build(self, value: Any, depth: int = 0) -> Any:
        """A part, or an argument of one, from JSON values."""
        if depth > MOST_DEPTH:
            raise SavedModelError(f"a saved network expects parts at most {MOST_DEPTH} deep; got deeper ones.")
        if isinstance(value, list):
            return [self.build(each, depth + 1) for each in value]
        if not isinstance(value, dict):
            return value
        arguments = {name: self.build(each, depth + 1) for name, each in value.items() if name != "part"}
        return self._part(value["part"], arguments) if "part" in value else arguments

    def _part(self, name: Any, arguments: dict[str, Any]) -> Any:
        self.num_parts += 1
        if self.num_parts > MOST_PARTS:
            raise SavedModelError(f"a saved network expects at most {MOST_PARTS} parts; got more.")
        if not isinstance(name, str) or name not in PARTS:
            raise SavedModelError(
                f"a saved network expects parts of these names: {', '.join(PARTS)}; got {str(name)[:60]!r}. Was it "
                "written by a later version of janossy?"
            )
        part = PARTS[name]
        for argument in part.repeats:
            given = arguments.get(argument)
            number = len(given) if isinstance(given, list) else given
            if isinstance(number, int) and number > self.num_tensors:
                raise SavedModelError(
                    f"a saved {name} expects {argument} for which there are weights; got {number}, and "
                    f"{self.num_tensors} tensors."
                )
        for argument, given in arguments.items():
            checked = argument in part.numbers or (argument in part.numbers_or_none and given is not None)
            if checked and (isinstance(given, bool) or not isinstance(given, Real) or not isfinite(given)):
                raise SavedModelError(f"a saved {name} expects {argument} as a finite number; got {given!r:.60}.")
        with torch.device("meta"):
            return (part.build or part.kind)(**arguments)
