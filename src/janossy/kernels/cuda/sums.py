"""Long sums in float32: what each addition rounds away is added up too."""

import triton
import triton.language as tl


@triton.jit
def add(high, low, x):
    """high + low + x, as a sum and what it lacks (Knuth, The Art of Computer Programming 2, 4.2.2, theorem B)."""
    total = high + x
    of_x = total - high
    return total, low + ((high - (total - of_x)) + (x - of_x))


@triton.jit
def total_of(high, low):
    """The sum; infinities, whose rest is NaN, as they are."""
    return tl.where(low == low, high + low, high)


@triton.jit
def add_in_memory(high, low, at, x, mask):
    """Add x to the sums at ``at``, which no other program touches."""
    a, b = add(tl.load(high + at, mask), tl.load(low + at, mask), x)
    tl.store(high + at, a, mask)
    tl.store(low + at, b, mask)
    tl.debug_barrier()  # another thread of this program may read them next
