"""Files of the program compress, NAME.Z, which the standard library does not read: Lempel, Ziv and Welch (1984)."""

MAGIC = b"\x1f\x9d"
CLEAR = 256
"""The code after which the table begins anew."""


def uncompress(data: bytes) -> bytes:
    """What was compressed. Codes are of 9 to 16 bits, the lowest first, eight of one width together.

    Raises: ValueError for what compress has not written.
    """
    if data[:2] != MAGIC or len(data) < 3 or not 10 <= data[2] & 31 <= 16:
        raise ValueError("uncompress expects a file of the program compress; got another.")
    most_bits, clears = data[2] & 31, bool(data[2] & 128)
    first = CLEAR + 1 if clears else CLEAR
    table = [bytes([i]) for i in range(256)] + [b""] * (first - 256)
    bits, place, width_begins, previous = 9, 24, 24, b""
    found = []
    while place + bits <= 8 * len(data):
        code = int.from_bytes(data[place // 8 : place // 8 + 4], "little") >> place % 8 & (1 << bits) - 1
        place += bits
        if clears and code == CLEAR:
            del table[first:]
            place, bits, previous = _after_eight(place, width_begins, bits), 9, b""
            width_begins = place
            continue
        if code > len(table) or (code == len(table) and not previous):
            raise ValueError("uncompress expects codes that are known already; got a damaged file.")
        entry = table[code] if code < len(table) else previous + previous[:1]
        found.append(entry)
        if previous and len(table) < 1 << most_bits:
            table.append(previous + entry[:1])
            if len(table) == 1 << bits and bits < most_bits:
                place, bits = _after_eight(place, width_begins, bits), bits + 1
                width_begins = place
        previous = entry
    return b"".join(found)


def _after_eight(place: int, begin: int, bits: int) -> int:
    """The place after the last of the eight codes of this width that were begun."""
    return begin + -(-(place - begin) // (8 * bits)) * 8 * bits
