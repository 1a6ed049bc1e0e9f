"""Groups are groups and signs characters, by every pair; anything else is refused, with the reason."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from janossy.nn.groups import Group, cyclic, dihedral, improper, reversal, symmetric


def parity(g) -> int:
    return (-1) ** sum(g[i] > g[j] for j in range(len(g)) for i in range(j))


def composed(h, g):
    """Returns (x_h)_g for x = (0, 1, …)."""
    return tuple(tuple(h)[i] for i in g)


GROUPS = {
    "bond": reversal(2),
    "torsion": reversal(4),
    "torsion_odd": reversal(4, signs=[1, -1]),
    "directed_ring": cyclic(5),
    "directed_ring_odd": cyclic(4, signs=[1, -1, 1, -1]),
    "triangle": dihedral(3),
    "ring_either_way": dihedral(4, signs=[1] * 4 + [-1] * 4),
    **{f"improper_{centre}": improper(centre) for centre in range(4)},
    "one": symmetric(1),
    "hyperedge": symmetric(4),
    "determinant": symmetric(3, signs=[parity(g) for g in permutations(range(3))]),
    "klein": Group(np.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]), signs=np.array([1, 1, -1, -1])),
    "none": Group([(0, 1, 2)]),
}


def law_group(group: Group) -> None:
    """Checks every pair: the group is closed, with identity and inverses, and signs multiply."""
    table = group.permutations
    signs = dict(zip(table, group.signs or [1] * len(table), strict=True))
    assert len(set(table)) == len(table) and tuple(range(group.k)) in signs
    for h, g in product(table, repeat=2):
        assert signs.get(composed(h, g)) == signs[h] * signs[g]
    for g in table:
        assert tuple(np.argsort(g)) in signs


@pytest.mark.parametrize("name", GROUPS)
def test_named_groups_are_groups(name):
    law_group(GROUPS[name])


def test_named_groups_by_hand():
    assert reversal(4).permutations == ((0, 1, 2, 3), (3, 2, 1, 0))
    for k in (3, 4, 6):
        ring = {tuple((start + step * i) % k for i in range(k)) for start in range(k) for step in (1, -1)}
        assert set(dihedral(k).permutations) == ring and len(dihedral(k)) == 2 * k
        assert set(cyclic(k).permutations) == {tuple((start + i) % k for i in range(k)) for start in range(k)}
        assert dihedral(k).permutations[:k] == cyclic(k).permutations
    for centre in range(4):
        outer = {tuple(p for i, p in enumerate(g) if i != centre) for g in improper(centre).permutations}
        assert {g[centre] for g in improper(centre).permutations} == {centre}
        first = min(outer)
        assert outer == {first, first[1:] + first[:1], first[2:] + first[:2]}
    assert len(symmetric(8)) == 40_320


@given(st.sets(st.permutations(range(4)).map(tuple), max_size=7), st.data())
def test_tables_are_groups_or_refused(some, data):
    table = [(0, 1, 2, 3), *sorted(some - {(0, 1, 2, 3)})]
    signs = [1, *data.draw(st.lists(st.sampled_from([1, -1]), min_size=len(table) - 1, max_size=len(table) - 1))]
    of = dict(zip(table, signs, strict=True))
    closed = all(composed(h, g) in of for h in table for g in table)
    if not closed:
        with pytest.raises(ValueError, match="closed under composition"):
            Group(table)
        return
    law_group(Group(table))
    if all(of[composed(h, g)] == of[h] * of[g] for h in table for g in table):
        law_group(Group(table, signs=signs))
    else:
        with pytest.raises(ValueError, match="character"):
            Group(table, signs=signs)


@pytest.mark.parametrize("group", [symmetric(4), dihedral(4), cyclic(6)], ids=repr)
def test_any_missing_member_and_any_wrong_sign_is_found(group):
    table = list(group.permutations)
    for i in range(1, len(table)):
        with pytest.raises(ValueError, match=r"closed under composition; got .*, and not their product"):
            Group(table[:i] + table[i + 1 :])
        with pytest.raises(ValueError, match="a character"):
            Group(table, signs=[-1 if j == i else 1 for j in range(len(table))])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([(0, 1, 2), (1, 2, 0)],), r"not their product \(2, 0, 1\)"),
        (([(0, 1), (1, 0), (1, 0)],), r"\(1, 0\) 2 times"),
        (([(1, 0)],), "the identity"),
        (([(0, 1), (0, 0)],), r"once each; got \(0, 0\)"),
        (([(0, 1), (1, 2)],), r"once each; got \(1, 2\)"),
        (([(0, 1), (0, 1, 2)],), r"once each; got \(0, 1, 2\)"),
        (([],), "got no permutation"),
        (([()],), "no positions"),
        (([(0, 1), (1, 0)], [1]), "for each of its 2 permutations"),
        (([(0, 1), (1, 0)], 1), "for each of its 2 permutations"),
        (([(0, 1), (1, 0)], [1, 0.5]), "signs as 1 or -1"),
        (([(0, 1), (1, 0)], [-1, 1]), "a character"),
        (([(0, 1, 2)], [-1]), "a character"),
    ],
)
def test_bad_tables(arguments, message):
    with pytest.raises(ValueError, match=message):
        Group(arguments[0], **dict(zip(["signs"], arguments[1:], strict=False)))


@pytest.mark.parametrize("table", [3, "01", [0, 1], [(0, 1.0)], [(False, True)]])
def test_what_is_no_table(table):
    with pytest.raises(TypeError, match="Group"):
        Group(table)


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: reversal(1), ValueError, "k >= 2"),
        (lambda: cyclic(2.0), TypeError, "an integer"),
        (lambda: dihedral(2), ValueError, "k >= 3"),
        (lambda: symmetric(9), ValueError, "k <= 8"),
        (lambda: improper(4), ValueError, "0, 1, 2, 3"),
        (lambda: improper(-1), ValueError, "centre >= 0"),
        (lambda: cyclic(3, signs=[1, -1, 1]), ValueError, "a character"),
    ],
)
def test_bad_arguments_of_named_groups(make, error, message):
    with pytest.raises(error, match=message):
        make()
