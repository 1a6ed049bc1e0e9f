"""Networks as descriptions of their parts, beside their weights; and rebuilt from these, whoever wrote them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from math import isfinite
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from threading import Lock, local
from types import NoneType
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode

from janossy.functions.structure import hooked
from janossy.nn.config import arguments_of
from janossy.nn.network import JanossyNetwork, check_network
from janossy.nn.statistics import CellCounts, CellPairs, StatisticsNetwork, TreeEnsemble
from janossy.saving.model import read_model, write_model
from janossy.saving.parts import KINDS, OURS, RENAMED, arguments, build, name_of
from janossy.saving.reading import SavedModelError

MAX_PARTS = 10_000
MAX_DEPTH = 64
"""The most levels of parts within parts in a description, which may come from an untrusted source."""
MAX_K = 1024
"""The most elements of a row, as rows are made before f refuses them."""
MAX_ROWS = 10**9
"""The largest ``max_rows`` and number of permutations."""
MAX_WEIGHT = 1e18
"""The largest weight: the square of a larger one overflows float32."""

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

REMEDY = "Register a part of your own by janossy.saving.register, or save network.state_dict() by torch.save"


def save(network: JanossyNetwork, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
    """Writes a network as a folder of model.safetensors and model.json, or as a zip of it if the path ends in .zip.

    The folder appears whole or not at all. It holds no code. So the network must be made of parts of janossy and torch,
    or of parts given to ``register``, without hooks.

    Raises:
        TypeError: if it is not a JanossyNetwork.
        ValueError: for another part, which the error names, or weights that are not finite.
        FileExistsError: if there is something at the path, unless it is a saved model and overwrite is True.

    Shapes: none.

    Example:
        >>> network = JanossyNetwork(None, JanossyPooling(GRU(3, 8), Sampled(1)), nn.Linear(8, 1))
        >>> path = save(network, tempfile.mkdtemp() + "/model")
        >>> load(path).rho
        Linear(in_features=8, out_features=1, bias=True)
    """
    description, tensors = {"network": describe(network)}, weights(network)
    check_finite(tensors)
    return write_model(path, description, tensors, overwrite=overwrite)


def load(path: str | PathLike[str]) -> JanossyNetwork:
    """Reads the network that ``save`` has written to a folder or a zip, on the CPU, in evaluation mode.

    The file may come from an untrusted source: no code is run, and memory is bounded by the files' sizes.

    Raises: FileNotFoundError if nothing is there; SavedModelError if it is not a saved model, is damaged, or has a
        version that this one cannot read.

    Shapes: none.

    Example:
        >>> network = JanossyNetwork(None, JanossyPooling(TupleMLP(2, 3, 8), Tuples(2)), None)
        >>> path = save(network, tempfile.mkdtemp() + "/model.zip")
        >>> sets = Ragged.from_sets([torch.randn(4, 3)])
        >>> torch.equal(load(path)(sets), network(sets))
        True
    """
    model = read_model(path)
    network = rebuild(model.description.get("network"), model.tensors)
    if not isinstance(network, JanossyNetwork):
        raise SavedModelError(f"{path} expects a JanossyNetwork; got a {type(network).__name__}.")
    return network


def describe(network: nn.Module) -> dict[str, Any]:
    """Describes a network as JSON values: the names of its parts, and the arguments that build each of them.

    Raises: TypeError if it is not a JanossyNetwork; ValueError for an unknown part, a hook, or a key function.
    """
    if not isinstance(network, StatisticsNetwork):
        check_network(network, "janossy.saving")
    if hooked(network):
        raise ValueError(f"janossy.saving expects a network without hooks, which are code; got one. {REMEDY}.")
    description = _described(network, "network")
    with _bounded(MAX_PARTS):
        again = _Builder().build(description)
    theirs = [(name, type(module)) for name, module in again.named_modules()]
    for name, module in network.named_modules():
        if (name, type(module)) not in theirs or "forward" in vars(module):
            raise _not_ours(f"network.{name}", module)
    if _shapes(weights(again)) != _shapes(weights(network)):
        raise ValueError(f"janossy.saving expects weights as the parts of a network make them; got others. {REMEDY}.")
    return cast("dict[str, Any]", description)


def rebuild(description: Any, tensors: Mapping[str, Tensor]) -> JanossyNetwork | StatisticsNetwork:
    """Returns the network of this description with these weights, in evaluation mode.

    Parts are first built without memory, and their shapes compared with the tensors.

    Raises: SavedModelError for a description that is not from ``describe``, or weights that do not fit it.
    """
    try:
        description = _renamed(description)
        with _bounded(len(tensors)):
            network = _Builder().build(description)
        expected = _described(network, "network")
    except SavedModelError:
        raise
    except Exception as error:  # a constructor may raise anything for unchecked arguments
        reason = f"{error}\n".splitlines()[0][:200]
        raise SavedModelError(
            f"a saved network expects arguments that build its parts; got others: {reason}. Was it edited?"
        ) from error
    if not isinstance(network, JanossyNetwork | StatisticsNetwork) or not _is_alike(description, expected):
        raise SavedModelError("a saved network expects a description as describe makes it; got another. Was it edited?")
    if isinstance(network, JanossyNetwork):
        _check_k(network)
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
    try:
        check_finite(tensors)
    except ValueError as error:
        raise SavedModelError(str(error)) from None
    network.load_state_dict(dict(tensors), assign=True)
    try:
        for module in network.modules():
            if isinstance(module, CellCounts | CellPairs | TreeEnsemble):
                module.check_buffers()
    except ValueError as error:
        raise SavedModelError(f"a saved network is damaged: {error}") from None
    return network.eval()


def weights(network: nn.Module) -> dict[str, Tensor]:
    """Returns the state of a network without the modules' meanings, which the description holds too."""
    state = network.state_dict(keep_vars=True)
    return {name: tensor.detach() for name, tensor in state.items() if not name.endswith("_extra_state")}


