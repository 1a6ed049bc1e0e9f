"""A setting of glibc's malloc that keeps freed memory for the next arrays of the process."""

import ctypes

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
"""Constants of malloc.h."""


def keep_freed_memory() -> None:
    """Makes malloc keep freed memory, for large arrays too. Does nothing without glibc.

    Otherwise each large array of a training step has new pages, which the system fills with zeros. That is a fifth of a
    step's time on PPI. The process then keeps the most memory that it ever used.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, -1)
        mallopt(M_TOP_PAD, 2**26)
        mallopt(M_MMAP_MAX, 0)
