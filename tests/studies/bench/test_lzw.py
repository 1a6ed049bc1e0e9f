"""Files of compress: what this writes, and gzip reads, is read."""

import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.bench.lzw import CLEAR, uncompress


def compress(data: bytes, most_bits: int = 16, clears: bool = True) -> bytes:
    """As compress does, but that it clears a full table at once, and not when it has grown bad."""
    first = CLEAR + 1 if clears else CLEAR
    stream = place = begin = 0
    bits, entry, table = 9, b"", {bytes([i]): i for i in range(256)}
    num = first

    def emit(code):
        nonlocal stream, place
        stream |= code << place
        place += bits

    def align():
        nonlocal place, begin
        place += -(place - begin) % (8 * bits)
        begin = place

    for i in range(len(data)):
        longer = entry + data[i : i + 1]
        if longer in table:
            entry = longer
            continue
        emit(table[entry])
        if num < 1 << most_bits:
            table[longer] = num
            num += 1
            if num > 1 << bits and bits < most_bits:
                align()
                bits += 1
        elif clears:
            emit(CLEAR)
            align()
            bits, num, table = 9, first, {bytes([i]): i for i in range(256)}
        entry = data[i : i + 1]
    if entry:
        emit(table[entry])
    return b"\x1f\x9d" + bytes([most_bits | 128 * clears]) + stream.to_bytes(-(-place // 8), "little")


def gunzipped(data: bytes) -> bytes:
    return subprocess.run(["gzip", "-dc"], input=data, capture_output=True, check=True).stdout


@settings(deadline=None, max_examples=40)
@given(st.binary(max_size=400) | st.text("ab,1", max_size=2000).map(str.encode), st.integers(10, 12), st.booleans())
def test_what_was_compressed_comes_back(data, most_bits, clears):
    assert uncompress(compress(data, most_bits, clears)) == data


@pytest.mark.skipif(shutil.which("gzip") is None, reason="there is no gzip to compare with")
@pytest.mark.parametrize("most_bits", [10, 12, 16])
def test_gzip_reads_the_same(most_bits):
    data = np.random.default_rng(0).integers(0, 7, 20_000, np.uint8).tobytes()
    compressed = compress(data, most_bits)
    assert gunzipped(compressed) == uncompress(compressed) == data


@pytest.mark.parametrize("data", [b"", b"\x1f\x8b\x08", b"\x1f\x9d", b"\x1f\x9d\x80", b"\x1f\x9d\x9f", b"\x1f\x9d\x89"])
def test_another_file_is_refused(data):
    with pytest.raises(ValueError, match="expects a file of the program compress; got another"):
        uncompress(data)


def test_a_damaged_file_is_refused():
    with pytest.raises(ValueError, match="codes that are known already; got a damaged file"):
        uncompress(b"\x1f\x9d\x90" + b"\xff" * 10)
