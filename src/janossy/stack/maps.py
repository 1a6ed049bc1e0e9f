"""Maps of elements, or of pooled vectors, by the weights of R networks at once."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from typing import cast

import torch
from torch import Tensor, nn

from janossy.functions.gated_attention import GatedAttention
from janossy.functions.structure import has_hooks
from janossy.functions.tuple_mlp import TupleMLP
from janossy.nn.column_embedding import ColumnEmbedding
from janossy.nn.readout import AttentionMean, PooledNorm, Readout
from janossy.sets.transfer import upload
from janossy.stack.batch import is_table

ELEMENTWISE = (nn.Identity, nn.Tanh, nn.ReLU, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus)
"""Modules without weights that treat every number separately."""

OF_ROWS = (nn.Sequential, nn.ModuleList, ColumnEmbedding, TupleMLP, GatedAttention, Readout, AttentionMean)
"""Modules whose own code treats every row separately, and whose weights are in modules within them."""


def is_stackable(module: nn.Module) -> bool:
    """Returns True if ``Joined`` can compute the module: linear layers, tables, norms, and what treats rows alone."""
    return all(map(_is_stackable, module.modules()))


def _is_stackable(module: nn.Module) -> bool:
    """Returns True for a module of a known kind, whatever the modules within it are."""
    if has_hooks(module) or "forward" in vars(module):
        return False
    if type(module) is PooledNorm:
        return module.affine and module.track_running_stats and module.momentum is not None and module.total is None
    if type(module) in (nn.Linear, nn.Embedding):
        return type(module) is nn.Linear or is_table(module)
    has_weights = any(each is not None for each in module._parameters.values())
    return type(module) in (*ELEMENTWISE, *OF_ROWS) and not has_weights and not getattr(module, "dropout", 0)


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Joined:
    """A module with the weights of R networks, (R, *shape), as a function of inputs, one network's after the other's.

    Each network has its ``counts`` of inputs x (N, …). ``context`` (N, …) is a second argument of the module.
    """

    def __init__(self, module: nn.Module) -> None:
        self.counts: Sequence[int] = ()
        self.module = self._replaced(module)

    def __call__(self, x: Tensor, counts: Sequence[int], context: Tensor | None = None) -> Tensor:
        self.counts = counts
        return cast(Tensor, self.module(x) if context is None else self.module(x, context))

    def _replaced(self, module: nn.Module) -> nn.Module:
        """Returns the module with each layer of weights replaced by that of all networks."""
        if type(module) in OF_LAYER:
            return _Layer(module, self)
        replaced = copy(module)
        vars(replaced).update((hooks, OrderedDict()) for hooks in HOOKS)  # a copy shares those of the module
        replaced._modules = {
            name: None if each is None else self._replaced(each) for name, each in module._modules.items()
        }
        return replaced


class _Layer(nn.Module):
    """A layer with the weights of R networks, for rows of which each network has its count."""

    def __init__(self, layer: nn.Module, owner: Joined) -> None:
        super().__init__()
        self.layer, self.owner = (layer,), owner  # in a tuple it is not registered: its weights are the stack's

    def forward(self, x: Tensor) -> Tensor:
        (layer,) = self.layer
        return OF_LAYER[type(layer)](layer, x, self.owner.counts)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, counts: Sequence[int]) -> Tensor:
    """Returns x (N, …, d) times weight (R, out, d), plus bias (R, out), each network's rows by its own weights."""
    if len(set(counts)) > 1:
        biases = [None] * len(counts) if bias is None else bias.unbind()
        parts = zip(x.split(list(counts)), weight.unbind(), biases, strict=True)
        return torch.cat([nn.functional.linear(*part) for part in parts])
    rows = x.reshape(len(weight), -1, x.shape[-1])
    out = rows @ weight.mT if bias is None else torch.baddbmm(bias[:, None], rows, weight.mT)
    return out.view(*x.shape[:-1], weight.shape[1])


def _embedded(table: nn.Embedding, ids: Tensor, counts: Sequence[int]) -> Tensor:
    """Returns the rows (N, d) of each network's table, weight (R, U, d), for its ids (N,).

    Raises: IndexError for an id that is not in the tables.
    """
    size = table.weight.shape[1]
    if len(ids):
        low, high = (bound.item() for bound in ids.aminmax())
        if low < 0 or high >= size:
            raise IndexError(f"an Embedding expects ids from 0 to {size - 1}; got {low if low < 0 else high}.")
    shifts = torch.arange(len(counts), device=ids.device) * size
    numbers = upload(torch.tensor(list(counts)), ids.device)
    return nn.functional.embedding(
        ids + shifts.repeat_interleave(numbers, output_size=len(ids)), table.weight.flatten(0, 1)
    )


def _normalised(norm: PooledNorm, x: Tensor, counts: Sequence[int]) -> Tensor:
    """Returns the rows (N, c), each network's normalised by themselves; statistics and weights are (R, c)."""
    if len(set(counts)) > 1:
        parts = enumerate(x.split(list(counts)))
        return torch.cat([_normalised_by(norm, rows, slice(r, r + 1)) for r, rows in parts])
    rows = x.unflatten(0, (len(counts), counts[0])).transpose(0, 1).flatten(1)  # (B, R·c): a channel for each network's
    normalised = _normalised_by(norm, rows, slice(None))
    return cast(Tensor, normalised.unflatten(1, (len(counts), -1)).transpose(0, 1).flatten(0, 1))


def _normalised_by(norm: PooledNorm, rows: Tensor, networks: slice) -> Tensor:
    """Returns rows (n, R·c) normalised, with the statistics and weights of these R networks."""
    assert norm.running_mean is not None and norm.running_var is not None and norm.num_batches_tracked is not None
    training = norm.training and len(rows) > 1  # a single row has no variance
    if training:
        norm.num_batches_tracked[networks].add_(1)
    means, variances = norm.running_mean[networks].view(-1), norm.running_var[networks].view(-1)
    weight, bias = norm.weight[networks].flatten(), norm.bias[networks].flatten()
    return nn.functional.batch_norm(rows, means, variances, weight, bias, training, norm.momentum or 0.0, norm.eps)


OF_LAYER: dict[type[nn.Module], Callable[..., Tensor]] = {
    nn.Linear: lambda layer, x, counts: linear(x, layer.weight, layer.bias, counts),
    nn.Embedding: _embedded,
    PooledNorm: _normalised,
}
"""The layers of weights, as functions of the layer, its rows, and each network's count of them."""
