"""Rows cut into pieces that fit a budget."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from janossy.orderings.rows import Bucket, Rows


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
