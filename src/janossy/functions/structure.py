"""The structure that a function may declare for evaluators, and the activations that it may have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
    "softplus": nn.functional.softplus,
    "sine": torch.sin,
    "cosine": torch.cos,
    "erf": torch.erf,
}


@dataclass(frozen=True)
class Structure:
    """The declaration that f makes by its method ``structure()``; None while a hook or an override would be bypassed.

    It uses the weights that f has at the call of ``structure()``, so every pass calls it again.
    """

    title: ClassVar[str] = "structure"
    reads_whole_rows: ClassVar[bool] = False
    """True if f's matrices are applied to whole rows, and not to each position."""

    @property
    def case(self) -> tuple[Any, ...]:
        """The key that distinguishes this structure from others, apart from the weights."""
        return type(self), *(value for value in vars(self).values() if isinstance(value, str | int | float))


def structure(f: Callable[[Tensor], Tensor]) -> Structure | None:
    """Returns the structure of f, if it declares one."""
    # The class is asked, as a module may have a submodule of the name ``structure``.
    declare = getattr(type(f), "structure", None)
    declared = declare(f) if callable(declare) else None
    return declared if isinstance(declared, Structure) else None


OF_FEATURES = (nn.Linear, nn.Identity, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Dropout)
"""The modules that map the last dimension alone, whatever dimensions come before."""


def maps_features(f: Callable[..., Tensor]) -> bool:
    """Returns True if f is one of torch's modules that may read rows (T, 1, d) as (T, d), which torch does faster.

    Its linear layers flatten other rows, in forward and in backward.
    """
    parts = (f, *f) if type(f) is nn.Sequential else (f,)
    of_features = all(type(m) in OF_FEATURES for m in parts[len(parts) > 1 :])
    modules = cast(tuple[nn.Module, ...], parts)
    return of_features and not any(has_hooks(m) or "forward" in vars(m) for m in modules)


def takes_mask(f: Callable[..., Tensor]) -> bool:
    """Returns True if f may read rows of several lengths in one call, f(x, mask).

    A module declares it by an attribute ``takes_mask = True``. Its results at real positions must then be those of the
    rows alone, without padding. torch's Transformer encoders and their layers take masks if ``batch_first``.
    """
    if torch.compiler.is_compiling():
        return False
    if type(f) is nn.TransformerEncoder:
        f = f.layers[0]
    if type(f) is nn.TransformerEncoderLayer:
        return bool(f.self_attn.batch_first)
    return getattr(f, "takes_mask", False) is True


def call_with_mask(f: Callable[..., Tensor], x: Tensor, mask: Tensor) -> Tensor:
    """Returns f of rows x (T, L, d), zeroed where mask (T, L) is False."""
    x = x.masked_fill(~mask.view(*mask.shape, *(1,) * (x.dim() - 2)), 0)
    if type(f) in (nn.TransformerEncoder, nn.TransformerEncoderLayer):
        return f(x, src_key_padding_mask=~mask)
    return f(x, mask)


@dataclass(frozen=True)
class Additive(Structure):
    """f(x_1 … x_k) = rest(σ(Σ_j p_j(x_j))): a pre-activation that is a sum of one projection per position.

    Shapes:
        project: (N, d) -> (N, k, H), p_j of each element. The bias is part of position 0's projection, so the zero
            vector's other projections are 0.
        bias: (H,), the pre-activation of (0, …, 0).
        weight: (H, k·d), if the pre-activations are weight · [x_1, …, x_k] + bias; else None.
        rest: activations (T, H) -> (T, c).
    """

    title: ClassVar[str] = "additive structure"
    reads_whole_rows: ClassVar[bool] = True

    k: int
    activation: str
    """The name of σ, a key of ``ACTIVATIONS``."""
    project: Callable[[Tensor], Tensor]
    bias: Tensor
    weight: Tensor | None
    rest: Callable[[Tensor], Tensor]
    rest_is_affine: bool
    """True if rest is affine in the activations, so that it commutes with an average over rows."""


@dataclass(frozen=True)
class Product(Structure):
    """f(x_1 … x_k) = rest(Π_j z_j(x_j)): a product of one factor per position (docs/spectral.md).

    Shapes:
        factors: (N, d) -> (N, k, R), z_j of each element.
        rest: products (T, R) -> (T, c), affine, so that it commutes with an average over rows.
    """

    title: ClassVar[str] = "product structure"

    k: int
    num_columns: int
    """R, the number of products that ``rest`` reads."""
    factors: Callable[[Tensor], Tensor]
    rest: Callable[[Tensor], Tensor]


State = tuple[Tensor, ...]
"""The states that a recurrence carries from step to step: (hidden,), or (hidden, memory), each (T, H)."""


