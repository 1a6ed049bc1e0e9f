"""Rows cut into pieces that fit a budget."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from janossy.orderings.rows import Bucket, Rows
from janossy.sets.transfer import upload

FEW_POSITIONS, SHARE_OF_PADDING = 64, 0.25
"""Padding of a piece that costs less than a call of f: so many positions, or this share of the piece's own."""


@dataclass(frozen=True)
class Piece:
    """Some rows of some sets of a bucket."""

    bucket: Bucket
    sets: slice
    rows: slice
    whole: bool
    """True if these are all rows of its sets; else the pieces of a set follow each other."""

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
        """The numbers of its sets, in a batch of num_sets."""
        return self.bucket.members(num_sets)[self.sets]

    def positions(self, num_values: int) -> Tensor:
        """The positions (S·R, L) among the values, of which the last one is the zero vector."""
        return positions_of(self.bucket, num_values, self.sets, self.rows).flatten(0, 1)


def pieces_of(rows: Rows, limit: int) -> Iterator[Piece]:
    """All rows, the longest first, in pieces of at most so many positions (or one row)."""
    for bucket in sorted(rows.buckets, key=lambda bucket: -bucket.length):
        for sets, slices in chunks_of(bucket.num_sets, bucket.num_rows, max(1, limit // max(1, bucket.length))):
            for some in slices:
                yield Piece(bucket, sets, some, whole=len(slices) == 1)


def batches_of(pieces: Iterable[Piece], limit: int) -> list[list[Piece]]:
    """Pieces that fit into the limit together; at least one batch, which may be empty."""
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
    """Pieces, the longest first, in groups of which f reads each in one call, and the length of each group's rows.

    The pieces of a group have one length; or, if they may be ``padded``, lengths so near that padding costs less than
    another call. ``fits(length, num_rows)`` says how many rows a call may have; a piece alone always fits.
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
    """The positions (T, length) of these pieces' rows, and where they are real, (T, length); None if everywhere."""
    each = [piece.positions(num_values) for piece in pieces]
    if len(each) == 1:
        return each[0], None
    if all(piece.length == length for piece in pieces):
        return torch.cat(each), None
    counts = torch.tensor([len(positions) for positions in each])
    lengths = torch.tensor([piece.length for piece in pieces]).repeat_interleave(counts, output_size=int(counts.sum()))
    mask = torch.arange(length) < lengths[:, None]
    padded = [nn.functional.pad(positions, (0, length - positions.shape[1])) for positions in each]
    return torch.cat(padded), upload(mask, padded[0].device)


def positions_of(bucket: Bucket, num_values: int, sets: slice = slice(None), rows: slice = slice(None)) -> Tensor:
    """The positions (S, R, L) of some rows of some sets; the last one for the zero vector."""
    positions = bucket.positions(sets, rows)
    return positions.where(positions >= 0, num_values - 1) if bucket.padded else positions


def chunks_of(num_sets: int, num_rows: int, limit: int) -> list[tuple[slice, list[slice]]]:
    """Pieces of at most ``limit`` rows: slices of the sets, each with slices of their rows."""
    rows_each = min(num_rows, limit)
    sets_each = max(1, limit // num_rows)
    pieces = [slice(r, r + rows_each) for r in range(0, num_rows, rows_each)]
    return [(slice(s, s + sets_each), pieces) for s in range(0, num_sets, sets_each)]


def with_zero(elements: Tensor, rows: Rows) -> Tensor:
    """The elements, and behind them the zero vector, if a row needs it or there is no element to tell shapes by."""
    if len(elements) and not any(bucket.padded for bucket in rows.buckets):
        return elements
    return torch.cat((elements, elements.new_zeros(1, *elements.shape[1:])))