def check_finite(tensors: Mapping[str, Tensor]) -> None:
    """Raises a ValueError, which names the tensor, for weights that cannot predict."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.numel():
            continue
        least, largest = tensor.detach().aminmax()
        if not -MAX_WEIGHT <= float(least) <= float(largest) <= MAX_WEIGHT:  # NaN included
            raise ValueError(
                f"a saved network expects finite weights, at most {MAX_WEIGHT:g}; got {name} with {float(least):g} to "
                f"{float(largest):g}. Did training diverge?"
            )
        if name.rpartition(".")[2] == "running_var" and float(least) < 0:
            raise ValueError(
                f"a saved network expects variances that are not negative; got {name} with {float(least):g}. Is it "
                "damaged?"
            )


def _described(value: Any, place: str) -> Any:
    """Returns a part, or an argument of a part, as JSON values."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        if not isfinite(value):
            raise ValueError(f"janossy.saving expects finite numbers; got {place}={value}.")
        return float(value)
    if isinstance(value, list | tuple):
        return [_described(each, f"{place}[{i}]") for i, each in enumerate(value)]
    if isinstance(value, dict):
        return {str(name): _described(each, f"{place}[{name!r}]") for name, each in value.items()}
    if (name := name_of(value)) is None:
        raise _not_ours(place, value)
    return {"part": name} | {key: _described(each, f"{place}.{key}") for key, each in arguments(value).items()}


