"""The weights of R networks as those of one module, with a leading axis; and as views of it, per network."""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from janossy.nn.config import difference
from janossy.nn.network import JanossyNetwork, check_network


def check_alike(networks: Sequence[JanossyNetwork]) -> None:
    """Raises a TypeError or ValueError unless these are one or more networks of one architecture."""
    if isinstance(networks, nn.Module) and not isinstance(networks, nn.ModuleList):
        raise TypeError(
            f"Stack expects a sequence of networks; got one {type(networks).__name__}. Write Stack([network, …])."
        )
    if len(networks) == 0:
        raise ValueError("Stack expects at least one network; got none. Write Stack([network, …]).")
    for network in networks:
        check_network(network, "Stack")
    first = _described(networks[0])
    for number, network in enumerate(networks[1:], 1):
        other = _described(network)
        for name in dict.fromkeys((*first, *other)):
            expected, got = first.get(name, "none"), other.get(name, "none")
            if expected != got:
                raise ValueError(
                    f"Stack expects networks of one architecture; got {name} as {got} in network {number}, and as "
                    f"{expected} in network 0. Build them alike, and convert them with .to()."
                )
        if differing := difference(networks[0], network):
            raise ValueError(
                f"Stack expects networks of one architecture; got, in network {number}, {differing}. Build them with "
                "the same arguments."
            )


def stacked(networks: Sequence[JanossyNetwork]) -> JanossyNetwork:
    """Returns a module with the structure and names of the first network, and parameters and buffers (R, *shape).

    It holds the weights, and cannot be called.
    """
    template = deepcopy(networks[0])
    made: dict[int, Tensor | None] = {}  # a shared weight stays shared
    for module, *modules in zip(template.modules(), *(network.modules() for network in networks), strict=True):
        for kind in ("_parameters", "_buffers"):
            own = getattr(module, kind)
            for name, tensor in own.items():
                if tensor is not None:
                    if id(tensor) not in made:
                        made[id(tensor)] = _joined(tensor, [getattr(each, kind)[name].detach() for each in modules])
                    own[name] = made[id(tensor)]
    return template


def bind(template: nn.Module, members: Sequence[nn.Module]) -> None:
    """Makes each member's parameters and buffers its part of the template's."""
    parts: dict[int, tuple[Tensor, ...]] = {}
    for module, *modules in zip(template.modules(), *(member.modules() for member in members), strict=True):
        for kind in ("_parameters", "_buffers"):
            for name, tensor in getattr(module, kind).items():
                if tensor is None:
                    continue
                if id(tensor) not in parts:  # views of a buffer, which modules may write to
                    parts[id(tensor)] = tensor.unbind() if kind == "_parameters" else tuple(tensor[:])
                for each, part in zip(modules, parts[id(tensor)], strict=True):
                    getattr(each, kind)[name] = part


def apart(members: Sequence[JanossyNetwork]) -> list[JanossyNetwork]:
    """Returns separate networks with copies of the members' weights."""
    return [deepcopy(member, _copies(member)) for member in members]


def kept(template: nn.Module, chosen: Sequence[int], optimizer: torch.optim.Optimizer | None) -> None:
    """Keeps only the chosen networks' part of the template's weights and buffers, and of the optimiser's state."""
    index = torch.tensor(list(chosen))

    def part(tensor: Tensor) -> Tensor:
        return tensor.detach().index_select(0, index.to(tensor.device))

    # The parameters are new, as graphs that are still held know the shapes of the old ones.
    fewer: dict[int, nn.Parameter] = {}
    for parameter in template.parameters():
        fewer[id(parameter)] = new = nn.Parameter(part(parameter), parameter.requires_grad)
        new.grad = None if parameter.grad is None else part(parameter.grad)
        if optimizer is not None and parameter in optimizer.state:
            state = optimizer.state.pop(parameter)
            alike = [name for name, value in state.items() if getattr(value, "shape", None) == parameter.shape]
            optimizer.state[new] = state | {name: part(state[name]) for name in alike}
    for group in [] if optimizer is None else optimizer.param_groups:
        group["params"] = [fewer.get(id(parameter), parameter) for parameter in group["params"]]
    for module in template.modules():
        for name, old in list(module._parameters.items()):
            module._parameters[name] = None if old is None else fewer[id(old)]
        for name, buffer in list(module._buffers.items()):
            module._buffers[name] = None if buffer is None else part(buffer)


def _copies(member: nn.Module) -> dict[int, Tensor]:
    """Returns copies of the weights for ``deepcopy``, which takes no tensor that depends on another."""
    copies: dict[int, Tensor] = {}
    for module in member.modules():
        for parameter in module._parameters.values():
            if parameter is not None and id(parameter) not in copies:
                copies[id(parameter)] = nn.Parameter(parameter.detach().clone(), parameter.requires_grad)
        for buffer in module._buffers.values():
            if buffer is not None:
                copies.setdefault(id(buffer), buffer.detach().clone())
    return copies


def _joined(like: Tensor, tensors: list[Tensor]) -> Tensor:
    joined = torch.stack(tensors)
    return nn.Parameter(joined, like.requires_grad) if isinstance(like, nn.Parameter) else joined


def _described(network: nn.Module) -> dict[str, str]:
    """Returns every parameter and buffer by name, with a description of all that must be equal."""
    first: dict[int, str] = {}
    described = {}
    for tensors in (network.named_parameters(remove_duplicate=False), network.named_buffers(remove_duplicate=False)):
        for name, tensor in tensors:
            same = first.setdefault(id(tensor), name)
            trained = "trained" if tensor.requires_grad else "not trained"
            described[name] = f"{tuple(tensor.shape)}, {tensor.dtype}, on {tensor.device}, {trained}"
            if same != name:
                described[name] += f", the same as {same}"
    return described
