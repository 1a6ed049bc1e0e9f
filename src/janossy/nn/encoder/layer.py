"""SetLayer: the contract of layers from sets to sets, and the application of any module to the elements of sets."""

from abc import abstractmethod
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.evaluate.validation import check_sets, errors_explained
from janossy.nn.encoder.cost import seconds_by_weights
from janossy.sets import Ragged, check_ragged


class SetLayer(nn.Module):
    """A layer from sets to sets: the base class of layers that read whole sets.

    A subclass gives ``forward``, from a ``Ragged`` to a ``Ragged`` of as many sets. To be exported, it gives ``padded``
    too. Any other module in a ``SetEncoder`` is applied to each element.

    Attributes:
        in_features: the width of the elements that it takes; None for any.
        keeps_sizes: False if the returned sets have other sizes, or elements in another order.
        reads_inputs: True if ``forward`` and ``padded`` also take ``inputs=``, the input of the ``SetEncoder``.

    Shapes: sets.values (N, d) -> Ragged of values (N, c), the same sets unless ``keeps_sizes`` is False.
    """

    in_features: int | None = None
    keeps_sizes: bool = True
    reads_inputs: bool = False

    @abstractmethod
    def forward(self, sets: Ragged) -> Ragged: ...

    def padded(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the results for padded sets x (B, n, d) with mask (B, n), True = real, and the mask of the results.

        If n > 0 and the set is not empty, at least one place is real. The values at other places do not count.

        Raises: ValueError for a layer without a padded form.
        """
        raise ValueError(
            f"PaddedNetwork expects encoder layers with a padded form; got {type(self).__name__}. "
            "Give it a method padded(x, mask), or use Ragged sets."
        )

    def seconds(self, sets: Ragged) -> float:
        """Estimates the seconds of a forward and a backward pass over sets of these sizes.

        The values of the sets do not count. By default every weight is used once per element.
        """
        return seconds_by_weights(self, sets)

    def sizes_of(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the sizes of the results for sets of these sizes."""
        return sizes

    def sizes_in(self, sets: Ragged) -> tuple[int, ...]:
        """Returns the sizes of the results for these sets. By default they follow from the sizes alone."""
        return self.sizes_of(sets.sizes)

    def check(self, sets: Ragged) -> None:
        """Raises a TypeError unless these are sets, a ValueError unless they hold vectors (N, in_features)."""
        check_sets(sets, type(self).__name__)
        self.check_values(sets.values)

    def check_values(self, values: Tensor) -> None:
        """Raises a ValueError unless these are vectors (…, in_features) of floating-point numbers."""
        width = "d" if self.in_features is None else self.in_features
        fits = self.in_features is None or self.in_features == values.shape[-1]
        if values.dim() < 2 or not values.is_floating_point() or not fits:
            raise ValueError(
                f"this {type(self).__name__} expects elements (N, {width}) of floating-point numbers; got "
                f"{tuple(values.shape)} in {values.dtype}. Match its in_features to the layer before it, or give h."
            )


def apply(module: nn.Module, sets: Ragged, inputs: Ragged | None = None) -> Ragged:
    """Returns the module's result for sets: a ``SetLayer`` reads whole sets, any other module each element.

    ``inputs`` are the encoder's inputs, for a layer that reads them.
    """
    with errors_explained("the encoder", module, sets.values):
        if not isinstance(module, SetLayer):
            return sets.with_values(module(sets.values))
        found = module(sets, inputs=inputs) if module.reads_inputs else module(sets)
    check_ragged(found, f"an encoder, of {type(module).__name__},")
    return cast(Ragged, found)


def apply_padded(module: nn.Module, x: Tensor, mask: Tensor, inputs: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Returns the results of ``apply`` for padded sets x (B, n, d) with mask (B, n), and their mask."""
    if reads_inputs(module):
        padded: Any = cast(SetLayer, module).padded
        return cast(tuple[Tensor, Tensor], padded(x, mask, inputs=inputs))
    if isinstance(module, SetLayer):
        return module.padded(x, mask)
    return module(x.flatten(0, 1)).unflatten(0, mask.shape), mask


def of_one_size(values: Tensor, sets: Ragged, size: int) -> Ragged:
    """Returns as many sets as there are, each of ``size`` of these values, in their order.

    Shapes: values (B·size, *any), B sets.
    """
    offsets = torch.arange(len(sets) + 1, device=sets.device) * size
    if torch.compiler.is_compiling():  # which would compile anew for another number of sets
        return Ragged.unsized(values, offsets)
    return Ragged(values, offsets, sizes=(size,) * len(sets))


def seconds(module: nn.Module, sets: Ragged) -> float:
    """Returns the estimated time of a layer, or of any other module on each element."""
    return module.seconds(sets) if isinstance(module, SetLayer) else seconds_by_weights(module, sets)


def keeps_sizes(module: nn.Module | None) -> bool:
    """Returns True if the module gives one result per element of a set."""
    return not isinstance(module, SetLayer) or module.keeps_sizes


def reads_inputs(module: nn.Module | None) -> bool:
    """Returns True if the module also takes the input of its encoder."""
    return isinstance(module, SetLayer) and module.reads_inputs


def called(given: object) -> str:
    """Returns the words by which an error names an argument that should have been a suitable module."""
    return f"one of type {type(given).__name__}" if isinstance(given, nn.Module) else repr(given)