@dataclass(frozen=True)
class Direction:
    """One layer of a recurrence in one direction, with the names and shapes of torch's weights."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor
    reverse: bool


@dataclass(frozen=True)
class Recurrent(Structure):
    """f(x_1 … x_L) = the last hidden state, or every one, of the layers of a recurrence (docs/recurrences.md)."""

    title: ClassVar[str] = "recurrence"

    kind: str
    """The name of the step: "rnn", "gru" and "lstm" have compiled kernels; others run in torch operations."""
    step: Callable[[Tensor, Tensor, State], State]
    """The function that gives the next state from W x_t and U h_{t−1}, (T, gates·H) each, and the state."""
    num_states: int
    num_apart: int
    """The number of last gates whose hidden bias stays with the product U h, as the GRU's new gate multiplies both.

    The other biases are added to the projected input, once per element."""
    layers: tuple[tuple[Direction, ...], ...]
    dropout: float
    """The dropout between layers; 0 in evaluation."""
    per_position: bool
    """True if f gives every position's hidden state, False if it gives the last one."""
    unrolled: bool
    """True if f requires plain operations, which can be differentiated any number of times."""

    @property
    def case(self) -> tuple[Any, ...]:
        widths = (tuple(direction.weight_ih.shape for direction in layer) for layer in self.layers)
        return *super().case, *widths

    @property
    def in_features(self) -> int:
        return self.layers[0][0].weight_ih.shape[1]

    @property
    def out_features(self) -> int:
        return sum(direction.weight_hh.shape[1] for direction in self.layers[-1])


def recurrent(f: Callable[[Tensor], Tensor]) -> Recurrent:
    """Returns the recurrence that f is known to declare."""
    declared = structure(f)
    assert isinstance(declared, Recurrent)  # an evaluator that applies has seen it
    return declared


def project(k: int, elements: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Returns the projections (N, k, H) whose sum over positions is weight · [x_1, …, x_k] + bias, weight (H, k·d).

    For R networks with equally many elements, weight is (R, H, k·d) and bias (R, H). The elements of the networks come
    one network after the other.

    The second result is the weights (…, k·H, d) that map elements to projections.
    """
    H, num_columns = weight.shape[-2:]
    stacked = weight
    if k > 1:
        stacked = weight.reshape(-1, H, k, num_columns // k).transpose(1, 2).reshape(*weight.shape[:-2], k * H, -1)
        bias = None if bias is None else torch.constant_pad_nd(bias, (0, (k - 1) * H))
    if weight.dim() == 2:
        return nn.functional.linear(elements, stacked, bias).view(-1, k, H), stacked
    rows = elements.view(len(weight), -1, elements.shape[1])
    projections = rows @ stacked.mT if bias is None else torch.baddbmm(bias[:, None], rows, stacked.mT)
    return projections.view(-1, k, H), stacked


def overridden(module: nn.Module, forward: Callable[..., Tensor]) -> bool:
    """Returns True if the module has a forward other than this one."""
    return type(module).forward is not forward or "forward" in vars(module)


def hooked(module: nn.Module, *, or_forward: bool = False) -> bool:
    """Returns True if a call of the module, or of one within it, runs a hook.

    With ``or_forward``, also if an instance has a forward of its own.
    """
    left: list[nn.Module | None] = [module]
    while left:  # not module.modules(), whose names take most of the time
        m = left.pop()
        if m is not None:
            if has_hooks(m) or (or_forward and "forward" in vars(m)):
                return True
            left += m._modules.values()
    return False


def has_hooks(module: nn.Module) -> bool:
    """Returns True if a call of the module runs one of its own hooks, whatever the modules within it have."""
    m = module
    return bool(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or m._backward_pre_hooks)


def is_linear(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Returns True if a call only multiplies by the module's weight and adds its bias, without code of the user."""
    return isinstance(module, nn.Linear) and not overridden(module, nn.Linear.forward) and not hooked(module)


def _mixes(module: nn.Module) -> bool:
    """Returns True if the module's output for a row now depends on the other rows."""
    return isinstance(module, _BatchNorm) and (module.training or module.running_mean is None)


def _draws_or_mixes(module: nn.Module) -> bool:
    """Returns True if the module's output for a row now depends on the other rows, or is random."""
    if _mixes(module):
        return True
    if not module.training:
        return False
    dropout = getattr(module, "dropout", 0.0)  # of recurrences and of attention
    return isinstance(module, _DropoutNd | nn.RReLU) or (isinstance(dropout, float | int) and dropout > 0)


def mixes_rows(f: Callable[[Tensor], Tensor]) -> bool:
    """Returns True if f's value for a row now depends on the other rows."""
    return isinstance(f, nn.Module) and any(map(_mixes, f.modules()))


def draws_or_mixes_rows(f: Callable[[Tensor], Tensor]) -> bool:
    """Returns True if f's value for a row now depends on the other rows, or is random."""
    return isinstance(f, nn.Module) and any(map(_draws_or_mixes, f.modules()))
