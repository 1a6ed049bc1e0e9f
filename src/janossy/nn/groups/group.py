"""Group: a finite group of permutations of k positions, with a sign for each permutation."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import permutations as arrangements
from typing import Any

from janossy.checks import check_integer

MAX_POSITIONS = 8
"""The most positions of ``symmetric``: a tuple has 8! = 40,320 images. Larger hyperedges are sampled."""

Permutation = tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Group:
    """A group of permutations g of k positions, and signs χ(g) = ±1 with χ(h∘g) = χ(h)·χ(g) (a character).

    The image of a tuple x under g is x_g = (x_{g(0)}, …, x_{g(k−1)}). The image of x_h under g is x_{h∘g}.

    Args:
        permutations: each g as the k positions (g(0), …, g(k − 1)), in tuples, lists, or an array (|G|, k).
        signs: 1 or −1 for each permutation, in order; None if all are 1.

    Shapes: |G| permutations of k positions. A tuple (k,) has |G| images, (|G|, k).
    Raises:
        TypeError: if the permutations are not a table of integers.
        ValueError: for rows that are not permutations of the same positions, occur twice, or are not closed under
            composition.
        ValueError: for signs that are not a character.

    Example:
        >>> swap_both_ends = Group([(0, 1, 2, 3), (3, 2, 1, 0)], signs=[1, -1])
        >>> len(swap_both_ends), swap_both_ends.k
        (2, 4)
    """

    permutations: tuple[Permutation, ...]
    _: KW_ONLY
    signs: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        table = _table(self.permutations)
        object.__setattr__(self, "permutations", table)
        generators = _generators(table)
        if self.signs is not None:
            signs = _signs(self.signs, len(table))
            _check_character(dict(zip(table, signs, strict=True)), generators)
            object.__setattr__(self, "signs", signs)

    @property
    def k(self) -> int:
        """The number of positions that are permuted."""
        return len(self.permutations[0])

    def __len__(self) -> int:
        return len(self.permutations)

    def __repr__(self) -> str:
        if len(self) > 8:
            return (
                f"Group({len(self)} permutations of {self.k} positions{'' if self.signs is None else ', with signs'})"
            )
        return f"Group({list(self.permutations)}{'' if self.signs is None else f', signs={list(self.signs)}'})"


def reversal(k: int, *, signs: Sequence[int] | None = None) -> Group:
    """Returns the group of a tuple that may be read from either end: bonds (k = 2), angles (3), proper torsions (4).

    Shapes: 2 permutations of k positions, the identity first.
    Raises: TypeError or ValueError unless k is an integer >= 2, or for signs that are not a character.

    Example:
        >>> reversal(3)
        Group([(0, 1, 2), (2, 1, 0)])
    """
    check_integer("reversal", "k", k, 2, "positions")
    return Group((tuple(range(k)), tuple(reversed(range(k)))), signs=signs)  # type: ignore[arg-type]


def cyclic(k: int, *, signs: Sequence[int] | None = None) -> Group:
    """Returns the group of a directed ring, which may begin anywhere.

    The characters are all 1, or, for even k, 1 and −1 in turn.

    Shapes: k permutations of k positions: rotations by 0, 1, …, k − 1.
    Raises: TypeError or ValueError unless k is an integer >= 2, or for signs that are not a character.

    Example:
        >>> cyclic(3)
        Group([(0, 1, 2), (1, 2, 0), (2, 0, 1)])
    """
    check_integer("cyclic", "k", k, 2, "positions")
    return Group(_rotations(tuple(range(k))), signs=signs)  # type: ignore[arg-type]


def dihedral(k: int, *, signs: Sequence[int] | None = None) -> Group:
    """Returns the group of a ring, which may begin anywhere and be read either way.

    An example of a character is k times 1 and then k times −1, which distinguishes the ring's two directions.

    Shapes: 2k permutations of k positions: rotations by 0, …, k − 1, then the same read backwards.
    Raises: TypeError or ValueError unless k is an integer >= 3, or for signs that are not a character.

    Example:
        >>> dihedral(3, signs=[1, 1, 1, -1, -1, -1]).permutations[3:]
        ((2, 1, 0), (0, 2, 1), (1, 0, 2))
    """
    check_integer("dihedral", "k", k, 3, "positions")
    rotations = _rotations(tuple(range(k)))
    return Group((*rotations, *(g[::-1] for g in rotations)), signs=signs)  # type: ignore[arg-type]


def improper(centre: int) -> Group:
    """Returns the group of an improper torsion: a central atom is fixed, and three atoms are rotated.

    The rotations keep the handedness. The sum of three terms is that of the SMIRNOFF force fields (Mobley et al.,
    2018), whose tuples have ``centre`` 1.

    Shapes: 3 permutations of 4 positions.
    Raises: TypeError or ValueError unless the position of the central atom is an integer from 0 to 3.

    Example:
        >>> improper(centre=1)
        Group([(0, 1, 2, 3), (2, 1, 3, 0), (3, 1, 0, 2)])
    """
    check_integer("improper", "centre", centre, 0)
    if centre > 3:
        raise ValueError(f"improper expects centre among the positions 0, 1, 2, 3 of a tuple; got {centre}.")
    others = tuple(i for i in range(4) if i != centre)
    return Group(tuple((*g[:centre], centre, *g[centre:]) for g in _rotations(others)))


def symmetric(k: int, *, signs: Sequence[int] | None = None) -> Group:
    """Returns the group of a hyperedge without any order: all k! permutations.

    The characters are all 1, or the parities of the permutations.

    Shapes: k! permutations of k positions, in the order of ``itertools.permutations``.
    Raises: TypeError or ValueError unless k is an integer from 1 to 8, or for signs that are not a character.

    Example:
        >>> len(symmetric(3))
        6
    """
    check_integer("symmetric", "k", k, 1, "positions")
    if k > MAX_POSITIONS:
        raise ValueError(
            f"symmetric expects k <= {MAX_POSITIONS}, as a tuple has k! images; got k={k}. Give the hyperedges to "
            "JanossyPooling as sets, with Sampled(num) as orderings."
        )
    return Group(tuple(arrangements(range(k))), signs=signs)  # type: ignore[arg-type]


def _rotations(positions: Permutation) -> tuple[Permutation, ...]:
    return tuple(positions[i:] + positions[:i] for i in range(len(positions)))


def _composed(h: Permutation, g: Permutation) -> Permutation:
    """Returns h∘g: position i of the image under g is position h(g(i)) of the original."""
    return tuple(h[i] for i in g)


def _table(permutations: Any) -> tuple[Permutation, ...]:
    """Returns the rows as tuples of integers, each a permutation of the same positions, without repeats."""
    expected = "Group expects permutations as rows of positions, such as [(0, 1, 2), (2, 1, 0)]"
    rows = permutations.tolist() if hasattr(permutations, "tolist") else permutations
    if not isinstance(rows, Sequence) or not all(isinstance(row, Sequence) for row in rows):
        raise TypeError(f"{expected}; got {permutations!r}.")
    for row in rows:
        for position in row:
            check_integer("Group, in each permutation,", "position", position)
    table = tuple(tuple(map(int, row)) for row in rows)
    if not table or not table[0]:
        raise ValueError(f"{expected}; got {'no permutation' if not table else 'one of no positions'}.")
    identity = tuple(range(len(table[0])))
    for row in table:
        if tuple(sorted(row)) != identity:
            raise ValueError(f"Group expects each row to hold the positions {identity} once each; got {row}.")
    row, occurrences = Counter(table).most_common(1)[0]
    if occurrences > 1:
        raise ValueError(f"Group expects each permutation once; got {row} {occurrences} times. Leave the others out.")
    if identity not in table:
        raise ValueError(f"Group expects the identity {identity} among its permutations; got none. Add it.")
    return table


def _generators(table: tuple[Permutation, ...]) -> list[Permutation]:
    """Returns some members whose products are all members. Raises: ValueError if a product is missing."""
    known, reached, generators = set(table), {tuple(range(len(table[0])))}, []
    for s in table:
        if s in reached:
            continue
        generators.append(s)
        new = list(reached)
        while new:
            products = []
            for h in new:
                for g in generators:
                    product = _composed(h, g)
                    if product not in known:
                        raise ValueError(
                            f"Group expects its permutations to be closed under composition; got {h} and {g}, and "
                            f"not their product {product}. Add it, and all that follow from it."
                        )
                    if product not in reached:
                        reached.add(product)
                        products.append(product)
            new = products
    return generators


def _signs(signs: Any, num: int) -> tuple[int, ...]:
    values = signs.tolist() if hasattr(signs, "tolist") else signs
    listed = isinstance(values, Sequence) and len(values) == num
    if not listed or any(isinstance(sign, bool) or sign not in (1, -1) for sign in values):
        raise ValueError(f"Group expects signs as 1 or -1 for each of its {num} permutations; got {signs!r}.")
    return tuple(map(int, values))


def _check_character(signs: dict[Permutation, int], generators: list[Permutation]) -> None:
    """Raises a ValueError unless signs multiply as permutations do.

    Products with generators suffice, as all permutations are products of these.
    """
    identity = tuple(range(len(next(iter(signs)))))
    for h in signs:
        for g in generators or [identity]:
            if signs[_composed(h, g)] != signs[h] * signs[g]:
                raise ValueError(
                    "Group expects signs that multiply as permutations do (a character); got "
                    f"{signs[h]} for {h}, {signs[g]} for {g}, and {signs[_composed(h, g)]} for their product "
                    f"{_composed(h, g)}. Change one, or leave signs out."
                )