def _not_ours(place: str, value: Any) -> ValueError:
    return ValueError(
        f"janossy.saving expects parts that janossy or torch have, unchanged, or registered ones; got {place}, of type "
        f"{type(value).__name__}, which is unknown or was changed: its code would not be saved. {REMEDY}."
    )


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def _renamed(value: Any, depth: int = 0) -> Any:
    """Returns a description with the present names of arguments."""
    if depth > MAX_DEPTH:
        raise SavedModelError(f"a saved network expects parts at most {MAX_DEPTH} deep; got deeper ones.")
    if isinstance(value, list):
        return [_renamed(each, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    name = value.get("part")
    names = RENAMED.get(name, {}) if isinstance(name, str) else {}
    known = arguments_of(KINDS[str(name)]) if names else ()
    return {
        names[key] if key in names and key not in known else key: _renamed(each, depth + 1)
        for key, each in value.items()
    }


def _is_alike(given: Any, expected: Any) -> bool:
    """Returns True if the description of a built part equals the given one.

    Arguments that were added after the file was written are not in it, and have their defaults.
    """
    if isinstance(given, dict) and isinstance(expected, dict):
        defaults = _defaults(expected["part"]) if "part" in expected else {}
        return given.keys() <= expected.keys() and all(
            _is_alike(given[name] if name in given else defaults.get(name, _NO_DEFAULT), each)
            for name, each in expected.items()
        )
    if isinstance(given, list) and isinstance(expected, list):
        return len(given) == len(expected) and all(map(_is_alike, given, expected))
    return type(given) is type(expected) and given == expected


_NO_DEFAULT = object()


def _defaults(part: str) -> dict[str, Any]:
    """Returns the plain defaults of a part's arguments, in the form that files have."""
    kind = KINDS[part]
    parameters = signature(kind).parameters if isinstance(kind, type) else {}
    defaults = {name: each.default for name, each in parameters.items()}
    plain = (bool, int, float, str, tuple, NoneType)
    return {name: _described(x, f"{part}.{name}") for name, x in defaults.items() if isinstance(x, plain)}


def _check_k(network: JanossyNetwork) -> None:
    """Raises a SavedModelError if f takes rows of another length than the orderings give."""
    takes = getattr(network.pooling.f, "k", None)
    for orderings in (network.pooling.orderings, network.pooling.orderings_train):
        gives = getattr(orderings, "k", None)
        if (
            type(network.pooling.f) in OURS
            and type(orderings) in OURS
            and None not in (takes, gives)
            and takes != gives
        ):
            raise SavedModelError(
                f"a saved network expects the same k for f and the orderings; got {takes} and {gives}."
            )


_limit = local()
"""The number of modules and tensors that may still be built in this thread: ``left``, while it is bounded."""

_registering = Lock()

_hooks: list[Any] = []
"""The counting hooks, registered once: each further one would count again, and torch's threads loop over all."""


@contextmanager
def _bounded(num_tensors: int) -> Iterator[None]:
    """Bounds the modules and tensors that may be built by about those of a file with so many tensors."""
    with _registering:
        if not _hooks:
            _hooks.append(register_module_parameter_registration_hook(_count("tensors")))
            _hooks.append(register_module_buffer_registration_hook(_count("tensors")))
            _hooks.append(register_module_module_registration_hook(_count("modules")))
    _limit.left, _limit.num_tensors = {"tensors": num_tensors, "modules": 4 * MAX_PARTS + num_tensors}, num_tensors
    try:
        yield
    finally:
        _limit.left = None


def _count(what: str) -> Any:
    def count(module: nn.Module, name: str, added: Any) -> None:
        left = getattr(_limit, "left", None)  # None in other threads, which call the hook too
        if left is not None and added is not None:
            left[what] -= 1
            if left[what] < 0:
                raise SavedModelError(
                    f"a saved network expects parts for which there are weights; got {type(module).__name__} with more "
                    f"{what} than {_limit.num_tensors} tensors are for. Was it edited?"
                )

    return count


class _Builder:
    """Builds parts on the meta device, without memory for their weights."""

    def __init__(self) -> None:
        self.num_parts = 0

    def build(self, value: Any, depth: int = 0) -> Any:
        """Returns a part, or an argument of a part, from JSON values."""
        if depth > MAX_DEPTH:
            raise SavedModelError(f"a saved network expects parts at most {MAX_DEPTH} deep; got deeper ones.")
        if isinstance(value, list):
            return [self.build(each, depth + 1) for each in value]
        if not isinstance(value, dict):
            return value
        if "part" not in value:  # a dict by column, whose numbers are text as keys of JSON
            return {
                int(name) if name.isascii() and name.isdigit() and len(name) < 10 else name: self.build(each, depth + 1)
                for name, each in value.items()
            }
        given = {name: self.build(each, depth + 1) for name, each in value.items() if name != "part"}
        return self._part(value["part"], given)

    def _part(self, name: Any, given: dict[str, Any]) -> Any:
        self.num_parts += 1
        if self.num_parts > MAX_PARTS:
            raise SavedModelError(f"a saved network expects at most {MAX_PARTS} parts; got more.")
        if not isinstance(name, str) or name not in KINDS:
            raise SavedModelError(
                f"a saved network expects parts of these names: {', '.join(list(KINDS)[:20])} and others; got "
                f"{str(name)[:60]!r}. Was it written by a later version of janossy? A part of your own is registered "
                "before it is loaded, by janossy.saving.register."
            )
        for argument, most in (("k", MAX_K), ("max_rows", MAX_ROWS), ("num", MAX_ROWS), ("num_permutations", MAX_ROWS)):
            number = given.get(argument)
            if isinstance(number, int) and number > most:
                raise SavedModelError(f"a saved {name} expects {argument} of at most {most}; got {str(number)[:20]}.")
        with torch.device("meta"), _Unfilled():
            return build(name, given)


class _Unfilled(TorchFunctionMode):
    """Leaves weights on the meta device as they are where a constructor draws them from a normal distribution.

    They have no values there. ``normal_`` imports ``torch._dynamo`` nevertheless, which takes more than a second.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in (nn.init.normal_, Tensor.normal_):
            return args[0] if args else kwargs["tensor"]
        return function(*args, **kwargs)
