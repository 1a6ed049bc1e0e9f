"""The states of the recursions for means of products (kernels/cpu/product_means.py): which positions are filled.

State 0 is that none is. Injective tuples: a bit for each position. Increasing ones: how many are filled, from the
first; and of a segment of a set, which may begin anywhere, the positions from a to b, as number b (b − 1)/2 + a + 1.
All of this is known as kernels are compiled.
"""

import triton


@triton.constexpr_function
def num_states(K, INCREASING):
    """All but 0."""
    return K if INCREASING else 2**K - 1


@triton.constexpr_function
def num_of_segment(K, INCREASING):
    """Counts the states of a segment, all but 0."""
    return K * (K + 1) // 2 if INCREASING else 2**K - 1


@triton.constexpr_function
def all_of(n, INCREASING):
    """The state in which the first n positions are filled."""
    return n if INCREASING else 2**n - 1


@triton.constexpr_function
def before(s, j, INCREASING, OF_SEGMENT):
    """The state from which filling position j leads to s; −1 if none does."""
    if not INCREASING:
        return s ^ (1 << j) if s >> j & 1 else -1
    if not OF_SEGMENT:
        return j if s == j + 1 else -1
    a = s - 1 - j * (j + 1) // 2  # where it begins, if it ends behind j
    if not 0 <= a <= j:
        return -1
    return 0 if a == j else j * (j - 1) // 2 + a + 1


@triton.constexpr_function
def less(s, t, INCREASING):
    """The state from which a segment's state t leads to s; −1 if it does not."""
    if not INCREASING:
        return s ^ t if s & t == t else -1
    a = t - 1 - s * (s - 1) // 2
    return a if 0 <= a < s else -1
