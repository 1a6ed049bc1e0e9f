"""Memory that a process frees is kept for its next arrays, where glibc's malloc is used."""

import ctypes

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
"""From malloc.h."""


def keep_freed_memory() -> None:
    """Makes malloc keep what is freed, for large arrays too; does nothing without glibc.

    Otherwise each large array of a training step is of new pages, which the system fills with zeros: a fifth of a
    step's time on PPI. The process then holds the most memory that it ever used.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, -1)
        mallopt(M_TOP_PAD, 2**26)
        mallopt(M_MMAP_MAX, 0)
