"""Layout: what the columns of an encoded tensor mean."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """The columns of a float tensor (N, num_columns): first one of codes for each categorical column, then numbers.

    ``vocabularies``: how many codes each categorical column has, 0, the unknown, included. Codes are whole numbers in
    float32, which holds them exactly up to 2^24.
    """

    vocabularies: tuple[int, ...] = ()
    num_numbers: int = 0

    @property
    def num_columns(self) -> int:
        return len(self.vocabularies) + self.num_numbers
