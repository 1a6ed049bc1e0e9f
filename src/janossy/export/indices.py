"""The places of padded sets, (B, n, …), sorted and gathered in operations that torch.export and ONNX have."""

import torch
from torch import Tensor

from janossy.orderings.sorting import Key, key_columns


def columns(elements: Tensor, key: Key | int | None) -> list[Tensor]:
    """Returns the columns (N,) to sort elements (N, *features) by: the key's, then the features; none holds NaN."""
    features = elements.flatten(1) if elements.dim() > 1 else elements[:, None]
    columns = [*features.unbind(1)]
    if key is not None:
        columns = [*key_columns(key, elements).unbind(1), *columns]
    comparable = []
    for column in columns:
        if column.is_floating_point():  # ONNX's order of NaN is unspecified; torch's sort puts it last
            comparable += [column.isnan().long(), column.masked_fill(column.isnan(), 0)]
        else:
            comparable.append(column.long())
    return comparable


def sorted_places(columns: list[Tensor]) -> Tensor:
    """Returns the places (…, n) that sort along the last dimension by the columns, the first one first."""
    order = torch.arange(columns[0].shape[-1], device=columns[0].device).expand_as(columns[0])
    for column in reversed(columns):
        order = order.gather(-1, _argsort(column.gather(-1, order)))
    return order


def _argsort(x: Tensor) -> Tensor:
    if torch.onnx.is_in_onnx_export():  # the exporter maps only this call to TopK, which is stable
        return x.argsort(-1)
    return x.argsort(dim=-1, stable=True)


def gather(x: Tensor, places: Tensor) -> Tensor:
    """Returns the elements of x (…, L, d) at places (…, M) in the same row: (…, M, d)."""
    return x.gather(-2, places[..., None].expand(*places.shape, x.shape[-1]))


def flat(x: Tensor) -> Tensor:
    """Returns x with its first two dimensions joined, as a copy.

    An exported view would have wrong strides if one of the dimensions is 0.
    """
    return x.flatten(0, 1).clone(memory_format=torch.contiguous_format)
