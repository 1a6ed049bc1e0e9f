"""Freed memory that is kept."""

import ctypes
import subprocess
import sys

import pytest

from studies.paper.graphs import memory

NEW_PAGES = """
import resource
import torch
{before}
pages = []
for size in range(16, 24):
    arrays = [torch.ones(size * 2**20) for _ in range(3)]
    del arrays
    pages.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
for size in range(16, 24):
    arrays = [torch.ones(size * 2**20) for _ in range(3)]
    del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - pages[-1])
"""


def new_pages(before: str) -> int:
    """Returns the new pages of arrays that follow others of the same sizes, three at a time, each freed."""
    script = NEW_PAGES.format(before=before)
    return int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_arrays_take_the_pages_of_those_before():
    kept = new_pages("from studies.paper.graphs.memory import keep_freed_memory\nkeep_freed_memory()")
    assert 10 * kept < new_pages("")


def test_without_glibc_nothing_happens(monkeypatch):
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    memory.keep_freed_memory()
