"""Ragged: a batch of variable-size sets."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from numbers import Integral
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import torch
from torch import Tensor

from janossy.checks import check_integer
from janossy.sets.conversion import (
    as_tensors,
    check_tensor,
    checked_sizes,
    chosen_numbers,
    dims,
    holds_number,
    is_empty_list,
    is_integer,
    whole_numbers,
)
from janossy.sets.transfer import upload

MAX_SETS_AN_ELEMENT = 10
"""The most sets per element of an index in ``Ragged.from_index``; with more, the index is taken for raw ids."""


class Ragged:
    """A batch of B variable-size sets, stored end to end.

    Set b is ``values[offsets[b] : offsets[b + 1]]``. A set may be empty, and a batch may have no sets.
    The sizes are also kept on the host, because the shapes of everything that follows depend on them.

    Shapes: values (N, *features), any dtype; offsets (B + 1,), int64, from 0 up to N.
    Raises: TypeError or ValueError if the offsets do not describe N elements.

    ``sizes`` skips the check of ``offsets`` and the copy from their device. Pass it only if it is known to be right.

    Example:
        >>> sets = Ragged.from_sets([torch.ones(3, 2), torch.zeros(0, 2)])
        >>> sets.sizes
        (3, 0)
    """

    sizes: tuple[int, ...]
    _sized_as: "Ragged | None" = None

    def __init__(self, values: Tensor, offsets: Tensor, *, sizes: Sequence[int] | None = None) -> None:
        if sizes is None:
            check_tensor(values, "Ragged", "values (N, *features)")
            if not isinstance(offsets, Tensor):
                raise TypeError(
                    f"Ragged expects offsets as an integer tensor (B + 1,); got {type(offsets).__name__}. "
                    "Ragged.from_sizes takes the sizes of the sets as numbers."
                )
            check_tensor(offsets, "Ragged", "integer offsets (B + 1,)", scalar=True)
            offsets = offsets.to(device=values.device)
            sizes = checked_sizes(values, offsets)
            offsets = offsets.long()
        self.values = values
        self.offsets = offsets
        self.sizes = tuple(sizes)

    # Constructors

    @classmethod
    def from_sets(cls, sets: Sequence[Any], *, features: Sequence[int] | None = None) -> Self:
        """Batches tensors, arrays or nested lists of shapes (n_b, *features), alike in all but the first dimension.

        Arrays keep their dtype. Lists take the dtype of the tensors and arrays beside them. If all sets are lists,
        the dtype is torch's default when a list holds a float, else int64. An empty list takes the features of the
        other sets. ``features``, such as (3,), is needed only if there are no sets, or only empty lists.

        ``janossy.collate`` does this for the batches of a ``DataLoader``.

        Raises:
            TypeError: if the sets are not a sequence, or a set is not a tensor, an array or a nested list of numbers.
            ValueError: if the sets differ in features, dtype or device, or nothing tells the features.
        """
        if not isinstance(sets, Iterable):
            raise TypeError(f"Ragged.from_sets expects a sequence of sets; got {type(sets).__name__}.")
        sets = list(sets)
        if features is not None and all(is_empty_list(x) for x in sets):
            return cls.from_sizes(torch.zeros(0, *whole_numbers(features, "features")), [0] * len(sets))
        sets = as_tensors(sets)
        if not sets:
            raise ValueError(
                "Ragged.from_sets needs at least one tensor, to know the feature shape; got none. Give features=, "
                "such as (3,)."
            )
        features, dtype, device = sets[0].shape[1:], sets[0].dtype, sets[0].device
        for b, x in enumerate(sets):
            if x.dim() == 0 or x.shape[1:] != features:
                raise ValueError(
                    f"Ragged.from_sets expects every set of shape (n, {dims(features)}), as set 0; "
                    f"set {b} has shape {tuple(x.shape)}. Give an empty set the shape (0, {dims(features)})."
                )
            if x.dtype != dtype or x.device != device:
                raise ValueError(
                    f"Ragged.from_sets expects every set in {dtype} on {device}, as set 0; "
                    f"set {b} is {x.dtype} on {x.device}. Convert it with .to()."
                )
        return cls.from_sizes(torch.cat(sets), [len(x) for x in sets])

    @classmethod
    def from_sizes(cls, values: Tensor, sizes: Sequence[int]) -> Self:
        """Batches values (N, *features) by the sizes of the sets, B numbers that sum to N.

        Raises: TypeError if values is not a tensor or a size is not an integer; ValueError unless the sizes sum to N.
        """
        check_tensor(values, "Ragged.from_sizes", "values (N, *features)")
        sizes = whole_numbers(sizes, "sizes")
        offsets = upload(torch.tensor([0, *sizes], dtype=torch.long, device="cpu").cumsum(0), values.device)
        if min(sizes, default=0) < 0 or sum(sizes) != len(values):
            raise ValueError(
                f"Ragged.from_sizes expects sizes >= 0 that sum to the number of elements, {len(values)}; "
                f"got a sum of {sum(sizes)} and a smallest of {min(sizes, default=0)}."
            )
        return cls(values, offsets, sizes=sizes)

    @classmethod
    def from_padded(cls, x: Tensor, mask: Tensor | None = None) -> Self:
        """Batches the elements of x (B, n, *features) where mask (B, n) is True; all of them without a mask.

        Raises: TypeError if x is not a tensor; ValueError unless x is (B, n, *features) and the mask bool (B, n).
        """
        check_tensor(x, "Ragged.from_padded", "x (B, n, *features)")
        if x.dim() < 2:
            raise ValueError(f"Ragged.from_padded expects x of shape (B, n, *features); got {tuple(x.shape)}.")
        num_sets, n = x.shape[:2]
        if mask is None:
            offsets = torch.arange(num_sets + 1, device=x.device) * n
            return cls(x.flatten(0, 1), offsets, sizes=(n,) * num_sets)
        check_tensor(mask, "Ragged.from_padded", "a mask (B, n)")
        if mask.dtype != torch.bool or mask.shape != x.shape[:2]:
            raise ValueError(
                f"Ragged.from_padded expects a bool mask of shape {tuple(x.shape[:2])}, True where real; "
                f"got {mask.dtype} of shape {tuple(mask.shape)}."
            )
        mask = mask.to(x.device)
        return cls.from_sizes(x[mask], mask.sum(1).tolist())

    @overload
    @classmethod
    def from_index(
        cls, x: Tensor, index: Tensor, num_sets: int | None = None, *, return_ids: Literal[False] = False
    ) -> Self: ...

    @overload
    @classmethod
    def from_index(
        cls, x: Tensor, index: Tensor, num_sets: int | None = None, *, return_ids: Literal[True]
    ) -> tuple[Self, Tensor]: ...

    @classmethod
    def from_index(
        cls, x: Tensor, index: Tensor, num_sets: int | None = None, *, return_ids: bool = False
    ) -> Self | tuple[Self, Tensor]:
        """Batches x (N, *features) by the set number of each element, index (N,), in any order.

        Elements of one set keep their order, and a set without elements is empty. ``num_sets`` defaults to
        max(index) + 1, which is refused if nearly all sets would be empty.

        With ``return_ids=True`` the index may hold any integers, such as the ids of a database. Each id that occurs is
        one set. The result is the sets and their ids (B,), both in ascending order of the ids.

        Raises:
            TypeError: if x or index is not a tensor.
            ValueError: for an index of another shape or dtype, or for set numbers outside 0 … num_sets - 1.
        """
        check_tensor(x, "Ragged.from_index", "x (N, *features)")
        check_tensor(index, "Ragged.from_index", "an integer index (N,)")
        if index.dim() != 1 or len(index) != len(x) or not is_integer(index):
            raise ValueError(
                f"Ragged.from_index expects an integer index of shape ({len(x)},), one set number per element; "
                f"got {index.dtype} of shape {tuple(index.shape)}."
            )
        if num_sets is not None and (return_ids or not isinstance(num_sets, Integral) or num_sets < 0):
            raise ValueError(
                "Ragged.from_index expects num_sets as a whole number >= 0, and none beside return_ids=True, which "
                f"counts the ids; got num_sets={num_sets!r} and return_ids={return_ids}. Leave one out."
            )
        index = index.to(x.device).long()
        if return_ids:
            ids, index = index.unique(return_inverse=True)
            num_sets = len(ids)
        if num_sets is None:
            num_sets = int(index.max()) + 1 if len(index) else 0
            if num_sets > MAX_SETS_AN_ELEMENT * len(index) + 1000:
                raise ValueError(
                    f"Ragged.from_index expects set numbers 0, 1, 2, …; got {len(index)} elements numbered up to "
                    f"{num_sets - 1}, which look like raw ids: nearly all sets would be empty. "
                    "Pass return_ids=True, which factorizes them, or num_sets= if so many sets are meant."
                )
        # One copy to the host gives the sizes; the first and last count say how many numbers are too low and too high.
        counted = index.clamp(-1, num_sets) + 1
        counts = index.new_zeros(num_sets + 2).scatter_add(0, counted, torch.ones_like(counted))
        below, *sizes, above = counts.tolist()
        if below or above:
            raise ValueError(
                f"Ragged.from_index expects set numbers from 0 to num_sets - 1 = {num_sets - 1}; "
                f"got {int(index.min())} to {int(index.max())}. Raise num_sets (an aggregation's dim_size) or drop "
                "those elements."
            )
        sets = cls(x[torch.argsort(index, stable=True)], counts[:-1].cumsum(0), sizes=sizes)
        return (sets, ids) if return_ids else sets

    @classmethod
    def from_ptr(cls, x: Tensor, ptr: Tensor) -> Self:
        """Batches x (N, *features) by the boundaries ptr (B + 1,), as in CSR: set b is x[ptr[b]:ptr[b + 1]].

        Raises: TypeError or ValueError unless ptr is an integer tensor that rises from 0 to N.
        """
        return cls(x, ptr)

    @classmethod
    def from_nested(cls, nt: Tensor) -> Self:
        """Batches a ``torch.nested`` tensor of layout ``torch.jagged`` and shape (B, jagged, *features).

        Raises: TypeError if it is not a tensor; ValueError if it has another layout.
        """
        if not isinstance(nt, Tensor):
            raise TypeError(f"Ragged.from_nested expects a nested tensor; got {type(nt).__name__}.")
        if not nt.is_nested or nt.layout != torch.jagged:
            raise ValueError(
                f"Ragged.from_nested expects a nested tensor of layout torch.jagged; got layout {nt.layout}. "
                "Build it with torch.nested.nested_tensor(tensors, layout=torch.jagged)."
            )
        return cls.from_sets(nt.unbind()) if len(nt) else cls.from_sizes(nt.values()[:0], [])

    # Conversions back

    def to_sets(self) -> list[Tensor]:
        """Returns the sets as a list of tensors (n_b, *features), views of ``values``."""
        return list(self.values.split(list(self.sizes)))

    def to_padded(self, fill: builtins.float = 0) -> tuple[Tensor, Tensor]:
        """Returns x (B, max n, *features), filled behind each set, and the mask (B, max n), True where real.

        Raises: ValueError if ``fill`` is not a number that the values' dtype holds.
        """
        if not holds_number(self.dtype, fill):
            raise ValueError(f"to_padded expects a fill that {self.dtype} holds; got {fill!r}. Choose another number.")
        n = max(self.sizes, default=0)
        mask = torch.arange(n, device=self.device) < self.offsets.diff()[:, None]
        x = self.values.new_full((len(self), n, *self.values.shape[1:]), fill)
        x[mask] = self.values
        return x, mask

    def to_index(self) -> tuple[Tensor, Tensor]:
        """Returns the values (N, *features) and the set number of each element (N,)."""
        index = torch.arange(len(self), device=self.device)
        return self.values, index.repeat_interleave(self.offsets.diff(), output_size=len(self.values))

    def to_ptr(self) -> tuple[Tensor, Tensor]:
        """Returns the values (N, *features) and the boundaries (B + 1,)."""
        return self.values, self.offsets

    def to_nested(self) -> Tensor:
        """Returns a ``torch.nested`` tensor of layout ``torch.jagged``, sharing the values."""
        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets)

    @staticmethod
    def unsized(values: Tensor, offsets: Tensor) -> "Ragged":
        """Returns sets between offsets that are right; the sizes are read from them when they are first asked for."""
        sets = object.__new__(Ragged)
        sets.values, sets.offsets = values, offsets
        return sets

    # The same sets with other values

    def with_values(self, values: Tensor) -> "Ragged":
        """Returns the same sets with other elements: values (N, *any features).

        Raises: TypeError if values is not a tensor; ValueError if it does not have N elements.
        """
        check_tensor(values, "with_values", "values (N, *features)", meta=True)
        if len(values) != len(self.values):
            raise ValueError(
                f"with_values expects {len(self.values)} elements, one for each of these sets'; got {len(values)}."
            )
        if torch.compiler.is_compiling():  # which would compile anew for other sizes if these were looked at
            same = Ragged.unsized(values, self.offsets)
            same._sized_as = self
            return same
        return Ragged(values, self.offsets, sizes=self.sizes)

    def to(self, *args: Any, **kwargs: Any) -> "Ragged":
        """Moves or converts the values as ``torch.Tensor.to`` does; the offsets follow the device."""
        values = self.values.to(*args, **kwargs)
        return Ragged(values, upload(self.offsets, values.device), sizes=self.sizes)

    def map(self, function: Callable[[Tensor], Tensor]) -> "Ragged":
        """Returns the same sets with other elements: function(values), (N, *features) -> (N, *any features)."""
        if not callable(function):
            raise TypeError(f"map expects a function of the values (N, *features); got {type(function).__name__}.")
        return self.with_values(function(self.values))

    def cpu(self) -> "Ragged":
        """Returns the same sets on the CPU."""
        return self.to("cpu")

    def cuda(self, device: torch.device | int | str = "cuda") -> "Ragged":
        """Returns the same sets on a GPU."""
        return self.to(torch.device("cuda", device) if isinstance(device, int) else device)

    def float(self) -> "Ragged":
        """Returns the same sets in float32."""
        return self.to(torch.float32)

    def double(self) -> "Ragged":
        """Returns the same sets in float64."""
        return self.to(torch.float64)

    def half(self) -> "Ragged":
        """Returns the same sets in float16."""
        return self.to(torch.float16)

    def clone(self) -> "Ragged":
        """Returns a copy. Gradients flow through it."""
        return Ragged(self.values.clone(), self.offsets.clone(), sizes=self.sizes)

    def detach(self) -> "Ragged":
        """Returns the same sets, detached from the autograd graph."""
        return self.with_values(self.values.detach())

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Makes the values require gradients, in place."""
        self.values.requires_grad_(requires_grad)
        return self

    def pin_memory(self) -> "Ragged":
        """Copies to page-locked memory, as ``DataLoader(pin_memory=True)`` asks for."""
        return Ragged(self.values.pin_memory(), self.offsets.pin_memory(), sizes=self.sizes)

    def share_memory_(self) -> Self:
        """Moves values and offsets to shared memory, in place."""
        self.values.share_memory_()
        self.offsets.share_memory_()
        return self

    def allclose(self, other: "Ragged", *, rtol: builtins.float = 1e-5, atol: builtins.float = 1e-8) -> bool:
        """Returns True if the sizes and features are equal and the values close, as in torch.allclose.

        Elements are compared in their order.
        """
        check_ragged(other, "allclose")
        alike = self.sizes == other.sizes and self.values.shape == other.values.shape
        return alike and torch.allclose(self.values, other.values.to(self.values), rtol=rtol, atol=atol)

    # Choosing and joining sets

    def split(self, num_sets: int | Sequence[int]) -> "list[Ragged]":
        """Splits the sets, in order, into batches of ``num_sets`` each, of which the last may be smaller.

        A sequence gives the number of sets of each batch. The new batches' values are views of these values.

        Raises: TypeError if a number is not an integer; ValueError if it is too low, or the numbers do not sum to B.
        """
        if isinstance(num_sets, Integral):
            check_integer("Ragged.split", "num_sets", num_sets, 1)
            each = int(num_sets)
            num_sets = [min(each, len(self) - start) for start in range(0, len(self), each)] or [0]
        counts = whole_numbers(num_sets, "the numbers of sets")
        if min(counts, default=0) < 0 or sum(counts) != len(self):
            raise ValueError(
                f"Ragged.split expects numbers of sets >= 0 that sum to {len(self)}; got a sum of {sum(counts)} and a "
                f"smallest of {min(counts, default=0)}. Give one number for batches of one size."
            )
        ends = list(accumulate(counts, initial=0))
        bounds = list(accumulate(self.sizes, initial=0))
        return [
            Ragged(
                self.values[bounds[first] : bounds[last]],
                self.offsets[first : last + 1] - bounds[first],
                sizes=self.sizes[first:last],
            )
            for first, last in pairwise(ends)
        ]

    def chunk(self, num_batches: int) -> "list[Ragged]":
        """Splits the sets into at most ``num_batches`` batches, of sizes as ``torch.chunk`` makes them."""
        check_integer("Ragged.chunk", "num_batches", num_batches, 1)
        return self.split(max(1, -(-len(self) // num_batches)))

    @overload
    def __getitem__(self, key: int) -> Tensor: ...

    @overload
    def __getitem__(self, key: slice | Sequence[int] | Tensor) -> "Ragged": ...

    def __getitem__(self, key: int | slice | Sequence[int] | Tensor) -> "Tensor | Ragged":
        """Returns one set (n, *features) for an int, else a batch of the chosen sets.

        They are chosen by a slice, a list, or an int or bool array or tensor.
        """
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], EllipsisType):
            key = key[0]  # scikit-learn's splitting asks for sets[chosen, ...]
        if isinstance(key, int | Integral) or (isinstance(key, Tensor) and key.dim() == 0):
            b = int(chosen_numbers([int(key)], len(self)))
            start = sum(self.sizes[:b])
            return self.values[start : start + self.sizes[b]]
        chosen = chosen_numbers(key, len(self))
        sizes = tuple(map(self.sizes.__getitem__, chosen.tolist()))
        chosen = upload(chosen, self.device)
        starts, ends = self.offsets[chosen], self.offsets[chosen + 1]
        offsets = torch.cat((starts.new_zeros(1), (ends - starts).cumsum(0)))
        shift = (starts - offsets[:-1]).repeat_interleave(ends - starts, output_size=sum(sizes))
        return Ragged(self.values[torch.arange(len(shift), device=self.device) + shift], offsets, sizes=sizes)

    @staticmethod
    def cat(batches: Sequence["Ragged"], *, dim: int = 0) -> "Ragged":
        """Joins the sets of several batches, in order, into one batch; with ``dim`` other than 0 it joins features.

        ``dim`` is a dimension of the values. Batches that are joined by features must have the same sizes.

        Raises:
            TypeError: if the batches are not a sequence of ``Ragged``.
            ValueError: for no batches, or batches of other features, devices or sizes.
            IndexError: for a dimension that the values do not have.
        """
        if not isinstance(batches, Iterable):
            raise TypeError(f"Ragged.cat expects a sequence of batches; got {type(batches).__name__}.")
        batches = list(batches)
        if not batches:
            raise ValueError("Ragged.cat needs at least one batch; got none.")
        check_integer("Ragged.cat", "dim", dim)
        for i, batch in enumerate(batches):
            check_ragged(batch, f"Ragged.cat, for batch {i},")
        dims = batches[0].values.dim()
        if not -dims <= dim < dims:
            raise IndexError(f"Ragged.cat expects a dim of values of {dims} dimensions; got dim={dim}.")
        if dim % dims > 0:
            return _joined_features(batches, dim)
        for i, batch in enumerate(batches):
            if batch.values.shape[1:] != batches[0].values.shape[1:] or batch.device != batches[0].device:
                raise ValueError(
                    f"Ragged.cat expects the features of batch 0 on its device, {batches[0]!r}; batch {i} is {batch!r}."
                )
        values = torch.cat([batch.values for batch in batches])
        return Ragged.from_sizes(values, [n for batch in batches for n in batch.sizes])

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Returns the sizes of sets that torch.compile made without looking at them."""
            if name == "sizes" and self._sized_as is not None:
                return self._sized_as.sizes
            if name == "sizes" and "offsets" in vars(self):
                return tuple(self.offsets.diff().tolist())
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __len__(self) -> int:
        return self.offsets.shape[0] - 1

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.to_sets())

    @property
    def shape(self) -> tuple[int | None, ...]:
        """(B, None, *features). scikit-learn counts and splits inputs by the first dimension of their shape."""
        return len(self), None, *self.values.shape[1:]

    @property
    def dtype(self) -> torch.dtype:
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        return self.values.device

    def __repr__(self) -> str:
        low, high = min(self.sizes, default=0), max(self.sizes, default=0)
        each = f"{low}" if low == high else f"{low} to {high}"
        return (
            f"Ragged({len(self)} sets of {each} elements, {len(self.values)} in all, "
            f"features {tuple(self.values.shape[1:])}, {self.dtype}, {self.device})"
        )


def _joined_features(batches: Sequence[Ragged], dim: int) -> Ragged:
    first = batches[0]
    for i, batch in enumerate(batches):
        if batch.sizes != first.sizes or batch.device != first.device or batch.values.dim() != first.values.dim():
            raise ValueError(
                f"Ragged.cat by features expects the sizes, the device and as many dimensions as batch 0, {first!r}; "
                f"batch {i} is {batch!r}."
            )
    return first.with_values(torch.cat([batch.values for batch in batches], dim))


def check_ragged(sets: Any, owner: str) -> None:
    """Raises a TypeError unless these sets are a ``Ragged``; the error names ``owner``."""
    if not isinstance(sets, Ragged):
        got = f"a tensor of shape {tuple(sets.shape)}" if isinstance(sets, Tensor) else type(sets).__name__
        raise TypeError(
            f"{owner} expects a Ragged batch of sets; got {got}. "
            "Ragged.from_padded(x, mask) makes one of a dense batch, Ragged.from_sets of a list of tensors."
        )


def sets_of_example(example: Any, owner: str) -> Ragged:
    """Returns the sets of an example: a Ragged, or x and mask in a tuple.

    Raises: TypeError for anything else; the error names ``owner``.
    """
    if isinstance(example, Ragged):
        return example
    if not isinstance(example, tuple) or len(example) != 2:
        raise TypeError(
            f"{owner} expects as example a Ragged, or x and mask in a tuple; got {type(example).__name__}. "
            "Ragged.from_sets makes one of a list of tensors."
        )
    return Ragged.from_padded(*example)


torch.serialization.add_safe_globals([Ragged])
