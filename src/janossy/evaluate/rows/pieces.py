"""Rows cut into pieces that fit a budget."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from janossy.orderings.rows import Bucket, Rows
from janossy.sets.transfer import upload

FEW_POSITIONS, SHARE_OF_PADDING = 64, 0.25
"""The padding of a piece that costs less than a call of f: a number of positions, or a share of the piece's own."""


@dataclass(frozen=True)
class Piece:
    """Some rows of some sets of a bucket."""

    bucket: Bucket
    sets: slice
    rows: slice
    whole: bool
    """True if these are all rows of the piece's sets; else the pieces of a set follow each other."""

    @property
    def num_sets(self) -> int:
        return len(range(self.bucket.num_sets)[self.sets])

    @property
    def num_rows(self) -> int:
        """Returns the number of rows per set."""
        return len(range(self.bucket.num_rows)[self.rows])

    @property
    def continues(self) -> bool:
        """Returns True if these are more rows of the sets of the piece before."""
        return (self.rows.start or 0) > 0

    @property
    def length(self) -> int:
        return self.bucket.length

    @property
    def num_positions(self) -> int:
        return self.num_sets * self.num_rows * self.bucket.length

    def members(self, num_sets: int) -> Sequence[int]:
        """Returns the numbers of the piece's sets in a batch of num_sets."""
        return self.bucket.members(num_sets)[self.sets]

    def positions(self, num_values: int) -> Tensor:
        """Returns the positions (S·R, L) among the values, whose last one is the zero vector."""
        return positions_of(self.bucket, num_values, self.sets, self.rows).flatten(0, 1)


def pieces_of(rows: Rows, limit: int) -> Iterator[Piece]:
    """Yields all rows, the longest first, in pieces of at most ``limit`` positions (or one row)."""
    for bucket in sorted(rows.buckets, key=lambda bucket: -bucket.length):
        for sets, slices in chunks_of(bucket.num_sets, bucket.num_rows, max(1, limit // max(1, bucket.length))):
            for some in slices:
                yield Piece(bucket, sets, some, whole=len(slices) == 1)


def batches_of(pieces: Iterable[Piece], limit: int) -> list[list[Piece]]:
    """Returns the pieces in batches that fit into the limit; at least one batch, which may be empty."""
    batches: list[list[Piece]] = [[]]
    num_positions = 0
    for piece in pieces:
        if batches[-1] and num_positions + piece.num_positions > limit:
            batches.append([])
            num_positions = 0
        batches[-1].append(piece)
        num_positions += piece.num_positions
    return batches


def together(
    pieces: Iterable[Piece], fits: Callable[[int, int], bool], *, padded: bool
) -> Iterator[tuple[int, list[Piece]]]:
    """Yields groups of pieces that f reads in one call, the longest first, each with the length of its rows.

    The pieces of a group have one length. If they may be ``padded``, their lengths are so close that padding costs less
    than another call. ``fits(length, num_rows)`` says if a call may have these rows; a piece alone always fits.
    """
    group: list[Piece] = []
    num_rows = 0
    for piece in pieces:
        added = piece.num_sets * piece.num_rows
        if group:
            length = group[0].length
            padding = added * (length - piece.length)
            few = padding <= max(FEW_POSITIONS, SHARE_OF_PADDING * piece.num_positions) if padded else padding == 0
            if not few or not fits(length, num_rows + added):
                yield length, group
                group, num_rows = [], 0
        group.append(piece)
        num_rows += added
    if group:
        yield group[0].length, group


def joined_positions(pieces: Sequence[Piece], length: int, num_values: int) -> tuple[Tensor, Tensor | None]:
    """Returns the positions (T, length) of these pieces' rows, and their mask (T, length).

    The mask is True at real positions, or None if all are real.
    """
    each = [piece.positions(num_values) for piece in pieces]
    if len(each) == 1:
        return each[0], None
    if all(piece.length == length for piece in pieces):
        return torch.cat(each), None
    counts = torch.tensor([len(positions) for positions in each], device="cpu")
    lengths = torch.tensor([piece.length for piece in pieces], device="cpu").repeat_interleave(
        counts, output_size=int(counts.sum())
    )
    mask = torch.arange(length, device="cpu") < lengths[:, None]
    padded = [nn.functional.pad(positions, (0, length - positions.shape[1])) for positions in each]
    return torch.cat(padded), upload(mask, padded[0].device)


def positions_of(bucket: Bucket, num_values: int, sets: slice = slice(None), rows: slice = slice(None)) -> Tensor:
    """Returns the positions (S, R, L) of some rows of some sets; the last value is the zero vector."""
    positions = bucket.positions(sets, rows)
    return positions.where(positions >= 0, num_values - 1) if bucket.padded else positions


def chunks_of(num_sets: int, num_rows: int, limit: int) -> list[tuple[slice, list[slice]]]:
    """Returns pieces of at most ``limit`` rows: slices of the sets, each with slices of the sets' rows."""
    rows_each = min(num_rows, limit)
    sets_each = max(1, limit // num_rows)
    pieces = [slice(r, r + rows_each) for r in range(0, num_rows, rows_each)]
    return [(slice(s, s + sets_each), pieces) for s in range(0, num_sets, sets_each)]


def with_zero(elements: Tensor, rows: Rows) -> Tensor:
    """Returns the elements, followed by the zero vector if a row needs it or there are no elements."""
    if len(elements) and not any(bucket.padded for bucket in rows.buckets):
        return elements
    return torch.cat((elements, elements.new_zeros(1, *elements.shape[1:])))
